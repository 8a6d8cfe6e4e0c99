"""A lattice run that stops, fails or is killed, and goes on with the same bits."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import h5py
import pytest
from lattice_factory import STEP, empty_lattice
from lattice_run_factory import T_END, digest, meddling, model, run
from sampling import ordinary, strides

import tauslab as ts
from tauslab._version import BITS_VERSION
from tauslab.api.api import ranks
from tauslab.base.errors import ConfigError, InputFileError, OutputError, StoppedEarly
from tauslab.base.files.drafts import draft_of
from tauslab.model.lattice.file import write_lattice
from tauslab.options.lattice import LatticeOptions
from tauslab.runner.lattice import loop as lattice_loop
from tauslab.runner.lattice import run as driver
from tauslab.store.format import versions
from tauslab.store.hdf5.disk import Disk
from tauslab.store.lattice import writer as lattice_writer


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("whole") / "whole.h5"
    run(path).close()
    return path


@pytest.mark.parametrize(
    ("frame_every", "after", "meddles", "engine"),
    ordinary(
        [(every, after, meddles, engine)
         for every, after in ((10, 1), (10, 10), (0, 1), (0, 5), (17, 23))
         for meddles in (False, True)
         for engine in ("slots", "planes")],
        (10, 1, True, "slots"), (0, 5, False, "slots"), (17, 23, True, "planes"),
    ),
)  # fmt: skip
def test_stopping_and_going_on_changes_nothing(
    tmp_path, monkeypatch, frame_every, after, meddles, engine
):
    hooks = ((10, meddling),) if meddles else ()
    monkeypatch.setattr(lattice_loop, "_BATCH_SECONDS", 1e-9)  # a batch is a step
    unbroken, path = tmp_path / "unbroken.h5", tmp_path / "broken.h5"
    run(unbroken, frame_every=frame_every, hooks=hooks, engine=engine).close()
    requested = iter(range(1000))
    options = LatticeOptions(
        t_end=T_END, count_every=3, frame_every=frame_every, seed=7, device="cpu", threads=1,
        output=path, quiet=True, hooks=hooks, engine=engine,
    )  # fmt: skip
    with pytest.raises(StoppedEarly, match="resume=True completes"):
        driver.run_lattice(model(), options, ranks(), lambda: next(requested) >= after)
    with pytest.raises(InputFileError, match="unfinished"):
        digest(path)
    with ts.open(path) as result:
        assert not result.complete
        with pytest.warns(UserWarning, match=f"{len(result.times)} of 21 samples"):
            assert result.counts("A")[0] == 400
        reached = len(result.times)
        with ts.open(unbroken) as all_of_it:
            assert 0 < reached < len(all_of_it.times)
            assert (result.counts("A") == all_of_it.counts("A")[:reached]).all()
            frames = len(result.frame_times)
            assert (result.frame_times == all_of_it.frame_times[:frames]).all()
            for frame in range(frames):
                assert (result.density("B", frame) == all_of_it.density("B", frame)).all()
                assert (result.sites(frame) == all_of_it.sites(frame)).all()
        assert bool(frames) == bool(frame_every)
        if not frame_every:
            with pytest.raises(ConfigError, match="has no frames"):
                result.kymograph("A")
    run(path, frame_every=frame_every, resume=True, seed=None, hooks=hooks).close()
    assert digest(path) == digest(unbroken)
    run(path, frame_every=frame_every, resume=True, hooks=hooks).close()  # nothing is left to do
    assert digest(path) == digest(unbroken)


def test_what_a_resumed_run_leaves_open_is_as_in_its_file(tmp_path):
    path, requested = tmp_path / "a.h5", iter(range(1000))
    given = {"t_end": T_END, "device": "cpu", "threads": 1, "output": path, "quiet": True}
    first = LatticeOptions(
        **given, count_every=3, frame_every=10, seed=7, replicas=2, set={"k": 900.0}
    )
    with pytest.raises(StoppedEarly):
        driver.run_lattice(model(), first, ranks(), lambda: next(requested) >= 1)
    for changed in ({"replicas": 3}, {"frame_every": 5}, {"set": {"k": 901.0}}):
        with pytest.raises(InputFileError, match="begun with"):
            driver.run_lattice(model(), LatticeOptions(**given | changed, resume=True), ranks())
    del given["t_end"]
    driver.run_lattice(model(), LatticeOptions(**given, resume=True), ranks()).close()
    run(tmp_path / "b.h5", replicas=2, set={"k": 900.0}).close()
    assert digest(path) == digest(tmp_path / "b.h5")


class FailingDisk(Disk):
    """Fails at the n-th change, and then for ever or not again."""

    left = 0
    once = False

    def _count(self):
        disk = type(self)
        disk.left -= 1
        if disk.left == -1 or (disk.left < 0 and not disk.once):
            raise OSError(28, "No space left on device")

    def create(self, path):
        self._count()
        super().create(path)

    def write(self, fd, data, offset):
        self._count()
        return super().write(fd, data, offset)

    def sync(self, fd):
        self._count()
        super().sync(fd)

    def replace(self, old, new):
        self._count()
        super().replace(old, new)


@strides(11)
def test_a_failure_at_a_write_leaves_what_can_be_completed(whole, tmp_path, monkeypatch, stride):
    monkeypatch.setattr(lattice_writer, "Disk", FailingDisk)
    failures = 0
    for n in range(0, 400, 7 * stride):
        path = tmp_path / f"n{n}.h5"
        FailingDisk.left, FailingDisk.once = n, failures % 3 > 0
        try:
            run(path).close()
        except OutputError:
            failures += 1
        else:
            break
        FailingDisk.left = 10**9
        if path.exists():
            h5py.File(path, "r").close()
            run(path, resume=True).close()
            assert digest(path) == digest(whole)
        assert [p.name for p in tmp_path.iterdir()] == [path.name] * path.exists()
        path.unlink(missing_ok=True)
    assert failures > 3


@pytest.fixture(scope="module")
def unfinished(tmp_path_factory) -> Path:
    """A run that lacks its last frame."""
    path = tmp_path_factory.mktemp("unfinished") / "out.h5"

    class FullAtTheEnd(Disk):
        def replace(self, old, new):
            if "frame-00000006" in new.name:
                raise OSError(28, "No space left on device")
            super().replace(old, new)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lattice_writer, "Disk", FullAtTheEnd)
        with pytest.raises(OutputError):
            run(path)
    return path


def one_sample_changed(path):
    with h5py.File(path, "r+") as file:
        file["counts"][8, 0] += 1


@pytest.mark.parametrize(
    ("harm", "step", "what"),
    [
        (lambda part, _: part(2).unlink(), 10, "frame 2 is missing"),
        pytest.param(
            lambda part, _: shutil.rmtree(part(2).parent), 0, "frame 0 is missing",
            marks=pytest.mark.validate,
        ),
        (lambda part, _: os.truncate(part(4), 3000), 30, "frame-00000004-z00000-00004.h5"),
        pytest.param(
            lambda part, _: part(3).write_bytes(b"no"), 20, "frame-00000003-z00000-00004.h5",
            marks=pytest.mark.validate,
        ),
        (lambda _, path: one_sample_changed(path), 20, "sample 8 is missing"),
    ],
    ids=["lost", "all lost", "cut", "text", "sample"],
)  # fmt: skip
def test_what_was_lost_is_computed_again(whole, unfinished, tmp_path, harm, step, what):
    """A resumed run goes back before the first gap, and says so."""
    path = tmp_path / "out.h5"
    shutil.copy(unfinished, path)
    shutil.copytree(f"{unfinished}.parts", f"{path}.parts")
    harm(lambda frame: next((tmp_path / "out.h5.parts").glob(f"*frame-0000000{frame}*")), path)
    with pytest.warns(UserWarning, match=f"goes back to step {step} of 60.*{what}"):
        run(path, resume=True, seed=None).close()
    assert digest(path) == digest(whole)
    assert [p.name for p in tmp_path.iterdir()] == ["out.h5"]


def test_a_full_disk_is_told_of_in_a_sentence_and_the_run_goes_on_later(tmp_path):
    """No file may grow beyond so many bytes: parts do not, their second copy does."""
    whole, lattice = tmp_path / "whole.h5", empty_lattice((16, 24, 24), {"A": 0.15}, slots=8)
    lattice.place("A", count=9000, site_type="default")
    write_lattice(lattice, tmp_path / "model.h5")
    run(whole, lattice, frame_every=5).close()
    program = (
        "import resource, signal, sys\n"
        "from tauslab.cli.main import main\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), -1))\n"
        "print(main(sys.argv[2:]))\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (-1, -1))\n"
        "print(main([*sys.argv[2:], '--resume']))\n"
    )
    path, most = tmp_path / "out.h5", whole.stat().st_size // 2
    given = ["rdme", tmp_path / "model.h5", "--t-end", T_END, "--count-every", 3, "--seed", 7]
    own = ["--frame-every", 5, "--device", "cpu", "--threads", 1, "--quiet", "-o", path]
    own += ["--engine", "planes"]
    words = [sys.executable, "-c", program, most, *given, *own]
    done = subprocess.run(
        [str(word) for word in words], capture_output=True, text=True, check=False, timeout=60,
        env={
            **os.environ, "PYTHONPATH": os.pathsep.join(sys.path),
            "PYTHONDONTWRITEBYTECODE": "1",  # a module that the limit cuts off cannot be imported
        },
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["1", "0"]
    assert "cannot be written: File too large" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not [p for p in tmp_path.rglob("*") if p.suffix.startswith(".tauslab")]
    assert digest(path) == digest(whole)


def test_a_killed_runs_early_frames_go_with_its_parts(whole, tmp_path, monkeypatch):
    path = tmp_path / "killed.h5"
    monkeypatch.setattr(lattice_loop, "_BATCH_SECONDS", 1e-9)
    requested = iter(range(1000))
    options = LatticeOptions(
        t_end=T_END, count_every=3, frame_every=10, seed=7, device="cpu", threads=1, output=path,
        quiet=True,
    )  # fmt: skip
    with pytest.raises(StoppedEarly):
        driver.run_lattice(model(), options, ranks(), lambda: next(requested) >= 30)
    draft_of(path).write_bytes(b"half a file")
    run(path, resume=True, seed=None).close()
    assert digest(path) == digest(whole)
    assert [p.name for p in tmp_path.iterdir()] == ["killed.h5"]


def test_resuming_another_run_is_refused(whole, tmp_path):
    path = tmp_path / "copy.h5"
    shutil.copy(whole, path)
    with pytest.raises(InputFileError, match="seed"):
        run(path, resume=True, seed=8)
    with pytest.raises(InputFileError, match="count_every"):
        run(path, resume=True, count_every=5)
    with pytest.raises(InputFileError, match="set_k"):
        run(path, resume=True, set={"k": 801.0})


def test_a_run_that_other_bits_began_is_not_completed(whole, tmp_path, monkeypatch):
    monkeypatch.setattr(lattice_loop, "_BATCH_SECONDS", 1e-9)
    path, requested = tmp_path / "a.h5", []
    with pytest.raises(StoppedEarly):
        run(path, stop=lambda: len(requested) > 3 or requested.append(1))
    monkeypatch.setattr(versions, "BITS_VERSION", BITS_VERSION + 1)
    monkeypatch.setitem(versions.BITS_SINCE, "lattice with reactions", BITS_VERSION + 1)
    with pytest.raises(InputFileError, match=f"bits of version {BITS_VERSION}"):
        run(path, resume=True, seed=None)
    run(shutil.copy(whole, tmp_path / "b.h5"), resume=True).close()  # nothing is left to do
    monkeypatch.undo()
    monkeypatch.setattr(versions, "__version__", "9.9")
    with run(path, resume=True, seed=None) as result:
        assert [name.split()[0] for name in result.written_by] == [ts.__version__, "9.9"]
    assert digest(path) == digest(whole)


def test_replicas_that_end_look_for_no_old_checkpoints(tmp_path, monkeypatch):
    """As many as there are parts already: an ensemble would take the square of its size."""
    looked, original = [], lattice_writer.list_parts

    def listing(*arguments):
        looked.append(arguments)
        return original(*arguments)

    monkeypatch.setattr(lattice_writer, "list_parts", listing)
    run(tmp_path / "a.h5", replicas=12, frame_every=0, t_end=6 * STEP).close()
    assert len(looked) < 6


@pytest.mark.parametrize("after", ordinary([1, 7, 19], 7))
def test_an_ensemble_goes_on_with_the_same_bits(tmp_path, monkeypatch, after):
    monkeypatch.setattr(lattice_loop, "_BATCH_SECONDS", 1e-9)
    short = {"replicas": 5, "frame_every": 0, "t_end": 6 * STEP, "checkpoint_steps": 2}
    unbroken, path = tmp_path / "unbroken.h5", tmp_path / "broken.h5"
    run(unbroken, **short).close()
    requested = iter(range(1000))
    options = LatticeOptions(
        **short, count_every=3, seed=7, device="cpu", threads=1, output=path, quiet=True
    )
    with pytest.raises(StoppedEarly):
        driver.run_lattice(model(), options, ranks(), lambda: next(requested) >= after)
    run(path, **short, resume=True, seed=None).close()
    assert digest(path) == digest(unbroken)


def test_a_program_stops_its_run_and_goes_on(whole, tmp_path, monkeypatch):
    monkeypatch.setattr(lattice_loop, "_BATCH_SECONDS", 1e-9)
    path, requested = tmp_path / "own.h5", []
    with pytest.raises(ts.StoppedEarly, match="resume=True completes"):
        run(path, stop=lambda: len(requested) > 3 or requested.append(1))
    run(path, resume=True, seed=None).close()
    assert digest(path) == digest(whole)


def test_a_stopped_run_without_a_file_promises_nothing():
    with pytest.raises(ts.StoppedEarly, match=r"stopped on request .* of replica 0$"):
        ts.run(model(), t_end=T_END, seed=7, device=ts.CPU(threads=1), stop=lambda: True)


def test_resuming_needs_a_file():
    with pytest.raises(ConfigError, match="resume=True completes a file: give output= too"):
        ts.run(ts.Lattice("l", shape=(2, 2, 2), spacing=1e-8, t_end=1.0), resume=True)


def test_a_file_names_the_hooks_without_which_it_is_not_completed_or_repeated(tmp_path):
    path = tmp_path / "hooked.h5"
    with run(path, hooks=((10, partial(meddling)),)) as result:
        digests = {result.digest()}
    for hooks, have in (((), "none"), (((5, meddling),), "5")):
        with pytest.raises(InputFileError, match=rf"hook_intervals = 10, not {have}: .* and hooks"):
            run(path, hooks=hooks, resume=True)
    with run(path, hooks=((10, meddling),), resume=True) as result:
        digests.add(result.digest())
    assert len(digests) == 1
    warning = r"was made with hooks \(meddling every 10 steps\), which a file does not hold"
    with pytest.warns(UserWarning, match=warning), ts.run(path, device="cpu") as result:
        assert result.digest() not in digests


def test_a_longer_or_another_run_is_named(tmp_path):
    def drift(k):
        lattice = ts.Lattice("drift", shape=(4, 4, 4), spacing=1e-8, step=1e-6)
        lattice.add_species("A")
        lattice.add_diffusion("A", 1e-12)
        lattice.add_reaction("A ->", rate=k)
        lattice.place("A", count=5)
        return lattice

    path = tmp_path / "run.h5"
    given = {"seed": 1, "device": "cpu", "output": path}
    ts.run(drift(1.0), t_end=1e-5, **given).close()
    with pytest.raises(ts.InputFileError, match=r"another end, after 10 steps, not 20: .* extend="):
        ts.run(drift(1.0), t_end=2e-5, **given, resume=True)
    with pytest.raises(
        ts.InputFileError, match=r"begun with another model or other values: resume.*in it$"
    ):
        ts.run(drift(2.0), t_end=1e-5, **given, resume=True)

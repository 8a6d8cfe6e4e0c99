"""``tauslab rdme``: the file, hooks, stopping and going on, and what is refused."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest

import tauslab as ts
from tauslab.kernels.rdme import LatticeEngine
from tauslab.model.errors import ConfigError, InputFileError, OutputError, StoppedEarly
from tauslab.model.lattice import Lattice
from tauslab.model.lattice_file import write_lattice
from tauslab.runner import lattice as driver
from tauslab.runner import lattice_loop
from tauslab.runner.api import ranks
from tauslab.runner.cli import main
from tauslab.runner.digest import digest_total
from tauslab.runner.lattice_digest import lattice_digest_lines
from tauslab.runner.lattice_job import LatticeOptions
from tauslab.runner.output.disk import Disk

sys.path.insert(0, str(Path(__file__).parents[1]))
from lattice_factory import STEP, coefficient, empty_lattice

T_END = 60 * STEP


def model(slots=8) -> Lattice:
    lattice = empty_lattice((4, 6, 7), {"A": 0.15, "B": 0.1, "C": 0.05}, slots=slots)
    lattice.add_site_type("water")
    lattice.add_site_type("gel", np.indices((4, 6, 7))[2] < 3)
    lattice.add_diffusion("A", coefficient(0.05), within="gel")
    lattice.add_parameter("k", 800)
    lattice.add_reaction("A + B -> C", rate="k", volume="site", name="bind")
    lattice.add_reaction("C -> A + B", rate=1000, name="unbind")
    lattice.place("A", count=400, site_type="water")
    lattice.place("B", count=300, site_type="gel")
    return lattice


def run(path=None, lattice=None, **options):
    options = {"t_end": T_END, "count_every": 3, "frame_every": 10, "seed": 7, **options}
    return ts.run(lattice or model(), device="cpu", threads=1, output=path, **options)


def digest(path) -> str:
    return digest_total(lattice_digest_lines(Path(path)))


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("whole") / "whole.h5"
    run(path).close()
    return path


def test_the_file_holds_what_the_engine_counts(whole):
    lattice = driver.prepare_lattice(model(), LatticeOptions(t_end=T_END)).lattice
    with ts.open(whole) as result, h5py.File(whole) as file:
        assert result.complete
        assert not whole.with_name("whole.h5.parts").exists()
        assert np.allclose(result.times, np.arange(0, 61, 3) * STEP)
        assert np.allclose(result.frame_times, np.arange(0, 61, 10) * STEP)
        counts, fired = file["counts"][...], file["reactions_fired"][...]
        assert counts[0].tolist() == [400, 300, 0]
        assert fired[-1].min() > 20
        change = np.array([[-1, -1, 1], [1, 1, -1]])
        assert np.array_equal(counts, counts[0] + fired @ change)
        assert np.array_equal(counts, file["counts_by_site_type"][...].sum(axis=1))
        particles = file["lattice/particles"][...]
        assert particles.shape == (7, 4, 6, 7, 8)
        assert np.array_equal(particles[0], lattice.particles(0, 4, 7))
        assert np.array_equal(file["lattice/sites"][0], lattice.sites(0, 4))
        for number in range(3):  # frame 3 is at step 30, sample 10
            assert (particles[3] == number + 1).sum() <= counts[10, number]
        assert result.kymograph("A").shape == (7, 7)


def test_every_axis_has_a_scale(whole):
    with h5py.File(whole) as file:
        for name in ("counts", "counts_by_site_type", "reactions_fired", "overflow",
                     "lattice/particles", "lattice/sites"):  # fmt: skip
            for dimension in file[name].dims:
                assert len(dimension) == 1, name
                assert dimension[0].shape[0] == file[name].shape[dimension._dimension]


def test_xarray_reads_the_file(whole):
    xarray = pytest.importorskip("xarray")
    with xarray.open_dataset(whole, engine="h5netcdf") as data:
        assert data["counts"].dims == ("time", "species")
        assert data["counts"].sel(species="A")[0] == 400


def test_threads_and_samples_do_not_change_the_frames(whole, tmp_path):
    path = tmp_path / "other.h5"
    ts.run(model(), t_end=T_END, count_every=7, frame_every=20, seed=7, device="cpu", threads=2,
           output=path).close()  # fmt: skip
    with h5py.File(whole) as first, h5py.File(path) as second:
        one, other = first["lattice/particles"][::2], second["lattice/particles"][...]
        assert np.array_equal(one, other)
        assert np.array_equal(first["counts"][7], second["counts"][3])


def meddling(view):
    """What a hook sets and notes outlives a stop."""
    view.memory["calls"] = view.memory.get("calls", 0) + 1
    view.set_rate("bind", 200.0 * view.memory["calls"], "gel")
    view.add("A", [(1, 2, 3)] * view.memory["calls"])
    view.paint("gel", where=np.indices((4, 6, 7))[2] < 3 + view.memory["calls"])


@pytest.mark.parametrize("hooks", [(), ((10, meddling),)], ids=["alone", "hooks"])
@pytest.mark.parametrize(("frame_every", "after"), [(10, 1), (10, 10), (0, 1), (0, 5), (17, 23)])
def test_stopping_and_going_on_changes_nothing(tmp_path, monkeypatch, frame_every, after, hooks):
    monkeypatch.setattr(lattice_loop, "_BATCH_SECONDS", 1e-9)  # a batch is a step
    unbroken, path = tmp_path / "unbroken.h5", tmp_path / "broken.h5"
    run(unbroken, frame_every=frame_every, hooks=hooks).close()
    asked = iter(range(1000))
    options = LatticeOptions(
        t_end=T_END, count_every=3, frame_every=frame_every, seed=7, device="cpu", threads=1,
        output=path, quiet=True, hooks=hooks,
    )  # fmt: skip
    with pytest.raises(StoppedEarly, match="--resume completes"):
        driver.run_lattice(model(), options, ranks(), lambda: next(asked) >= after)
    with pytest.raises(InputFileError, match="unfinished"):
        digest(path)
    with ts.open(path) as result:
        assert not result.complete
        assert result.counts("A")[0] == 400
        reason = "unfinished, and its frames" if frame_every else "has no frames"
        with pytest.raises(ConfigError, match=reason):
            result.kymograph("A")
    run(path, frame_every=frame_every, resume=True, seed=None, hooks=hooks).close()
    assert digest(path) == digest(unbroken)
    run(path, frame_every=frame_every, resume=True).close()  # nothing is left to do
    assert digest(path) == digest(unbroken)


class FailingDisk(Disk):
    """Fails at the n-th change."""

    left = 0

    def _count(self):
        type(self).left -= 1
        if type(self).left < 0:
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


def test_a_failure_at_any_write_leaves_what_can_be_completed(whole, tmp_path, monkeypatch):
    from tauslab.runner.output import lattice_writer

    monkeypatch.setattr(lattice_writer, "Disk", FailingDisk)
    failures = 0
    for n in range(0, 400, 7):
        path = tmp_path / f"n{n}.h5"
        FailingDisk.left = n
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
        shutil.rmtree(path.with_name(path.name + ".parts"), ignore_errors=True)
    assert failures > 5


@pytest.mark.parametrize("hooks", [(), ((10, meddling),)], ids=["alone", "hooks"])
def test_frames_are_in_the_file_before_the_end(tmp_path, monkeypatch, hooks):
    """At the end nothing is left to join, and all is as if it had been."""
    from tauslab.runner.output import lattice_early, lattice_frames

    path, late = tmp_path / "run.h5", tmp_path / "late.h5"
    with monkeypatch.context() as patch:
        patch.setattr(lattice_frames, "_join_frame", lambda *_: pytest.fail("was joined"))
        run(path, hooks=hooks, replicas=2).close()
    monkeypatch.setattr(lattice_early.EarlyFrames, "add", lambda *_: None)
    run(late, hooks=hooks, replicas=2).close()
    assert digest(path) == digest(late)
    with h5py.File(path) as one, h5py.File(late) as other:
        for name in ("particles", "sites"):
            assert one[f"lattice/{name}"].chunks == other[f"lattice/{name}"].chunks
            assert np.array_equal(one[f"lattice/{name}"], other[f"lattice/{name}"])
    assert {p.name for p in tmp_path.iterdir()} == {"run.h5", "late.h5"}


def test_a_full_disk_is_told_of_in_a_sentence_and_the_run_goes_on_later(tmp_path):
    """No file may grow beyond so many bytes: parts do not, their second copy does."""
    whole, lattice = tmp_path / "whole.h5", empty_lattice((16, 24, 24), {"A": 0.15}, slots=8)
    lattice.place("A", count=9000, site_type="default")
    write_lattice(lattice, tmp_path / "model.h5")
    run(whole, lattice, frame_every=5).close()
    program = (
        "import resource, signal, sys\n"
        "from tauslab.runner.cli import main\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), -1))\n"
        "print(main(sys.argv[2:]))\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (-1, -1))\n"
        "print(main([*sys.argv[2:], '--resume']))\n"
    )
    path, most = tmp_path / "out.h5", whole.stat().st_size // 2
    given = ["rdme", tmp_path / "model.h5", "--t-end", T_END, "--count-every", 3, "--seed", 7]
    own = ["--frame-every", 5, "--device", "cpu", "--threads", 1, "--quiet", "-o", path]
    words = [sys.executable, "-c", program, most, *given, *own]
    done = subprocess.run(
        [str(word) for word in words], capture_output=True, text=True, check=False, timeout=60,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
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
    asked = iter(range(1000))
    options = LatticeOptions(
        t_end=T_END, count_every=3, frame_every=10, seed=7, device="cpu", threads=1, output=path,
        quiet=True,
    )  # fmt: skip
    with pytest.raises(StoppedEarly):
        driver.run_lattice(model(), options, ranks(), lambda: next(asked) >= 30)
    path.with_name(f"{path.name}.tauslab-frames").write_bytes(b"half a file")
    run(path, resume=True, seed=None).close()
    assert digest(path) == digest(whole)
    assert [p.name for p in tmp_path.iterdir()] == ["killed.h5"]


def test_replicas_differ_and_the_first_is_the_run_without(whole, tmp_path):
    path = tmp_path / "replicas.h5"
    run(path, replicas=3).close()
    with h5py.File(path) as file, h5py.File(whole) as one:
        assert file["counts"].shape == (3, 21, 3)
        assert file["lattice/particles"].shape == (3, 7, 4, 6, 7, 8)
        assert np.array_equal(file["lattice/particles"][0], one["lattice/particles"][...])
        assert not np.array_equal(file["counts"][0], file["counts"][1])
        assert not np.array_equal(file["lattice/particles"][1, 0], file["lattice/particles"][2, 0])
    assert len(digest(path)) == 64


def test_without_a_path_the_result_is_temporary():
    result = run(frame_every=0)
    folder = result.path.parent
    assert result.counts("B")[0] == 300
    result.close()
    assert not folder.exists()


def test_hooks_see_and_change_the_lattice():
    seen = []

    def hook(view):
        seen.append((view.step, view.count("A"), view.count("A", "gel")))
        assert view.particles.shape == (4, 6, 7, 8)
        if view.step == 20:
            view.set_rate("bind", 0.0)
            view.set_rate("unbind", 0.0)
            assert view.relabel("B", "C") > 0
            assert view.count("B") == 0
        if view.step == 40:
            before = view.count("A")
            mask = np.zeros((4, 6, 7), bool)
            mask[:2] = True
            gone = view.remove("A", where=mask)
            view.add("A", [(0, 0, 0)] * 11 + [(3, 5, 6)])  # more than a site holds
            assert view.count("A") == before - gone + 12
            assert (view.particles[:2][..., 1:] > 0).sum() > 0
            full = (view.particles > 0).astype(int)
            assert (np.diff(full, axis=-1) <= 0).all()

    with run(hooks=[(20, hook)], frame_every=0, count_every=20) as result:
        assert [step for step, _, _ in seen] == [20, 40, 60]
        assert result.counts("B")[2] == 0
        total = sum(result.counts(name) for name in "ABC")
        assert (total[2] == total[1]) or len(total) == 4
        with h5py.File(result.path) as file:
            assert np.array_equal(file["reactions_fired"][2], file["reactions_fired"][3])


def test_a_run_goes_on_from_a_frame_whose_hooks_were_not_called(tmp_path, monkeypatch):
    """It ends in the hook itself: the last frame shows the lattice before the hook."""
    unbroken, path = tmp_path / "unbroken.h5", tmp_path / "broken.h5"
    run(unbroken, hooks=[(10, meddling)]).close()

    def failing(view):
        if view.step == 30:
            raise OutputError("the disk is full")

    with pytest.raises(OutputError):
        run(path, hooks=[(10, meddling), (10, failing)])
    run(path, hooks=[(10, meddling)], resume=True).close()
    assert digest(path) == digest(unbroken)


def test_particles_that_hooks_add_to_a_full_site_all_wait():
    """Twice in a hook: each has its own place in the order of those that wait."""

    def hook(view):
        before = view.count("C")
        view.add("C", [(0, 0, 0)] * 12)
        view.add("C", [(0, 0, 0)] * 7)
        assert view.count("C") == before + 19

    with run(hooks=[(20, hook)], frame_every=0, count_every=1) as result:
        total = result.counts("A") + result.counts("B") + 2 * result.counts("C")
        assert (np.diff(total)[[20, 40]] == 38).all()
        assert (np.delete(np.diff(total), [20, 40]) == 0).all()


def test_hooks_paint_sites():
    """Particles are born where nothing was, by a reaction of the new site type."""
    lattice = empty_lattice((9, 40, 50), {"A": 0.0}, slots=8)
    lattice.add_site_type("water")
    lattice.add_site_type("source", np.zeros((9, 40, 50), bool))
    lattice.add_reaction("-> A", rate=2000, volume="site", site_types="source")
    where = np.zeros((9, 40, 50), bool)
    where[7, 33:36, 41:44] = True

    def hook(view):
        if view.step == 20:
            assert view.paint("source", where=where) == 9
            assert view.paint("source", where=where) == 0
        elif view.step == 40:
            assert view.paint("water") == 9

    with run(lattice=lattice, hooks=[(20, hook)], frame_every=10, count_every=10) as result:
        counts = result.counts("A")
        assert (counts[:3] == 0).all()
        assert counts[3] > 0
        assert counts[4] > counts[3]
        assert (counts[5:] == counts[4]).all()
        assert (result.counts("A", "source")[:5] == counts[:5]).all()
        assert (result.counts("A", "source")[5:] == 0).all()
        painted = [(result.sites(frame) == 1) for frame in range(7)]
        assert [bool(p.any()) for p in painted] == [False] * 3 + [True] * 2 + [False] * 2
        assert np.array_equal(painted[3], where)
        assert ((result.density("A", 4) > 0) <= where).all()


def test_a_mask_of_another_shape_is_refused():
    def hook(view):
        view.remove("A", where=np.ones((3, 6, 7), bool))

    with pytest.raises(ConfigError, match=r"a mask of \[3, 6, 7\] is neither"):
        run(hooks=[(20, hook)])


def test_a_parameter_of_the_command_takes_effect():
    with run(set={"k": 0.0}) as result, h5py.File(result.path) as file:
        assert file["reactions_fired"][-1, 0] == 0


def test_the_command_line(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_lattice(model(), tmp_path / "cell.h5")
    arguments = ["rdme", "cell.h5", "--t-end", str(T_END), "--count-every", "3", "--frame-every",
                 "10", "--seed", "7", "--device", "cpu", "--threads", "1"]  # fmt: skip
    assert main([*arguments, "-o", "out.h5", "--quiet"]) == 0
    assert main([*arguments, "-o", "out.h5"]) == 2
    assert "--overwrite" in capsys.readouterr().err
    assert main([*arguments, "-o", "out.h5", "--overwrite"]) == 0
    assert "60 steps" in capsys.readouterr().out
    assert main(["digest", "out.h5", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["total"] == digest(tmp_path / "out.h5")
    assert main(["info", "out.h5"]) == 0
    assert "a lattice run" in capsys.readouterr().out
    assert main(["digest", "out.h5", "--species", "A"]) == 0
    assert "counts/A" in capsys.readouterr().out
    assert main(["rdme", "out.h5", "--device", "cpu", "-o", "again.h5", "--quiet"]) == 0
    assert digest(tmp_path / "again.h5") == digest(tmp_path / "out.h5")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"count_every": 0}, "--count-every 0"),
        ({"replicas": 0}, "--replicas 0"),
        ({"set": {"q": 1}}, "no parameter of that name"),
        ({"max_hop": 0.6}, "--max-hop 0.6"),
        ({"hooks": [(0, print)]}, "hooks"),
        ({"t_end": -1.0}, "--t-end -1"),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(ConfigError, match=message):
        run(**options)


def test_resuming_another_run_is_refused(whole, tmp_path):
    path = tmp_path / "copy.h5"
    shutil.copy(whole, path)
    with pytest.raises(InputFileError, match="seed"):
        run(path, resume=True, seed=8)
    with pytest.raises(InputFileError, match="count_every"):
        run(path, resume=True, count_every=5)
    with pytest.raises(InputFileError, match="set_k"):
        run(path, resume=True, set={"k": 801.0})


def test_a_full_list_does_not_show_in_the_file(whole, tmp_path, monkeypatch):
    original = LatticeEngine.__init__

    def tight(self, *arguments, **options):
        original(self, *arguments, **{**options, "capacity": 3})

    monkeypatch.setattr(LatticeEngine, "__init__", tight)
    path = tmp_path / "tight.h5"
    run(path).close()
    assert digest(path) == digest(whole)


@pytest.mark.filterwarnings("ignore:test. x = a0 tau")
def test_a_divided_step_is_as_many_whole_steps(tmp_path):
    """Two parts of a step are two steps of half the length: the same counts, frames, times."""
    paths = tmp_path / "divided.h5", tmp_path / "halved.h5"
    for path, length, every in zip(paths, (STEP, STEP / 2), (1, 2), strict=True):
        lattice = model()
        lattice.step, lattice.reaction_substeps = length, 2 // every
        run(path, lattice, max_hop=0.1, count_every=3 * every, frame_every=10 * every).close()
    with h5py.File(paths[0]) as divided, h5py.File(paths[1]) as halved:
        assert divided.attrs["diffusion_substeps"] == 2
        assert halved.attrs["diffusion_substeps"] == 1
        for name in ("time", "counts", "reactions_fired", "overflow", "lattice/particles"):
            assert np.array_equal(divided[name][...], halved[name][...]), name


@pytest.mark.filterwarnings("always")
def test_lost_reactions_are_warned_of_by_the_run_and_by_check(tmp_path, capsys):
    """One sentence where a0 tau of a site exceeds 0.02, the same from all three."""
    lattice = model()
    lattice.reaction_substeps = 1
    with pytest.warns(UserWarning, match="above 0.02, where") as seen:
        run(lattice=lattice, t_end=STEP).close()
    assert len(seen) == 1
    sentence = str(seen[0].message).removeprefix("test: ")
    path = tmp_path / "cell.h5"
    write_lattice(lattice, path)
    assert main(["check", str(path)]) == 0
    assert f"warning: {sentence}" in capsys.readouterr().out.splitlines()
    command = ["rdme", str(path), "--t-end", str(STEP), "--device", "cpu", "-o"]
    assert main([*command, str(tmp_path / "a.h5"), "--quiet"]) == 0
    assert capsys.readouterr().err == f"tauslab: warning: test: {sentence}\n"
    fewer = ["--set", "k=0", "--max-hop", "0.05"]
    assert main([*command, str(tmp_path / "b.h5"), *fewer, "--quiet"]) == 0
    assert capsys.readouterr().err == ""
    assert main(["check", str(path), *fewer]) == 0
    text = capsys.readouterr().out
    assert "warning: x" not in text
    assert "3 passes of diffusion with hop probability up to 0.05 to a side, 3 passes of" in text
    for refused in (["check", str(path)], [*command, str(tmp_path / "c.h5")]):
        assert main([*refused, "--max-hop", "0.5"]) == 2
        assert "--max-hop 0.5" in capsys.readouterr().err
        assert main([*refused, "--set", "no=1"]) == 2
        assert "no parameter of that name" in capsys.readouterr().err

"""A finished lattice run that goes on to a later time has the bits of one longer run."""

from __future__ import annotations

import shutil
import time

import h5py
import pytest
from lattice_factory import STEP
from lattice_run_factory import T_END, digest, meddling, model, run
from mortal_disk import Killed, MortalDisk

import tauslab as ts
from tauslab.cli.main import main
from tauslab.model.lattice.file import write_lattice
from tauslab.store.lattice import layout
from tauslab.store.lattice import writer as lattice_writer
from tauslab.store.lattice.writer import LatticeWriter

LATER = 90 * STEP
pytestmark = pytest.mark.filterwarnings("ignore:.*is so fast")


@pytest.mark.parametrize(
    "options",
    [
        {"engine": "slots"},
        {"engine": "planes", "frame_every": 0},
        {"replicas": 2, "hooks": [(7, meddling)], "engine": "slots"},
        {"sweep": {"k": [500.0, 900.0]}, "replicas": 2, "frame_every": 0},
        {"set": {"k": 900.0, "C": 250}, "engine": "slots", "frame_every": 0},
    ],
    ids=["slots", "planes", "hooks", "sweep", "crowded"],
)
def test_an_extended_run_has_the_bits_of_a_longer_one(tmp_path, options, monkeypatch):
    lattice = model()
    if "C" in options.get("set", {}):
        lattice.place("C", count=1, site_type="gel")
    first = run(tmp_path / "first.h5", lattice, keep_state=True, **options)
    if "C" in options.get("set", {}):
        assert first.data["waiting"][..., -1].any()
    run(tmp_path / "whole.h5", lattice, **{**options, "t_end": LATER}).close()
    given = {k: v for k, v in options.items() if k == "hooks"}
    cpu = ts.CPU(threads=1)
    begun = []
    monkeypatch.setattr(
        LatticeWriter, "read_begun",
        lambda self, state, *planes, read=LatticeWriter.read_begun: begun.append(state.step)
        or read(self, state, *planes),
    )  # fmt: skip
    out = tmp_path / "later.h5"
    ts.run(lattice, extend=first, t_end=LATER, device=cpu, output=out, **given).close()
    assert digest(out) == digest(tmp_path / "whole.h5")
    assert begun  # it went on, where it ended
    assert not out.with_name("later.h5.parts").exists()
    further = ts.run(lattice, extend=out, t_end=LATER + 9 * STEP, device=cpu, **given)
    assert further.times[-1] == pytest.approx(99 * STEP)
    further.close()
    first.close()


def test_engines_that_points_of_a_sweep_choose_are_others_since_version_17(tmp_path, monkeypatch):
    swept = {"sweep": {"k": [500.0, 900.0]}, "frame_every": 0, "keep_state": True}
    monkeypatch.setattr(layout, "BITS_VERSION", 16)
    run(tmp_path / "chosen.h5", **swept).close()
    run(tmp_path / "given.h5", **swept, engine="slots").close()
    monkeypatch.undo()
    given = {"device": ts.CPU(threads=1), "quiet": True, "t_end": LATER}
    ts.run(model(), extend=tmp_path / "given.h5", **given).close()
    with pytest.warns(UserWarning, match="with other bits: all of it is simulated again"):
        ts.run(model(), extend=tmp_path / "chosen.h5", **given).close()


def test_an_extension_that_was_stopped_is_resumed(tmp_path):
    run(tmp_path / "first.h5", keep_state=True).close()
    run(tmp_path / "whole.h5", t_end=LATER).close()
    out, options = tmp_path / "out.h5", {"t_end": LATER, "device": ts.CPU(threads=1)}
    looks = iter([False, True])
    with pytest.raises(ts.StoppedEarly):
        ts.run(
            model(), extend=tmp_path / "first.h5", output=out, stop=lambda: next(looks, True),
            **options,
        )  # fmt: skip
    again = {"seed": 7, "count_every": 3, "frame_every": 10, "keep_state": True}
    ts.run(model(), output=out, resume=True, **options, **again).close()
    assert digest(out) == digest(tmp_path / "whole.h5")


def test_commands_extend(tmp_path, capsys):
    write_lattice(model(), tmp_path / "model.h5")
    times = [str(T_END), str(LATER)]
    command = ["rdme", str(tmp_path / "model.h5"), "--device", "cpu", "--threads", "1", "--quiet"]
    end = [*command, "--seed", "7", "--count-every", "3", "--t-end"]
    assert main([*end, times[0], "--keep-state", "-o", str(tmp_path / "first.h5")]) == 0
    assert main([*end, times[1], "-o", str(tmp_path / "whole.h5")]) == 0
    extend = [*command, "--extend", str(tmp_path / "first.h5"), "--t-end", times[1]]
    assert main([*extend, "-o", str(tmp_path / "out.h5")]) == 0
    assert digest(tmp_path / "out.h5") == digest(tmp_path / "whole.h5")
    capsys.readouterr()
    assert main([*extend[:-1], times[0], "-o", str(tmp_path / "x.h5")]) == 2
    assert "--extend needs --t-end above" in capsys.readouterr().err
    assert main([*extend, "-o", str(tmp_path / "first.h5"), "--overwrite"]) == 2
    assert main([*extend, "--seed", "8", "-o", str(tmp_path / "x.h5")]) == 2
    assert "has seed = 7, not 8" in capsys.readouterr().err


def test_a_result_without_its_state_is_simulated_again(tmp_path):
    first = run(tmp_path / "first.h5")
    run(tmp_path / "whole.h5", t_end=LATER).close()
    with pytest.warns(UserWarning, match="has no state to continue from .* simulated again"):
        again = ts.run(
            model(), extend=first, t_end=LATER, device=ts.CPU(threads=1),
            output=tmp_path / "again.h5",
        )  # fmt: skip
    again.close()
    assert digest(tmp_path / "again.h5") == digest(tmp_path / "whole.h5")
    first.close()


def test_a_damaged_state_is_refused(tmp_path):
    run(tmp_path / "first.h5", keep_state=True).close()
    shutil.copy(tmp_path / "first.h5", tmp_path / "bad.h5")
    with h5py.File(tmp_path / "bad.h5", "r+") as file:
        (name,) = file["state"]
        file["state"][name][100] ^= 1
    with pytest.raises(ts.InputFileError, match="damaged"):
        ts.run(model(), extend=tmp_path / "bad.h5", t_end=LATER, device=ts.CPU(threads=1))


@pytest.mark.filterwarnings("ignore:.*goes back to step 0")  # what is overwritten lacks its parts
@pytest.mark.parametrize("overwrites", [False, True])
def test_an_extension_killed_at_any_change_of_its_copy_is_repeated(
    tmp_path, monkeypatch, overwrites
):
    """Killed twice, at changes spread over the copy and the first steps; `extend` is repeated."""
    run(tmp_path / "first.h5", keep_state=True).close()
    run(tmp_path / "whole.h5", t_end=LATER).close()
    again = {"extend": tmp_path / "first.h5", "t_end": LATER, "device": ts.CPU(threads=1)}
    counted = MortalDisk()
    monkeypatch.setattr(lattice_writer, "Disk", lambda: counted)
    ts.run(model(), output=tmp_path / "later.h5", **again).close()
    copied = 40
    assert counted.used > copied
    for lives in range(0, copied, 19 if overwrites else 12):
        out = tmp_path / f"{lives}.h5"
        if overwrites:  # of the same job, unfinished
            shutil.copy(tmp_path / "later.h5", out)
            with h5py.File(out, "r+") as file:
                file["progress/complete"][()] = 0
        killed = ts.Output(out, overwrite=overwrites)
        for disk in (MortalDisk(lives), MortalDisk(lives + 3)):
            monkeypatch.setattr(lattice_writer, "Disk", lambda disk=disk: disk)
            with pytest.raises(Killed):
                ts.run(model(), output=killed, resume=not overwrites, **again)
        monkeypatch.setattr(lattice_writer, "Disk", MortalDisk)
        ts.run(model(), output=out, resume=True, **again).close()
        assert digest(out) == digest(tmp_path / "whole.h5")
        assert not out.with_name(f"{out.name}.parts").exists()


def test_parts_that_a_killed_copy_left_are_removed(tmp_path):
    run(tmp_path / "first.h5", keep_state=True).close()
    run(tmp_path / "whole.h5", t_end=LATER).close()
    out = tmp_path / "out.h5"
    for name in ("out.h5.parts", "out.h5.parts.new"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "r00000-frame-00000099-z00000-00004.h5").write_bytes(b"no")
    ts.run(
        model(), extend=tmp_path / "first.h5", t_end=LATER, device=ts.CPU(threads=1), output=out
    ).close()
    assert digest(out) == digest(tmp_path / "whole.h5")
    assert {path.name for path in tmp_path.iterdir()} == {"first.h5", "whole.h5", "out.h5"}


def test_a_copy_that_fails_waits_for_the_parts_that_are_being_written(tmp_path, monkeypatch):
    """A part that is slow to write appears in no folder after the error."""
    run(tmp_path / "first.h5", keep_state=True).close()
    put = LatticeWriter._put_piece

    def slow(self, piece):
        time.sleep(0.2)
        put(self, piece)

    def fail(*_):
        raise ts.OutputError("no state")

    monkeypatch.setattr(LatticeWriter, "_put_piece", slow)
    monkeypatch.setattr(LatticeWriter, "write_state", fail)
    with pytest.raises(ts.OutputError, match="no state"):
        ts.run(
            model(), extend=tmp_path / "first.h5", t_end=LATER, device=ts.CPU(threads=1),
            output=tmp_path / "out.h5",
        )  # fmt: skip
    assert [path.name for path in tmp_path.iterdir()] == ["first.h5"]

"""Damaged files: one sentence and exit code 2, never a traceback."""

from __future__ import annotations

import errno
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
from fuzz_damage import answer, is_one_sentence
from places import ROOT, TESTS
from result_factory import reseal, samples, write
from sampling import ordinary

from tauslab.base.errors import InputFileError, ModelError
from tauslab.base.files.opening import reading
from tauslab.cli.main import main
from tauslab.cli.tools import code_alone
from tauslab.store.results.lattice.result import LatticeResult

BOX = """t_end = 0.002
[lattice]
shape = [3, 4, 5]
spacing = 32e-9
step = 1e-4
[species]
A = 20
B = 0
[[diffusion]]
species = "*"
coefficient = 1e-12
[[reactions]]
equation = "A -> B"
rate = 10
"""


@pytest.fixture
def result(tmp_path):
    arrays = samples(40)
    path = write(tmp_path / "a.h5", arrays)
    with h5py.File(path, "r+") as file:
        del file["counts"]
        data = file.create_dataset("counts", data=arrays["counts"], chunks=True, compression=4)
        for axis, name in enumerate(("trajectory", "time", "species")):
            data.dims[axis].attach_scale(file[name])
    return path


@pytest.fixture
def lattice(tmp_path):
    model, path = tmp_path / "box.toml", tmp_path / "box.h5"
    model.write_text(BOX)
    command = ["rdme", str(model), "--frame-every", "5", "--seed", "1", "--device", "cpu"]
    assert main([*command, "--threads", "1", "--quiet", "-o", str(path)]) == 0
    return path


def spoil(path, place, length=4):
    """Other bytes from `place` on."""
    with path.open("r+b") as file:
        file.seek(place)
        file.write(b"\xff" * length)


def header(path, name):
    """Where HDF5 keeps what it knows of a group or a dataset."""
    with h5py.File(path) as file:
        return file.userblock_size + h5py.h5o.get_info(file[name].id).addr


def chunk(path, name):
    with h5py.File(path) as file:
        return file[name].id.get_chunk_info(0).byte_offset


def says_so(arguments, path):
    actual = answer([*arguments[:1], str(path), *arguments[1:]])
    assert actual.ended == "2", actual
    assert is_one_sentence(actual.said), actual
    assert path.name in actual.said


COMMANDS = (["info"], ["digest"], ["check"], ["plot", "--overwrite"], ["export", "--overwrite"],
            ["merge"])  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS, ids=lambda c: c[0])
@pytest.mark.parametrize("name", ["model", "model/source"])
def test_a_group_or_a_dataset_that_cannot_be_opened(result, command, name):
    spoil(result, header(result, name))
    says_so(command, result)


@pytest.mark.parametrize("command", [["digest"], ["export", "--overwrite"]], ids=lambda c: c[0])
def test_samples_that_cannot_be_decompressed(result, command):
    spoil(result, chunk(result, "counts"), 16)
    says_so(command, result)


def test_text_that_is_not_utf_8(result):
    with h5py.File(result, "r+") as file:
        for name in ("model/source", "model/canonical"):
            del file[name]
            file[name] = np.bytes_(b"\xe5\xaa")
        reseal(file)
    says_so(["check"], result)


def test_a_lattice_result(lattice):
    whole = lattice.read_bytes()
    spoil(lattice, header(lattice, "profile"))
    says_so(["info"], lattice)
    with pytest.raises(InputFileError, match=r"box\.h5 cannot be read, it is damaged"):
        _ = LatticeResult(lattice).profile
    lattice.write_bytes(whole.replace(b"[lattice]", b"[lattice\xff"))
    says_so(["export", "-o", str(lattice.with_suffix(".vtkhdf"))], lattice)
    lattice.write_bytes(whole)
    spoil(lattice, chunk(lattice, "lattice/particles"), 16)
    says_so(["export", "-o", str(lattice.with_suffix(".vtkhdf"))], lattice)


def test_a_lattice_of_another_program(tmp_path):
    path = tmp_path / "tiny.lm"
    path.write_bytes((TESTS / "data" / "lm" / "tiny.lm").read_bytes())
    spoil(path, header(path, "Model/Diffusion"))
    says_so(["check"], path)


def test_what_is_resumed(result):
    spoil(result, header(result, "species"))
    model = str(ROOT / "examples" / "schlogl.toml")
    options = ["-n", "40", "--t-end", "2", "--device", "cpu", "--threads", "1", "--seed", "1"]
    actual = answer(["run", model, *options, "-o", str(result), "--resume"])
    assert (actual.ended, is_one_sentence(actual.said)) == ("2", True), actual


def test_a_name_that_no_file_can_have():
    for command in ("info", "check"):
        actual = answer([command, "n" * 400 + ".h5"])
        assert (actual.ended, is_one_sentence(actual.said)) == ("2", True), actual


def test_only_what_hdf5_raised_counts_as_damage():
    with pytest.raises(KeyError), reading("a.h5"):
        _ = {}["counts"]
    with pytest.raises(ModelError, match="never seen"), reading("a.h5"):
        raise ModelError("never seen")
    with pytest.raises(OSError, match="full"), reading("a.h5"):
        raise OSError(28, "full")


# From Python 3.14 on, a path with such a name does not exist, which is no error.
TOO_LONG = "there is no such file" if sys.version_info >= (3, 14) else "File name too long"


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("run LONG.xml", f"cannot be read: {TOO_LONG}"),
        ("dbn LONG.net", f"cannot be read: {TOO_LONG}"),
        ("rdme LONG.toml", f"cannot be read: {TOO_LONG}"),
        ("check LONG.toml", f"cannot be read: {TOO_LONG}"),
        ("run MODEL -n 2 --t-end 1 --device cpu -o LONG.h5", "cannot be made: File name too long"),
        ("info LONG.h5", TOO_LONG),
    ],
)
def test_a_name_that_no_file_can_have_is_bad_input(data, capsys, command, told):
    words = command.replace("LONG", "a" * 300).split()
    actual = [str(data / "net" / "birth-death.net") if w == "MODEL" else w for w in words]
    assert main(actual) == 2
    error = capsys.readouterr().err
    assert told in error
    assert error.count("\n") == 1


def test_a_file_that_may_not_be_looked_at_is_bad_input(capsys, monkeypatch):
    """Told without such a file: who runs tests in a container may look at everything."""
    refusal = PermissionError(errno.EACCES, "Permission denied", "no/m.h5")

    def refused(_):
        raise refusal

    monkeypatch.setattr(Path, "is_file", refused)
    assert main(["run", "no/m.xml"]) == 2
    assert code_alone(refusal) == 2
    message = "tauslab: no/m.xml: cannot be read: Permission denied\n"
    assert capsys.readouterr().err == message + "tauslab: no/m.h5: Permission denied\n"


@pytest.mark.parametrize("quiet", ordinary([[], ["--quiet"]], []))
@pytest.mark.parametrize("harm", ["byte", "end", "all"])
def test_a_damaged_result_that_is_resumed_says_what_to_do(tmp_path, harm, quiet, capsys):
    path = tmp_path / "a.h5"
    words = ["run", str(ROOT / "examples" / "schlogl.toml"), "-n", "20", "--t-end", "1"]
    words += ["--seed", "1", "--device", "cpu", "-o", str(path)]
    assert main([*words, "--quiet"]) == 0
    with h5py.File(path) as file:
        place = file["counts"].id.get_offset() or file["counts"].id.get_chunk_info(0).byte_offset
    held = path.read_bytes()
    spoilt = {
        "byte": held[: place + 40] + bytes([held[place + 40] ^ 1]) + held[place + 41 :],
        "end": held[:-100],
        "all": b"",
    }
    assert main([*words, "--quiet", "--resume"]) == 0
    path.write_bytes(spoilt[harm])
    capsys.readouterr()
    assert main([*words, *quiet, "--resume"]) == 2
    assert "to compute it again delete it and repeat the command" in capsys.readouterr().err
    path.unlink()
    assert main([*words, "--quiet", "--resume"]) == 0
    assert path.read_bytes()[place : place + 80] == held[place : place + 80]


def test_a_damaged_lattice_that_is_resumed_says_what_to_do(tmp_path, lattice, capsys):
    with h5py.File(lattice) as file:
        place = file["counts"].id.get_offset()
    held = bytearray(lattice.read_bytes())
    held[place + 8] ^= 1
    lattice.write_bytes(held)
    words = ["rdme", str(tmp_path / "box.toml"), "--frame-every", "5", "--seed", "1", "--quiet"]
    assert main([*words, "--device", "cpu", "-o", str(lattice), "--resume"]) == 2
    assert "to compute it again delete it and repeat the command" in capsys.readouterr().err


def test_a_system_that_starts_no_thread_is_one_sentence(capsys):
    assert code_alone(RuntimeError("can't start new thread")) == 1
    assert "no more threads can be started: raise" in capsys.readouterr().err
    assert code_alone(RuntimeError("another")) is None

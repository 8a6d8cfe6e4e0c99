"""One `read` for every format."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import h5py
import pytest

from tauslab.base.errors import ModelError
from tauslab.base.files.seals import seal
from tauslab.base.files.text import put_attributes, put_text
from tauslab.cli.main import main
from tauslab.formats.read import READERS, read
from tauslab.model.network.canonical import canonical_text, model_sha256
from tauslab.model.network.network import Network


def _result(path: Path, network: Network, name: str = "source.xml", **attributes: str) -> Path:
    with h5py.File(path, "w") as file:
        put_attributes(file, {"format": "tauslab", "format_version": 2, **attributes})
        put_attributes(put_text(file, "model/source", network.source_text), {"name": name})
        put_text(file, "model/canonical", canonical_text(network))
        seal(file)
    return path


@contextmanager
def _changed(path: Path) -> Iterator[h5py.File]:
    """The open file, whose seals are made anew."""
    with h5py.File(path, "a") as file:
        yield file
        del file["progress"]
        seal(file)


@pytest.mark.parametrize(
    ("source", "suffix"),
    [
        ("sbml/schlogl.xml", ".xml"),
        ("sbml/schlogl.xml", ".SBML"),
        ("net/test_fixed.net", ".Net"),
        ("../../examples/schlogl.toml", ".TOML"),
    ],
)
def test_the_suffix_chooses(data: Path, tmp_path: Path, source: str, suffix: str) -> None:
    text = (data / source).read_text()
    path = tmp_path / f"model{suffix}"
    path.write_text(text)
    network = read(path)
    assert network.source_text == text
    assert network.source_path == path
    assert network.reactions
    assert model_sha256(network) == model_sha256(read(str(data / source)))


@pytest.mark.parametrize("source", ["sbml/schlogl.xml", "net/test_fixed.net", "net/motor.net"])
def test_a_result_reruns_from_itself(data: Path, tmp_path: Path, source: str) -> None:
    network = read(data / source)
    again = read(_result(tmp_path / "out.H5", network, Path(source).name))
    assert model_sha256(again) == model_sha256(network)
    assert again.source_text == network.source_text
    assert again.source_path == Path(Path(source).name)
    assert again.name == Path(source).stem
    assert again.reactions == network.reactions


def test_the_normal_form_decides(data: Path, tmp_path: Path) -> None:
    """A result reruns with the laws it was made with, whatever a reader makes of its source."""
    network = read(data / "sbml" / "schlogl.xml")
    network.source_text = "no SBML at all"
    again = read(_result(tmp_path / "out.h5", network))
    assert again.reactions == network.reactions
    assert again.source_text == "no SBML at all"


@pytest.mark.parametrize("name", ["model.json", "model", "model.xml.gz", ".xml"])
def test_wrong_suffix(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text("{}")
    with pytest.raises(ModelError) as caught:
        read(path)
    assert str(caught.value).startswith(f"{path}: it")
    assert str(caught.value).endswith(
        "a model is one of .xml, .sbml, .ant, .net, .bngl, .psc, .toml, .lm, .h5"
    )


@pytest.mark.parametrize("suffix", READERS)
def test_missing_file(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"none{suffix}"
    with pytest.raises(ModelError) as caught:
        read(path)
    assert str(caught.value) == f"{path}: cannot be read: there is no such file"
    path.mkdir()
    with pytest.raises(ModelError) as caught:
        read(path)
    assert str(caught.value) == f"{path}: cannot be read: it is a folder"


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("schlogl", "schlogl.xml"), ("shlogl.xml", "schlogl.xml"), ("schlogl.sbml", "schlogl.xml"),
     ("Switch.toml", "switch.toml"), ("other.xml", None), ("notes.txt", None)],
)  # fmt: skip
def test_a_file_of_a_like_name_is_reported(tmp_path, typed, meant) -> None:
    for name in ("schlogl.xml", "switch.toml", "schlogl.h5.parts", "schlog.csv"):
        (tmp_path / name).touch()
    with pytest.raises(ModelError) as caught:
        read(tmp_path / typed)
    message = str(caught.value)
    assert "there is no such file" in message or "a model is one of" in message
    assert message.endswith(f"; is {tmp_path / meant} meant?") if meant else "meant" not in message


def _foreign(path: Path, network: Network) -> None:
    _result(path, network, format="other")


def _no_format(path: Path, network: Network) -> None:
    with _changed(_result(path, network)) as file:
        del file.attrs["format"]


def _no_model(path: Path, network: Network) -> None:
    with _changed(_result(path, network)) as file:
        del file["model"]


def _no_hdf5(path: Path, network: Network) -> None:
    path.write_text(network.name)


def _broken_model(path: Path, network: Network) -> None:
    with _changed(_result(path, network)) as file:
        del file["model/canonical"]
        put_text(file, "model/canonical", "[species")


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (_foreign, "is not a result of tauslab: attribute 'format' is 'other'"),
        (_no_format, "is not a result of tauslab: attribute 'format' is None"),
        (_no_model, "holds no model, as /model/canonical and /model/source"),
        (_no_hdf5, "cannot be read as HDF5: "),
        (_broken_model, "is not TOML: "),
    ],
)
def test_results_that_hold_no_model(
    data: Path, tmp_path: Path, make: Callable[[Path, Network], None], sentence: str
) -> None:
    path = tmp_path / "out.h5"
    make(path, read(data / "sbml" / "schlogl.xml"))
    with pytest.raises(ModelError) as caught:
        read(path)
    assert str(caught.value).startswith(str(path))
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_toml_with_a_number_of_thousands_of_digits(tmp_path: Path) -> None:
    path = tmp_path / "long.toml"
    path.write_text(f"[species]\nX = {'1' * 5000}\n")
    with pytest.raises(ModelError, match=r"long\.toml: is not a model: it has a number with thou"):
        read(path)


def test_a_message_that_repeats_a_long_piece_of_a_file_is_short(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "long.toml"
    path.write_text(f"[species]\nX = 1\n[{'e' * 100_000}]\n")
    assert main(["check", str(path)]) == 2
    message = capsys.readouterr().err
    assert message.startswith(f"tauslab: {path}: the file: unknown key 'eeee")
    assert len(message) < 2200
    assert "characters) ... eee" in message


def test_nesting_in_sbml_is_refused_by_its_limit(data: Path, tmp_path: Path) -> None:
    text = (data / "sbml" / "schlogl.xml").read_text()
    begin, end = text.index("<apply>"), text.rindex("</apply>", 0, text.index("</math>"))
    law = text[begin : end + len("</apply>")]
    for depth in (150, 300, 3000):
        path = tmp_path / f"deep{depth}.xml"
        path.write_text(text.replace(law, "<apply><exp/>" * depth + law + "</apply>" * depth, 1))
        if depth == 150:
            read(path)
            continue
        limit = 200 if depth == 300 else 2000  # of operations, of elements
        with pytest.raises(ModelError, match=f"nested more than {limit} deep"):
            read(path)

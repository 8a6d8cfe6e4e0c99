"""The SBML reader on what it refuses or cannot read: features, end times, bad files."""

from __future__ import annotations

import bz2
import gzip
import lzma
import math
import sys
from pathlib import Path

import pytest
from sbml_factory import (
    kinds,
    mathml,
    model,
    parameter,
    propensities,
    reaction,
    read_text,
    species,
    write,
)

from tauslab.base.errors import ConfigError, ModelError
from tauslab.formats.sbml.reader import read_sbml
from tauslab.model.expressions.expression import symbols
from tauslab.model.network.diagnosis.check import require_support

_TIME_AS_T = (
    '<csymbol encoding="text" definitionURL="http://www.sbml.org/sbml/symbols/time"> t </csymbol>'
)


def test_a_species_called_as_the_text_of_the_time(tmp_path: Path) -> None:
    """Libsbml takes the t of a csymbol for the species t, which the reaction does not list."""
    text = model(species=species("t") + species("B"), reactions=reaction("R", "B*s", "B"))
    path = write(tmp_path, text.replace("<ci> s </ci>", _TIME_AS_T))
    assert _TIME_AS_T in path.read_text()
    actual = read_sbml(path)
    assert symbols(actual.reactions[0].law) == {"B", "time"}
    text = model(species=species("t") + species("B"), reactions=reaction("R", "B*t", "B"))
    wrong = write(tmp_path, text)
    with pytest.raises(ModelError, match="'t' is not listed"):
        read_sbml(wrong)


def _one(**parts: str) -> str:
    """A model of one reaction with one more list."""
    return model(
        species=species("X"),
        listed=(
            ("listOfParameters", parameter("k", 3.0) + parameter("v", 1.0, constant=False)),
            *parts.items(),
        ),
        reactions=reaction("R", "k*X", "X"),
    )


_TIME = mathml("time").partition(">")[2].removesuffix("</math>")
_MOLE = '<unitDefinition id="nmol"><listOfUnits><unit kind="mole" exponent="1" scale="-9" multiplier="1"/></listOfUnits></unitDefinition>'  # noqa: E501


@pytest.mark.parametrize(
    ("text", "kind", "element"),
    [
        (
            _one(listOfRules=f'<rateRule variable="v">{mathml("2*X")}</rateRule>'),
            "rate rule",
            "rate rule for v",
        ),
        (
            _one(listOfRules=f"<algebraicRule>{mathml('v*v - X')}</algebraicRule>"),
            "algebraic rule",
            "algebraic rule",
        ),
        (_one().replace("<ci> k </ci>", _TIME), "time", "reaction R"),
        (_one().replace('fast="false"', 'fast="true"'), "fast reaction", "reaction R"),
        (_one().replace('stoichiometry="1"', 'stoichiometry="1.5"'), "stoichiometry", "reaction R"),
        (_one().replace(' stoichiometry="1"', ""), "missing value", "reaction R"),
        (
            _one().replace('<species id="X"', '<species id="X" conversionFactor="k"'),
            "conversion factor",
            "species X",
        ),
        (_one().replace('substanceUnits="item"', 'substanceUnits="mole"'), "mole", "model"),
        (
            _one(listOfUnitDefinitions=_MOLE).replace('"item"', '"nmol"'),
            "mole",
            "model",
        ),
        (
            _one(listOfUnitDefinitions=_MOLE.replace('"mole"', '"item"')).replace(
                'substanceUnits="item"', 'substanceUnits="nmol"'
            ),
            "scaled unit",
            "model",
        ),
        (_one().replace('substanceUnits="item"', 'substanceUnits="gram"'), "mass", "model"),
        (
            _one().replace('substanceUnits="item"', 'substanceUnits="item" extentUnits="mole"'),
            "mole",
            "model",
        ),
        (_one().replace('value="3.0" ', ""), "missing value", "parameter k"),
        (_one().replace('initialAmount="10" ', ""), "missing value", "species X"),
    ],
)
def test_features(tmp_path: Path, text: str, kind: str, element: str) -> None:
    network = read_text(tmp_path, text)
    assert kinds(network) == [(kind, element)]
    for method in ("ssa", "tau"):
        if kind in ("rate rule", "time"):
            require_support(network, method)
            continue
        with pytest.raises(ModelError, match=f"not supported by {method}"):
            require_support(network, method)


def test_constraints_and_unused_values_are_notes(tmp_path: Path) -> None:
    text = _one(listOfConstraints=f"<constraint>{mathml('X > 3')}</constraint>")
    network = read_text(
        tmp_path, text.replace('<parameter id="v" value="1.0"', '<parameter id="v"')
    )
    require_support(network, "ssa")
    assert network.notes == [
        "1 constraints are ignored",
        "no value and no use, left out: parameter v",
    ]


def test_delay_and_time_in_level_2(tmp_path: Path) -> None:
    text = model(
        species=species("X"),
        reactions=reaction("R", "delay(X, 2) * time", "X", more='reversible="false"', level=2),
        attributes="",
        level=(2, 4),
    )
    assert sorted(kinds(read_text(tmp_path, text))) == [
        ("delay", "reaction R"),
        ("time", "reaction R"),
    ]


# -------------------------------------------------------------------- end time in the notes


@pytest.mark.parametrize(
    ("note", "t_end"),
    [
        ("Simulate to t=200.", 200.0),
        ("t_end = 1.5e3", 1500.0),
        ("please simulate 3600 s. Then", 3600.0),
        ("simulate 3 cells", None),
        ("to be or not", None),
        ("to t=0", None),
    ],
)
def test_end_time(tmp_path: Path, note: str, t_end: float | None) -> None:
    body = f'<body xmlns="http://www.w3.org/1999/xhtml"><p>{note}</p></body>'
    assert (
        read_text(tmp_path, model(listed=(("notes", body),), species=species("X"))).t_end == t_end
    )


# -------------------------------------------------------------------- bad files


def _error(path: Path) -> str:
    with pytest.raises(ModelError) as caught:
        read_sbml(path)
    message = str(caught.value)
    assert message.startswith(str(path))
    assert "\n" not in message
    return message


def test_missing_file(tmp_path: Path) -> None:
    assert "cannot be read: No such file" in _error(tmp_path / "none.xml")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "model.xml: is empty"),
        (" \n", "model.xml: is empty"),
        ("reactions: none", "not well-formed"),
        ("<sbml", "line 1: is not well-formed XML: unclosed token"),
        ("<?xml version='1.0'?>\n<!-- <sbml> --><Model/>", "its first element is <Model>"),
        (_one().replace("</reaction>", ""), "mismatched tag"),
        (_one().replace(' compartment="c"', "", 1), "'compartment'"),
        (_one().replace("<ci> k </ci>", "<ci> unknown </ci>"), "unknown"),
        (model(species=species("X"), reactions=reaction("R", "X", "X", "Q")), "'Q'"),
        (_one().replace('id="v"', 'id="k"'), "'k'"),
        (
            model(species=species("X"), reactions=reaction("R9", None, "X")),
            "reaction R9 has no kinetic law",
        ),
        (
            model(species=species("X"), reactions=reaction("R", "S") + reaction("S", "R")),
            "creates a cycle with",
        ),
    ],
)
def test_bad_text(tmp_path: Path, text: str, message: str) -> None:
    assert message in _error(write(tmp_path, text))


def test_libsbml_errors_name_the_line(tmp_path: Path) -> None:
    """The line is that of the element holding the formula."""
    text = _one().replace("<ci> k </ci>", "<ci> unknown </ci>")
    line = 1 + text[: text.index("<kineticLaw")].count("\n")
    message = _error(write(tmp_path, text))
    assert f"model.xml, line {line}: " in message
    assert "'unknown'" in message


def test_undefined_names_are_found_in_large_models(tmp_path: Path) -> None:
    """Above the size where libsbml's own check of formulas is left out."""
    many = "".join(reaction(f"R{i}", "2*X", "X") for i in range(2100))
    text = model(species=species("X"), reactions=many + reaction("Last", "nothing*X", "X"))
    assert "reaction Last: 'nothing' is not defined in the model" in _error(write(tmp_path, text))


def test_encodings(tmp_path: Path) -> None:
    text = _one().replace('id="m"', 'id="m" name="Zähler"')
    path = tmp_path / "model.xml"
    path.write_bytes(text.replace("UTF-8", "ISO-8859-1").encode("latin-1"))
    assert "Zähler" in (read_sbml(path).source_text or "")
    path.write_bytes(text.encode("utf-8-sig"))
    assert "Zähler" in (read_sbml(path).source_text or "")
    path.write_bytes(text.encode("latin-1"))
    assert "is not text in the encoding" in _error(path)


@pytest.mark.parametrize(
    ("packed", "packer"),
    [
        (gzip.compress(_one().encode(), mtime=0), "gzip"),
        (bz2.compress(_one().encode()), "bzip2"),
        (lzma.compress(_one().encode()), "xz"),
        (b"PK\x03\x04", "zip"),
    ],
    ids=["gzip", "bzip2", "xz", "zip"],  # a time in the name would differ from process to process
)
def test_compressed_files_are_named(tmp_path: Path, packed: bytes, packer: str) -> None:
    path = tmp_path / "model.xml"
    path.write_bytes(packed)
    assert _error(path) == f"{path}: is compressed with {packer}; unpack it first"


def test_libsbml_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, _one())
    monkeypatch.setitem(sys.modules, "libsbml", None)
    with pytest.raises(ConfigError, match="pip install python-libsbml"):
        read_sbml(path)


def test_undefined_pieces_are_not_a_number(tmp_path: Path) -> None:
    text = model(species=species("X"), reactions=reaction("R", "piecewise(1, X > 20)", "X"))
    assert math.isnan(propensities(read_text(tmp_path, text))["R"])


def test_the_time_and_something_called_time(tmp_path: Path) -> None:
    """Both would be `time` in a formula."""
    text = model(
        species=species("X"),
        listed=(("listOfParameters", parameter("time", 2.0)),),
        reactions=reaction("R", "X * t", "X").replace(
            "<ci> t </ci>",
            '<csymbol encoding="text" definitionURL="http://www.sbml.org/sbml/symbols/time">t'
            "</csymbol>",
        ),
    )
    network = read_text(tmp_path, text)
    with pytest.raises(ModelError, match="reaction R: names that mean two things"):
        require_support(network, "ode")


def test_a_function_that_stands_for_what_the_file_cannot_say(tmp_path: Path) -> None:
    """Programs write rateOf as a function whose body is not a number."""
    body = mathml("lambda(x, notanumber)")
    text = model(
        species=species("X"),
        listed=(
            (
                "listOfFunctionDefinitions",
                f'<functionDefinition id="rateOf">{body}</functionDefinition>',
            ),
        ),
        reactions=reaction("R", "rateOf(X)", "X"),
    )
    assert kinds(read_text(tmp_path, text)) == [("function", "reaction R")]

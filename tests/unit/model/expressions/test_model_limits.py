"""What no model may hold: each a sentence that names it, by every reader."""

from __future__ import annotations

import ast
import random
from pathlib import Path

import numpy as np
import pytest
from places import ROOT
from sbml_factory import model, parameter, reaction, read_text, species, write

import tauslab as ts
from tauslab.base.errors import ModelError
from tauslab.cli.main import main
from tauslab.formats.bionetgen.net import parse_net
from tauslab.formats.read import read
from tauslab.model.expressions.expression import Number
from tauslab.model.network.equations import MOST_MOLECULES, parse_equation
from tauslab.model.network.network import Network, Reaction

LARGEST = 2147483647


# -------------------------------------------------------------------- coefficients and orders


@pytest.mark.parametrize(
    "equation",
    [
        f"-> {LARGEST + 1} X",
        "-> 4294967297 X",
        f"-> {LARGEST} X + X",
        "3000000000 X ->",
        f"-> {'9' * 5000} X",
    ],
)
def test_a_coefficient_above_31_bits_is_refused(equation: str, tmp_path: Path) -> None:
    net = Network()
    net.add_species("X", 5)
    with pytest.raises(ModelError, match=f"coefficient of X .* {LARGEST} at most"):
        net.add_reaction(equation, law="X")
    path = tmp_path / "m.toml"
    path.write_text(f'[species]\nX = 5\n[[reactions]]\nequation = "{equation}"\nlaw = "X"\n')
    with pytest.raises(ModelError, match=f"reaction R1: the coefficient of X .* {LARGEST}"):
        read(path)


def test_the_largest_coefficient_is_allowed() -> None:
    assert parse_equation(f"{LARGEST} X -> 00{LARGEST} Y", "R") == ({"X": LARGEST}, {"Y": LARGEST})
    Reaction("R", {"X": LARGEST}, {}, Number(1.0))
    with pytest.raises(ModelError, match="reaction R: the coefficient of X is 2147483648"):
        Reaction("R", {}, {"X": LARGEST + 1}, Number(1.0))


def test_sbml_with_a_coefficient_above_31_bits(tmp_path: Path) -> None:
    text = model(species=species("X"), reactions=reaction("R", "X", "", "X:4294967297"))
    with pytest.raises(ModelError, match="reaction R: the coefficient of X is 4294967297"):
        read_text(tmp_path, text)


def test_so_many_molecules_react_by_a_rate_constant() -> None:
    net = Network()
    net.add_species("X", 1000)
    net.add_reaction(f"{MOST_MOLECULES} X ->", rate=1e-300)
    net.validate()
    with pytest.raises(ModelError, match=r"R2: 171 molecules react at once; .* 170 at most"):
        net.add_reaction(f"{MOST_MOLECULES + 1} X ->", rate=1e-300)
    with pytest.raises(ModelError, match="2000000000 molecules react"):
        net.add_reaction("2000000000 X ->", rate=1.0)
    net.add_reaction("2000000000 X ->", law="X")


def test_net_with_too_many_reactants() -> None:
    sides = ",".join(["1"] * (MOST_MOLECULES + 1))
    text = _net(reactions=f"1 {sides} 0 1.0")
    with pytest.raises(ModelError, match="line 5, reaction R1: 171 molecules react at once"):
        parse_net(text, "m")


def _net(
    parameters: str = "", reactions: str = "1 1 0 1", groups: str = "", name: str = "A()"
) -> str:
    blocks = (
        f"begin species\n1 {name} 10\nend species\nbegin reactions\n{reactions}\nend reactions\n"
    )
    if parameters:
        blocks = f"begin parameters\n{parameters}\nend parameters\n{blocks}"
    return blocks + (f"begin groups\n{groups}\nend groups\n" if groups else "")


# -------------------------------------------------------------------- exponents


@pytest.mark.parametrize(
    ("exponent", "shown"), [("inf()", "inf"), ("nan()", "nan"), ("(-inf())", "-inf")]
)
def test_an_exponent_that_is_not_finite(exponent: str, shown: str, tmp_path: Path) -> None:
    path = tmp_path / "m.toml"
    path.write_text(f'[species]\nX = 5\n[[reactions]]\nequation = "X ->"\nlaw = "X^{exponent}"\n')
    with pytest.raises(ModelError, match=f"reaction R1: an exponent is {shown}"):
        read(path)


def test_an_exponent_that_a_parameter_makes_infinite(tmp_path: Path, capsys) -> None:
    path = tmp_path / "m.toml"
    head = '[parameters]\nn = "1 / 0"\n[species]\nX = 5\n'
    path.write_text(f'{head}[[reactions]]\nequation = "X ->"\nlaw = "X^n"\n')
    command = ["run", str(path), "-n", "2", "--t-end", "1", "--seed", "1", "--device", "cpu"]
    assert main([*command, "--method", "ssa", "-o", str(tmp_path / "o.h5")]) == 2
    assert "reaction R1: an exponent is inf" in capsys.readouterr().err


# -------------------------------------------------------------------- names


@pytest.mark.parametrize(
    "text",
    [
        '[species]\n"X\\u0007" = 1\n',
        f"[species]\n{'X' * 1_000_000} = 1\n",
        'name = "a\\u001b[31m"\n[species]\nX = 1\n',
        f'name = "{"n" * 2000}"\n[species]\nX = 1\n',
        '[species]\nX = 1\n[[reactions]]\nname = "R\\u0000"\nequation = "X ->"\nrate = 1\n',
        f'[species]\nX = 1\n[[reactions]]\nequation = "X ->"\nlaw = "{"y" * 1_000_000}"\n',
        f'[species]\nX = 1\n[[reactions]]\nequation = "{"y" * 1_000_000}"\nrate = 1\n',
        '[species]\nX = {initial = 1, label = "a\\u0085"}\n',
    ],
)
def test_names_that_no_line_can_show(text: str, tmp_path: Path) -> None:
    path = tmp_path / "m.toml"
    path.write_text(text)
    with pytest.raises(ModelError) as caught:
        read(path)
    assert len(str(caught.value)) < 500 + len(str(path))
    assert str(caught.value).isprintable()


def test_sbml_and_net_with_a_long_name(tmp_path: Path) -> None:
    name = "X" * 100_000
    text = model(species=species(name), reactions=reaction("R", "1", name))
    for path in (write(tmp_path, text), tmp_path / "m.net"):
        if path.suffix == ".net":
            path.write_text(_net(name=f"{name}()"))
        with pytest.raises(ModelError, match="the name of a species has 100000 characters"):
            read(path)


# -------------------------------------------------------------------- numbers


@pytest.mark.parametrize(
    ("number", "message"),
    [
        ("1e400", "its rate constant is inf; it must be finite and 0 or more"),
        ("-1.0", "its rate constant is -1; it must be finite and 0 or more"),
        ("nan", "its rate constant is nan; it must be finite and 0 or more"),
    ],
)
def test_rates_that_are_none(number: str, message: str, tmp_path: Path, capsys) -> None:
    toml = f"[parameters]\nk = {number}\n[species]\nX = 5\n"
    toml += '[[reactions]]\nequation = "X ->"\nrate = "k"\n'
    sbml = model(
        species=species("X"),
        listed=(("listOfParameters", parameter("k", 1.0).replace('"1.0"', f'"{number}"')),),
        reactions=reaction("R1", "k*X", "X"),
    )
    net = _net(parameters=f"1 k {number}", reactions="1 1 0 k")
    for suffix, text in ((".toml", toml), (".xml", sbml), (".net", net)):
        path = tmp_path / f"m{suffix}"
        path.write_text(text)
        assert _run(path, tmp_path) == 2
        printed = capsys.readouterr().err
        if number != "nan" or suffix == ".toml":  # a nan of the others is a value that is missing
            assert message in printed or (suffix == ".xml" and "must be a double" in printed), (
                printed
            )


@pytest.mark.parametrize(
    ("amount", "message"),
    [
        ("2147483648", "initial amount 2147483648 is above 2147483647"),
        ("9223372036854775808", "above 2147483647"),
        ("1e400", "initial amount inf is not allowed"),
        ("-1", "initial amount -1 is not allowed"),
    ],
)
def test_amounts_that_are_none(amount: str, message: str, tmp_path: Path, capsys) -> None:
    toml = f'[species]\nX = {amount}\n[[reactions]]\nequation = "X ->"\nrate = 1\n'
    sbml = model(
        species=species("X", f'initialAmount="{amount}"'), reactions=reaction("R1", "X", "X")
    )
    net = _net().replace("A() 10", f"A() {amount}")
    for suffix, text in ((".toml", toml), (".xml", sbml), (".net", net)):
        path = tmp_path / f"m{suffix}"
        path.write_text(text)
        assert _run(path, tmp_path) == 2
        printed = capsys.readouterr().err
        assert message in printed or (suffix == ".xml" and "must be a double" in printed), printed


def _run(path: Path, folder: Path) -> int:
    options = ["-n", "2", "--t-end", "1", "--seed", "1", "--device", "cpu", "--method", "ssa"]
    return main(["run", str(path), *options, "-o", str(folder / "o.h5")])


def test_a_rate_of_minus_zero_is_zero() -> None:
    net = Network()
    net.add_species("X", 5)
    net.add_reaction("X ->", rate=-0.0)
    net.add_reaction("X ->", law="X * -0.0 + 0")
    actual = ts.run(net, n=2, times=[0.0, 1.0], seed=1, device="cpu", method="ssa")
    assert np.asarray(actual.counts("X")).tolist() == [[5, 5], [5, 5]]


# -------------------------------------------------------------------- XML


def _nested(element: str, count: int) -> str:
    text = model(species=species("X"), reactions=reaction("R", "X", "X"))
    return text.replace(
        "<ci> X </ci>", f"<apply>{element}" * count + "<ci>X</ci>" + "</apply>" * count
    )


def test_elements_nested_too_deep_never_reach_libsbml(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="elements are nested more than 2000 deep"):
        read_text(tmp_path, _nested("<sin/>", 20_000))
    notes = "<notes>" + "<b>" * 50_000 + "</b>" * 50_000 + "</notes>"
    with pytest.raises(ModelError, match="elements are nested more than 2000 deep"):
        read_text(tmp_path, model(species=species("X")).replace("<listOf", f"{notes}<listOf", 1))
    with pytest.raises(ModelError, match="nested more than 200 deep"):
        read_text(tmp_path, _nested("<sin/>", 1000))


def test_entities_are_refused(tmp_path: Path) -> None:
    entities = '<!ENTITY a0 "ha">' + "".join(
        f'<!ENTITY a{i} "{f"&a{i - 1};" * 10}">' for i in range(1, 12)
    )
    text = model(species=species("X")).replace("<sbml", f"<!DOCTYPE sbml [{entities}]><sbml", 1)
    with pytest.raises(ModelError, match="line 2: declares a document type"):
        read_text(tmp_path, text.replace("<model ", "<model name='&a11;' ", 1))


@pytest.mark.parametrize(
    "encoding", ["undefined", "punycode", "idna", "unicode_escape", "zlib", "rot13", "no-such"]
)
def test_encodings_that_are_none(encoding: str, tmp_path: Path) -> None:
    path = tmp_path / "m.xml"
    path.write_text(f'<?xml version="1.0" encoding="{encoding}"?><sbml/>')
    with pytest.raises(ModelError, match=f"{encoding}"):
        read(path)


# -------------------------------------------------------------------- .net


def test_a_group_may_be_named_as_a_parameter() -> None:
    text = _net("1 k 0.5\n2 k_group 7", "1 1 0 k", "1 k 1\n2 B 2*1")
    network = parse_net(text, "m")
    assert list(network.rules) == ["k_group_", "B"]
    assert network.initial_amounts() == {"A": 10.0}
    assert any("group k is called k_group_: k is a parameter" in note for note in network.notes)
    result = ts.run(network, n=1, times=[0.0], seed=1, device="cpu", method="ssa")
    assert result.mean("k_group_").tolist() == [10.0]
    with pytest.raises(ModelError, match="'k' is defined twice"):
        parse_net(_net("1 k 0.5", "1 1 0 k", "1 k 1\n2 k 1"), "m")


# -------------------------------------------------------------------- nesting of text


@pytest.mark.parametrize("kind", ["(", "sin(", "-", "X^", "!", "1+("])
def test_deep_text_is_a_sentence(kind: str, tmp_path: Path) -> None:
    deep = 20_000
    law = kind * deep + "X" + ")" * (deep if kind.endswith("(") else 0)
    path = tmp_path / "m.toml"
    path.write_text(f'[species]\nX = 5\n[[reactions]]\nequation = "X ->"\nlaw = "{law}"\n')
    if kind == "(":
        assert isinstance(read(path), Network)
        return
    with pytest.raises(ModelError, match="nested more than 200 deep"):
        read(path)


def test_random_damage_to_small_models_is_a_sentence_or_a_network(tmp_path: Path) -> None:
    dice = random.Random(5)
    texts = {
        ".toml": '[parameters]\nk = 1\n[species]\nX = 5\n[rules]\ny = "X^2"\n'
        '[[reactions]]\nequation = "2 X -> 3 Y"\nrate = "k * y"\n',
        ".net": _net("1 k 0.5\n2 m k*2", "1 1,1 0 k", "1 k 1\n2 B 2*1"),
    }
    pieces = ["1e400", "-0", "9" * 30, "(", ")", "^", "inf()", "nan()", "\x00", "\ud800", "X", "k",
              "->", "[[", "]", '"', "=", ",", "\\", "\n", "\u2028", "time", "if(",
              "1/0"]  # fmt: skip
    for number in range(600):
        suffix, text = dice.choice(list(texts.items()))
        for _ in range(dice.randint(1, 3)):
            at = dice.randrange(len(text))
            text = text[:at] + dice.choice(pieces) + text[at + dice.randint(0, 3) :]
        path = tmp_path / f"m{number}{suffix}"
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
        try:
            network = read(path)
            assert isinstance(network, Network)
            network.initial_amounts(network.parameter_values())
        except ModelError:
            pass


# -------------------------------------------------------------------- files are UTF-8


def test_text_files_name_their_encoding() -> None:
    """Python takes the encoding of the locale where none is named."""
    folders = ("src/tauslab/model", "src/tauslab/kernels", "scripts")
    paths = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    assert len(paths) > 100
    bare = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in paths
        if path.name != "cache.py"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and _is_text_without_encoding(node)
    ]
    assert not bare


def _is_text_without_encoding(node: ast.Call) -> bool:
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if name not in ("read_text", "write_text") or any(k.arg == "encoding" for k in node.keywords):
        return False
    return len(node.args) == (0 if name == "read_text" else 1)

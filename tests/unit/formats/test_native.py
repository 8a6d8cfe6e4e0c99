"""The TOML form of a model: what the builder holds, and one sentence for each mistake."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from places import ROOT

from tauslab.base.errors import ModelError
from tauslab.formats.read import read
from tauslab.formats.toml.network import read_toml_text
from tauslab.model.expressions.expression import Number
from tauslab.model.expressions.infix import parse
from tauslab.model.network.network import Feature, Network

HERE = Path("here.toml")
SMALL = """
name = "demo"
t_end = 10

[parameters]
k = 1e-3
scale = "2 * k"

[species]
X = 250
Y = "1000 * scale"
Fuel = {initial = 5, fixed = true, label = "the fuel"}

[rules]
total = "X + Y"
hidden = {expression = "total / 2", recorded = false}
constant = 3

[[reactions]]
name = "bind"
equation = "2 X -> Y"
rate = "k"

[[reactions]]
equation = "X + Fuel -> X"
rate = 0.5

[[reactions]]
name = "eat"
equation = "X ->"
law = "vmax * X / (km + hidden)"
parameters = {vmax = 900, km = "10 * k"}
"""


def _read(text: str) -> Network:
    return read_toml_text(text, HERE)


def test_it_holds_what_the_builder_holds() -> None:
    built = Network("demo")
    built.t_end = 10.0
    built.add_parameter("k", 1e-3)
    built.add_parameter("scale", "2 * k")
    built.add_species("X", 250)
    built.add_species("Y", "1000 * scale")
    built.add_species("Fuel", 5, fixed=True)
    built.labels["Fuel"] = "the fuel"
    built.add_rule("total", "X + Y")
    built.add_rule("hidden", "total / 2", recorded=False)
    built.add_rule("constant", 3)
    built.add_reaction("2 X -> Y", rate="k", name="bind")
    built.add_reaction("X + Fuel -> X", rate=0.5)
    built.add_reaction(
        "X ->",
        law="vmax * X / (km + hidden)",
        parameters={"vmax": 900, "km": "10 * k"},
        name="eat",
    )
    read = _read(SMALL)
    assert read == built
    assert read.reactions[1].name == "R2"
    assert read.parameters["eat_km"] == parse("10 * k")
    assert read.source_text == SMALL
    assert read.source_path == HERE


def test_the_name_is_the_stem_where_none_is_given() -> None:
    network = _read("[species]\nX = 1\n")
    assert network.name == "here"
    assert network.species["X"].initial == Number(1.0)
    assert network.t_end is None


def test_features_survive() -> None:
    network = _read(
        'source_digest = "abc"\n[species]\nX = nan\n[[features]]\nkind = "event"\n'
        'element = "event E1"\nmessage = "it changes the state"\n'
    )
    assert network.features == [Feature("event", "event E1", "it changes the state")]
    assert network.source_digest == "abc"


ROW = '[[reactions]]\nequation = "X -> Y"\nrate = 1\n'


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[species]\nX = \n", "is not TOML: Invalid value (at line 2, column 5)"),
        ("[species\n", "is not TOML: Expected ']' at the end of a table declaration"),
        ("[species]\nX = 1\nX = 2\n", "is not TOML: Cannot overwrite a value (at "),
        ("a = " + "[" * 5000, "is not "),
        ("# nothing\n", "is empty: a model has [species] and [[reactions]], or a [lattice]"),
        ("[specis]\nX = 1", "the file: unknown key 'specis' (is 'species' meant?); allowed: "),
        ("[[reaction]]\nrate = 1", "the file: unknown key 'reaction' (is 'reactions' meant?); "),
        ("[latice]\nspacing = 1", "the file: unknown key 'latice' (is 'lattice' meant?); allowed"),
        ("color = 1", "the file: unknown key 'color'; allowed: name, t_end, source_digest, "),
        ("name = 1", "name: a number (1) where a text in quotes is expected"),
        ("t_end = -1", "t_end = -1: it must be finite and above 0"),
        ("t_end = inf", "t_end = inf: it must be finite and above 0"),
        ("t_end = '1'", "t_end: a text ('1') where a number is expected"),
        ("t_end = 1979-05-27", "t_end: a date or a time (datetime.date(1979, 5, 27)) where"),
        ("species = 3", "species: a number (3) where a table [species] is expected"),
        ("[[species]]\nX = 1", "species: an array where a table [species] is expected"),
        ("[reactions]\nX = 1", "reactions: a table where tables [[reactions]] are expected"),
        ("reactions = [1]", "reactions: an array where tables [[reactions]] are expected"),
        (
            "[species]\nX = {inital = 5}",
            "[species] X: unknown key 'inital' (is 'initial' meant?); allowed: initial, fixed, ",
        ),
        ("[species]\nX = true", "[species] X, initial: a boolean (True) where a number or an"),
        ("[species]\nX = {fixed = 1}", "[species] X, fixed: a number (1) where true or false is"),
        ("[species]\nX = {compartment = 1}", "[species] X, compartment: a number (1) where a text"),
        ("[species]\nX = 'a +'", "[species] X: cannot read the expression 'a +': a value is"),
        ("[species]\n2X = 1", "[species] 2X: '2X' is not a name: letters A-Z"),
        ("[species]\nX = 1\n[parameters]\nX = 1", "[species] X: 'X' is defined twice"),
        ("[parameters]\nk = [1]", "[parameters] k: an array where a number or an expression is"),
        ("[parameters]\nk = '('", "[parameters] k: cannot read the expression '(': a value is"),
        (f"[parameters]\nk = {10**400}", "[parameters] k: the number is too large for a double"),
        ("[rules]\nr = {}", "[rules] r: the key expression is missing"),
        (
            "[rules]\nr = {expression = 1, record = true}",
            "[rules] r: unknown key 'record' (is 'recorded' meant?); allowed",
        ),
        ("[rules]\nr = 'Z'", "rule for r: 'Z' is not defined in here"),
        (
            "[[reactions]]\nrate = 1",
            '[[reactions]] number 1: the key equation is missing, for example "2 X -> 3 X"',
        ),
        ("[[reactions]]\nname = 'a'\nequation = '->'", "[[reactions]] a: give either rate or law"),
        (f"{ROW}law = 'X'", "[[reactions]] number 1: give either rate or law, not both"),
        (f"{ROW}k = 1", "[[reactions]] number 1: unknown key 'k'; allowed: name, equation, rate, "),
        (f"{ROW}parameters = 1", "[[reactions]] number 1, parameters: a number (1) where a table"),
        (f"{ROW}parameters = {{k = true}}", "[[reactions]] number 1, parameters.k: a boolean"),
        (f"{ROW}name = 2", "[[reactions]] number 1, name: a number (2) where a text in quotes"),
        (
            ROW.replace("->", ":"),
            "[[reactions]] number 1: reaction R1: 'X : Y' must have exactly one '->', as in 'A + ",
        ),
        (f"{ROW}name = 'r'\n{ROW}name = 'r'", "[[reactions]] r: reaction 'r' is defined twice"),
        (ROW, "reaction R1: 'X' is not a species of here"),
        ("[[features]]\nkind = 'event'", "[[features]] number 1, element: nothing where a text"),
    ],
)
def test_mistakes(text: str, sentence: str) -> None:
    with pytest.raises(ModelError) as caught:
        _read(text)
    message = str(caught.value)
    assert message.startswith(f"here.toml: {sentence}")
    assert "\n" not in message


def test_a_file(tmp_path: Path) -> None:
    path = tmp_path / "model.toml"
    path.write_bytes(b"\xef\xbb\xbf[species]\r\nX = 1\r\n")
    assert list(read(path).species) == ["X"]
    path.write_bytes(b"[species]\nX = '\xff'\n")
    with pytest.raises(ModelError, match=r"model\.toml: is not text in UTF-8"):
        read(path)
    with pytest.raises(ModelError, match=r"none\.toml: cannot be read: there is no such file"):
        read(tmp_path / "none.toml")


def test_the_models_of_the_page_can_be_read() -> None:
    blocks = re.findall(
        r"```toml\n(.*?)```", (ROOT / "docs" / "model-toml.md").read_text(), re.DOTALL
    )
    assert blocks
    for block in blocks:
        _read(block)


def test_the_page_names_every_key() -> None:
    page = (ROOT / "docs" / "model-toml.md").read_text()
    for key in tomllib.loads(SMALL):
        assert f"`{key}`" in page or f"`[{key}]`" in page or f"`[[{key}]]`" in page
    keys = (
        "initial fixed compartment label expression recorded equation rate law parameters "
        "source_digest kind element message"
    )
    for key in keys.split():
        assert f"`{key}`" in page or f"\n{key} = " in page


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.toml")), ids=lambda p: p.name)
def test_examples(path: Path) -> None:
    model = read(path)
    assert model.t_end is not None
    assert model.reactions
    assert f"({path.name})" in (path.parent / "README.md").read_text()

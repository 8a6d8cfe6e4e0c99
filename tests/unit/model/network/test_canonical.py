"""The normal form: reads back to the same numbers, and tells different models apart."""

from __future__ import annotations

import hashlib
import re
import time
import warnings
from functools import cache
from pathlib import Path

import pytest
from places import TESTS

from tauslab.base.errors import ModelError
from tauslab.formats.read import read
from tauslab.formats.sbml.reader import read_sbml_text
from tauslab.formats.toml.network import read_toml_text
from tauslab.kernels.network.lowering import LoweredNetwork, lower
from tauslab.model.expressions.expression import Number, call
from tauslab.model.network.canonical import canonical_text, model_sha256
from tauslab.model.network.counts import round_counts
from tauslab.model.network.equations import mass_action_law
from tauslab.model.network.network import Feature, Network, Reaction

DATA = TESTS / "data"
THERE = Path("there.toml")


MODELS = [
    *sorted((DATA / "sbml").glob("*.xml")),
    *sorted((DATA / "dsmts").glob("*/*.xml")),
    *sorted((DATA / "net").glob("*.net")),
]


_read = cache(read)


@cache
def _hash(path: Path) -> str:
    return model_sha256(_read(path))


def _lowered(network: Network) -> LoweredNetwork | None:
    """Everything an engine sees; None where the model cannot be run."""
    if network.features:
        return None
    values = network.parameter_values()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        counts = round_counts(network.initial_amounts(values))
    return lower(network, parameters=values, counts=counts)


LARGE = 500_000  # bytes of a file that takes seconds
MARKED = [
    pytest.param(path, id=path.name, marks=[pytest.mark.validate] * (path.stat().st_size > LARGE))
    for path in MODELS
]


@pytest.mark.parametrize("path", MARKED)
def test_round_trip(path: Path) -> None:
    network = _read(path)
    text = canonical_text(network)
    again = read_toml_text(text, THERE)
    assert canonical_text(again) == text
    assert model_sha256(again) == _hash(path)
    assert repr(_lowered(again)) == repr(_lowered(network))  # to the last bit: repr of floats
    assert again.features == network.features
    assert (again.t_end, again.labels) == (network.t_end, network.labels)
    assert list(again.species) == list(network.species)
    if "nan" not in text:  # which equals nothing
        again.name = network.name
        assert again == network


@pytest.mark.parametrize("most", [LARGE, pytest.param(1 << 40, marks=pytest.mark.validate)])
def test_distinct_files_have_distinct_hashes(most: int) -> None:
    hashes: dict[str, Path] = {}
    for path in (path for path in MODELS if path.stat().st_size <= most):
        other = hashes.setdefault(_hash(path), path)
        # The levels of a test case say the same; two pairs of cases differ in their settings only.
        assert other.parent.name == path.parent.name or other.parent.parent.name == "dsmts", path
        assert other == path or path.parent.parent.name == "dsmts", path


def test_formatting_does_not_count() -> None:
    text = (DATA / "sbml" / "schlogl.xml").read_text()
    other = re.sub(r">\s+<", ">\n<!-- a comment -->\t<", text).replace('" ', '"\n   ')
    assert other != text
    one = read_sbml_text(text, Path("one.xml"))
    two = read_sbml_text(other, Path("elsewhere/two.xml"))
    assert canonical_text(one) == canonical_text(two)
    changed = read_sbml_text(text.replace('"0.0001"', '"0.00011"'), Path("one.xml"))
    assert model_sha256(changed) != model_sha256(one)


def test_formatting_of_a_model_with_features_does_not_count() -> None:
    text = (DATA / "sbml" / "BIOMD0000000188.xml").read_text()
    one = read_sbml_text(text, Path("one.xml"))
    assert one.features
    two = read_sbml_text(text.replace("<listOfReactions>", "<!-- - -->\n <listOfReactions>"), THERE)
    assert model_sha256(one) == model_sha256(two)


def test_models_that_differ_only_in_an_event_differ() -> None:
    text = (DATA / "dsmts" / "00028" / "00028-sbml-l3v1.xml").read_text()
    one = read_sbml_text(text, Path("one.xml"))
    assert [feature.kind for feature in one.features] == ["timed event"]
    changed = re.sub(r"(<cn[^>]*> *)25( *</cn>)", r"\g<1>26\g<2>", text)
    assert changed != text
    two = read_sbml_text(changed, Path("one.xml"))
    assert (two.features, two.reactions) == (one.features, one.reactions)
    assert model_sha256(two) != model_sha256(one)
    again = read_toml_text(canonical_text(two), THERE)
    assert model_sha256(again) == model_sha256(two)


def test_the_hash_is_that_of_the_text() -> None:
    network = read(DATA / "sbml" / "schlogl.xml")
    assert model_sha256(network) == hashlib.sha256(canonical_text(network).encode()).hexdigest()


def _network() -> Network:
    network = Network("demo")
    network.add_parameter("lambda", 0.1)
    network.add_species("not", 3)
    network.add_species("if", "2 * lambda", fixed=True)
    network.add_rule("total", "if + not")
    network.add_reaction("not + 2 if -> 3 not", rate="lambda")
    return network


def test_the_text_itself() -> None:
    """The normal form may not change by accident: stored hashes depend on it."""
    network = _network()
    network.t_end = 5
    network.labels["not"] = 'A(b!1) "\\ \n\x7f'
    network.add_rule("hidden", "total ^ 2", recorded=False)
    assert 'limit = "lambda * not * if * if / 2.0"\n' in canonical_text(network)
    assert canonical_text(network, limits=False) == (
        "t_end = 5.0\n[parameters]\nlambda = 0.1\n[species]\n"
        'not = {initial = 3.0, label = "A(b!1) \\"\\\\ \\n\\u007f"}\n'
        'if = {initial = "2.0 * lambda", fixed = true}\n'
        '[rules]\ntotal = "if + not"\n'
        'hidden = {expression = "pow(total, 2.0)", recorded = false}\n'
        '[[reactions]]\nname = "R1"\nequation = "not + 2 if -> 3 not"\n'
        'law = "lambda * not * if * (if - 1.0) / 2.0"\n'
    )
    again = read_toml_text(canonical_text(network), THERE)
    assert again.labels == network.labels
    assert again.reactions == network.reactions


def _change(network: Network, what: str) -> None:
    species = network.species["not"]
    if what == "order":
        network.species = dict(reversed(network.species.items()))
    elif what == "rate":
        network.parameters["lambda"] = call("add", 0.1, 0.0)
    elif what == "last bit":
        network.add_parameter("unused", 0.1 + 0.2)
    elif what == "fixed":
        network.species["not"] = type(species)("not", species.initial, fixed=True)
    elif what == "association":
        law = call("mul", network.reactions[0].law, 1.0)
        network.reactions[0] = type(network.reactions[0])("R1", {}, {}, law)
    elif what == "recorded":
        network.add_rule("other", 1.0, recorded=False)
    elif what == "end":
        network.t_end = 1.0
    elif what == "feature":
        network.features.append(Feature("event", "event E1", "it changes the state"))


@pytest.mark.parametrize(
    "what",
    ["order", "rate", "last bit", "fixed", "association", "recorded", "end", "feature"],
)
def test_every_change_shows(what: str) -> None:
    one, two = _network(), _network()
    assert model_sha256(one) == model_sha256(two)
    _change(two, what)
    assert model_sha256(one) != model_sha256(two)


def test_names_and_paths_do_not_count() -> None:
    one, two = _network(), _network()
    two.name, two.source_path, two.notes = "other", Path("other.toml"), ["a note"]
    assert model_sha256(one) == model_sha256(two)


@pytest.mark.parametrize("value", [0.0, -0.0, 5e-324, 1.7976931348623157e308, 1 / 3, 1e22, 1e-7])
def test_numbers_keep_their_bits(value: float) -> None:
    network = _network()
    network.add_parameter("p", value)
    network.add_parameter("q", call("mul", network.parameters["p"], 1.0))
    again = read_toml_text(canonical_text(network), THERE)
    assert repr(again.parameters) == repr(network.parameters)


def test_many_reactions() -> None:
    """About 0.2 s; the limit is for a busy machine."""
    network = Network("large")
    for i in range(5000):
        network.add_species(f"S{i}", i)
    laws = [mass_action_law(Number(0.1 * i), {f"S{i}": 1, f"S{i + 1}": 2}) for i in range(100)]
    network.reactions = [
        Reaction(f"R{i}", {f"S{i % 5000}": 1}, {f"S{7 * i % 5000}": 2}, laws[i % 100])
        for i in range(15_000)
    ]
    begin = time.process_time()
    text = canonical_text(network)
    assert time.process_time() - begin < 3
    assert text.count("[[reactions]]") == 15_000


def test_a_hidden_digest_is_not_taken_from_models_without_features() -> None:
    network = _network()
    network.source_digest = "abc"
    assert "abc" not in canonical_text(network)


def test_what_cannot_be_read_back_is_refused() -> None:
    network = _network()
    network.reactions[0] = type(network.reactions[0])("R1", {"Z": 1}, {}, network.reactions[0].law)
    with pytest.raises(ModelError, match="'Z' is not a species"):
        read_toml_text(canonical_text(network), THERE)


def test_names_of_sbml_may_be_words_of_python() -> None:
    text = (DATA / "sbml" / "schlogl.xml").read_text()
    names = {"X": "lambda", "A": "if", "B": "not", "c1": "and", "c2": "or", "c3": "in", "c4": "is"}
    plain = read_sbml_text(text, THERE)
    for old, new in names.items():
        text = text.replace(f'"{old}"', f'"{new}"').replace(f"<ci> {old} </ci>", f"<ci>{new}</ci>")
    network = read_sbml_text(text, THERE)
    assert list(network.species) == ["if", "lambda", "not"]
    again = read_toml_text(canonical_text(network), THERE)
    assert again.reactions == network.reactions
    lowered, expected = _lowered(again), _lowered(plain)
    assert lowered is not None
    assert expected is not None
    assert repr(lowered.reactions) == repr(expected.reactions)

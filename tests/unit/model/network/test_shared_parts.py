"""Expressions that use parts many times over: as graphs they are small, written out endless.

Written out, every expression here has more parts than a machine could go through in a year.
"""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
from sampling import ordinary
from sbml_factory import mathml, model, reaction, species, write

import tauslab as ts
from tauslab.base.errors import ModelError
from tauslab.formats.sbml.reader import read_sbml
from tauslab.formats.toml.network import read_toml_text
from tauslab.kernels.backends.base import Style
from tauslab.kernels.leaping.estimate import leap_reach
from tauslab.kernels.network import codegen
from tauslab.kernels.network.lowering import lower
from tauslab.model.expressions.expression import (
    Expression,
    Number,
    Symbol,
    arguments_first,
    call,
    depth,
    substitute,
    symbols,
    walk,
    written_size,
)
from tauslab.model.expressions.host_math import evaluate
from tauslab.model.expressions.infix import parse
from tauslab.model.expressions.mass_action import distinct_factors, recognise
from tauslab.model.expressions.reversible import SignAnalysis
from tauslab.model.network.canonical import canonical_text, model_sha256
from tauslab.model.network.dependencies import right_sides

DEEP = 60


def doubled(function: str = "add", times: int = DEEP, start: str = "X") -> Expression:
    tree: Expression = Symbol(start)
    for _ in range(times):
        tree = call(function, tree, tree)
    return tree


def chain(levels: int, rule: str, law: str = "", more: int = 0) -> ts.Network:
    """p0 = X / 2^levels, and rules of the two before; `more` reactions that hardly ever happen."""
    net = ts.Network("chain")
    net.add_species("X", 40)
    net.add_species("Z", 0)
    net.add_rule("p0", f"X / {2**levels}", recorded=False)
    net.add_rule("p1", "p0 + p0", recorded=False)
    for i in range(2, levels + 1):
        net.add_rule(f"p{i}", rule.format(a=f"p{i - 1}", b=f"p{i - 2}"), recorded=i == levels)
    net.add_reaction("X ->", law=law or f"p{levels}")
    for i in range(more):
        net.add_reaction("-> Z", rate=1e-9, name=f"hardly_{i}")
    return net


def test_every_part_is_met_once() -> None:
    tree = doubled()
    assert len(arguments_first(tree)) == len(list(walk(tree))) == DEEP + 1
    assert arguments_first(tree)[0] == Symbol("X")
    assert next(walk(tree)) is tree
    assert symbols(tree) == {"X"}
    assert depth(tree) == DEEP
    assert depth(tree, {"X": 7}) == DEEP + 7
    assert written_size(tree) == 2 ** (DEEP + 1) - 1
    assert evaluate(tree, {"X": 3.0}) == 3.0 * 2**DEEP
    assert evaluate(substitute(tree, {"X": parse("Y + 1")}), {"Y": 4.0}) == 5.0 * 2**DEEP
    assert len(repr(tree)) < 200


def test_equal_graphs_are_equal_and_survive_pickling() -> None:
    one, other = doubled(), doubled()
    assert one == other
    assert hash(one) == hash(other)
    assert one != doubled(start="Y")
    assert one != call("add", doubled(times=DEEP - 1), doubled(times=DEEP - 1, start="Y"))
    back = pickle.loads(pickle.dumps(one))
    assert back == one
    assert len(arguments_first(back)) == DEEP + 1


def test_a_number_is_equal_to_itself_alone() -> None:
    assert Number(0.0) != Number(-0.0)
    assert Number(float("nan")) == Number(float("nan"))
    assert hash(Number(float("nan"))) == hash(Number(float("nan")))
    assert Number(2.0) == Number(2.0) != Number(3.0)
    assert Number(1.0) != Symbol("x")


def test_products_of_products() -> None:
    assert recognise(doubled("mul"), {"X"}) is None
    assert recognise(doubled("mul", start="k"), {"X"}) is None
    (factor,) = distinct_factors(doubled("mul"))
    assert factor == (Symbol("X"), True, False, False)
    ratio = distinct_factors(doubled("div"))
    assert [(f.multiplies, f.divides) for f in ratio] == [(True, True)]
    signs = SignAnalysis({"X": 0}, {"k": 1.0}, {})
    assert signs.never_negative(doubled("mul"))
    assert not signs.never_negative(call("neg", doubled("mul")))
    net = call("sub", doubled("mul", start="k"), doubled())
    split = signs.split(net)
    assert split is not None
    assert split.forward == doubled("mul", start="k")
    assert split.reverse == doubled()
    assert signs.split(call("sub", doubled("sub"), 1.0)) is not None


def test_negative_numbers_count_in_products() -> None:
    signs = SignAnalysis({"X": 0}, {}, {})
    squared = call("mul", parse("-2 * X"), parse("-2 * X"))
    assert signs.never_negative(squared)
    part = parse("-2 * X")
    assert signs.never_negative(call("mul", part, part))
    assert not signs.never_negative(call("mul", call("mul", part, part), part))
    assert signs.never_negative(parse("X * (X - 1)"))
    assert not signs.never_negative(parse("X / (X - 1)"))


@pytest.mark.parametrize("rule", ordinary(["{a} + {a}", "{a} + {b} * 2"], "{a} + {b} * 2"))
@pytest.mark.parametrize("more", [0, 70])
def test_rules_that_are_used_twice_run_and_keep_the_bits(rule: str, more: int) -> None:
    """Every level is X again, exactly: so are all draws. Unrolled, and from tables."""
    actual = ts.run(chain(48, rule.replace("* 2", "+ {b}"), more=more), **_RUN)
    law = chain(48, "{a} + {a}", law="max(X, 0)", more=more)
    plain = ts.run(law, **_RUN)
    np.testing.assert_array_equal(actual.counts("X"), plain.counts("X"))
    assert actual.mean("p48").tolist() == actual.mean("X").tolist()


_RUN = {"method": "ssa", "n": 20, "times": [0.0, 0.5, 2.0], "seed": 3, "device": "cpu"}


def test_ode_of_rules_that_are_used_twice() -> None:
    actual = ts.run(chain(48, "{a} + {a}"), n=1, times=[0.0, 1.0], method="ode", device="cpu")
    assert actual.amounts("X")[..., -1].item() == pytest.approx(40 * np.exp(-1), rel=1e-5)


def test_generated_code_computes_a_shared_part_once() -> None:
    network = chain(48, "{a} + {b} + {b}")
    values = network.parameter_values()
    low = lower(network, parameters=values, counts={"X": 40, "Z": 0})
    for text in (
        codegen.unrolled_header(low, Style(branches=True)),
        codegen.table_header(low, "", 1),
    ):
        assert len(text) < 40_000
        assert "part_1" in text
    reach = leap_reach(low, [[40, 0]], np.empty((1, 0)), 0.03)
    assert reach.total.tolist() == [40.0]


def test_code_of_ordinary_laws_has_no_parts() -> None:
    network = chain(4, "{a} + {a}")
    low = lower(network, parameters={}, counts={"X": 40, "Z": 0})
    assert "part_" not in codegen.unrolled_header(low, Style(branches=True))


def test_the_normal_form_names_what_is_used_often() -> None:
    network = ts.Network("shared")
    network.add_species("X", 5)
    network.add_parameter("k", 0.5)
    network.add_parameter("big", doubled(start="k"))
    network.add_reaction("X ->", law=call("mul", doubled(), doubled(start="k")), name="R")
    text = canonical_text(network)
    assert len(text) < 20_000
    back = read_toml_text(text, Path("back.toml"))
    assert canonical_text(back) == text
    assert model_sha256(back) == model_sha256(network)
    values = back.parameter_values()
    assert values["big"] == network.parameter_values()["big"] == 2.0**59
    law = substitute(back.reactions[0].law, back.rule_expressions())
    assert evaluate(law, {**values, "X": 3.0}) == evaluate(
        network.reactions[0].law, {"k": 0.5, "X": 3.0}
    )


def test_a_parameter_that_a_row_varies_is_computed_once() -> None:
    network = ts.Network("varied")
    network.add_species("X", 5)
    network.add_parameter("k", 1.0)
    network.add_parameter("big", doubled(start="k"))
    network.add_reaction("X ->", law="big * X")
    low = lower(network, parameters=network.parameter_values(), counts={"X": 5}, varying=["k"])
    rows = low.constant_rows({"k": np.array([1.0, 2.0])}, 2)
    assert rows.ravel().tolist() == [2.0**DEEP, 2.0 ** (DEEP + 1)]


def test_sbml_functions_that_call_others_twice(tmp_path: Path) -> None:
    functions = "".join(
        f'<functionDefinition id="f{i}">{mathml(_body(i))}</functionDefinition>' for i in range(40)
    )
    text = model(
        species=species("X"),
        listed=(("listOfFunctionDefinitions", functions),),
        reactions=reaction("R", "f39(X)", "X") + reaction("S", "f39(X) - f38(X)", "X"),
    )
    network = read_sbml(write(tmp_path, text))
    assert evaluate(network.reactions[0].law, {"X": 3.0}) == 3.0 * 2**39
    assert written_size(network.reactions[0].law) > 2**39
    assert len(canonical_text(network)) < 20_000
    assert right_sides(network) == {"X": frozenset({"X"})}


def _body(i: int) -> str:
    return "lambda(x, x + 0)" if i == 0 else f"lambda(x, f{i - 1}(x) + f{i - 1}(x))"


def test_too_many_parts_for_a_compiler_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codegen, "_MOST_PARTS", 30)
    low = lower(chain(48, "{a} + {a}"), parameters={}, counts={"X": 40, "Z": 0})
    with pytest.raises(ModelError, match="more than 30 operations together"):
        codegen.unrolled_header(low, Style(branches=True))

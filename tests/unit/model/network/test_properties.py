"""Properties of trajectories: their text, their truth, and when it is decided."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest

from tauslab.analysis.dbn.results.model_checking import Monitor
from tauslab.base.errors import ConfigError
from tauslab.model.expressions.expression import to_text
from tauslab.model.network.properties import (
    And,
    Atom,
    Not,
    Or,
    Until,
    horizon,
    parse_property,
    quantities,
)

TIMES = np.array([0.0, 1.0, 2.0, 3.5, 5.0, 6.0, 8.0])


def shown(formula):
    if isinstance(formula, Atom):
        return to_text(formula.comparison)
    if isinstance(formula, Not):
        return f"!{shown(formula.inner)}"
    left = "" if formula.left is None else shown(formula.left)
    sign = "&" if isinstance(formula, And) else "|" if isinstance(formula, Or) else "U"
    window = f"[{formula.begin:g},{formula.end:g}]" if isinstance(formula, Until) else ""
    return f"({left}{sign}{window}{shown(formula.right)})"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("X > 3", "X > 3.0"),
        ("F[0,10](X > 3) & G[20,50](Y < 1)", "((U[0,10]X > 3.0)&!(U[20,50]!Y < 1.0))"),
        ("F [0, 1] X>3", "(U[0,1]X > 3.0)"),
        ("!X < 1 | Y >= 2 & Z == 3", "(!X < 1.0|(Y >= 2.0&Z == 3.0))"),
        ("X < 1 || Y < 2 && Z < 3", "(X < 1.0|(Y < 2.0&Z < 3.0))"),
        ("X < 1 -> Y < 1 -> Z < 1", "(!X < 1.0|(!Y < 1.0|Z < 1.0))"),
        ("(X + Y) > 2 * (Z - 1)", "(X + Y) > (2.0 * (Z - 1.0))"),
        ("((X > 1) | (Y) < 2)", "(X > 1.0|Y < 2.0)"),
        ("X > 1 U[2,4] Y > 1", "(X > 1.0U[2,4]Y > 1.0)"),
        ("G[0,2] F[0,1] X != -1", "!(U[0,2]!(U[0,1]X != -1.0))"),
        ("(X) -> (Y) > 1", None),
        ("max(X, Y) - Z <= 1e-3 & (X-1)*2 > Y", "((max(X, Y) - Z) <= 0.001&((X - 1.0) * 2.0) > Y)"),
        ("GF > F & U < G", "(GF > F&U < G)"),
    ],
)
def test_text_becomes_a_formula(text, expected):
    if expected is None:
        with pytest.raises(ConfigError, match="is no comparison"):
            parse_property(text)
    else:
        assert shown(parse_property(text)) == expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "a comparison is missing"),
        ("X +", "a value is missing before the end"),
        ("X", "is no comparison"),
        ("F[3,1](X > 1)", "must be 0 <= a <= b"),
        ("F[0,inf](X > 1)", "must be 0 <= a <= b"),
        ("F[a,1](X > 1)", "needs two numbers"),
        ("(X > 1", "a bracket is not closed"),
        ("X > 1) & Y > 2", "nothing may follow"),
        ("X > 1 & ", "a comparison is missing"),
    ],
)
def test_other_text_is_refused_in_a_sentence(text, reason):
    with pytest.raises(ConfigError, match=re.escape("cannot read the property")) as caught:
        parse_property(text)
    assert reason in str(caught.value)
    assert "write, for instance, F[0,10](X > 3)" in str(caught.value)


def test_how_far_a_formula_looks_and_what_it_reads():
    formula = parse_property("G[0,3](X > 1 U[1,2] F[0,4](Y > Z)) & W < 1")
    assert horizon(formula) == 9
    assert quantities(formula) == {"W", "X", "Y", "Z"}


def truth(formula, values, k=0):
    """By the definition, at sample `k` of one trajectory."""
    if isinstance(formula, Atom):
        left, right = (
            values[a.name][k] if hasattr(a, "name") else a.value
            for a in formula.comparison.arguments
        )
        return bool({"gt": left > right, "lt": left < right}[formula.comparison.function])
    if isinstance(formula, Not):
        return not truth(formula.inner, values, k)
    if isinstance(formula, And):
        return truth(formula.left, values, k) and truth(formula.right, values, k)
    if isinstance(formula, Or):
        return truth(formula.left, values, k) or truth(formula.right, values, k)
    first = max(j for j, t in enumerate(TIMES) if t <= TIMES[k] + formula.begin)
    last = max(j for j, t in enumerate(TIMES) if t <= TIMES[k] + formula.end)
    left = [formula.left is None or truth(formula.left, values, j) for j in range(k, last)]
    return any(
        truth(formula.right, values, j) and all(left[: j - k]) for j in range(first, last + 1)
    )


FORMULAS = (
    "X > 0", "F[0,3](X > 0)", "G[1,4](X > 0)", "F[2.2,2.4](X > 0)", "X > 0 U[0,5] Y > 0",
    "X > 0 U[2,6] Y > 0", "!(X > 0 U[1,3.5] Y > 0)", "G[0,3] F[0,2] X > 0",
    "F[0,4](X > 0 & F[1,3] Y > 0)", "G[0,2](X > 0 -> F[0,3.5] Y > 0)",
    "(F[0,1] X > 0) U[0,3] (G[0,2] Y > 0)", "F[6,8](X > 0) | G[0,8](Y > 0)",
)  # fmt: skip


def samples():
    """Signs of X and Y in all ways at the first samples, some ways later."""
    rng = np.random.default_rng(4)
    early = np.array(list(itertools.product((-1, 1), repeat=8)))
    late = rng.choice((-1, 1), (len(early), 6))
    both = np.concatenate([early, late], axis=1)
    return {"X": both[:, ::2], "Y": both[:, 1::2]}


@pytest.mark.parametrize("text", FORMULAS)
def test_a_monitor_agrees_with_the_definition_and_never_changes_its_mind(text):
    formula, values = parse_property(text), samples()
    rows = len(values["X"])
    expected = [truth(formula, {name: x[row] for name, x in values.items()}) for row in range(rows)]
    assert 0 < sum(expected) < rows
    monitor = Monitor(formula, TIMES, values)
    before = np.full(rows, -1)
    for k in range(len(TIMES)):
        now = monitor.push({name: x[:, k] for name, x in values.items()})
        assert (now[before >= 0] == before[before >= 0]).all()
        before = now
    assert before.tolist() == [int(x) for x in expected]


def decided_after(text, x):
    monitor = Monitor(parse_property(text), TIMES, {"X": None})
    for k, value in enumerate(x):
        verdict = int(monitor.push({"X": np.array([value])})[0])
        if verdict >= 0:
            return k, verdict
    return None


def test_it_decides_as_soon_as_it_can():
    assert decided_after("F[0,8](X > 0)", [-1, -1, 5]) == (2, 1)
    assert decided_after("G[0,8](X > 0)", [1, 1, 1, -1]) == (3, 0)
    assert decided_after("F[0,2](X > 0)", [-1, -1, -1]) == (2, 0)
    assert decided_after("G[1,2](X > 0)", [-1, 1, 1]) == (2, 1)
    assert decided_after("X > 0 & F[0,8](X > 3)", [-1]) == (0, 0)
    assert decided_after("F[0,8](X > 0)", [-1, -1]) is None


def test_what_is_not_a_number_satisfies_no_comparison():
    monitor = Monitor(parse_property("G[0,1](X < 1)"), TIMES, {"X": None})
    monitor.push({"X": np.array([0.0, 0.0])})
    assert monitor.push({"X": np.array([0.0, np.nan])}).tolist() == [1, 0]


def test_a_property_that_does_not_fit_its_trajectories_is_refused():
    with pytest.raises(ConfigError, match="looks to t = 9, but trajectories end at t = 8"):
        Monitor(parse_property("F[0,9](X > 1)"), TIMES, {"X": None})
    with pytest.raises(ConfigError, match="reads 'Z', which trajectories do not have; they have X"):
        Monitor(parse_property("Z > 1"), TIMES, {"X": None})

"""Recognition of mass-action laws."""

from __future__ import annotations

import math
import random

import pytest

from tauslab.model.expressions.expression import Expression, Number, Symbol, call, walk
from tauslab.model.expressions.host_math import evaluate
from tauslab.model.expressions.infix import parse
from tauslab.model.expressions.mass_action import recognise

SPECIES = {"A", "B", "X"}


@pytest.mark.parametrize(
    ("law", "orders", "constant"),
    [
        ("k", {}, 3.0),
        ("k*X", {"X": 1}, 3.0),
        ("X", {"X": 1}, 1.0),
        ("X/2", {"X": 1}, 0.5),
        ("X*k/V", {"X": 1}, 0.75),
        ("k*X*0.5*2", {"X": 1}, 3.0),
        ("k*(X/2)/0.5", {"X": 1}, 3.0),
        ("k*X/(2/2)", {"X": 1}, 3.0),
        ("k*A*B*V", {"A": 1, "B": 1}, 12.0),
        ("(A*k)*(V*B)", {"A": 1, "B": 1}, 12.0),
        ("0.5*k*X*(X-1)", {"X": 2}, 1.5),
        ("k*(X-1)*X/2", {"X": 2}, 1.5),
        ("k*X*(X+-1)/2", {"X": 2}, 1.5),
        ("k*X*(-1+X)/2", {"X": 2}, 1.5),
        ("k/6*(X-2)*A*(X*(X-1))", {"X": 3, "A": 1}, 0.5),
        ("-(k*X)", {"X": 1}, -3.0),
        ("exp(k-3)*X", {"X": 1}, 1.0),
        ("k/(1/X)", {"X": 1}, 3.0),
        ("k/X", None, None),
        ("k*X*X", None, None),
        ("k*X^2", None, None),
        ("k*(X-1)", None, None),
        ("k*X*(X-2)", None, None),
        ("k*X*(X-1)*(X-1)", None, None),
        ("k*X*(X-0.5)", None, None),
        ("k*X*(X-A)", None, None),
        ("k*X*(1-X)", None, None),
        ("k*X*(k-1)*(X-k)", None, None),
        ("k*A+k*B", None, None),
        ("k/(1+X)", None, None),
        ("k*X/(1+X)", None, None),
        ("k*exp(X)", None, None),
    ],
)
def test_known_laws(law: str, orders: dict[str, int] | None, constant: float | None) -> None:
    actual = recognise(parse(law), SPECIES)
    if orders is None:
        assert actual is None
        return
    assert actual is not None
    assert actual.orders == orders
    assert evaluate(actual.constant, {"k": 3.0, "V": 4.0}) == constant


def test_parameters_are_not_evaluated() -> None:
    actual = recognise(parse("k*X/V"), SPECIES)
    assert actual is not None
    assert {node.name for node in walk(actual.constant) if isinstance(node, Symbol)} == {"k", "V"}


def _bracket(parts: list[Expression], rng: random.Random) -> Expression:
    """Product of the parts with random brackets."""
    while len(parts) > 1:
        i = rng.randrange(len(parts) - 1)
        parts[i : i + 2] = [call("mul", parts[i], parts[i + 1])]
    return parts[0]


def _random_distribution(rng: random.Random, orders: dict[str, int]) -> Expression:
    """A product of the falling factors, numbers and parameters, shuffled, part of it divided."""
    parts: list[Expression] = [
        call("sub", Symbol(name), float(j)) if j else Symbol(name)
        for name, order in orders.items()
        for j in range(order)
    ]
    parts += [Symbol("k"), Number(rng.choice([0.25, 2.0, 8.0]))]
    rng.shuffle(parts)
    law = _bracket(parts, rng)
    if rng.random() < 0.5:
        law = call("div", law, Number(4.0) if rng.random() < 0.5 else call("mul", Symbol("V"), 2.0))
    return law


def test_random_products() -> None:
    """Any order and bracketing is recognised, and constant times factors is the law again."""
    for seed in range(200):
        rng = random.Random(seed)
        orders = {name: rng.randrange(4) for name in sorted(SPECIES)}
        law = _random_distribution(rng, orders)
        actual = recognise(law, SPECIES)
        assert actual is not None, seed
        assert actual.orders == {name: order for name, order in orders.items() if order}, seed
        state = {"A": 7.0, "B": 11.0, "X": 5.0, "k": 1.5, "V": 0.5}
        expected = evaluate(actual.constant, state)
        for name, order in orders.items():
            expected *= math.prod(state[name] - j for j in range(order))
        assert evaluate(law, state) == pytest.approx(expected, rel=1e-14), seed


def test_random_products_with_one_factor_spoiled() -> None:
    """One factor too many of a species that is there already makes the law general."""
    for seed in range(100):
        rng = random.Random(seed)
        orders = {name: 1 + rng.randrange(3) for name in sorted(SPECIES)}
        name = rng.choice(sorted(SPECIES))
        again = rng.randrange(orders[name])
        extra = call("sub", Symbol(name), float(again)) if again else Symbol(name)
        assert recognise(call("mul", _random_distribution(rng, orders), extra), SPECIES) is None, (
            seed
        )

"""Host evaluation: IEEE arithmetic, correctly rounded functions, special values."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

from tauslab.base.errors import ModelError
from tauslab.model.expressions.expression import FUNCTIONS, Call, Expression, Number, call
from tauslab.model.expressions.host_math import evaluate
from tauslab.model.expressions.infix import parse

INF, NAN = math.inf, math.nan


def bits(x: float) -> bytes:
    return b"nan" if math.isnan(x) else struct.pack(">d", x)


def value(function: str, *arguments: float) -> float:
    return evaluate(call(function, *arguments), {})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("k * X + 1", 7.0),
        ("if(X > 2, k, 1 / 0)", 2.0),
        ("1 / 0", INF),
        ("-1 / 0", -INF),
        ("0 / 0", NAN),
        ("1e308 * 10 - 1e308 * 10", NAN),
        ("sqrt(-1)", NAN),
        ("exp(1000)", INF),
        ("exp(-1000)", 0.0),
        ("log(0)", -INF),
        ("log(-1)", NAN),
        ("X >= 3 && !(k == 2)", 0.0),
        ("xor(X, 0)", 1.0),
        ("k ^ 0.5", math.sqrt(2.0)),
        ("max(k, X, 1)", 3.0),
    ],
)
def test_expressions(text: str, expected: float) -> None:
    assert bits(evaluate(parse(text), {"k": 2.0, "X": 3.0})) == bits(expected)


def test_missing_name_is_a_model_error() -> None:
    with pytest.raises(ModelError, match="'k2' has no value; names with values: k1"):
        evaluate(parse("k1 * k2"), {"k1": 1.0})


def test_a_tree_ten_thousand_deep() -> None:
    tree: Expression = Number(0.0)
    for _ in range(10_000):
        tree = Call("add", (tree, Number(1.0)))
    assert evaluate(tree, {}) == 10_000.0


def test_every_function_has_a_value_for_every_special_argument() -> None:
    special = (0.0, -0.0, INF, -INF, NAN, 5e-324, -1.0, 1.0, 1e308, -1e308)
    for name, count in FUNCTIONS.items():
        for x in special:
            for y in special:
                assert isinstance(value(name, *(x, y, x)[:count]), float)


@pytest.mark.parametrize(
    ("x", "y", "expected"),
    [
        (NAN, 0.0, 1.0), (1.0, NAN, 1.0), (NAN, 1.0, NAN), (-1.0, INF, 1.0), (0.5, INF, 0.0),
        (2.0, -INF, 0.0), (-0.0, -3.0, -INF), (-0.0, 2.0, 0.0), (-INF, 3.0, -INF),
        (-INF, -3.0, -0.0), (-8.0, 1 / 3, NAN), (-2.0, 3.0, -8.0), (-1.0, 2.0**53 + 2, 1.0),
        (-1.0, 0.5, NAN),
        (10.0, 400.0, INF), (10.0, -400.0, 0.0), (1.0 + 2.0**-52, 1e300, INF),
        (-10.0, 63.0, -1e63), (134217729.0, 2.0, 134217729.0 * 134217729.0), (2.0, -1074.0, 5e-324),
    ],
)  # fmt: skip
def test_power(x: float, y: float, expected: float) -> None:
    assert bits(value("pow", x, y)) == bits(expected)


@pytest.mark.parametrize(
    ("function", "x", "expected"),
    [
        ("floor", -0.5, -1.0), ("floor", -0.0, -0.0), ("ceil", -0.5, -0.0), ("ceil", 1e300, 1e300),
        ("sin", -0.0, -0.0), ("sin", INF, NAN), ("tan", -0.0, -0.0), ("asin", 1.5, NAN),
        ("asin", -1.0, -math.pi / 2), ("acos", -1.0, math.pi), ("acos", 1.0, 0.0),
        ("acos", 0.0, math.pi / 2), ("atan", -INF, -math.pi / 2), ("sinh", -INF, -INF),
        ("cosh", -INF, INF), ("tanh", -INF, -1.0), ("cbrt", -27.0, -3.0), ("cbrt", -0.0, -0.0),
        ("log10", 1e22, 22.0), ("sqrt", -0.0, -0.0), ("abs", -0.0, 0.0),
    ],
)  # fmt: skip
def test_special_values(function: str, x: float, expected: float) -> None:
    assert bits(value(function, x)) == bits(expected)


@pytest.mark.parametrize(("x", "y"), [(0.0, -0.0), (-0.0, 0.0)])
def test_signed_zeros_are_ordered(x: float, y: float) -> None:
    assert bits(value("min", x, y)) == bits(-0.0)
    assert bits(value("max", x, y)) == bits(0.0)
    assert math.isnan(value("min", x, NAN))
    assert math.isnan(value("max", NAN, y))


ROUNDED = ("exp", "log", "log10", "cbrt", "sin", "cos", "tan", "asin", "acos", "atan", "sinh",
           "cosh", "tanh")  # fmt: skip


@pytest.mark.parametrize("function", ROUNDED)
def test_functions_are_correctly_rounded(function: str) -> None:
    rng = np.random.default_rng(3)
    size = rng.uniform(0, 1, 40) if function in ("asin", "acos") else rng.uniform(0, 30, 40)
    x = np.concatenate([size, 10.0 ** rng.uniform(-30, 0, 20)])
    if function in ("sin", "cos", "tan"):
        x = np.concatenate([x, 10.0 ** rng.uniform(0, 308, 20)])
    if not function.startswith("log"):
        x *= rng.choice([-1.0, 1.0], len(x))
    exact: Callable[[Any], Any] = getattr(mpmath, function)
    with mpmath.workprec(1400 if len(x) > 60 else 300):
        for argument in x.tolist():
            size = exact(abs(mpmath.mpf(argument))) if function == "cbrt" else None
            true = exact(mpmath.mpf(argument)) if size is None else mpmath.sign(argument) * size
            assert bits(value(function, argument)) == bits(float(true)), argument


def test_powers_are_correctly_rounded() -> None:
    rng = np.random.default_rng(4)
    for x, y in zip(rng.uniform(0, 10, 100), rng.uniform(-30, 30, 100), strict=True):
        with mpmath.workprec(300):
            true = float(mpmath.power(mpmath.mpf(float(x)), mpmath.mpf(float(y))))
        assert bits(value("pow", float(x), float(y))) == bits(true)

"""Derivatives of expressions against differences of complex steps or of small ones."""

from __future__ import annotations

import math

import pytest

from tauslab.model.expressions.derivative import OUTER_DERIVATIVES, STEPS, derivative
from tauslab.model.expressions.expression import FUNCTIONS, substitute
from tauslab.model.expressions.host_math import evaluate
from tauslab.model.expressions.infix import parse

VALUES = {"k": 0.7, "X": 3.0, "n": 2.0}
TEXTS = [
    "k * X / (k + X)", "X ^ k", "k ^ n", "k ^ 3", "(X / k) ^ n / (1 + (X / k) ^ n)", "-k * k - 2",
    "if(X > 2, k * k, X)", "min(k * X, 5)", "max(k * X, 5)", "X * exp(-k * X) + log(k)",
    "sqrt(k + 1) * cbrt(k)", "sin(k) * cos(k) + tan(k)", "asin(k / 2) + acos(k / 2) + atan(k)",
    "sinh(k) * cosh(k) / tanh(k)", "abs(k - 2) + log10(k)", "1 / (k - X)", "k ^ k",
]  # fmt: skip


@pytest.mark.parametrize("text", TEXTS)
def test_derivatives(text):
    tree, h = parse(text), 1e-5
    slope = derivative(tree, "k")
    assert slope is not None
    sides = [evaluate(tree, VALUES | {"k": VALUES["k"] + step}) for step in (h, -h)]
    assert evaluate(slope, VALUES) == pytest.approx((sides[0] - sides[1]) / (2 * h), rel=1e-7)


@pytest.mark.parametrize("text", ["X * n", "3", "floor(k)", "k > X", "if(k > 1, X, n)"])
def test_what_is_zero(text):
    assert derivative(parse(text), "k") is None


def test_every_function_has_one():
    ruled = {"add", "sub", "mul", "div", "neg", "pow", "if", "min", "max"}
    assert {*OUTER_DERIVATIVES, *STEPS, *ruled} == set(FUNCTIONS)


def test_powers_at_zero():
    for text, k in (("k ^ 2", 0.0), ("X ^ k", 2.0)):
        slope = derivative(parse(text), "k")
        assert slope is not None
        assert evaluate(slope, {"k": k, "X": 0.0}) == 0
    assert math.isinf(evaluate(derivative(parse("k ^ 0.5"), "k") or parse("0"), {"k": 0.0}))


def test_a_shared_part_is_walked_once():
    tree = parse("k + 1")
    for _ in range(60):
        tree = substitute(parse("a * a"), {"a": tree})
    assert derivative(tree, "k") is not None

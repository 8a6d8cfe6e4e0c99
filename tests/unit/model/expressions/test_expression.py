"""Expression text to trees and back, at any depth and with any names."""

from __future__ import annotations

import keyword
import math
import random
from fractions import Fraction

import pytest

from tauslab.base.errors import ModelError
from tauslab.model.expressions.expression import (
    DEEPEST,
    FUNCTIONS,
    LONGEST_CHAIN,
    Call,
    Expression,
    Number,
    Symbol,
    call,
    check_depth,
    depth,
    substitute,
    symbols,
    to_text,
)
from tauslab.model.expressions.host_math import evaluate
from tauslab.model.expressions.infix import parse

A, B, C, X = (Symbol(name) for name in ("a", "b", "c", "x"))


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("a - b - c", call("sub", call("sub", A, B), C)),
        ("a - (b - c)", call("sub", A, call("sub", B, C))),
        ("a / b * c", call("mul", call("div", A, B), C)),
        ("a + b * c", call("add", A, call("mul", B, C))),
        ("a ^ b ** c", call("pow", A, call("pow", B, C))),
        ("-a ^ 2", call("neg", call("pow", A, 2))),
        ("a ^ -b ^ c", call("pow", A, call("neg", call("pow", B, C)))),
        ("-a * b", call("mul", call("neg", A), B)),
        ("a * -b", call("mul", A, call("neg", B))),
        ("-2", Number(-2.0)),
        ("--2", Number(2.0)),
        ("+a", A),
        ("1.e-3", Number(1e-3)),
        (".5E+2", Number(50.0)),
        ("a < b < c", call("and", call("lt", A, B), call("lt", B, C))),
        ("(a < b) < c", call("lt", call("lt", A, B), C)),
        ("a + 1 >= b", call("ge", call("add", A, 1), B)),
        ("a || b && !c", call("or", A, call("and", B, call("not", C)))),
        ("a or b and not c", call("or", A, call("and", B, call("not", C)))),
        ("not a < b", call("not", call("lt", A, B))),
        ("not not a", call("not", call("not", A))),
        ("!a < b", call("lt", call("not", A), B)),
        ("min(a, b, c)", call("min", call("min", A, B), C)),
        ("ln(a)", call("log", A)),
        ("pi()", Number(math.pi)),
        ("-inf()", Number(-math.inf)),
        ("if(a, b, c)", call("if", A, B, C)),
        ("piecewise(a, b, c)", call("if", B, A, C)),
        ("piecewise(a, b, x, c, 1)", call("if", B, A, call("if", C, X, 1))),
        (" exp ( a ) ", call("exp", A)),
    ],
)
def test_what_text_means(text: str, tree: Expression) -> None:
    assert parse(text) == tree


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "a value is missing before the end"),
        ("a +", "a value is missing before the end"),
        ("a b", "'b' does not belong there"),
        ("2a", "'a' does not belong there"),
        ("(a", "')' is missing before the end"),
        ("a)", "')' does not belong there"),
        ("(a, b)", "')' is missing before ','"),
        ("exp(a,)", "a value is missing before ')'"),
        ("()", "a value is missing before ')'"),
        ("a $ b", "'$' does not belong there"),
        ("a = b", "'=' does not belong there"),
        ("exp(a, b)", "function 'exp' takes 1 argument, not 2"),
        ("gamma(a)", "function 'gamma' takes 2 or 4 arguments, not 1"),
        ("a + not b", "'not' does not belong there"),
        ("1 % 2", "'%' does not belong there"),
    ],
)
def test_what_is_not_an_expression(text: str, reason: str) -> None:
    with pytest.raises(ModelError) as caught:
        parse(text)
    assert reason in str(caught.value)
    assert str(caught.value).startswith(f"cannot read the expression {text!r}: ")


def test_a_reader_may_add_functions() -> None:
    assert parse("twice(a) + 1", {"twice": lambda given: call("mul", 2, given[0])}) == parse(
        "2 * a + 1"
    )


def _random_tree(rng: random.Random, depth: int) -> Expression:
    if depth == 0 or rng.random() < 0.15:
        return rng.choice(
            [
                Symbol(rng.choice(["x", "lambda", "and", "not", "e1"])),
                Number(rng.choice([0.0, -0.0, 1.0, -2.5, 1e-300, 0.1, math.inf, -math.inf])),
            ]
        )
    name = rng.choice(sorted(FUNCTIONS))
    return Call(name, tuple(_random_tree(rng, depth - 1) for _ in range(FUNCTIONS[name])))


def _same(one: Expression, other: Expression) -> bool:
    return repr(one) == repr(other)  # tells -0.0 from 0.0


def test_every_tree_survives_its_text() -> None:
    rng = random.Random(1)
    for _ in range(3000):
        tree = _random_tree(rng, rng.randint(0, 5))
        assert _same(parse(to_text(tree)), tree), to_text(tree)


def test_nan_survives() -> None:
    tree = parse(to_text(call("add", X, math.nan)))
    assert isinstance(tree, Call)
    assert isinstance(tree.arguments[1], Number)
    assert math.isnan(tree.arguments[1].value)


@pytest.mark.parametrize("name", sorted({*keyword.kwlist, *FUNCTIONS, "pi", "inf", "nan", "xor"}))
def test_any_name_may_be_that_of_a_species(name: str) -> None:
    other = Symbol(name)
    for tree in (
        other,
        call("mul", other, call("sub", other, 1)),
        call("neg", other),
        call("not", other),
        call("and", call("lt", other, X), call("or", other, other)),
        call("div", X, call("add", 2, other)),
        call("if", other, other, other),
        call("pow", other, other),
    ):
        assert parse(to_text(tree)) == tree


def test_words_are_operators_where_operators_stand() -> None:
    assert parse("and and and") == call("and", Symbol("and"), Symbol("and"))
    assert parse("not * 2") == call("mul", Symbol("not"), 2)


@pytest.mark.parametrize("signs", ["+", "+-", "-", "*", "*/", "/"])
def test_five_thousand_terms(signs: str) -> None:
    """A sum or product of many terms stays shallow, and keeps its value."""
    rng = random.Random(2)
    values = {f"x{i}": rng.choice([1.0, 2.0, 0.5]) for i in range(5000)}
    operators = [rng.choice(signs) for _ in values]
    text = "".join(f" {sign} {name}" for sign, name in zip(operators, values, strict=True))
    tree = parse(f"1{text}")
    check_depth(tree, "the sum")
    assert parse(to_text(tree)) == tree
    assert symbols(tree) == values.keys()
    if signs[0] in "*/":  # few factors that are not 1, so that nothing overflows
        values |= dict.fromkeys([name for name in values if not name.endswith("77")], 1.0)
    expected = Fraction(1)
    for sign, value in zip(operators, values.values(), strict=True):
        exact = Fraction(value)
        expected += exact * {"+": 1, "-": -1}.get(sign, 0)
        expected *= {"*": exact, "/": 1 / exact}.get(sign, 1)
    assert evaluate(tree, values) == expected != 1


def test_short_rows_associate_as_written() -> None:
    tree = parse("+".join(["x"] * LONGEST_CHAIN))
    depth = 0
    while isinstance(tree, Call):
        assert tree.arguments[1] == X
        tree, depth = tree.arguments[0], depth + 1
    assert depth == LONGEST_CHAIN - 1


def test_a_tree_built_deep_survives_its_text() -> None:
    tree: Expression = X
    for i in range(5000):
        tree = call("add" if i % 3 else "sub", tree, Symbol(f"y{i % 7}"))
    text = to_text(tree)
    again = parse(text)
    assert to_text(again) == text
    while isinstance(tree, Call) and isinstance(again, Call):  # == itself would recurse
        assert tree.function == again.function
        assert tree.arguments[1] == again.arguments[1]
        tree, again = tree.arguments[0], again.arguments[0]
    assert tree == again == X


@pytest.mark.parametrize("opening", ["(", "-", "exp(", "x * (", "x ^ ", "not ", "1 - (2 < "])
def test_nesting_of_two_thousand(opening: str) -> None:
    text = opening * 2000 + "x" + ")" * (2000 * opening.count("("))
    tree = parse(text)
    assert to_text(parse(to_text(tree))) == to_text(tree)
    assert "x" in symbols(substitute(tree, {"y": X}))
    if opening == "(":
        assert tree == X
        return
    with pytest.raises(ModelError, match=rf"^the law: operations are nested more than {DEEPEST}"):
        check_depth(tree, "the law")


def test_the_deepest_tree_is_accepted() -> None:
    tree: Expression = X
    for _ in range(DEEPEST):
        tree = call("exp", tree)
    check_depth(tree, "the law")
    with pytest.raises(ModelError, match="nested"):
        check_depth(call("exp", tree), "the law")


def test_substitute() -> None:
    tree = parse("a * (b + a)")
    assert substitute(tree, {"a": parse("b - 1")}) == parse("(b - 1) * (b + (b - 1))")
    assert substitute(tree, {"z": X}) is tree
    assert substitute(X, {"x": A}) == A


def test_a_call_checks_its_arguments() -> None:
    with pytest.raises(ModelError, match="function 'sqrt' takes 1 argument, not 2"):
        call("sqrt", 1, 2)


def test_depth() -> None:
    tree = parse("a + b * exp(c)")
    assert (depth(X), depth(tree)) == (0, 3)
    assert depth(tree, {"c": 5, "a": 2}) == 8
    assert depth(tree, {"a": 9}) == 10
    assert depth(X, {"x": 4}) == 4

"""Expression trees: what a rate law is once it has been read.

Trees are immutable and may share parts.  Everything here works at any depth; what is to run may
not be deeper than `DEEPEST`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tauslab.model.errors import ModelError

# Compilers limit how deep brackets nest (clang: 256), and walking a tree takes stack.
DEEPEST = 200

# name -> number of arguments.  Comparisons and logic give 1.0 or 0.0; `if` is (condition, yes, no).
FUNCTIONS: Mapping[str, int] = {
    "add": 2, "sub": 2, "mul": 2, "div": 2, "pow": 2, "neg": 1,
    "exp": 1, "log": 1, "log10": 1, "sqrt": 1, "cbrt": 1, "abs": 1, "floor": 1, "ceil": 1,
    "min": 2, "max": 2,
    "sin": 1, "cos": 1, "tan": 1, "asin": 1, "acos": 1, "atan": 1,
    "sinh": 1, "cosh": 1, "tanh": 1,
    "lt": 2, "le": 2, "gt": 2, "ge": 2, "eq": 2, "ne": 2,
    "and": 2, "or": 2, "xor": 2, "not": 1, "if": 3,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Number:
    """A constant, as an IEEE double."""

    value: float


@dataclass(frozen=True, slots=True)
class Symbol:
    """A name: of a species (its count), a parameter or a rule."""

    name: str


@dataclass(frozen=True, slots=True)
class Call:
    """One of `FUNCTIONS` applied to expressions."""

    function: str
    arguments: tuple[Expression, ...]

    def __post_init__(self) -> None:
        """Check the function's name and number of arguments."""
        if FUNCTIONS.get(self.function) != len(self.arguments):
            raise ModelError(
                f"function {self.function!r} with {len(self.arguments)} arguments is not "
                f"supported; known functions: {', '.join(sorted(FUNCTIONS))}"
            )


Expression = Number | Symbol | Call


def call(function: str, *arguments: Expression | float) -> Call:
    """Build a `Call`, turning plain numbers into `Number`."""
    trees = [Number(float(a)) if isinstance(a, int | float) else a for a in arguments]
    return Call(function, tuple(trees))


def symbols(expression: Expression) -> set[str]:
    """Names that occur in the tree."""
    found: set[str] = set()
    stack = [expression]  # as `walk`, without a generator: networks have 1e5 laws
    while stack:
        node = stack.pop()
        if isinstance(node, Symbol):
            found.add(node.name)
        elif isinstance(node, Call):
            stack.extend(node.arguments)
    return found


def walk(expression: Expression) -> Iterator[Expression]:
    """Every node of the tree, parents before children."""
    stack = [expression]
    while stack:
        node = stack.pop()
        yield node
        if isinstance(node, Call):
            stack.extend(reversed(node.arguments))


def depth(expression: Expression, inside: Mapping[str, int] | None = None) -> int:
    """How many operations are nested in the tree; 0 for a number or a name.

    `inside` gives the depth of what stands for a name, where that is not 0.
    """
    deepest = 0
    stack = [(expression, 0)]
    while stack:
        node, at = stack.pop()
        if isinstance(node, Call):
            stack.extend([(a, at + 1) for a in node.arguments])
        elif inside and isinstance(node, Symbol):
            at += inside.get(node.name, 0)
        deepest = max(deepest, at)
    return deepest


def check_depth(
    expression: Expression, where: str, inside: Mapping[str, int] | None = None
) -> None:
    """Refuse a tree deeper than `DEEPEST`; `where` names it, `inside` is as for `depth`.

    Raises
    ------
    ModelError
        Names the limit.
    """
    if depth(expression, inside) > DEEPEST:
        raise ModelError(
            f"{where}: operations are nested more than {DEEPEST} deep, which is the limit"
        )


def substitute(expression: Expression, values: Mapping[str, Expression]) -> Expression:
    """Replace symbols by trees; names that are not in `values` stay."""
    if not values or not any(name in values for name in symbols(expression)):
        return expression
    built: dict[int, Expression] = {}
    for node in reversed(list(walk(expression))):  # children first, at any depth
        new: Expression = node
        if isinstance(node, Symbol):
            new = values.get(node.name, node)
        elif isinstance(node, Call):
            changed = tuple(built[id(a)] for a in node.arguments)
            if any(x is not y for x, y in zip(changed, node.arguments, strict=True)):
                new = Call(node.function, changed)
        built[id(node)] = new
    return built[id(expression)]

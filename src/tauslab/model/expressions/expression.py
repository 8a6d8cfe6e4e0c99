"""Expression trees: what a rate law is once it has been read, and their text.

A tree is a `Number`, a `Symbol` (a species count, a parameter or a rule) or a `Call` of one of
`FUNCTIONS`.  Readers build trees, `infix` reads text, `host_math` evaluates trees on the host, and
the code generator turns them into C++.  Sums and products are binary and associate as written, so
every device adds in the same order.

Trees are immutable and may share parts: a rule that is used twice is one object in two places, so
that a tree is a graph without circles.  Written out, forty rules that each use the one before twice
have 2^40 parts; so every function that goes through a tree meets each part once.
It works at any depth; what is to run may not be deeper than `DEEPEST`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from tauslab.base.errors import ModelError
from tauslab.model.expressions.distributions import FAMILIES

# Compilers limit how deep brackets nest (clang: 256), and walking a tree takes stack.
DEEPEST = 200
LONGEST_CHAIN = 64  # terms that associate to the left; of more in a row see `infix`
_LARGEST_SHOWN = 1000  # nodes of a tree that messages for programmers show

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

# Random numbers, as SBML's package distrib names them -> numbers of arguments; with two more than
# its parameters a distribution is truncated to bounds. They have no value on the host: only events,
# delays and initial values may hold them, and kernels draw them.
DRAWS: Mapping[str, tuple[int, ...]] = {
    name: family.arguments for name, family in FAMILIES.items() if family.arguments
}


# Functions that texts write as operators, and those that they have besides `FUNCTIONS`.
_OPERATORS = frozenset(
    ("add", "sub", "mul", "div", "neg", "and", "or", "not", "lt", "le", "gt", "ge", "eq", "ne")
)
_WRITTEN = ("ln", "piecewise", "pi")


def _not_callable(name: str, count: int) -> str:
    """Why a function cannot be called with so many arguments."""
    numbers = [FUNCTIONS[name]] if name in FUNCTIONS else list(DRAWS.get(name, ()))
    if name == PAST:
        numbers = [2]
    if numbers:
        allowed = " or ".join(map(str, numbers)) + " or more" * (name in ("min", "max"))
        return f"function {name!r} takes {allowed} argument{'s' * (allowed != '1')}, not {count}"
    known = sorted({*FUNCTIONS, *_WRITTEN, PAST} - _OPERATORS)
    return (
        f"{name!r} is no function; a product is written {name} * (...); functions: "
        f"{', '.join(known)}, and distributions in events, delays and initial amounts: "
        f"{', '.join(sorted(DRAWS))}"
    )


# ``delay(x, d)`` is what the expression x was at a time that is d earlier: SBML's csymbol delay. It
# has no value on the host: only the kernels of ``ode`` keep what has been.
PAST = "delay"


@dataclass(frozen=True, slots=True, eq=False)
class Number:
    """A constant, as an IEEE double; 0 and -0 are two numbers, and NaN is one."""

    value: float

    def __eq__(self, other: object) -> bool:
        """Return whether both are the same number, with the same sign if they are 0."""
        if not isinstance(other, Number):
            return NotImplemented
        x, y = self.value, other.value
        if x == y:
            return x != 0 or math.copysign(1.0, x) == math.copysign(1.0, y)
        return math.isnan(x) and math.isnan(y)

    def __hash__(self) -> int:
        """Equal numbers have equal ones, NaN too."""
        return 0 if math.isnan(self.value) else hash(self.value)


@dataclass(frozen=True, slots=True)
class Symbol:
    """A name: of a species (its count), a parameter or a rule."""

    name: str


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Call:
    """One of `FUNCTIONS` or `DRAWS`, or `PAST`, applied to expressions.

    Comparing, hashing and showing take no longer for a part that occurs twice.
    """

    function: str
    arguments: tuple[Expression, ...]
    _hash: int = field(default=0, init=False)  # 0: not known yet
    _text: str = field(default="", init=False)  # of `to_text`, likewise
    size: int = field(default=0, init=False)  # of `written_size`
    depth: int = field(default=0, init=False)  # how many operations are nested
    functions: frozenset[str] = field(default=frozenset(), init=False)  # that occur in the tree

    def __post_init__(self) -> None:
        """Check the function's name and number of arguments."""
        count = len(self.arguments)
        size, deep, functions = 1, 0, {self.function}
        for part in self.arguments:
            if isinstance(part, Call):
                size += part.size
                deep = max(deep, part.depth)
                functions |= part.functions
            else:
                size += 1
        object.__setattr__(self, "size", size)
        object.__setattr__(self, "depth", 1 + deep)
        made = frozenset(functions)
        object.__setattr__(self, "functions", _SETS.setdefault(made, made))
        if self.function == PAST and count == 2:
            return
        if FUNCTIONS.get(self.function) != count and count not in DRAWS.get(self.function, ()):
            raise ModelError(_not_callable(self.function, count))

    def __eq__(self, other: object) -> bool:
        """Return whether both are the same tree when written out."""
        if not isinstance(other, Call):
            return NotImplemented
        return _same(self, other)

    def __hash__(self) -> int:
        """Equal trees have equal ones; computed once."""
        if not self._hash:
            for node in arguments_first(self):
                if isinstance(node, Call) and not node._hash:  # noqa: SLF001 - its own class
                    result = hash((node.function, node.arguments)) or 1
                    object.__setattr__(node, "_hash", result)
        return self._hash

    def __reduce__(self) -> tuple[type[Call], tuple[str, tuple[Expression, ...]]]:
        """Leave behind what is computed: another process hashes texts to other numbers."""
        return Call, (self.function, self.arguments)

    def __repr__(self) -> str:
        """The call, its arguments as well if they are few."""
        nodes = written_size(self)
        if nodes > _LARGEST_SHOWN:
            return f"Call(function={self.function!r}, ... of {nodes} nodes)"
        return f"Call(function={self.function!r}, arguments={self.arguments!r})"


_SETS: dict[frozenset[str], frozenset[str]] = {}  # of functions: trees share them
Expression = Number | Symbol | Call
Part = TypeVar("Part")
T = TypeVar("T")


def _same(one: Call, other: Call) -> bool:
    """Return whether two trees are equal; every pair of parts is compared once."""
    compared: set[tuple[int, int]] = set()
    stack = [(one, other)]
    while stack:
        a, b = stack.pop()
        if a is b or (id(a), id(b)) in compared:
            continue
        if hash(a) != hash(b) or a.function != b.function:
            return False
        compared.add((id(a), id(b)))
        for x, y in zip(a.arguments, b.arguments, strict=True):
            if isinstance(x, Call) and isinstance(y, Call):
                stack.append((x, y))
            elif x != y:
                return False
    return True


def call(function: str, *arguments: Expression | float) -> Call:
    """Build a `Call`, turning plain numbers into `Number`."""
    trees = [Number(float(a)) if isinstance(a, int | float) else a for a in arguments]
    return Call(function, tuple(trees))


def symbols(expression: Expression) -> set[str]:
    """Names that occur in the tree."""
    if not isinstance(expression, Call):
        return {expression.name} if isinstance(expression, Symbol) else set()
    result: set[str] = set()
    seen: set[int] = set()
    stack: list[Expression] = [expression]  # as `walk`, which is slower: networks have 1e5 laws
    while stack:
        node = stack.pop()
        if isinstance(node, Symbol):
            result.add(node.name)
        elif isinstance(node, Call) and id(node) not in seen:
            seen.add(id(node))
            stack.extend(node.arguments)
    return result


def draws_in(expression: Expression) -> set[str]:
    """Names of the distributions that the tree draws from.

    >>> draws_in(call("add", call("poisson", 3.0), Symbol("x")))
    {'poisson'}
    """
    return {*(expression.functions & DRAWS.keys())} if isinstance(expression, Call) else set()


def looks_back(expression: Expression) -> bool:
    """Return whether the tree reads a value of a delay ago.

    >>> looks_back(call("add", call("delay", Symbol("x"), 3.0), 1.0))
    True
    """
    return isinstance(expression, Call) and PAST in expression.functions


def arguments_first(expression: Expression, known: Container[int] = ()) -> list[Expression]:
    """Every part of the tree once, however often it occurs, after the parts that it is made of.

    Parts whose identity is in `known` are left out, with what they alone are made of.
    """
    return parts_first(expression, _arguments_of, known)


def parts_first(
    root: Part, arguments: Callable[[Part], Sequence[Part]], known: Container[int] = ()
) -> list[Part]:
    """`arguments_first` of anything that is made of parts; `arguments` gives those of one."""
    if not arguments(root):
        return [] if id(root) in known else [root]
    order: list[Part] = []
    opened: set[int] = set()
    done: set[int] = set()
    stack = [root]
    while stack:
        node = stack[-1]
        key = id(node)
        if key in done or key in known:
            stack.pop()
        elif key not in opened and (inside := arguments(node)):
            opened.add(key)
            stack.extend(reversed(inside))
        else:
            stack.pop()
            done.add(key)
            order.append(node)
    return order


def _arguments_of(expression: Expression) -> tuple[Expression, ...]:
    return expression.arguments if isinstance(expression, Call) else ()


def walk(expression: Expression) -> Iterator[Expression]:
    """Every part of the tree once, before the parts that it is made of."""
    return reversed(arguments_first(expression))


def outermost(expression: Expression, chosen: Callable[[Expression], bool]) -> Iterator[Expression]:
    """Parts that are `chosen` and stand somewhere outside of all others that are."""
    outside = {id(expression)}
    for node in walk(expression):
        if id(node) not in outside:
            continue
        if chosen(node):
            yield node
        elif isinstance(node, Call):
            outside.update(id(part) for part in node.arguments)


def bottom_up(expression: Expression, part: Callable[[Expression, list[T]], T]) -> T:
    """Return what `part` makes of the tree and of what it made of its arguments."""
    made: dict[int, T] = {}
    for node in arguments_first(expression):
        made[id(node)] = part(node, [made[id(one)] for one in _arguments_of(node)])
    return made[id(expression)]


def with_arguments(node: Expression, arguments: Sequence[Expression]) -> Expression:
    """Return the call of other arguments; itself, which may be shared, where they are its own."""
    own = _arguments_of(node)
    same = all(one is other for one, other in zip(own, arguments, strict=True))
    return node if same or not isinstance(node, Call) else Call(node.function, tuple(arguments))


def written_size(expression: Expression) -> int:
    """Numbers, names and operations of the tree when every part is written where it occurs.

    >>> x = call("add", Symbol("x"), 1.0)
    >>> written_size(call("mul", x, x))
    7
    """
    return expression.size if isinstance(expression, Call) else 1


def depth(expression: Expression, inside: Mapping[str, int] | None = None) -> int:
    """Count how many operations are nested in the tree; 0 for a number or a name.

    `inside` gives the depth of what stands for a name, where that is not 0.
    """
    if not inside or inside.keys().isdisjoint(symbols(expression)):
        return expression.depth if isinstance(expression, Call) else 0

    def part(node: Expression, deep: list[int]) -> int:
        if isinstance(node, Symbol):
            return inside.get(node.name, 0)
        return 1 + max(deep) if deep else 0

    return bottom_up(expression, part)


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


def check_exponents(expression: Expression, where: str) -> None:
    """Refuse powers whose exponents are written as infinite or not a number; `where` names it.

    Raises
    ------
    ModelError
        Names the exponent.
    """
    if not (isinstance(expression, Call) and "pow" in expression.functions):
        return
    for node in arguments_first(expression):
        if isinstance(node, Call) and node.function == "pow":
            power = node.arguments[1]
            if isinstance(power, Number) and not math.isfinite(power.value):
                raise ModelError(
                    f"{where}: an exponent is {power.value:g}; exponents must be finite"
                )


def substitute(expression: Expression, values: Mapping[str, Expression]) -> Expression:
    """Replace symbols by trees; names that are not in `values` stay."""
    if not values or values.keys().isdisjoint(symbols(expression)):
        return expression

    def part(node: Expression, arguments: list[Expression]) -> Expression:
        if isinstance(node, Symbol):
            return values.get(node.name, node)
        return with_arguments(node, arguments)

    return bottom_up(expression, part)


_INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/", "lt": "<", "le": "<=", "gt": ">",
          "ge": ">=", "eq": "==", "ne": "!="}  # fmt: skip
_CHAINED = {"add": "sum", "sub": "sum", "mul": "product", "div": "product"}


@dataclass(frozen=True, slots=True)
class _Text:
    """Text of a tree; `kind` and `terms` of the sum or product at its top, `bare` an operation."""

    text: str
    bare: bool = False
    kind: str | None = None
    terms: int = 1

    def bracketed(self) -> str:
        return f"({self.text})" if self.bare else self.text


def to_text(expression: Expression) -> str:
    """Infix text that `parse` reads back to the same tree.

    A part is written as often as it occurs: ask `written_size` before, if there may be many.
    Every operation inside another is bracketed, except the left side of a sum in a sum and of a
    product in a product, where brackets would only repeat how `parse` associates.
    """

    def part(node: Expression, arguments: list[_Text]) -> _Text:
        if isinstance(node, Number):
            return _Text(_number_text(node.value))
        return _Text(node.name) if isinstance(node, Symbol) else _call_text(node, arguments)

    if not isinstance(expression, Call):
        return part(expression, []).text
    if not expression._text:  # noqa: SLF001 - computed once, as the hash
        object.__setattr__(expression, "_text", bottom_up(expression, part).text)
    return expression._text  # noqa: SLF001


def _number_text(value: float) -> str:
    if math.isfinite(value):
        return repr(value)
    return "nan()" if math.isnan(value) else "inf()" if value > 0 else "-inf()"


def _call_text(node: Call, parts: list[_Text]) -> _Text:
    name, left = node.function, parts[0]
    if name in _INFIX:
        kind = _CHAINED.get(name)
        chains = kind is not None and left.kind == kind and left.terms < LONGEST_CHAIN
        first = left.text if chains else left.bracketed()
        text = f"{first} {_INFIX[name]} {parts[1].bracketed()}"
        return _Text(text, True, kind, left.terms + 1 if chains else 2)
    if name == "neg" and not isinstance(node.arguments[0], Number):  # -1.0 is a number
        return _Text(f"-{left.bracketed()}", True)
    return _Text(f"{name}({', '.join(part.text for part in parts)})")

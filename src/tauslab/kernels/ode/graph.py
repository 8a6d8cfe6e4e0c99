"""Equations as one graph in which equal parts exist once: the common subexpressions.

A node is made of what it is applied to; asking for the same node twice gives the same number. What
depends on no variable and not on the time is computed once for a trajectory (its *stage* is SETUP),
what is a number is folded. Rewriting keeps values up to rounding: quotients become products with a
reciprocal, which equal denominators share, and constant factors of a product are multiplied first.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tauslab.model.expressions.expression import Call, Number
from tauslab.model.expressions.host_math import evaluate

NUMBER, SETUP, RUNNING = 0, 1, 2  # stages
COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")
LOGIC = ("and", "or", "xor", "not")
_COMMUTE = ("add", "mul")
_LARGEST_UNROLLED_POWER = 16


@dataclass(frozen=True, slots=True)
class Node:
    """`kind` is ``number``, ``input``, ``variable``, ``time`` or a function applied to nodes.

    Functions of graphs alone are ``reciprocal``, and what looks back. ``ago`` of the time and a lag
    is an earlier time; ``before`` of that, whether it is before the start; ``past:m`` of that and
    of a variable, what the variable was then; ``past_slope:m``, its rate. `m` counts such
    variables.
    """

    kind: str
    arguments: tuple[int, ...] = ()
    value: float = 0.0
    index: int = 0


class ExpressionGraph:
    """Nodes by number, in an order in which arguments come first."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.stages: list[int] = []
        self.as_written: set[int] = set()  # products that no sum absorbs
        self._numbers: dict[object, int] = {}

    def number(self, value: float) -> int:
        """A constant; NaN is one node, and so are 0 and -0 two."""
        key = ("number", repr(value))
        return self._intern(key, Node("number", value=float(value)), NUMBER)

    def input(self, index: int) -> int:
        """Value number `index` of those that differ from trajectory to trajectory."""
        return self._intern(("input", index), Node("input", index=index), SETUP)

    def variable(self, index: int) -> int:
        """Variable number `index`."""
        return self._intern(("variable", index), Node("variable", index=index), RUNNING)

    def time(self) -> int:
        """The time."""
        return self._intern("time", Node("time"), RUNNING)

    def value_of(self, node: int) -> float | None:
        """Value of a number, None for anything else."""
        result = self.nodes[node]
        return result.value if result.kind == "number" else None

    def apply(self, function: str, *arguments: int) -> int:
        """A function of `tauslab.model.expressions.expression.FUNCTIONS`, simplified."""
        values = [self.value_of(a) for a in arguments]
        known = [Number(v) for v in values if v is not None]
        if len(known) == len(arguments):
            return self.number(evaluate(Call(function, tuple(known)), {}))
        rewrite = getattr(self, f"_apply_{function}", None)
        if rewrite is not None:
            return int(rewrite(*arguments))
        return self._plain(function, *arguments)

    def write(self, function: str, *arguments: int) -> int:
        """Apply it without rewriting, so that it rounds as the expression does."""
        if all(self.value_of(a) is not None for a in arguments) or function == "pow":
            return self.apply(function, *arguments)
        node = self._plain(function, *arguments)
        self.as_written.add(node)
        return node

    def sum(self, terms: list[tuple[float, int]]) -> int:
        """Sum of nodes with factors, in the order of the terms; 0 if there are none."""
        total: int | None = None
        for factor, node in terms:
            part = self.apply("mul", self.number(abs(factor)), node)
            if total is None:
                total = self.apply("neg", part) if factor < 0 else part
            else:
                total = self.apply("sub" if factor < 0 else "add", total, part)
        return self.number(0.0) if total is None else total

    # ---------------------------------------------------------------- rewriting

    def _apply_add(self, a: int, b: int) -> int:
        if self.value_of(a) == 0.0:
            return b
        if self.value_of(b) == 0.0:
            return a
        if self.nodes[b].kind == "neg":
            return self._apply_sub(a, self.nodes[b].arguments[0])
        if self.nodes[a].kind == "neg":
            return self._apply_sub(b, self.nodes[a].arguments[0])
        return self._plain("add", a, b)

    def _apply_sub(self, a: int, b: int) -> int:
        if self.value_of(b) == 0.0:
            return a
        if self.value_of(a) == 0.0:
            return self._apply_neg(b)
        if self.nodes[b].kind == "neg":
            return self._apply_add(a, self.nodes[b].arguments[0])
        if self.nodes[a].kind == "neg":
            return self._apply_neg(self._apply_add(self.nodes[a].arguments[0], b))
        mirrored = self._numbers.get(("sub", b, a)) if a != b else None
        if mirrored is not None:  # both sides of a reversible reaction
            return self._plain("neg", mirrored)
        return self._plain("sub", a, b)

    def _apply_neg(self, a: int) -> int:
        if self.nodes[a].kind == "neg":
            return self.nodes[a].arguments[0]
        return self._plain("neg", a)

    def _apply_mul(self, a: int, b: int) -> int:
        """Product of the constant factors times product of the others."""
        (fixed_a, moving_a), (fixed_b, moving_b) = self._factors(a), self._factors(b)
        fixed = self._product(fixed_a, fixed_b)
        moving = self._product(moving_a, moving_b)
        if fixed is not None and moving is not None and self.value_of(fixed) == -1.0:
            return self._apply_neg(moving)
        product = self._product(fixed, moving)
        assert product is not None
        return product

    def _factors(self, node: int) -> tuple[int | None, int | None]:
        """The factor that does not change in a trajectory, and the rest."""
        if self.stages[node] < RUNNING:
            return node, None
        if self.nodes[node].kind == "mul":
            first, second = self.nodes[node].arguments
            if self.stages[first] < RUNNING:
                return first, second
        if self.nodes[node].kind == "neg":
            fixed, moving = self._factors(self.nodes[node].arguments[0])
            one = self.number(-1.0)
            return (one if fixed is None else self.apply("neg", fixed)), moving
        return None, node

    def _product(self, a: int | None, b: int | None) -> int | None:
        if a is None or b is None:
            return b if a is None else a
        one, other = self.value_of(a), self.value_of(b)
        if one is not None and other is not None:
            return self.number(one * other)
        if one == 1.0 or other == 1.0:
            return b if one == 1.0 else a
        return self._plain("mul", a, b)

    def _apply_div(self, a: int, b: int) -> int:
        value = self.value_of(b)
        if value is not None:
            inverse = 1.0 / value if value else math.inf
            if math.isfinite(value) and 2.0**-1000 < abs(inverse) < 2.0**1000:
                return self._apply_mul(a, self.number(inverse))
            return self._plain("div", a, b)
        return self._apply_mul(a, self._plain("reciprocal", b))

    def _apply_pow(self, a: int, b: int) -> int:
        power = self.value_of(b)
        if power == 0.5:
            return self._plain("sqrt", a)
        if power is None or not abs(power) <= _LARGEST_UNROLLED_POWER or power != int(power):
            return self._plain("pow", a, b)
        whole = self._whole_power(a, abs(int(power)))
        return whole if power >= 0 else self.apply("div", self.number(1.0), whole)

    def _whole_power(self, a: int, power: int) -> int:
        if power == 0:
            return self.number(1.0)
        if power == 1:
            return a
        half = self._whole_power(a, power // 2)
        square = self.apply("mul", half, half)
        return self.apply("mul", square, a) if power % 2 else square

    # ---------------------------------------------------------------- nodes

    def _plain(self, function: str, *arguments: int) -> int:
        if function in _COMMUTE:
            order = sorted(arguments, key=lambda node: (self.stages[node] == RUNNING, node))
            arguments = tuple(order)
        stage = max(self.stages[a] for a in arguments)
        stage = max(stage, SETUP)  # folded before, if all are numbers
        return self._intern((function, *arguments), Node(function, arguments), stage)

    def _intern(self, key: object, node: Node, stage: int) -> int:
        result = self._numbers.get(key)
        if result is None:
            result = self._numbers[key] = len(self.nodes)
            self.nodes.append(node)
            self.stages.append(stage)
        return result

    def reached(self, outputs: list[int], stage: int = RUNNING) -> list[int]:
        """Nodes of at least this stage that outputs need, arguments first."""
        seen: set[int] = set()
        order: list[int] = []
        stack = [(node, False) for node in reversed(outputs)]
        while stack:
            node, done = stack.pop()
            if done:
                order.append(node)
            elif node not in seen and self.stages[node] >= stage:
                seen.add(node)
                stack.append((node, True))
                stack.extend((a, False) for a in reversed(self.nodes[node].arguments))
        return order

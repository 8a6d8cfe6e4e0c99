"""The target, which absorbs, and the coordinate, which grows towards it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np

from tauslab.base.arrays import BoolArray, FloatArray, Int32Array
from tauslab.base.errors import ConfigError
from tauslab.base.option_names import opt
from tauslab.model.expressions.array_math import apply, evaluate_rows
from tauslab.model.expressions.expression import (
    Call,
    Expression,
    Number,
    arguments_first,
    call,
    substitute,
    symbols,
    to_text,
)
from tauslab.model.expressions.infix import as_expression
from tauslab.model.network.counts import some
from tauslab.model.network.network import Network

Values: TypeAlias = Callable[[str], FloatArray]
AsCoordinate: TypeAlias = str | Callable[[Values], FloatArray]

_CONDITIONS = ("lt", "le", "gt", "ge", "eq", "ne", "and", "or", "xor", "not")
_FALLING, _RISING = ("lt", "le"), ("gt", "ge")


@dataclass(frozen=True)
class Coordinate:
    """A function of states that is larger, the nearer they are to the target.

    Attributes
    ----------
    sign
        -1 where the coordinate falls towards the target.
    end
        Progress at the target, where the target is a bound of the coordinate; else None.
    text
        The coordinate as messages and results name it.
    held
        Amounts of species that nothing changes and that are not whole: states do not hold them.
    """

    sign: int
    end: float | None
    text: str
    _tree: Expression | None
    _function: Callable[[Values], FloatArray] | None
    _species: tuple[str, ...]
    held: Mapping[str, float] = field(default_factory=dict)

    def __call__(self, states: Int32Array) -> FloatArray:
        """Progress ``[state]`` of states ``[state, species]``.

        Raises
        ------
        ConfigError
            It is not a number in some state.
        """
        if self._tree is not None:
            found = values_of(self._tree, states, self._species)
        else:
            found = self._of_function(states)
        bad = np.flatnonzero(~np.isfinite(found))
        if len(bad):
            counts = zip(self._species, states[bad[0]].tolist(), strict=True)
            shown = [f"{name} = {self.held.get(name, count)}" for name, count in counts]
            where = ", ".join(shown[:6])
            raise ConfigError(
                f"the coordinate {self.text} is {found[bad[0]]} where {where}: it must be a finite "
                "number in every state"
            )
        return self.sign * found

    def _of_function(self, states: Int32Array) -> FloatArray:
        assert self._function is not None

        def values(name: str) -> FloatArray:
            if name not in self._species:
                raise ConfigError(f"coordinate: {name!r} is not a species; there are "
                                  f"{some(dict.fromkeys(self._species))}")  # fmt: skip
            if name in self.held:
                return np.full(len(states), self.held[name])
            return states[:, self._species.index(name)].astype(np.float64)

        result = np.asarray(self._function(values), np.float64)
        if result.shape != (len(states),):
            raise ConfigError(
                f"coordinate= gave shape {result.shape}: one number per state ({len(states)}) is "
                "needed"
            )
        return result


class Target:
    """A condition of counts at which trajectories stop, and the network in which they do.

    Every propensity becomes ``if(condition, 0, propensity)``. The condition is part of each rate
    law, so an exact trajectory ends with the very reaction that makes the condition true, whenever
    that is, and keeps that state. Whoever looks later sees the first passage; none is missed.

    Raises
    ------
    ConfigError
        The text is no condition, or names what the model does not have.
    """

    def __init__(self, network: Network, text: str, values: Mapping[str, float]) -> None:
        if not isinstance(text, str):
            raise ConfigError(
                f'target={text!r:.60} is not allowed: a condition as a text, such as "X >= 100"'
            )
        self.text = text
        self._network = network
        self._parameters = network.parameter_values(
            {n: v for n, v in values.items() if n in network.parameters}
        )
        given = {n: v for n, v in values.items() if n in network.species}
        amounts = network.initial_amounts(self._parameters, given)
        self._held = {n: amounts[n] for n in network.constant_species() if amounts[n] % 1}
        self._tree = self._known(as_expression(text), f"target {text}")
        if not (isinstance(self._tree, Call) and self._tree.function in _CONDITIONS):
            raise ConfigError(
                f'target "{text}" is not a condition of species: compare, such as "X >= 100"'
            )
        self.species = tuple(network.species)
        law = self._tree
        self.network = replace(
            network,
            reactions=[
                replace(r, law=call("if", law, 0.0, r.law), limit=None) for r in network.reactions
            ],
        )

    def reached(self, states: Int32Array) -> BoolArray:
        """Return whether each of states ``[state, species]`` is in the target."""
        return np.asarray(values_of(self._tree, states, self.species) != 0)

    def coordinate(self, coordinate: AsCoordinate | None) -> Coordinate:
        """The coordinate, by default what the target bounds.

        Raises
        ------
        ConfigError
            There is none by default, or it names what the model does not have.
        """
        if coordinate is not None and not isinstance(coordinate, str):
            if not callable(coordinate):
                raise ConfigError(
                    "coordinate= must be an expression of species, or a function of arrays"
                )
            name = getattr(coordinate, "__name__", "function")
            return Coordinate(1, None, name, None, coordinate, self.species, self._held)
        bound = self._bound()
        if coordinate is None:
            if bound is None:
                raise ConfigError(
                    f'target "{self.text}" is no bound of one quantity such as "X >= 100": give '
                    f"{opt('coordinate')}, which grows towards the target"
                )
            tree, sign, end = bound
            return Coordinate(sign, end, to_text(tree), tree, None, self.species)
        tree = self._known(as_expression(coordinate), f"coordinate {coordinate}")
        if bound is not None and bound[0] == tree:
            return Coordinate(bound[1], bound[2], coordinate, tree, None, self.species)
        return Coordinate(1, None, coordinate, tree, None, self.species)

    def _bound(self) -> tuple[Expression, int, float | None] | None:
        """The quantity that the target bounds, its sign, and progress at the target."""
        tree = self._tree
        if not isinstance(tree, Call) or tree.function not in _FALLING + _RISING:
            return None
        left, right = tree.arguments
        sign = 1 if tree.function in _RISING else -1
        if isinstance(left, Number):
            left, right, sign = right, left, -sign
        if isinstance(right, Number):
            return left, sign, sign * right.value
        return call("sub", left, right), sign, 0.0

    def _known(self, tree: Expression, where: str) -> Expression:
        """The tree in terms of species and numbers."""
        network = self._network
        tree = substitute(tree, network.rule_expressions())
        parameters = self._parameters
        unknown = symbols(tree) - network.species.keys() - parameters.keys()
        if unknown:
            raise ConfigError(
                f"{where}: {min(unknown)!r} is neither a species nor a parameter of "
                f"{network.name}; it has {some(network.species)}"
            )
        numbers = parameters | self._held
        return _folded(substitute(tree, {n: Number(v) for n, v in numbers.items()}))


def _folded(tree: Expression) -> Expression:
    """The tree, where what holds no species is one number."""
    built: dict[int, Expression] = {}
    for node in arguments_first(tree):
        if not isinstance(node, Call):
            built[id(node)] = node
            continue
        inside = tuple(built[id(part)] for part in node.arguments)
        numbers = [part.value for part in inside if isinstance(part, Number)]
        if len(numbers) == len(inside):
            built[id(node)] = Number(float(apply(node.function, *numbers)))
        else:
            built[id(node)] = Call(node.function, inside)
    return built[id(tree)]


def values_of(tree: Expression, states: Int32Array, species: tuple[str, ...]) -> FloatArray:
    """Value f64 ``[state]`` of an expression of species in each of states ``[state, species]``."""
    return evaluate_rows(
        tree, len(states), lambda name: states[:, species.index(name)].astype(np.float64)
    )

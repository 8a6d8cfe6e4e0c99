"""Decides properties of trajectories on the fly, while their samples come in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tauslab.base.errors import ConfigError
from tauslab.model.expressions.array_math import apply
from tauslab.model.expressions.expression import Expression, Number, Symbol
from tauslab.model.network.properties import And, Atom, Not, Or, Property, horizon, quantities

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]


class Monitor:
    """Decides a property at the first sample time of some trajectories, as early as can be.

    Between samples a trajectory keeps its last sample; a window takes in the samples in it and the
    one that holds where it begins. A comparison with a value that is not a number is false.

    Parameters
    ----------
    times
        All sample times ``[time]``.
    names
        Quantities that trajectories have.

    Raises
    ------
    ConfigError
        The property looks beyond the last sample time, or reads a quantity that is not there.
    """

    def __init__(self, formula: Property, times: FloatArray, names: Mapping[str, Any]) -> None:
        ahead = float(times[0]) + horizon(formula)
        if ahead > times[-1] * (1 + 1e-12):
            raise ConfigError(
                f"the property looks to t = {ahead:g}, but trajectories end at t = {times[-1]:g}"
            )
        for name in sorted(quantities(formula)):
            if name not in names:
                raise ConfigError(
                    f"the property reads {name!r}, which trajectories do not have; "
                    f"they have {', '.join(names)}"
                )
        self._formula, self._times = formula, np.asarray(times, np.float64)
        self._atoms = {atom: index for index, atom in enumerate(_atoms(formula))}
        self._truth: npt.NDArray[np.int8] | None = None
        self._seen = 0

    def push(self, values: Mapping[str, npt.NDArray[Any]]) -> npt.NDArray[np.int8]:
        """Take the next samples, ``[trajectory]`` of each quantity.

        Returns
        -------
        For each trajectory 1 if the property holds, 0 if not, -1 while this is open.
        """
        for atom, index in self._atoms.items():
            found = np.atleast_1d(_value(atom.comparison, values)).astype(np.int8)
            if self._truth is None:
                shape = (len(self._atoms), len(found), len(self._times))
                self._truth = np.full(shape, -1, np.int8)
            self._truth[index, :, self._seen] = found
        self._seen += 1
        return self.verdicts()

    def verdicts(self) -> npt.NDArray[np.int8]:
        """The decisions so far, as `push` returns them."""
        if self._truth is None:
            return np.zeros(0, np.int8)
        holds, fails = (array[:, 0] for array in self._evaluate(self._formula))
        return np.where(holds, 1, np.where(fails, 0, -1)).astype(np.int8)

    def _evaluate(self, formula: Property) -> tuple[BoolArray, BoolArray]:
        """Masks where a formula surely holds, and surely fails: ``[trajectory, time]``."""
        assert self._truth is not None
        if isinstance(formula, Atom):
            truth = self._truth[self._atoms[formula]]
            return truth == 1, truth == 0
        if isinstance(formula, Not):
            holds, fails = self._evaluate(formula.inner)
            return fails, holds
        right = self._evaluate(formula.right)
        if formula.left is None:
            always = np.ones_like(right[0])
            left = (always, ~always)
        else:
            left = self._evaluate(formula.left)
        if isinstance(formula, And):
            return left[0] & right[0], left[1] | right[1]
        if isinstance(formula, Or):
            return left[0] | right[0], left[1] & right[1]
        return self._until(left, right, formula.begin, formula.end)

    def _until(
        self,
        left: tuple[BoolArray, BoolArray],
        right: tuple[BoolArray, BoolArray],
        begin: float,
        end: float,
    ) -> tuple[BoolArray, BoolArray]:
        times = self._times
        slack = 1e-9 * (times[-1] - times[0]) / max(1, len(times) - 1)
        first = np.searchsorted(times, times + begin + slack, side="right") - 1
        last = np.searchsorted(times, times + end + slack, side="right") - 1
        # Beyond the last sample nothing is known, and never will be: such places are not asked for.
        beyond = times + end > times[-1] + slack
        # `right` must hold no later than where `left` first is not sure to hold, or surely fails.
        holds = _any_within(right[0], first, np.minimum(last, _first_from(~left[0])))
        reach = np.minimum(last, _first_from(left[1]))
        fails = ~_any_within(~right[1], first, reach)
        return holds, fails & ~beyond


def _any_within(
    where: BoolArray, first: npt.NDArray[np.int64], last: npt.NDArray[np.int64]
) -> BoolArray:
    """Whether `where` holds at any place from `first` to `last`; places ``[..., time]``."""
    sums = np.zeros((where.shape[0], where.shape[1] + 1), np.int64)
    np.cumsum(where, axis=1, out=sums[:, 1:])
    first = np.broadcast_to(first, where.shape)
    last = np.broadcast_to(last, where.shape)
    upper = np.take_along_axis(sums, last + 1, axis=1)
    found: BoolArray = (last >= first) & (upper > np.take_along_axis(sums, first, axis=1))
    return found


def _first_from(where: BoolArray) -> npt.NDArray[np.int64]:
    """Number of the first place from each on where it holds; one past the last if there is none."""
    size = where.shape[1]
    places = np.where(where, np.arange(size), size)
    return np.minimum.accumulate(places[:, ::-1], axis=1)[:, ::-1]


def _atoms(formula: Property) -> list[Atom]:
    if isinstance(formula, Atom):
        return [formula]
    if isinstance(formula, Not):
        return _atoms(formula.inner)
    left = [] if formula.left is None else _atoms(formula.left)
    return list(dict.fromkeys(left + _atoms(formula.right)))


def _value(tree: Expression, values: Mapping[str, npt.NDArray[Any]]) -> Any:
    """Value of an expression for all trajectories."""
    if isinstance(tree, Number):
        return tree.value
    if isinstance(tree, Symbol):
        return values[tree.name]
    return apply(tree.function, *(_value(argument, values) for argument in tree.arguments))

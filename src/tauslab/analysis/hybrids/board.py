"""Quantities that parts of a hybrid exchange: tables ``[cell, quantity]`` now, over time, in pools.

Places in tables are found once, so that an exchange copies columns, whatever their number.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from tauslab.analysis.hybrids.formulas import Formulas, taken
from tauslab.analysis.hybrids.hybrid import Hybrid
from tauslab.analysis.hybrids.ledger import MOST_UNITS, Columns, Ledger, columns_of
from tauslab.analysis.hybrids.links import Formula, Quantity, matching
from tauslab.analysis.hybrids.parts import PartModel, Reading, Watch, rates_of
from tauslab.base.arrays import BoolArray, FloatArray, IntArray
from tauslab.base.errors import ConfigError
from tauslab.model.expressions.array_math import evaluate_rows
from tauslab.model.expressions.expression import Expression, symbols
from tauslab.store.state import State

Key: TypeAlias = tuple[str, str]
_MOST_COUNT = 2**31 - 1
_ALIKE = 1e-3  # relative: amounts so near each other are the same


@dataclass
class Course:
    """Quantities of a part that other parts read, at the ends of its steps.

    `ticks` are half ticks; `integrals` and `values` are f64 ``[cell, name]`` at each.
    """

    ticks: list[int] = field(default_factory=list)
    integrals: list[FloatArray] = field(default_factory=list)
    values: list[FloatArray] = field(default_factory=list)

    def add(self, tick: int, integral: FloatArray, values: FloatArray) -> None:
        """Add the end of a step."""
        self.ticks.append(tick)
        self.integrals.append(integral)
        self.values.append(values)

    def forget(self, tick: int) -> None:
        """Leave out what is before the last entry at `tick` or before."""
        first = max(0, bisect_right(self.ticks, tick) - 1)
        for own in (self.ticks, self.integrals, self.values):
            del own[:first]

    def over(
        self, columns: Columns, start: int, end: int, how: str, tick: float
    ) -> FloatArray | None:
        """Means, or values at one end, from `start` to `end`; None where the end is not known.

        An end within a step of the part divides the integral of the step by time, so that means
        over intervals that follow each other add up; values are those at the step's outer end.
        """
        if not self.ticks or self.ticks[-1] < end:
            return None
        first, last = bisect_right(self.ticks, start) - 1, bisect_left(self.ticks, end)
        if how != "mean":
            return taken(self.values[first if how == "start" else last], columns)
        whole = self._integral(columns, end) - self._integral(columns, start)
        result: FloatArray = whole / ((end - start) * tick / 2)
        return result

    def _integral(self, columns: Columns, tick: int) -> FloatArray:
        """Integrals to a tick."""
        before = bisect_right(self.ticks, tick) - 1
        result = taken(self.integrals[before], columns)
        if past := tick - self.ticks[before]:
            step = self.ticks[before + 1] - self.ticks[before]
            result = result + (taken(self.integrals[before + 1], columns) - result) * (past / step)
        return result


@dataclass(frozen=True)
class _Shared:
    """Quantities of a part that belong to pools: `Watch.shared`.

    `twice` are columns of the part that hold one of them again, and which one.
    """

    pools: Columns
    whole: BoolArray
    twice: tuple[IntArray, IntArray]
    scaled: tuple[Key, ...]


class Board:
    """Quantities that parts exchange.

    Attributes
    ----------
    now
        f64 ``[cell, Watch.read]`` by part, after its last step.
    held
        f64 ``[cell, Watch.driven]`` by part, as it was last given.
    alive
        Cells that have not ended, bool ``[cell]``.
    origin
        Cell of t = 0 whose parameters each cell has, int64 ``[cell]``.
    overflowed
        Names of quantities that passed what a pool or a part can hold, where cells ended.
    """

    def __init__(self, hybrid: Hybrid, watches: Mapping[str, Watch], n: int, tick: float) -> None:
        self.hybrid, self.n, self.tick, self.watches = hybrid, n, tick, watches
        self.alive: BoolArray = np.ones(n, bool)
        self.origin: IntArray = np.arange(n)
        self.overflowed: dict[str, None] = {}
        self.now: dict[str, FloatArray] = {}
        self.volumes: Callable[[Quantity], FloatArray]  # of lattices, ``[cell]``
        self.courses = {name: Course() for name in watches}
        self.pool_of, self._scales = pools_of(hybrid)
        self._number = {pool: i for i, pool in enumerate(dict.fromkeys(self.pool_of.values()))}
        self.ledger: Ledger
        self._given: dict[Key, FloatArray] = {}
        self._computed: dict[Key, Expression] = {}
        self.held = {name: self._take_parameters(made) for name, made in hybrid.parts.items()}
        self._shared = {name: self._shared_of(name) for name in watches}
        self._volumes: dict[str, tuple[list[int], Inputs]] = {}
        self._fixed: dict[str, FloatArray] = {}  # `_scale` where it does not change
        # The part that makes a step, what it reads of others, and the ends of the step.
        self.stepping: tuple[str, Callable[[str], str | None], int, int] | None = None

    def _take_parameters(self, made: PartModel) -> FloatArray:
        """Take values of parameters of a part; those that follow formulas ``[cell, driven]``."""
        name, n, driven = made.name, self.n, self.watches[made.name].driven
        known: dict[str, Any] = {**made.parameters, **made.options.get("set", {})}
        known |= rates_of(made, self.hybrid.rates.get(name, {}))
        if made.is_function:
            known |= {one: made.options["values"][one] for one in driven}
        rows = {one: np.broadcast_to(np.asarray(v, float), (n,)) for one, v in known.items()}
        self._given |= {(name, one): row for one, row in rows.items()}
        self._computed |= {
            (name, one): tree for one, tree in made.computed.items() if one not in driven
        }
        return np.stack([rows[one] for one in driven], axis=1) if driven else np.zeros((n, 0))

    def _shared_of(self, name: str) -> _Shared:
        watch, made = self.watches[name], self.hybrid.parts[name]
        keys = [(name, one) for one in watch.shared]
        twice = [
            (len(keys) + place, watch.shared.index(one))
            for place, one in enumerate(watch.followed)
            if one in watch.shared
        ]
        columns, members = np.array(twice, np.int64).reshape(-1, 2).T
        return _Shared(
            columns_of([self.number(key) for key in keys]),
            np.array([made.whole(one) for one in watch.shared], bool),
            (columns, members), tuple(key for key in keys if key in self._scales),
        )  # fmt: skip

    @property
    def pools(self) -> dict[Key, int]:
        """Numbers of pools by their first members."""
        return dict(self._number)

    def number(self, key: Key) -> int:
        """The number of the pool to which a quantity belongs."""
        return self._number[self.pool_of[key]]

    def open_pools(self) -> None:
        """Begin each pool with what its first member has now."""
        parts, size = self.hybrid.parts, len(self._number)
        real, start = np.zeros(size, bool), np.zeros((self.n, size))
        for part, name in self.pool_of:
            real[self.number((part, name))] |= not parts[part].whole(name)
        for (part, name), number in self._number.items():
            start[:, number] = self.now[part][:, self.watches[part].shared.index(name)]
        for key, number in self._number.items():
            if (most := float(np.abs(start[:, number]).max(initial=0.0))) >= MOST_UNITS:
                raise ConfigError(
                    f"the pool of {'.'.join(key)} begins with {most:g} units, and holds less than "
                    f"{MOST_UNITS:g}: share it in a larger unit"
                )
        billed = {
            self.number((pool.part, pool.name))
            for bill in self.hybrid.bills
            if bill.sign > 0
            for pool in bill.amounts
        }
        self.ledger = Ledger(start, real, np.array(sorted(billed), np.int64))
        for name, shared in self._shared.items():
            if shared.scaled:
                scales = [self._scales[key] for key in shared.scaled]
                places = [self.watches[name].shared.index(one) for _, one in shared.scaled]
                self._volumes[name] = places, Inputs(self, scales)
                if not any(one.quantities for one in scales):
                    self._fixed[name] = self._scale(name)

    def begun_otherwise(self) -> list[str]:
        """Sentences on amounts that members of pools had beside their pool's, unless they are 0.

        Less than a unit of a pool with a member in counts is rounding.
        """
        result = []
        places = {key: self.watches[key[0]].shared.index(key[1]) for key in self.pool_of}
        counted = {
            pool for key, pool in self.pool_of.items() if self._shared[key[0]].whole[places[key]]
        }
        for (part, name), key_of_pool in self.pool_of.items():
            place = places[part, name]
            own, pool = self.now[part][:, place], self.seen(part)[:, place]
            apart = np.abs(own - pool) > np.maximum(_ALIKE * np.abs(pool), _ALIKE)
            if key_of_pool in counted:
                units = self._scale(part)[:, place] if part in self._volumes else 1.0
                apart &= np.abs(own - pool) * units >= 1
            if (which := np.flatnonzero(apart & (own != 0))).size:
                first = which[0]
                result.append(
                    f"{part}.{name} begins with the {pool[first]:g} of its pool, and not with the "
                    f"{own[first]:g} of its model"
                )
        return result

    # ---------------------------------------------------------------- values

    def parameter(self, part: str, name: str) -> FloatArray:
        """A parameter ``[cell]``, as it was given or follows from others."""
        if name in self.watches[part].driven:
            return self.held[part][:, self.watches[part].driven.index(name)]
        tree = self._computed.get((part, name))
        if tree is None:
            return self._given[part, name][self.origin]
        return evaluate_rows(tree, self.n, lambda one: self.parameter(part, one))

    def follows(self, part: str, name: str) -> bool:
        """Return whether a parameter changes during the run."""
        if name in self.watches[part].driven or np.ptp(self._given.get((part, name), 0)):
            return True  # of a daughter in the place of another cell
        tree = self._computed.get((part, name))
        return tree is not None and any(self.follows(part, one) for one in sorted(symbols(tree)))

    def moment(self, part: str, columns: Columns, shared: tuple[IntArray, IntArray]) -> FloatArray:
        """Values now ``[cell, column]``; of columns that are `shared`, as their pools have them."""
        table = taken(self.now[part], columns)
        to, members = shared
        if len(to):
            table = table.copy()
            table[:, to] = self.seen(part)[:, members]
        return table

    def _with_shared(self, part: str, seen: FloatArray) -> FloatArray:
        if seen.shape == self.now[part].shape:  # nothing else is read
            return seen
        table = self.now[part].copy()
        columns, members = self._shared[part].twice
        table[:, : seen.shape[1]] = seen
        table[:, columns] = seen[:, members]
        return table

    def seen(self, part: str) -> FloatArray:
        """Amounts of pools ``[cell, Watch.shared]``, in the units of a part."""
        shared = self._shared[part]
        result = self.ledger.seen(shared.pools, shared.whole)
        return result / self._scale(part) if part in self._volumes else result

    def _scale(self, part: str) -> FloatArray:
        """Units of pools for one unit of a part, ``[cell, Watch.shared]``.

        During a step of the part they follow from the values that the part reads of others, so that
        what it receives and what is booked agree, and a changing volume is that of the whole step.
        """
        if part in self._fixed:
            return self._fixed[part]
        how: tuple[Callable[[str], str | None], int, int] = (lambda _: None, 0, 0)
        if self.stepping is not None and self.stepping[0] == part:
            how = self.stepping[1:]
        result = np.ones((self.n, len(self.watches[part].shared)))
        places, inputs = self._volumes[part]
        scales = inputs.values(*how)
        wrong = self.alive[:, None] & ~(np.isfinite(scales) & (scales > 0))
        if wrong.any():
            number = int(wrong.any(axis=0).argmax())
            key = self._shared[part].scaled[number]
            value = scales[wrong[:, number], number][0]
            raise ConfigError(
                f"share with {'.'.join(key)}: volume= {self._scales[key].text} is {value:g}; it "
                "must be above 0"
            )
        result[:, places] = np.where(self.alive[:, None], scales, 1.0)
        return result

    # ---------------------------------------------------------------- steps

    def shared_anew(self, part: str, which: BoolArray | None = None) -> FloatArray | None:
        """Shares of pools for a part ``[cell, Watch.shared]``; None if the part has them.

        `which` cells are looked at; the others keep what they have.
        """
        if not self.watches[part].shared:
            return None
        held = self.now[part][:, : len(self.watches[part].shared)]
        seen = self.seen(part)
        seen = seen if which is None else np.where(which[:, None], seen, held)
        whole = self._shared[part].whole
        if whole.any() and not seen.max(initial=0.0) <= _MOST_COUNT:  # nor where one is NaN
            over = (seen > _MOST_COUNT) & whole
            self._end(over, [(part, name) for name in self.watches[part].shared])
            seen = np.where(over, held, seen)
        if (seen == held).all():
            return None
        self.now[part] = self._with_shared(part, seen)
        return seen

    def settle(self) -> None:
        """Let all pools pay what they owe, and end cells with pools that overflowed."""
        ledger = self.ledger
        ledger.settle()
        if ledger.overflowed.any():
            over, ledger.overflowed = ledger.overflowed, np.zeros_like(ledger.overflowed)
            self._end(over, list(self._number))

    def _end(self, over: BoolArray, keys: list[Key]) -> None:
        """End cells in which quantities overflowed, ``[cell, key]``."""
        new = (over & self.alive[:, None]).any(axis=0).tolist()
        self.overflowed |= dict.fromkeys(".".join(keys[place]) for place in np.flatnonzero(new))
        self.alive &= ~np.asarray(over.any(axis=1))

    def look(self, part: str, reading: Reading, alive: BoolArray) -> None:
        """Take the values of a part; of a cell that has ended they stay as they were."""
        self.alive &= alive
        values = reading.values
        if part in self.now and not self.alive.all():
            values = np.where(self.alive[:, None], values, self.now[part])
        self.now[part] = values

    def take_values(self, part: str, values: FloatArray) -> None:
        """Take the values of a part that changed between its steps, such as counts in regions."""
        self.now[part] = np.where(self.alive[:, None], values, self.now[part])

    def book(self, part: str, before: FloatArray) -> None:
        """Add to pools what a part changed since it had the values `before`."""
        shared = self._shared[part]
        size = len(shared.whole)
        if size:
            change, scaled = self.now[part][:, :size] - before[:, :size], part in self._volumes
            change = change * self._scale(part) if scaled else change
            if not self.alive.all():
                change = np.where(self.alive[:, None], change, 0.0)
            whole_ones = bool(shared.whole.all()) and not scaled
            self.ledger.add(change, shared.pools, whole_ones=whole_ones)

    def follow(self, part: str, before: FloatArray, reading: Reading, end: int, took: int) -> None:
        """Keep what others read: integrals that a part has, or the mean of both ends."""
        watch, time_course = self.watches[part], self.courses[part]
        if not watch.followed:
            return
        first = len(watch.shared)
        values, known = self.now[part][:, first:], reading.integrals
        if known is None:
            known = time_course.integrals[-1] + (before[:, first:] + values) * (
                took * self.tick / 4
            )
        if not self.alive.all():
            known = np.where(self.alive[:, None], known, time_course.integrals[-1])
        time_course.add(end, known, values)

    def take(self, index: IntArray) -> None:
        """Make cell i a copy of cell ``index[i]``; the ledger has its own."""
        self.origin = self.origin[index]
        for tables in (self.now, self.held):
            for part, table in tables.items():
                tables[part] = table[index]
        for time_course in self.courses.values():
            time_course.integrals = [one[index] for one in time_course.integrals]
            time_course.values = [one[index] for one in time_course.values]

    def restart_series(self, part: str, values: FloatArray) -> None:
        """Take the values of a part in which cells divided, for those who read the present too."""
        self.take_values(part, values)
        shared = self.watches[part].shared
        table = self._with_shared(part, self.seen(part)) if shared else self.now[part]
        self.courses[part].values[-1] = table[:, len(shared) :]

    def start_series(self) -> None:
        """Begin with values now."""
        for part, time_course in self.courses.items():
            values = self.now[part][:, len(self.watches[part].shared) :]
            time_course.add(0, np.zeros_like(values), values)

    # ---------------------------------------------------------------- keeping

    def stored(self, part: str) -> dict[str, Any]:
        """Return the values of a part, as arrays by name."""
        course = self.courses[part]
        return {
            "now": self.now[part], "given": self.held[part],
            "ticks": np.array(course.ticks, np.int64), "integrals": np.array(course.integrals),
            "values": np.array(course.values),
        }  # fmt: skip

    def take_up(self, part: str, state: State) -> None:
        """Go on from what `stored` gave."""
        watch, n, time_course = self.watches[part], self.n, self.courses[part]
        self.now[part] = state.take("now", np.float64, n, len(watch.read))
        self.held[part] = state.take("given", np.float64, n, len(watch.driven))
        time_course.ticks = state.take("ticks", np.int64, None).tolist()
        shape = (len(time_course.ticks), n, len(watch.followed))
        time_course.integrals = list(state.take("integrals", np.float64, *shape))
        time_course.values = list(state.take("values", np.float64, *shape))


class Inputs:
    """Values of formulas, with the table of quantities that they read."""

    def __init__(self, board: Board, formulas: Sequence[Formula]) -> None:
        self._board = board
        read = dict.fromkeys(q for one in formulas for q in one.quantities.values())
        sums = {q: _names_in(board.hybrid, q) for q in read if _is_sum(q)}
        single = dict.fromkeys(m for q in read for m in _names_in(board.hybrid, q))
        places = {q: place for place, q in enumerate((*single, *sums))}
        self._table = np.empty((board.n, len(places)))
        self._sums = [(places[q], columns_of([places[m] for m in own])) for q, own in sums.items()]
        self._parameters: list[tuple[int, Quantity]] = []
        self._volumes: list[tuple[int, Quantity]] = []
        reads: dict[str, list[tuple[int, str]]] = {}
        for quantity, place in places.items():
            made = board.hybrid.parts[quantity.part]
            if quantity in sums:
                continue
            if quantity.inside is not None:
                self._volumes.append((place, quantity))
            elif made.has(quantity.name):
                reads.setdefault(quantity.part, []).append((place, quantity.name))
            elif board.follows(quantity.part, quantity.name):
                self._parameters.append((place, quantity))
            else:
                self._table[:, place] = board.parameter(quantity.part, quantity.name)
        self._reads = [
            (part, columns_of([place for place, _ in own]), *_places(board.watches[part], own))
            for part, own in reads.items()
        ]
        self._formulas = Formulas(formulas, places, board.n)

    def values(self, how: Callable[[str], str | None], start: int, end: int) -> FloatArray:
        """Values ``[cell, formula]`` from `start` to `end`.

        `how` tells of a part whether means, or values at one end, are read where they are known;
        None: values of the moment.
        """
        board, table = self._board, self._table
        for part, to, columns, shared, of_course in self._reads:
            over = how(part)
            result = None
            if over is not None:
                result = board.courses[part].over(of_course, start, end, over, board.tick)
            table[:, to] = board.moment(part, columns, shared) if result is None else result
        for place, quantity in self._parameters:
            table[:, place] = board.parameter(quantity.part, quantity.name)
        for place, quantity in self._volumes:
            table[:, place] = board.volumes(quantity)
        for place, columns in self._sums:
            # One after the other, from 0 on: on every machine and for any number of cells.
            table[:, place] = np.add.accumulate(taken(table, columns), axis=1)[:, -1] + 0.0
        return self._formulas.evaluate(table)


def _places(
    watch: Watch, own: Sequence[tuple[int, str]]
) -> tuple[Columns, tuple[IntArray, IntArray], Columns]:
    """Columns of quantities now, which of them are shared, and columns in the course of a part."""
    now = {name: place for place, name in reversed(list(enumerate(watch.read)))}
    time_course = {name: place for place, name in enumerate(watch.followed)}
    columns = [now[name] for _, name in own]
    shared = [(to, place) for to, place in enumerate(columns) if place < len(watch.shared)]
    to, members = np.array(shared, np.int64).reshape(-1, 2).T
    return columns_of(columns), (to, members), columns_of([time_course[name] for _, name in own])


def _is_sum(one: Quantity) -> bool:
    return one.inside is not None and one.name == "sum"


def _names_in(hybrid: Hybrid, one: Quantity) -> list[Quantity]:
    """Quantities that a sum adds up; of any other quantity itself."""
    if not _is_sum(one):
        return [one]
    assert one.inside is not None
    return [Quantity(one.part, n) for n in matching(one.inside, hybrid.parts[one.part].quantities)]


def followed_by(hybrid: Hybrid, part: str) -> tuple[str, ...]:
    """Quantities of a part that formulas of others read."""
    formulas = [one.formula for one in hybrid.drives]
    formulas += [one.volume for one in hybrid.shares if one.volume is not None]
    formulas += [each for one in hybrid.shapes.values() for each in one.formulas.values()]
    formulas += [hybrid.dividing.when] if hybrid.dividing is not None else []
    read = (q for one in formulas for q in one.quantities.values() if q.part == part)
    names = (one.name for q in read for one in _names_in(hybrid, q))
    known = hybrid.parts[part].quantities
    return tuple(dict.fromkeys(name for name in names if name in known))


def pools_of(hybrid: Hybrid) -> tuple[dict[Key, Key], dict[Key, Formula]]:
    """The first member of its pool by member, and units of the pool for one of a member."""
    pools: dict[Key, Key] = {}
    scales: dict[Key, Formula] = {}

    def first(key: Key) -> Key:
        return pools.setdefault(key, key)

    for share in hybrid.shares:
        a, b = first(_key(share.first)), _key(share.second)
        if _key(share.first) in scales or (share.volume and b in pools):
            raise ConfigError(
                f"{share}: share with the species whose units the pool has, {'.'.join(a)}"
            )
        if share.volume is not None:
            scales[b] = share.volume
        old = first(b)
        pools = {k: a if v == old else v for k, v in pools.items()}
    for bill in hybrid.bills:
        for pool in map(_key, bill.amounts):
            if (unit := first(pool)) != pool and pool in scales:
                raise ConfigError(
                    f"{bill}: bill the species whose units the pool has, {'.'.join(unit)}"
                )
    _require_clear(pools, scales)
    return pools, scales


def _require_clear(pools: Mapping[Key, Key], scales: Mapping[Key, Formula]) -> None:
    """Refuse two species of a part in one pool, and volumes that follow from each other."""
    places = [(part, pool) for (part, _), pool in pools.items()]
    for (part, name), pool in pools.items():
        if places.count((part, pool)) > 1:
            raise ConfigError(f"{part}.{name} shares a pool with another species of part {part}")
    for key, volume in scales.items():
        for one in volume.quantities.values():
            if _key(one) in scales:
                raise ConfigError(
                    f"share with {'.'.join(key)}: volume= reads {one}, which is shared with a "
                    "volume too: read the species whose units its pool has"
                )


def _key(quantity: Quantity) -> Key:
    return quantity.part, quantity.name

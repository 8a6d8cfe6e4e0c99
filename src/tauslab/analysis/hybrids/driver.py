"""Runs a hybrid: who steps when, what a part is given before a step, what comes of it after."""

from __future__ import annotations

import hashlib
import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tauslab.analysis.hybrids.clock import (
    Interval,
    edges_of,
    groups_of,
    require_end,
    sample_count,
    split,
    ticks_of,
)
from tauslab.analysis.hybrids.hybrid import Hybrid
from tauslab.analysis.hybrids.ledger import Pool
from tauslab.analysis.hybrids.links import Drive, Formula, Quantity, Shaping, matching
from tauslab.analysis.hybrids.parts import Part, PartModel, Watch, rates_of, started
from tauslab.base.arrays import BoolArray, FloatArray
from tauslab.base.errors import ConfigError
from tauslab.base.host import require_memory
from tauslab.model.expressions.array_math import evaluate_rows
from tauslab.model.expressions.expression import Expression
from tauslab.store.state import State

Key = tuple[str, str]


def seed_of(seed: int, part: str) -> int:
    """The seed of a part, of that of the hybrid: other parts change nothing of it."""
    digest = hashlib.sha256(f"{seed} {part}".encode()).digest()
    return int.from_bytes(digest[:8], "little")


@dataclass
class Course:
    """Quantities of a part that other parts read, at the ends of its steps.

    `ticks` are half ticks; `integrals` and `values` are f64 ``[cell, name]`` at each.
    """

    names: tuple[str, ...]
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

    def over(self, name: str, start: int, end: int, how: str, tick: float) -> FloatArray | None:
        """Mean, or value at one end, from `start` to `end`; None where the end is not known."""
        if not self.ticks or self.ticks[-1] < end:
            return None
        column = self.names.index(name)
        first, last = bisect_right(self.ticks, start) - 1, bisect_left(self.ticks, end)
        if how != "mean":
            return self.values[first if how == "start" else last][:, column]
        took = (self.ticks[last] - self.ticks[first]) * tick / 2
        made: FloatArray = (self.integrals[last] - self.integrals[first])[:, column] / took
        return made


class HybridRun:
    """n cells of a hybrid on their way.

    Parameters
    ----------
    halvings
        How often the tick is halved.
    """

    def __init__(
        self, hybrid: Hybrid, *, n: int, seed: int, t_end: float, splitting: str,
        device: Any = "auto", comm: Any = "world", halvings: int = 0,
    ) -> None:  # fmt: skip
        self.hybrid, self.n, self.splitting = hybrid, n, splitting
        self.tick = hybrid.tick / 2**halvings
        self.intervals: dict[str, Interval] = hybrid.intervals(halvings)
        self.end = require_end(t_end, self.tick, self.intervals)
        self._between = {name: self._half_ticks(one) for name, one in hybrid.shapes.items()}
        self.groups = groups_of(self.intervals, edges_of(hybrid.acting()))
        self.alive: BoolArray = np.ones(n, bool)
        self.not_finite: dict[str, None] = {}  # drives that were at times, and left what was
        self._reached = [0] * len(self.groups)
        self._home = {name: i for i, one in enumerate(self.groups) for name in one.parts}
        self._drives: dict[str, list[Drive]] = {name: [] for name in hybrid.parts}
        for one in hybrid.drives:
            self._drives[one.part].append(one)
        self._watched = _followed(hybrid)
        self.parts: dict[str, Part] = {}
        try:
            for name, made in hybrid.parts.items():
                watch = _watch(hybrid, made, self._watched[name])
                self.parts[name] = started(
                    made, n, watch, seed=seed_of(seed, name), device=device, comm=comm
                )
            self._begin()
        except BaseException:
            self.close()
            raise

    def _half_ticks(self, shaping: Shaping) -> int:
        """Half ticks between two shapes of a part."""
        found = 2 * ticks_of(shaping.every, self.tick, f"shape of {shaping.part}: every=")
        if found % self.intervals[shaping.part].step:
            raise ConfigError(
                f"shape of {shaping.part}: every= {shaping.every:g} is not a whole multiple of the "
                "interval of the part"
            )
        return found

    def _begin(self) -> None:
        """Take the state at t = 0."""
        n, parts = self.n, self.hybrid.parts
        self._given: dict[Key, FloatArray] = {}  # what parameters of parts were last given
        self._computed: dict[Key, Expression] = {}  # formulas of parameters that follow those
        for name, made in parts.items():
            known: dict[str, Any] = {**made.parameters, **made.options.get("parameters", {})}
            known |= rates_of(made, self.hybrid.rates.get(name, {}))
            known |= {one.name: made.options["values"][one.name] for one in self._drives[name]
                      if made.is_function}  # fmt: skip
            for parameter, value in known.items():
                self._given[name, parameter] = np.broadcast_to(np.asarray(value, float), (n,))
            driven = {one.name for one in self._drives[name]}
            self._computed |= {
                (name, one): tree for one, tree in made.computed.items() if one not in driven
            }
        self._now: dict[Key, FloatArray] = {}
        self._pools: dict[Key, Pool] = {}
        self._scales: dict[Key, Formula] = {}
        self._members: dict[str, list[str]] = {name: [] for name in parts}
        self._join_pools()
        self._read = {
            name: tuple(dict.fromkeys([*self._members[name], *self._watched[name]]))
            for name in parts
        }
        self._courses = {name: Course(self._watched[name]) for name in parts}
        for name in parts:
            self._look(name)
        self._fill_pools()
        for name, course in self._courses.items():
            if course.names:
                values = self._columns(name, course.names)
                course.add(0, np.zeros_like(values), values)
        self._open_series()

    # ---------------------------------------------------------------- pools

    def _join_pools(self) -> None:
        """Find which quantities are one pool."""
        self._one_pool: dict[Key, Key] = {}  # the first of its pool, by member

        def first(key: Key) -> Key:
            return self._one_pool.setdefault(key, key)

        for share in self.hybrid.shares:
            a, b = first(_key(share.first)), _key(share.second)
            if _key(share.first) in self._scales or (share.volume and b in self._one_pool):
                raise ConfigError(
                    f"{share}: share with the species whose units the pool has, {'.'.join(a)}"
                )
            if share.volume is not None:
                self._scales[b] = share.volume
            old = first(b)
            self._one_pool = {k: a if v == old else v for k, v in self._one_pool.items()}
        for bill in self.hybrid.bills:
            for pool in bill.amounts:
                if (unit := first(_key(pool))) != _key(pool) and _key(pool) in self._scales:
                    raise ConfigError(
                        f"{bill}: bill the species whose units the pool has, {'.'.join(unit)}"
                    )
        for part, name in self._one_pool:
            self._members[part].append(name)

    def _fill_pools(self) -> None:
        """Begin each pool with what its first member has."""
        members: dict[Key, list[Key]] = {}
        for key, pool in self._one_pool.items():
            members.setdefault(pool, []).append(key)
        for pool, own in members.items():
            made = self.hybrid.parts
            real = any(not made[part].whole(name) for part, name in own)
            units = self._now[pool] * self._scale(pool)
            self._pools[pool] = Pool(units, real=real)

    def _scale(self, key: Key) -> FloatArray | float:
        """Units of the pool for one unit of a member."""
        formula = self._scales.get(key)
        if formula is None:
            return 1.0
        found = formula.evaluate(self.n, self._value)
        wrong = self.alive & ~(np.isfinite(found) & (found > 0))
        if wrong.any():
            raise ConfigError(
                f"share with {'.'.join(key)}: volume= {formula.text} is {found[wrong][0]:g}; it "
                "must be above 0"
            )
        return np.where(self.alive, found, 1.0)

    def _seen(self, key: Key) -> FloatArray:
        """The amount of a pool that a part reads."""
        pool = self._pools[self._one_pool[key]]
        whole = self.hybrid.parts[key[0]].whole(key[1])
        found: FloatArray = pool.seen(whole=whole) / self._scale(key)
        return found

    # ---------------------------------------------------------------- values

    def _look(self, name: str) -> None:
        """Read what others use of a part; of a cell that has ended it stays as it was."""
        names = self._read[name]
        table = self.parts[name].values(names)
        self.alive &= self.parts[name].alive
        for column, quantity in enumerate(names):
            before = self._now.get((name, quantity))
            values = table[:, column]
            self._now[name, quantity] = (
                values if before is None else np.where(self.alive, values, before)
            )

    def _columns(self, name: str, names: tuple[str, ...]) -> FloatArray:
        return np.stack([self._now[name, one] for one in names], axis=1)

    def _value(self, quantity: Quantity) -> FloatArray:
        """The value of the moment."""
        return self._over(quantity, None, 0, 0)

    def _over(self, quantity: Quantity, how: str | None, start: int, end: int) -> FloatArray:
        """A value over an interval, where it is known and asked for; else that of the moment."""
        part, name, inside = quantity.part, quantity.name, quantity.inside
        made = self.hybrid.parts[part]
        if inside is not None and name == "volume":
            return self.parts[part].volume(inside)
        if inside is not None:
            parts = [Quantity(part, one) for one in matching(inside, made.quantities)]
            total = np.zeros(self.n)
            for one in parts:
                total = total + self._over(one, how, start, end)
            return total
        if (part, name) in self._given and name not in made.quantities:
            return self._parameter(part, name)
        if how is not None:
            known = self._courses[part].over(name, start, end, how, self.tick)
            if known is not None:
                return known
        key = part, name
        return self._seen(key) if key in self._one_pool and self._pools else self._now[key]

    def _parameter(self, part: str, name: str) -> FloatArray:
        """A parameter ``[cell]``, as it was given or follows from others."""
        tree = self._computed.get((part, name))
        if tree is None:
            return self._given[part, name]
        return evaluate_rows(tree, self.n, lambda one: self._parameter(part, one))

    # ---------------------------------------------------------------- steps

    def run(self, kept: Callable[[HybridRun, bool], None] | None = None) -> None:
        """Go to the end; `kept` is asked after each round, and told of the last one."""
        done, least = min(self._reached), math.gcd(*(one.step for one in self.groups))
        for tick in range(done + least, self.end + least, least):
            due = [i for i, one in enumerate(self.groups) if tick % one.step == 0]
            if not any(self._reached[i] < tick for i in due):
                continue
            for i in due:
                self._reach(i, tick)
            self._forget()
            if kept is not None:
                kept(self, tick == self.end)

    def _reach(self, number: int, tick: int) -> None:
        """Step a group until it is at `tick` or past it, and first those that it follows."""
        group = self.groups[number]
        while self._reached[number] < tick:
            start = self._reached[number]
            for other in group.after:
                self._reach(other, min(start + group.step, self.end))
            split(group.parts, self.intervals, start, group.step, self.splitting, self._step)
            self._reached[number] = start + group.step
            for name in group.parts:
                self._sample(name, start + group.step)

    def _forget(self) -> None:
        """Leave out courses that nobody asks for any more."""
        least = min(self._reached)
        for course in self._courses.values():
            course.forget(least)

    def _step(self, name: str, start: int, end: int) -> None:
        part = self.parts[name]
        self._reshape(name, start, end)
        self._hand_over(name, start, end)
        course = self._courses[name]
        before = self._columns(name, course.names) if course.names else None
        held = {one: self._now[name, one] for one in self._members[name]}
        part.advance(end * self.tick / 2)
        self._look(name)
        for one, old in held.items():
            key = name, one
            change = (self._now[key] - old) * self._scale(key)
            self._pools[self._one_pool[key]].add(change, self.alive)
        if before is not None:
            self._follow(name, course, before, end, end - start)
        self._settle(name)
        last = self.groups[self._home[name]]
        if end % self.intervals[name].step == 0 and end % last.step:
            self._sample(name, end)

    def _reshape(self, name: str, start: int, end: int) -> None:
        """Give a part the shape of the moment, if one is due."""
        shaping = self.hybrid.shapes.get(name)
        if shaping is None or start % self._between[name]:
            return
        read = self._reader(name, "start", start, end)
        values = {key: one.evaluate(self.n, read) for key, one in shaping.formulas.items()}
        self.parts[name].reshape(shaping, values)
        self._look(name)

    def _follow(self, name: str, course: Course, before: FloatArray, end: int, length: int) -> None:
        """Keep what others follow: integrals that a part has, or the mean of both ends."""
        values = self._columns(name, course.names)
        known = self.parts[name].integrals(course.names)
        if known is None:
            known = course.integrals[-1] + (before + values) * (length * self.tick / 4)
        course.add(end, np.where(self.alive[:, None], known, course.integrals[-1]), values)

    def _hand_over(self, name: str, start: int, end: int) -> None:
        """Give a part what it shares and what it follows, where that has changed."""
        given: dict[str, FloatArray] = {}
        for one in self._members[name]:
            seen = self._seen((name, one))
            if (seen != self._now[name, one]).any():
                given[one] = self._now[name, one] = seen
        for drive in self._drives[name]:
            key = name, drive.name
            values = drive.formula.evaluate(self.n, self._reader(name, drive.over, start, end))
            finite = np.isfinite(values)
            if (self.alive & ~finite).any():
                self.not_finite[str(drive)] = None
            values = np.where(finite, values, self._held(key))
            if (values != self._held(key)).any():
                given[drive.name] = values
                self._hold(key, values)
        self.parts[name].put(given)

    def _held(self, key: Key) -> FloatArray:
        return self._given[key] if key in self._given else self._now[key]

    def _hold(self, key: Key, values: FloatArray) -> None:
        (self._given if key in self._given else self._now)[key] = values

    def _reader(
        self, name: str, over: str, start: int, end: int
    ) -> Callable[[Quantity], FloatArray]:
        """Values that a part reads from others: means, or current values within a Strang group."""

        def read(quantity: Quantity) -> FloatArray:
            together = self._home[quantity.part] == self._home[name]
            moment = together and self.splitting == "strang"
            return self._over(quantity, None if moment else over, start, end)

        return read

    def _settle(self, name: str) -> None:
        """Book what reactions of a part cost and give, and let all pools pay what they can."""
        bills = [one for one in self.hybrid.bills if one.part == name]
        if bills:
            fired = self.parts[name].fired()
            columns = _counted(self.hybrid, name)
            for bill in bills:
                for pool, amounts in bill.amounts.items():
                    units = np.zeros(self.n)
                    for reaction, amount in zip(bill.reactions, amounts.tolist(), strict=True):
                        units = units + fired[:, columns.index(reaction)] * amount
                    own = self._pools[self._one_pool[_key(pool)]]
                    (own.bill if bill.sign > 0 else own.credit)(units)
        for key in dict.fromkeys(self._accounts.values()):
            self._pools[key].settle()

    # ---------------------------------------------------------------- series

    def _open_series(self) -> None:
        """Make room for samples, and take those at the start."""
        hybrid = self.hybrid
        self._accounts: dict[Key, Key] = {}  # pool of each quantity that is billed or credited
        kinds: dict[Key, list[str]] = {}
        for bill in hybrid.bills:
            for pool in map(_key, bill.amounts):
                self._accounts[pool] = self._one_pool[pool]
                more = ["paid", "debt"] if bill.sign > 0 else ["credit"]
                names = [f"{pool[1]}.{one}" for one in more]
                kinds[pool] = list(dict.fromkeys([*kinds.get(pool, ()), *names]))
        self.recorded = {
            part: (*own, *(one for key, more in kinds.items() if key[0] == part for one in more))
            for part, own in hybrid.record.items()
        }
        counts = {n: sample_count(self.end, one) for n, one in self.intervals.items()}
        size = sum(8 * self.n * counts[n] * len(names) for n, names in self.recorded.items())
        require_memory(size, f"the series of hybrid {hybrid.name}: give sample= or record=")
        self.series = {
            n: np.full((self.n, counts[n], len(names)), np.nan)
            for n, names in self.recorded.items()
        }
        self.sampled = dict.fromkeys(self.series, 0)
        for name in self.series:
            self._sample(name, 0)

    def _sample(self, name: str, tick: int) -> None:
        """Record a part, if a sample is due: what is shared as its pool has it."""
        if (
            tick % self.intervals[name].sample
            or self.sampled[name] * self.intervals[name].sample > tick
        ):
            return
        self.series[name][:, self.sampled[name]] = self.table(name)
        self.sampled[name] += 1

    def table(self, name: str) -> FloatArray:
        """The recorded quantities of a part now, ``[cell, name]``. Collective."""
        own = self.hybrid.record[name]
        table = np.empty((self.n, len(self.recorded[name])))
        table[:, : len(own)] = self.parts[name].values(own)
        for column, quantity in enumerate(own):
            if (name, quantity) in self._one_pool:
                table[:, column] = self._seen((name, quantity))
        for column, account in enumerate(self.recorded[name][len(own) :], len(own)):
            quantity, _, kind = account.rpartition(".")
            pool = self._pools[self._one_pool[name, quantity]]
            table[:, column] = {"paid": pool.paid, "debt": pool.debt, "credit": pool.credited}[kind]
        table[~self.alive] = np.nan
        return table

    def times(self, name: str) -> FloatArray:
        """Sample times of a part."""
        step = self.intervals[name].sample
        found: FloatArray = np.arange(self.series[name].shape[1]) * step * self.tick / 2
        return found

    # ---------------------------------------------------------------- keeping

    def stored(self) -> dict[str, Any]:
        """All that the run goes on from, as arrays by name. Collective."""
        found: dict[str, Any] = {
            "alive": self.alive.astype(np.uint8), "reached": np.array(self._reached),
        }  # fmt: skip
        for name, part in self.parts.items():
            own = {
                **{f"part/{k}": v for k, v in part.stored().items()},
                **{f"now/{k}": self._now[name, k] for k in self._read[name]},
                "series": self.series[name][:, : self.sampled[name]],
                **{f"given/{one.name}": self._held((name, one.name)) for one in self._drives[name]},
            }
            course = self._courses[name]
            if course.names:
                own |= {"ticks": np.array(course.ticks, np.int64)}
                own |= {"integrals": np.array(course.integrals), "values": np.array(course.values)}
            found |= {f"parts/{name}/{key}": value for key, value in own.items()}
        for (part_name, name), pool in self._pools.items():
            found |= {f"pools/{part_name}/{name}/{k}": v for k, v in pool.stored().items()}
        return found

    def take_up(self, state: State) -> None:
        """Go on from what `stored` gave."""
        n = self.n
        self.alive = state.take("alive", np.uint8, n).astype(bool)
        self._reached = state.take("reached", np.int64, len(self.groups)).tolist()
        for name, part in self.parts.items():
            own = state.below(f"parts/{name}")
            part.take_up(own.below("part"))
            for one in self._read[name]:
                self._now[name, one] = own.take(f"now/{one}", np.float64, n)
            for drive in self._drives[name]:
                self._hold((name, drive.name), own.take(f"given/{drive.name}", np.float64, n))
            names = len(self.recorded[name])
            series = own.take("series", np.float64, n, None, names, nan=True)
            self.sampled[name] = series.shape[1]
            self.series[name][:, : series.shape[1]] = series
            course = self._courses[name]
            if course.names:
                course.ticks = own.take("ticks", np.int64, None).tolist()
                shape = (len(course.ticks), n, len(course.names))
                course.integrals = list(own.take("integrals", np.float64, *shape))
                course.values = list(own.take("values", np.float64, *shape))
        for (part_name, name), pool in self._pools.items():
            pool.take_up(state.below(f"pools/{part_name}/{name}"))

    def close(self) -> None:
        """Give the device back."""
        for part in self.parts.values():
            part.close()


def _key(quantity: Quantity) -> Key:
    return quantity.part, quantity.name


def _followed(hybrid: Hybrid) -> Mapping[str, tuple[str, ...]]:
    """Quantities of each part that formulas of others read."""
    found: dict[str, dict[str, None]] = {name: {} for name in hybrid.parts}
    formulas = [one.formula for one in hybrid.drives]
    formulas += [one.volume for one in hybrid.shares if one.volume is not None]
    formulas += [each for one in hybrid.shapes.values() for each in one.formulas.values()]
    for formula in formulas:
        for one in formula.quantities.values():
            made = hybrid.parts[one.part]
            names = [one.name] if one.inside is None else matching(one.inside, made.quantities)
            found[one.part].update(dict.fromkeys(n for n in names if n in made.quantities))
    return {name: tuple(own) for name, own in found.items()}


def _counted(hybrid: Hybrid, name: str) -> tuple[str, ...]:
    """Reactions of a part that are billed."""
    own = (reaction for one in hybrid.bills if one.part == name for reaction in one.reactions)
    return tuple(dict.fromkeys(own))


def _watch(hybrid: Hybrid, made: PartModel, followed: tuple[str, ...]) -> Watch:
    """The quantities that links need from a part."""
    driven = tuple(one.name for one in hybrid.drives if one.part == made.name)
    return Watch(followed, _counted(hybrid, made.name), hybrid.rates.get(made.name, {}), driven)

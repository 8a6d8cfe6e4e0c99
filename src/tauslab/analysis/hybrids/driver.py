"""Runs a hybrid: who steps when, what a part is given before a step, what comes of it after."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from tauslab.analysis.hybrids.board import Board, Inputs, followed_by, pools_of
from tauslab.analysis.hybrids.chains import ChainPart, with_genes
from tauslab.analysis.hybrids.clock import (
    Group,
    Interval,
    Move,
    edges_of,
    groups_of,
    moves_of,
    require_end,
    sample_count,
    ticks_of,
    time_of,
)
from tauslab.analysis.hybrids.division import Divider
from tauslab.analysis.hybrids.hybrid import Hybrid
from tauslab.analysis.hybrids.ledger import Account, columns_of
from tauslab.analysis.hybrids.links import Shaping
from tauslab.analysis.hybrids.parts import EnsemblePart, FunctionPart, Part, Reading, Watch
from tauslab.analysis.polymers.polymer import Polymer
from tauslab.base.arrays import BoolArray, FloatArray, IntArray
from tauslab.base.errors import ConfigError, ModelError
from tauslab.base.host import require_memory
from tauslab.decomposition.ranks.job import seed_of
from tauslab.model.lattice.lattice import Lattice
from tauslab.model.network.diagnosis.time_breaks import has_times
from tauslab.model.network.network import Network
from tauslab.store.state import State

_MOST_LAG = 0.05  # of the time between two exchanges, which is passed over in silence
_Pairs: TypeAlias = tuple[IntArray, IntArray]
_ACCOUNTS = {"paid": "paid", "debt": "debt", "credit": "credited"}  # of `Ledger`, by kind


@contextmanager
def _named(part: str, t: float) -> Iterator[None]:
    """Name the part and the time in what is refused."""
    try:
        yield
    except (ModelError, ConfigError) as error:
        kind = ModelError if isinstance(error, ModelError) else ConfigError
        raise kind(f"part {part} at t = {t:g}: {error}") from error


class HybridRun:
    """n cells of a hybrid on their way.

    Parameters
    ----------
    halvings
        How often the tick is halved.
    hooks
        Seconds after which hooks look at all parts at one time.
    """

    def __init__(  # noqa: PLR0913 - keywords
        self, hybrid: Hybrid, *, n: int, seed: int, t_end: float, splitting: str,
        device: Any = "auto", comm: Any = "world", halvings: int = 0, hooks: Sequence[float] = (),
    ) -> None:  # fmt: skip
        self.hybrid, self.n, self.splitting = hybrid, n, splitting
        self.tick = hybrid.tick / 2**halvings
        # Events and rates at times that a user writes must be reached by parts that end there.
        self._written = any(
            isinstance(one.model, Network) and has_times(one.model) for one in hybrid.parts.values()
        )
        self.intervals: dict[str, Interval] = hybrid.intervals(halvings)
        self.end = require_end(t_end, self.tick, self.intervals)
        self.groups = groups_of(self.intervals, edges_of(hybrid.acting()))
        self.divider: Divider | None = None
        self.not_finite: dict[str, None] = {}  # drives that were at times, and left what was
        self.negative: dict[str, None] = {}  # drives of rate constants that were, which ended cells
        # Time at which cells first ended, by status and part.
        self.endings: dict[tuple[str, str], float] = {}
        self._reached = [0] * len(self.groups)
        self._hooks = [2 * ticks_of(every, self.tick, "hooks:") for every in hooks]
        self._joined = joined_parts(hybrid, self.groups, splitting)
        self._waiting: dict[int, Move] = {}  # half steps by group, made with the ones after them
        self._home = {name: i for i, one in enumerate(self.groups) for name in one.parts}
        self._looks = self._division_interval(halvings)
        self._between = {name: self._half_ticks(one) for name, one in hybrid.shapes.items()}
        watches = _watches(hybrid)
        self.parts: dict[str, Part] = {}
        try:
            for name in sorted(hybrid.parts, key=lambda name: name in hybrid.confined):
                self.parts[name] = self._started(
                    name, watches[name], seed=seed_of(seed, name), device=device, comm=comm
                )
            self.parts = {name: self.parts[name] for name in hybrid.parts}
            self.board = Board(hybrid, watches, n, self.tick)
            self._drives = {name: self._drives_of(name) for name in hybrid.parts}
            self._quantities = {
                name: Inputs(self.board, list(one.formulas.values()))
                for name, one in hybrid.shapes.items()
            }
            self._begin()
            if hybrid.dividing is not None:
                self.divider = Divider(hybrid, self.board, self.parts, seed)
        except BaseException:
            self.close()
            raise

    def _started(self, name: str, watch: Watch, *, seed: int, device: Any, comm: Any) -> Part:
        """A part at its start; a chain that is confined comes after its lattice."""
        made, n = self.hybrid.parts[name], self.n
        if made.is_function:
            return FunctionPart(made, n, watch)
        how = {"seed": seed, "device": made.device or device, "comm": comm}
        if isinstance(made.model, Polymer):
            link = self.hybrid.confined.get(name)
            lattice = None if link is None else self.parts[link.lattice]
            assert lattice is None or isinstance(lattice, EnsemblePart)
            return ChainPart(made, n, watch, **how, link=link, lattice=lattice)
        for link in self.hybrid.confined.values():
            chain = self.hybrid.parts[link.chain].model
            if (
                link.lattice == name
                and isinstance(made.model, Lattice)
                and isinstance(chain, Polymer)
            ):
                made = replace(made, model=with_genes(made.model, link, chain))
        return EnsemblePart(made, n, watch, **how)

    def _drives_of(self, name: str) -> list[tuple[str, Any, Inputs]]:
        """Which values drives of a part read, their columns, and formulas, of each kind."""
        own = [one for one in self.hybrid.drives if one.part == name]
        kinds: dict[str, list[int]] = {}
        for place, one in enumerate(own):
            kinds.setdefault(one.over, []).append(place)
        return [
            (over, columns_of(places), Inputs(self.board, [own[i].formula for i in places]))
            for over, places in kinds.items()
        ]

    def _half_ticks(self, shaping: Shaping) -> int:
        """Half ticks between two shapes of a part."""
        result = 2 * ticks_of(shaping.every, self.tick, f"shape of {shaping.part}: every=")
        if result % self.intervals[shaping.part].step:
            raise ConfigError(
                f"shape of {shaping.part}: every= {shaping.every:g} is not a whole multiple of the "
                "interval of the part"
            )
        return result

    def _division_interval(self, halvings: int) -> int:
        """Half ticks between two looks at who divides, when all parts are at one time."""
        together, how = self._common_ticks, self.hybrid.dividing
        if how is None or how.every is None:
            return together << halvings
        result = 2 * ticks_of(how.every, self.tick, "divide: every=")
        if result % together:
            raise ConfigError(
                f"divide: every= {how.every:g} is not a whole multiple of "
                f"{together * self.tick / 2:g}, after which all parts are at one time"
            )
        return result

    def _begin(self) -> None:
        """Take the state at t = 0."""
        board = self.board
        board.volumes = lambda one: self.parts[one.part].volume(one.inside or "")
        for name, part in self.parts.items():
            board.look(name, part.read(), part.alive)
        board.open_pools()
        board.start_series()
        self._accounts = {name: self._accounts_of(name) for name in self.parts}
        self._open_series()

    def _accounts_of(self, name: str) -> list[tuple[int, Account]]:
        """Bills and credits of a part, with their signs."""
        columns = {one: i for i, one in enumerate(self.board.watches[name].reactions)}
        entries: dict[int, list[tuple[int, int, float]]] = {}
        for bill in self.hybrid.bills:
            if bill.part != name:
                continue
            for pool, amounts in bill.amounts.items():
                number = self.board.number((pool.part, pool.name))
                entries.setdefault(bill.sign, []).extend(
                    (columns[reaction], number, amount)
                    for reaction, amount in zip(bill.reactions, amounts.tolist(), strict=True)
                )
        return [(sign, Account(own)) for sign, own in entries.items()]

    @property
    def alive(self) -> BoolArray:
        """Cells that have not ended."""
        return self.board.alive

    def lags(self) -> list[str]:
        """Sentences on lattices that make fewer steps than others see of them, and lag behind."""
        result = []
        for name in (one for one in self.parts if one in self.hybrid.linked):
            together = len(self.groups[self._home[name]].parts) > 1
            halves = together and self.splitting == "strang"
            length = self.intervals[name].step * self.tick / (4 if halves else 2)
            step = self.parts[name].model_step
            if step is None or step <= _MOST_LAG * length:
                continue
            if abs(length / step - round(length / step)) * step > _MOST_LAG * length:
                result.append(
                    f"part {name} has steps of {step:.3g} s, which do not divide the {length:.3g} "
                    "s between two exchanges: it lags by up to one of its steps: give its lattice "
                    "a step= that does, or a longer every="
                )
        return result

    @property
    def ended(self) -> bool:
        """Return whether all groups are at the end."""
        return min(self._reached) >= self.end

    @property
    def time(self) -> float:
        """Seconds that all groups have reached."""
        return self._time(min(self._reached))

    def is_due(self, every: float) -> bool:
        """Return whether all parts are at a whole multiple of a number of seconds.

        Raises
        ------
        ConfigError
            They are not at one time after it.
        """
        ticks, together = 2 * ticks_of(every, self.tick, "hooks:"), self._common_ticks
        if ticks % together:
            raise ConfigError(
                f"hooks: {every:g} is not a whole multiple of {together * self.tick / 2:g}, after "
                "which all parts are at one time"
            )
        return len(set(self._reached)) == 1 and self._reached[0] % ticks == 0

    @property
    def _common_ticks(self) -> int:
        """Half ticks after which all parts are at one time."""
        return math.lcm(*(one.step for one in self.groups))

    @property
    def rounds(self) -> tuple[int, int]:
        """Rounds that are over, and all."""
        return min(self._reached) // self._least, self.end // self._least

    @property
    def _least(self) -> int:
        """Half ticks of a round, after which some parts are at the end of a step."""
        return math.gcd(*(one.step for one in self.groups))

    # ---------------------------------------------------------------- steps

    def run(self, kept: Callable[[HybridRun, bool], None] | None = None) -> None:
        """Go to the end; `kept` is called after each round, also the last one."""
        done, least = min(self._reached), self._least
        for tick in range(done + least, self.end + least, least):
            due = [i for i, one in enumerate(self.groups) if tick % one.step == 0]
            if not any(self._reached[i] < tick for i in due):
                continue
            for i in due:
                self._reach(i, tick)
            self._divide(tick)
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
            for move in moves_of(group.parts, self.intervals, start, group.step, self.splitting):
                self._make(move)
            self._reached[number] = start + group.step
            for name in group.parts:
                self._sample(name, start + group.step)

    def _is_open(self, move: Move) -> bool:
        """Return whether a move is the second half of a step, which the next one can prolong."""
        name, tick = move.name, move.end
        if name not in self._joined or tick % self.intervals[name].step or tick == self.end:
            return False
        looked_at = [self.intervals[one].sample for one in self.groups[self._home[name]].parts]
        half = 2 * (tick - move.start) == self.intervals[name].step
        return half and all(tick % every for every in (*looked_at, *self._hooks))

    def _make(self, move: Move) -> None:
        """Make a move, joined with a waiting half step of its part, or let it wait for the next."""
        group = self._home[move.name]
        waiting = self._waiting.pop(group, None)
        if waiting is not None and waiting.name == move.name:
            move = replace(move, start=waiting.start)
        elif waiting is not None:
            self._step(waiting)
        if self._is_open(move):
            self._waiting[group] = move
        else:
            self._step(move)

    def _divide(self, tick: int) -> None:
        """Divide the cells whose time has come, if a look is due."""
        if self.divider is None or tick % self._looks:
            return
        t = self._time(tick)
        cells = self.divider.due(t)
        if not len(cells):
            return
        quantities = {
            name: self._quantities[name].values(lambda _: None, tick, tick)[cells[0]]
            for name in self._between
        }
        inside = {
            name: self.parts[name].inside(self.hybrid.shapes[name], values)
            for name, values in quantities.items()
        }
        rows = self.divider.divide(cells, t, tick, inside)
        daughters = np.isin(np.arange(self.n), rows)
        self._read_all()
        for name, shaping in self.hybrid.shapes.items():
            values = self._quantities[name].values(lambda _: None, tick, tick)
            with _named(name, t):
                self.parts[name].reshape(shaping, values, daughters)
        for part in self.parts.values():
            part.settle(rows, tick)
        self._read_all()

    def _read_all(self) -> None:
        """Take the values of all parts, between two steps."""
        for name, part in self.parts.items():
            self.board.restart_series(name, part.values(self.board.watches[name].read))

    def _forget(self) -> None:
        """Leave out courses that nobody asks for any more."""
        least = min(self._reached)
        for time_course in self.board.courses.values():
            time_course.forget(least)

    def _step(self, move: Move) -> None:
        name, end = move.name, move.end
        if self.board.alive.any():  # samples after the end of all are NaN
            self._move(name, move.start, end)
        last = self.groups[self._home[name]]
        if end % self.intervals[name].step == 0 and end % last.step:
            self._sample(name, end)

    def _move(self, name: str, start: int, end: int) -> None:
        """Give a part what others have, let it move, and look at what it did."""
        part, board = self.parts[name], self.board
        self._reshape(name, start, end)
        others = self._reader(name, "mean")
        # A volume of its own is known when it has moved.
        board.stepping = name, lambda one: "mean" if one == name else others(one), start, end
        shared, driven = board.shared_anew(name), self._driven_anew(name, start, end)
        with _named(name, self._time(start)):
            part.put(shared, driven)
        if driven is not None:
            self._note_ended(name, driven)
        if not part.alive.any():
            board.alive &= part.alive
            board.stepping = None
            return
        before = board.now[name]
        part.advance(self._time(end))
        ended = board.alive & ~part.alive
        for word in part.endings(ended) if ended.any() else ():
            self.endings.setdefault((word, name), self._time(end))
        if part.home is not None:
            changed = self.parts[part.home].values(board.watches[part.home].read)
            board.take_values(part.home, changed)
        reading = part.read()
        board.look(name, reading, part.alive)
        board.follow(name, before, reading, end, end - start)
        board.book(name, before)
        board.stepping = None
        self._settle(name, reading)

    def _note_ended(self, name: str, driven: FloatArray) -> None:
        """Note inputs of a part that ended cells: they made rate constants negative."""
        ended = self.board.alive & ~self.parts[name].alive
        if ended.any():
            own = [str(one) for one in self.hybrid.drives if one.part == name]
            below = np.flatnonzero((driven[ended] < 0).any(axis=0)).tolist()
            self.negative |= dict.fromkeys(own[place] for place in below)

    def _reshape(self, name: str, start: int, end: int) -> None:
        """Give a part the shape of the moment, if one is due."""
        shaping = self.hybrid.shapes.get(name)
        if shaping is None or start % self._between[name]:
            return
        values = self._quantities[name].values(self._reader(name, "start"), start, end)
        with _named(name, self._time(start)):
            self.parts[name].reshape(shaping, values)
        self.board.take_values(name, self.parts[name].values(self.board.watches[name].read))

    def _driven_anew(self, name: str, start: int, end: int) -> FloatArray | None:
        """Return the inputs of a part ``[cell, Watch.driven]``; None if they are unchanged."""
        drives = self._drives[name]
        if not drives:
            return None
        held, board = self.board.held[name], self.board
        values = np.empty_like(held)
        for over, columns, inputs in drives:
            values[:, columns] = inputs.values(self._reader(name, over), start, end)
        finite = np.isfinite(values)
        if not finite.all():
            own = [one for one in self.hybrid.drives if one.part == name]
            for place in np.flatnonzero((board.alive[:, None] & ~finite).any(axis=0)).tolist():
                self.not_finite[str(own[place])] = None
            values = np.where(finite, values, held)
        if (values == held).all():
            return None
        board.held[name] = values
        return values

    def _reader(self, name: str, over: str) -> Callable[[str], str | None]:
        """Values that a part reads from others: means, or current values within a Strang group."""

        def read(part: str) -> str | None:
            together = self._home[part] == self._home[name]
            return None if together and self.splitting == "strang" else over

        return read

    def _settle(self, name: str, reading: Reading) -> None:
        """Book what reactions of a part cost and give, and let all pools pay what they can."""
        ledger = self.board.ledger
        for sign, account in self._accounts[name]:
            units = account.units(reading.fired)
            (ledger.billed if sign > 0 else ledger.credited)[:, account.pools] += units
            if sign < 0:
                ledger.add(units, account.pools)
        self.board.settle()

    # ---------------------------------------------------------------- series

    def _open_series(self) -> None:
        """Make room for samples, and take those at the start."""
        hybrid = self.hybrid
        kinds: dict[str, dict[str, None]] = {name: {} for name in hybrid.parts}
        for bill in hybrid.bills:
            for pool in bill.amounts:
                more = ["paid", "debt"] if bill.sign > 0 else ["credit"]
                kinds[pool.part] |= dict.fromkeys(f"{pool.name}.{one}" for one in more)
        self.recorded = {part: (*own, *kinds[part]) for part, own in hybrid.record.items()}
        counts = {n: sample_count(self.end, one) for n, one in self.intervals.items()}
        size = sum(8 * self.n * counts[n] * len(names) for n, names in self.recorded.items())
        require_memory(size, f"the series of hybrid {hybrid.name}: give sample= or record=")
        self.series = {
            n: np.full((self.n, counts[n], len(names)), np.nan)
            for n, names in self.recorded.items()
        }
        self.sampled = dict.fromkeys(self.series, 0)
        self._columns = {name: self._columns_of(name) for name in self.series}
        for name in self.series:
            self._sample(name, 0)

    def _columns_of(self, name: str) -> tuple[_Pairs, dict[str, _Pairs]]:
        """Columns of a part's table that are shared, and those of the ledger by their kind."""
        places = {one: place for place, one in enumerate(self.hybrid.record[name])}
        shared = [
            (places[one], member)
            for member, one in enumerate(self.board.watches[name].shared)
            if one in places
        ]
        accounts: dict[str, list[tuple[int, int]]] = {}
        for column, account in enumerate(self.recorded[name][len(places) :], len(places)):
            quantity, _, kind = account.rpartition(".")
            pair = column, self.board.number((name, quantity))
            accounts.setdefault(_ACCOUNTS[kind], []).append(pair)
        return _paired(shared), {kind: _paired(pairs) for kind, pairs in accounts.items()}

    def _sample(self, name: str, tick: int) -> None:
        """Record a part, if a sample is due: what is shared as its pool has it."""
        if (
            tick % self.intervals[name].sample
            or self.sampled[name] * self.intervals[name].sample > tick
        ):
            return
        self.table(name, self.series[name][:, self.sampled[name]])
        self.sampled[name] += 1

    def table(self, name: str, into: FloatArray | None = None) -> FloatArray:
        """The recorded quantities of a part now, ``[cell, name]``. Collective."""
        own, board = self.hybrid.record[name], self.board
        table = np.empty((self.n, len(self.recorded[name]))) if into is None else into
        table[:, : len(own)] = self.parts[name].values(own)
        (columns, members), accounts = self._columns[name]
        if len(columns):
            table[:, columns] = board.seen(name)[:, members]
        for kind, (columns, numbers) in accounts.items():
            table[:, columns] = getattr(board.ledger, kind)[:, numbers]
        table[~board.alive] = np.nan
        return table

    def times(self, name: str) -> FloatArray:
        """Sample times of a part."""
        step = self.intervals[name].sample
        return np.array([self._time(step * k) for k in range(self.series[name].shape[1])])

    def _time(self, half: int) -> float:
        """The time of so many half ticks."""
        return time_of(half, self.tick) if self._written else half * self.tick / 2

    # ---------------------------------------------------------------- keeping

    def stored(self) -> dict[str, Any]:
        """All that the run goes on from, as arrays by name. Collective."""
        board = self.board
        result: dict[str, Any] = {
            "alive": board.alive.astype(np.uint8), "reached": np.array(self._reached),
        }  # fmt: skip
        for name, part in self.parts.items():
            own = {f"part/{k}": v for k, v in part.stored().items()} | board.stored(name)
            own["series"] = self.series[name][:, : self.sampled[name]]
            result |= {f"parts/{name}/{key}": value for key, value in own.items()}
        if self.divider is not None:
            result |= {f"divider/{key}": value for key, value in self.divider.stored().items()}
        return result | {f"pools/{key}": value for key, value in board.ledger.stored().items()}

    def take_up(self, state: State) -> None:
        """Go on from what `stored` gave."""
        n, board = self.n, self.board
        board.alive = state.take("alive", np.uint8, n).astype(bool)
        self._reached = state.take("reached", np.int64, len(self.groups)).tolist()
        for number, (one, end) in enumerate(zip(self.groups, self._reached, strict=True)):
            last = Move(one.parts[0], end - one.step // 2, end)
            if end and self._is_open(last):
                self._waiting[number] = last
        for name, part in self.parts.items():
            own = state.below(f"parts/{name}")
            part.take_up(own.below("part"))
            board.take_up(name, own)
            names = len(self.recorded[name])
            series = own.take("series", np.float64, n, None, names, nan=True)
            self.sampled[name] = series.shape[1]
            self.series[name][:, : series.shape[1]] = series
        board.ledger.take_up(state.below("pools"))
        if self.divider is not None:
            self.divider.take_up(state.below("divider"))

    def close(self) -> None:
        """Release the device."""
        for part in self.parts.values():
            part.close()


def joined_parts(hybrid: Hybrid, groups: Sequence[Group], splitting: str) -> set[str]:
    """Parts whose half steps that follow each other are made as one step.

    That is the same operator where nothing happens between them: a part reads and changes pools and
    parameters alone, whose units it does not change, and its group neither follows another nor is
    followed. A function of the user gets no longer steps.
    """
    acts_there = hybrid.bills or hybrid.shapes or hybrid.confined or hybrid.dividing is not None
    if splitting != "strang" or acts_there:
        return set()
    followed = {number for one in groups for number in one.after}
    apart = {name for one in hybrid.shares if one.volume for name in one.volume.parts}
    apart |= {name for name, made in hybrid.parts.items() if made.is_function}
    alone = [one for i, one in enumerate(groups) if i not in followed and not one.after]
    return {name for one in alone for name in one.parts[:-1]} - apart


def _paired(pairs: list[tuple[int, int]]) -> _Pairs:
    """Two columns of pairs."""
    result = np.array(pairs, np.int64).reshape(-1, 2)
    return result[:, 0], result[:, 1]


def _watches(hybrid: Hybrid) -> dict[str, Watch]:
    """The quantities that links need from each part."""
    pools, _ = pools_of(hybrid)
    return {
        name: Watch(
            shared=tuple(one for part, one in pools if part == name),
            followed=followed_by(hybrid, name),
            driven=tuple(one.name for one in hybrid.drives if one.part == name),
            reactions=tuple(
                dict.fromkeys(r for one in hybrid.bills if one.part == name for r in one.reactions)
            ),
            rates=hybrid.rates.get(name, {}),
        )
        for name in hybrid.parts
    }

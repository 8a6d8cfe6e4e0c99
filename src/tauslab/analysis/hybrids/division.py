"""Cells of a hybrid that divide: when, what each daughter gets, and who goes on.

All draws are pure functions of the seed, the time, the mother's number, the part and the place of a
quantity in it; so ranks, cuts and restarts change nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from tauslab.analysis.hybrids.board import Board, Inputs
from tauslab.analysis.hybrids.chains import ChainPart
from tauslab.analysis.hybrids.hybrid import Hybrid
from tauslab.analysis.hybrids.links import Formula, address, matching
from tauslab.analysis.hybrids.partition import INITIAL, pools_of_daughters, words_of
from tauslab.analysis.hybrids.parts import EnsemblePart, Part
from tauslab.analysis.hybrids.result import Divisions
from tauslab.analysis.particles import weights as draws
from tauslab.analysis.particles.daughters import Fraction, require_no_delay
from tauslab.base.arrays import Array, FloatArray, IntArray
from tauslab.base.errors import ConfigError
from tauslab.decomposition.ranks.job import seed_of
from tauslab.kernels.backends.base import Backend
from tauslab.kernels.events.divide import SHARES, Divide
from tauslab.kernels.lattice.halving import SHARES as OF_PARTICLES
from tauslab.kernels.lattice.halving import Halving, Plane
from tauslab.model.expressions.expression import Symbol
from tauslab.model.lattice.lattice import Lattice
from tauslab.model.network.network import Network
from tauslab.store.state import State

_MOST_DRAWN = 2.0**50  # units that are drawn one by one: csrc/random/binomial.h


class Received(NamedTuple):
    """Amounts ``[mother, quantity]`` of mothers, and of their first and second daughters."""

    mother: Array
    first: Array
    second: Array

    @classmethod
    def of_first(cls, mother: Array, first: Array, words: Sequence[str]) -> Received:
        """The second daughter gets the rest, or, where both get all, all."""
        copied = np.array([word == "copy" for word in words], bool)
        first = np.where(copied, mother, first)
        return cls(mother, first, np.where(copied, mother, mother - first))

    def of(self, which: IntArray, sides: IntArray) -> Array:
        """Amounts of some daughters, by the places of their mothers and their sides."""
        return np.where(sides[:, None] == 1, self.first[which], self.second[which])


class _Halves(NamedTuple):
    """Shares of a lattice for both daughters, and the fraction ``[mother]`` of the first."""

    particles: Received
    share: FloatArray

    def with_genes(self, counts: IntArray) -> _Halves:
        """With particles ``[mother, daughter, species]`` that chains give to daughters."""
        first, second = counts[:, 0], counts[:, 1]
        more = zip(self.particles, (first + second, first, second), strict=True)
        return self._replace(particles=Received(*(one + own for one, own in more)))


@dataclass(frozen=True)
class _Places:
    """Who is where after a division.

    mothers: cells that divided; index ``[cell]``: whose copy each becomes; rows: cells that are
    daughters now, with their sides, 1 or 2, and the places of their mothers among `mothers`.
    """

    mothers: IntArray
    index: IntArray
    rows: IntArray
    sides: IntArray
    which: IntArray

    def at(self, side: int) -> IntArray:
        """Where daughters of a side go on ``[mother]``; -1: nowhere."""
        result = np.full(len(self.mothers), -1)
        local = self.sides == side
        result[self.which[local]] = self.rows[local]
        return result


@dataclass
class _Kernel:
    """`Divide` on the device of a part."""

    backend: Backend
    divide: Divide = field(init=False)

    def __post_init__(self) -> None:
        self.divide, self._stream = Divide(self.backend), self.backend.stream()

    def first(
        self, values: FloatArray, words: Sequence[str], mothers: IntArray, part: FloatArray,
        seed: int,
    ) -> FloatArray:  # fmt: skip
        """Shares of first daughters in values ``[mother, quantity]``."""
        if not values.size:
            return values
        backend, stream = self.backend, self._stream
        kept = backend.upload(values.copy())  # a CPU works in place
        codes = np.array([SHARES[word] for word in words], np.uint8)
        side = np.ones(len(mothers), np.uint8)
        self.divide.start(kept, side, mothers, part, codes, stream, seed=seed, halt=-1)
        mirror = backend.mirror(kept)
        backend.download(kept, mirror, len(kept), stream)
        stream.record().wait()
        return np.array(mirror, np.float64)


class Divider:
    """Divides cells of a hybrid that runs.

    Attributes
    ----------
    born, generation
        ``[cell]``: time of birth, 0 at the start, and divisions before it.
    """

    def __init__(
        self, hybrid: Hybrid, board: Board, parts: Mapping[str, Part], seed: int
    ) -> None:  # fmt: skip
        assert hybrid.dividing is not None
        self._hybrid, self._how, self._board = hybrid, hybrid.dividing, board
        self._parts, self._seed = parts, seed
        self._chains = {name: one for name, one in parts.items() if isinstance(one, ChainPart)}
        self._require_fit()
        self._fraction = Fraction.parse(0.5 if self._how.fraction is None else self._how.fraction)
        self._words = words_of(hybrid, board)
        self._pools = pools_of_daughters(hybrid, board, self._words)
        self._halvings = {name: self._halving(name, None) for name in self._lattices}
        # Members of a pool are derived from it.
        self._own = {
            name: tuple(one for one in words if (name, one) not in board.pool_of)
            for name, words in self._words.items()
            if name not in self._halvings
        }
        quantities = self._how.when.quantities
        read = [Formula(str(q), Symbol(symbol), {symbol: q}) for symbol, q in quantities.items()]
        self._inputs = Inputs(board, read) if read else None
        self._kernel = _Kernel(self._backend())
        self._start = {name: parts[name].values(names) for name, names in self._own.items()}
        self.born, self.generation = np.zeros(board.n), np.zeros(board.n, np.int64)
        self._names, self._columns = self._recorded()
        self._records = [self._nothing()]

    def _require_fit(self) -> None:
        """Refuse what cells cannot have together."""
        for made in self._hybrid.parts.values():
            if isinstance(made.model, Network):
                require_no_delay(made.model)
        if self._how.fraction is not None and self._lattices:
            raise ConfigError("divide: fraction= follows from the plane of the lattice")
        links = [one.formula for one in self._hybrid.drives]
        if self._how.follow == "population" and any(
            np.size(value) > 1 for one in links for value in one.numbers.values()
        ):
            raise ConfigError(
                "divide: follow='population' takes rates of set_rate that are the same for all "
                "cells: give k as a parameter of the part"
            )

    def undivided_species(self) -> list[str]:
        """Sentences on pinned species that one daughter gets, as `partition` does not name them."""
        result = []
        for name in self._lattices:
            model: Any = self._hybrid.parts[name].model
            given = [address(one, "a quantity of partition=") for one in self._how.partition]
            requested = {
                one for to in given if to.part == name for one in matching(to.name, model.species)
            }
            links = (one for one in self._hybrid.confined.values() if one.lattice == name)
            kept = requested | {one for link in links for states, _ in link.genes for one in states}
            if alone := [f"{name}.{one}" for one in model.pinned if one not in kept]:
                result.append(
                    f"only one daughter gets the pinned species {', '.join(alone)}: "
                    f'partition={{"{alone[0]}": "copy"}} gives each daughter a copy'
                )
        return result

    @property
    def _lattices(self) -> list[str]:
        """Names of parts that are lattices; the one that decides the fraction first."""
        parts, shapes = self._hybrid.parts, self._hybrid.shapes
        result = [name for name, made in parts.items() if isinstance(made.model, Lattice)]
        return sorted(result, key=lambda name: name not in shapes)

    def _halving(self, name: str, inside: tuple[int, ...] | None) -> Halving:
        how, words = self._how, self._words[name].values()
        plane = Plane("zyx".index(how.axis), how.at, inside)
        return Halving(plane, np.array([OF_PARTICLES[word] for word in words], np.uint8))

    def _backend(self) -> Backend:
        for part in self._parts.values():
            if isinstance(part, EnsemblePart):
                return part.particles.backend
        raise ConfigError("divide: at least one part is a network or a lattice")

    # ---------------------------------------------------------------- who divides

    def due(self, t: float) -> IntArray:
        """Cells that divide at time t."""
        board, when = self._board, self._how.when
        now: dict[str, Any] = {"time": t, "age": t - self.born, "generation": self.generation}
        columns: dict[Any, FloatArray] = {}
        if self._inputs is not None:
            values = self._inputs.values(lambda _: None, 0, 0)
            columns = dict(zip(when.quantities.values(), values.T, strict=True))
        numbers = {**when.numbers, **now}
        result = replace(when, numbers=numbers).evaluate(board.n, columns.__getitem__)
        return np.flatnonzero((result != 0) & np.isfinite(result) & board.alive)

    def _places(self, mothers: IntArray, tick: int) -> _Places:
        """Who goes on.

        In a population one division after another puts the second daughter in the place of one of
        all cells, of which she is one.
        """
        n, follow = self._board.n, self._how.follow
        alive = [*np.flatnonzero(self._board.alive).tolist(), n]
        index, side, which = np.arange(n), np.zeros(n, np.int64), np.zeros(n, np.int64)
        uniforms = draws.uniform(self._seed, draws.SIDES, tick, n)
        divided: list[int] = []
        for mother in mothers.tolist():
            if side[mother]:
                continue  # another mother's daughter has its place
            place = n
            if follow == "population":
                place = alive[int(uniforms[mother] * len(alive))]
            elif follow == "lineage" and uniforms[mother] < 0.5:
                place = mother
            for daughter, at in enumerate((mother, place), 1):
                if at < n:
                    index[at], side[at], which[at] = mother, daughter, len(divided)
            divided.append(mother)
        if not (index == np.arange(n)).all():  # ended cells cannot be copied
            index[~self._board.alive] = alive[0]
        rows = np.flatnonzero(side)
        return _Places(np.array(divided, np.int64), index, rows, side[rows], which[rows])

    # ---------------------------------------------------------------- dividing

    def divide(
        self, cells: IntArray, t: float, tick: int, inside: Mapping[str, tuple[int, ...]]
    ) -> IntArray:
        """Divide cells when all parts are at a time, and return who is a daughter. Collective.

        `inside` are site types of cells by lattices that have a shape.
        """
        self._halvings |= {name: self._halving(name, types) for name, types in inside.items()}
        to = self._places(cells, tick)
        mothers, n = to.mothers, self._board.n
        for chain in self._chains.values():
            chain.require_whole(mothers)
        self._agree(mothers)
        genes = [
            (str(one.home), one.lift(mothers, "zyx".index(self._how.axis)))
            for one in self._chains.values()
        ]
        halves = {name: self._halves(name, mothers, tick) for name in self._halvings}
        for name, counts in genes:
            halves[name] = halves[name].with_genes(counts)
        drawn = self._fraction.at(draws.uniform(self._seed, draws.FRACTIONS, tick, n))
        part = next((one.share for one in halves.values()), drawn[mothers])
        word = int(draws.words(self._seed, draws.DIVISIONS, tick, 1)[0])
        received = {name: self._of_part(name, mothers, part, word) for name in self._own}
        pools = self._of_pools(mothers, part, word, halves)
        self._take(to.index)
        for name, how in self._halvings.items():
            *_, moved = self._parts[name].halve(to.rows, to.sides, mothers[to.which], how, tick)
            for chain in self._chains.values():
                if chain.home == name:
                    chain.split(to.rows, to.sides, moved, how.plane)
        for name, own in self._own.items():
            self._give(name, own, to.rows, received[name].of(to.which, to.sides))
        units = {name: one.of(to.which, to.sides) for name, one in pools.items()}
        self._board.ledger.give(to.rows, **units)
        self.born[to.rows] = t
        self.generation[to.rows] += 1
        tables = [halves[n].particles if n in halves else received[n] for n in self._words]
        units_of = (pools["whole"][i] + pools["rest"][i] for i in range(3))
        self._record(t, to, part, [*tables, Received(*units_of), pools["debt"]])
        return to.rows

    def _agree(self, mothers: IntArray) -> None:
        """Let lattices have the particles that pools have of them."""
        which = np.zeros(self._board.n, bool)
        which[mothers] = True
        for name in self._halvings:
            shared = self._board.shared_anew(name, which)
            if shared is not None:
                self._parts[name].put(shared, None)

    def _halves(self, name: str, mothers: IntArray, tick: int) -> _Halves:
        how, words = self._halvings[name], list(self._words[name].values())
        none = np.zeros_like(mothers)
        counts, share, _ = self._parts[name].halve(mothers, none, mothers, how, tick)
        first, second = counts[:, 0].astype(np.float64), counts[:, 1].astype(np.float64)
        copied = np.array([word == "copy" for word in words], bool)
        return _Halves(Received(np.where(copied, first, first + second), first, second), share)

    def _of_part(self, name: str, mothers: IntArray, part: FloatArray, word: int) -> Received:
        own = self._own[name]
        words = [self._words[name][one] for one in own]
        values = self._parts[name].values(own)[mothers]
        drawn = ["copy" if one == INITIAL else one for one in words]
        first = self._kernel.first(values, drawn, mothers, part, seed_of(word, name))
        got = Received.of_first(values, first, drawn)
        anew = np.array([one == INITIAL for one in words], bool)
        own_start = self._hybrid.parts[name].of_cells
        start = self._start[name][self._board.origin[mothers] if own_start else mothers]
        return Received(values, *(np.where(anew, start, one) for one in got[1:]))

    def _of_pools(
        self, mothers: IntArray, part: FloatArray, word: int, halves: Mapping[str, _Halves]
    ) -> dict[str, Received]:
        """Whole units, rests and debts, as `Ledger.give` takes them.

        Of a rest below one unit one daughter gets all, so that no sum is rounded; but each has her
        part where no part counts units.
        """
        ledger, words = self._board.ledger, [one.word for one in self._pools]
        whole, rest, debt = (one[mothers] for one in (ledger.whole, ledger.rest, ledger.debt))
        share = part[:, None]
        uniforms = np.array([
            draws.uniform(seed_of(word, "rests"), draws.FRACTIONS, mother, len(words))
            for mother in mothers.tolist()
        ]).reshape(whole.shape)  # fmt: skip
        drawn = ["binomial" if one in ("share", "position") else one for one in words]
        by_share, even, all_to_first = (
            np.array([one == own for one in words], bool) for own in ("share", "even", "first")
        )

        def first_of(units: Array, what: str) -> FloatArray:
            few = (units >= 0) & (units <= _MOST_DRAWN)
            some = np.where(few, units, 0).astype(np.float64)
            result = self._kernel.first(some, drawn, mothers, part, seed_of(word, what))
            shared = np.floor(units * np.where(even, 0.5, share) + uniforms)
            shared = np.clip(shared, np.minimum(units, 0), np.maximum(units, 0))
            return np.where(by_share | ~few, shared, result)

        first = first_of(whole, "pools").astype(np.int64)
        first = np.where(all_to_first, whole, first)
        for place, one in enumerate(self._pools):
            if one.lattice:
                first[:, place] = halves[one.lattice].particles.first[:, one.species]
        to_first = (uniforms < share) | all_to_first
        rests = np.where(to_first, rest, 0.0)
        owed = np.floor(debt)
        owes = first_of(owed, "debts") + np.where(to_first, debt - owed, 0.0)
        owes = np.where(all_to_first, debt, owes)
        divisible = by_share & np.array([one.real for one in self._pools], bool)
        units = share * whole + share * rest
        first = np.where(divisible, np.floor(units), first).astype(np.int64)
        rests = np.where(divisible, units - np.floor(units), rests)
        return {
            "whole": Received.of_first(whole, first, words),
            "rest": Received.of_first(rest, rests, words),
            "debt": Received.of_first(debt, np.where(divisible, share * debt, owes), words),
        }

    def _take(self, index: IntArray) -> None:
        """Make cells copies of others, where they are to be."""
        if (index == np.arange(len(index))).all():
            return
        for part in self._parts.values():
            part.take(index)
        self._board.take(index)
        self._board.ledger.take(index)
        self.born, self.generation = self.born[index], self.generation[index]

    def _give(self, name: str, own: tuple[str, ...], rows: IntArray, values: FloatArray) -> None:
        """Give daughters what is not the same for both."""
        columns = [at for at, one in enumerate(own) if self._words[name][one] != "copy"]
        if columns and len(rows):
            self._parts[name].give(rows, tuple(own[at] for at in columns), values[:, columns])

    # ---------------------------------------------------------------- records

    def _recorded(self) -> tuple[tuple[str, ...], IntArray]:
        """Names of the amounts that are kept, and their columns among all that are divided."""
        board, hybrid = self._board, self._hybrid
        billed = {board.number((p.part, p.name)) for b in hybrid.bills for p in b.amounts}
        every: list[tuple[str, bool]] = []
        for part, words in self._words.items():
            known, own = set(hybrid.record[part]), self._own.get(part, tuple(words))
            every += [
                (f"{part}.{one}", one in known and (part, one) not in board.pool_of) for one in own
            ]
        pools = list(board.pools.items())
        every += [(f"{part}.{one}", one in hybrid.record[part]) for (part, one), _ in pools]
        every += [(f"{part}.{one}.debt", number in billed) for (part, one), number in pools]
        columns = np.flatnonzero([kept for _, kept in every])
        return tuple(every[at][0] for at in columns.tolist()), columns

    def _nothing(self) -> dict[str, Array]:
        """Records of no division: their kinds."""
        none, amounts = np.zeros(0), np.zeros((0, len(self._names)))
        whole = none.astype(np.int64)
        return {
            "time": none, "cell": whole, "fraction": none, "first_in": whole, "second_in": whole,
            "mother": amounts, "first": amounts, "second": amounts,
        }  # fmt: skip

    def _record(self, t: float, to: _Places, part: FloatArray, tables: Sequence[Received]) -> None:
        every = zip(*tables, strict=True)
        amounts = [np.concatenate(each, axis=1)[:, self._columns] for each in every]
        self._records.append({
            "time": np.full(len(to.mothers), t), "cell": to.mothers, "fraction": part,
            "first_in": to.at(1), "second_in": to.at(2),
            **dict(zip(Received._fields, amounts, strict=True)),
        })  # fmt: skip

    @property
    def divisions(self) -> Divisions:
        """All divisions so far."""
        records = self._records
        joined = {name: np.concatenate([one[name] for one in records]) for name in records[0]}
        return Divisions(self._names, **joined)

    def stored(self) -> dict[str, Any]:
        """All that it goes on from."""
        result = {name: getattr(self.divisions, name) for name in self._nothing()}
        own = {"born": self.born, "generation": self.generation, "origin": self._board.origin}
        return own | result

    def take_up(self, state: State) -> None:
        """Go on from what `stored` gave."""
        n = self._board.n
        self.born = state.take("born", np.float64, n)
        self.generation = state.take("generation", np.int64, n)
        if "origin" in state:  # files of earlier versions lack it: there all cells were alike
            self._board.origin = state.take("origin", np.int64, n, low=0, high=n - 1)
        size = len(state.take("time", np.float64, None))
        self._records = [{
            name: state.take(name, kind.dtype, size, *kind.shape[1:], nan=kind.ndim == 2)
            for name, kind in self._nothing().items()
        }]  # fmt: skip

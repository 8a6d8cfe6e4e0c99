"""Cells that grow and divide, each with a time of its own until all have arrived."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tauslab.analysis.particles import weights as draws
from tauslab.analysis.particles.daughters import Fraction
from tauslab.analysis.particles.motions.network import NetworkMotion
from tauslab.analysis.populations.division import Division
from tauslab.analysis.populations.families import pairs_factor
from tauslab.analysis.populations.keywords import PopulationKeywords
from tauslab.analysis.populations.result import Divisions, PopulationResult, Snapshot
from tauslab.base.arrays import Array, FloatArray, IntArray
from tauslab.base.errors import ConfigError
from tauslab.base.option_names import assigned, opt, warn
from tauslab.decomposition.ranks.mpi import Communicator
from tauslab.kernels.backends import Backend
from tauslab.model.expressions.host_math import value_of
from tauslab.options.ensemble import Options
from tauslab.runner.ensemble.breaks import BreaksAhead

HALTED = 7  # a cell that divides: csrc/events/kept.h
_ENDED = 2
_MOST_ROUNDS = 100_000  # divisions of one cell between two times


class CellRecords:
    """Each cell's number, its line, its birth, and its values then, on the host.

    The first cells have values of time 0, and may be older, by the column `birth` of these.
    """

    def __init__(self, n: int, values: FloatArray, birth: int | None) -> None:
        self.cell: IntArray = np.arange(n)
        self.mother: IntArray = np.full(n, -1)
        self.founder: IntArray = np.arange(n)
        self.generation: IntArray = np.zeros(n, np.int64)
        self.born = np.zeros(n) if birth is None else np.minimum(values[:, birth], 0.0)
        self.birth = values  # [cell, species]

    def take(self, index: IntArray) -> None:
        """Copy and forget cells."""
        for name, values in vars(self).items():
            setattr(self, name, values[index])

    def __len__(self) -> int:
        """Number of cells."""
        return len(self.cell)


class GrowingCells:
    """Cells of a network, moved together.

    Parameters
    ----------
    given
        With the fraction of the first daughter, and which daughters are followed.
    initial
        Probabilities ``[count]`` of initial counts, by species.
    """

    def __init__(
        self, division: Division, options: Options, rows: Mapping[str, Any],
        given: PopulationKeywords, initial: Mapping[str, FloatArray], backend: Backend,
        comm: Communicator,
    ) -> None:  # fmt: skip
        assert options.seed is not None
        self._division, self._fraction = division, Fraction.parse(given.fraction)
        self._follow, self._most = given.follow, given.max_cells
        self._seed, self._size = options.seed, options.n
        self._rows = dict(rows)
        self._motion = NetworkMotion(division.network, options, rows, backend, comm, initial)
        species, one_group = self._motion.species, range(1)
        self._motion.put(draws.initial_counts(initial, species, self._seed, self._size, one_group))
        self._round = self._thinned = self._divided = 0
        self._next = options.n  # number of the next cell
        self._log_weight = 0.0  # how many cells of the whole population one stands for
        self._log_pairs = 0.0 if given.follow != "lineage" else math.nan
        self._ended = 0
        self._settle_round(0.0)
        first = self._values(np.arange(options.n))[:, :-1]
        self._cells = CellRecords(options.n, first, division.birth)
        self._records: list[dict[str, Array]] = []
        self._record(np.zeros(0, np.int64), np.zeros((0, len(division.how) + 1)))

    def run(self, times: Sequence[float]) -> PopulationResult:
        """Look at all cells at each time."""
        snapshots, before, ahead = [], 0.0, BreaksAhead(self._division.network)
        for t in times:
            for stop in ahead.stops(before, t, self._rows):
                self._advance(stop)
            before = t
            snapshots.append(self._snapshot(t))
            if self._follow == "population":
                self._thin(self._size)
        if self._ended:
            warn(
                f"{self._ended} cells have ended early (a count overflows, a value is no number, "
                f"or {opt('max_steps')}): they and their descendants are left out, and count as "
                "dead in sizes and growth rates"
            )
        records = self._records
        joined = {name: np.concatenate([one[name] for one in records]) for name in records[0]}
        order = np.lexsort((joined["cell"], joined["divided"]))
        divisions = {name: values[order] for name, values in joined.items()}
        return PopulationResult(
            np.asarray(times, np.float64), tuple(snapshots),
            Divisions(tuple(self._division.how), **divisions), self._ended, self._seed,
        )  # fmt: skip

    def _settle_round(self, t: float) -> Array:
        word = int(draws.words(self._seed, draws.ROUNDS, self._round, 1)[0])
        self._round += 1
        # At time 0 no cell divides yet: one that is to divide does so in the first step.
        halt = self._division.halt if t > 0 else -1
        return self._motion.advance(0.0, t, word, halt=halt)

    def _advance(self, t: float) -> None:
        if t == 0:
            return
        for _ in range(_MOST_ROUNDS):
            status = self._settle_round(t)
            divides = status == HALTED
            ended = ~divides & (status >= _ENDED)
            self._ended += int(ended.sum())
            if ended.all():
                raise ConfigError(
                    f"all cells have ended before t = {t:g}: counts overflow, or values are no "
                    "numbers, or their events are a cascade without end, or take more than "
                    f"{opt('max_steps')}"
                )
            if not (divides.any() or ended.any()):
                return
            self._divide(divides, ended)
            if self._follow == "population" and self._motion.n > 2 * self._size:
                self._thin(self._size)
        raise ConfigError(
            f"cells divide without end before t = {t:g}: after a division its trigger becomes "
            "true again at once"
        )

    def _divide(self, divides: Array, ended: Array) -> None:
        cells, mothers = self._cells, np.flatnonzero(divides)
        both = self._follow != "lineage"
        copies = np.where(ended, 0, np.where(divides & both, 2, 1))
        size = int(copies.sum())
        if self._follow == "tree" and size > self._most:
            raise ConfigError(
                f"the tree has more than {assigned('max_cells')}{self._most} cells: ask for "
                f"earlier times, or {opt('follow', 'population')}"
            )
        values = self._values(mothers)
        index = np.repeat(np.arange(len(cells)), copies)
        side = np.zeros(size, np.uint8)
        number = np.zeros(size, np.int64)
        daughters = divides[index]
        second = daughters & (np.diff(index, prepend=-1) == 0)
        side[daughters] = np.where(second[daughters], 2, 1)
        order = np.cumsum(divides) - 1  # of a mother among all mothers of this round
        number[daughters] = order[index[daughters]]
        if not both and len(mothers):
            kept = draws.uniform(self._seed, draws.SIDES, self._divided, len(mothers))
            side[daughters] = np.where(kept < 0.5, 1, 2)
        parts = np.full(size, 0.5)
        if len(mothers):
            uniforms = draws.uniform(self._seed, draws.FRACTIONS, self._divided, len(mothers))
            parts[daughters] = self._fraction.at(uniforms)[number[daughters]]
            self._record(mothers, values)
        word = int(draws.words(self._seed, draws.DIVISIONS, self._divided, 1)[0])
        self._divided += 1
        self._take(index)
        if not len(mothers):
            return
        self._motion.divide(
            side, number, parts, self._division.shares, seed=word, halt=self._division.halt
        )
        new = np.flatnonzero(daughters)
        cells.mother[new] = cells.cell[new]
        cells.cell[new] = self._next + np.arange(len(new))
        self._next += len(new)
        cells.generation[new] += 1
        cells.born[new] = values[number[new], -1]
        cells.birth[new] = self._values(new)[:, :-1]

    def _take(self, index: IntArray) -> None:
        self._motion.take(index)
        self._cells.take(index)
        if any(np.ndim(row) for row in self._rows.values()):
            self._rows = {k: v[index] if np.ndim(v) else v for k, v in self._rows.items()}
            self._motion.prepare(self._rows, len(index))

    def _thin(self, size: int) -> None:
        """Keep `size` cells by chance, all alike, so that none of them weighs more."""
        n = len(self._cells)
        if n <= size:
            return
        keys = draws.words(self._seed, draws.THINNING, self._thinned, n)
        self._thinned += 1
        self._log_weight += value_of("log", n / size)
        self._log_pairs += value_of("log", pairs_factor(n, size))
        self._take(np.sort(np.argsort(keys, kind="stable")[:size]))

    def _values(self, which: IntArray) -> FloatArray:
        """Values ``[row, species]`` of cells, then their times."""
        result = self._motion.rows_of(which)
        return np.delete(result, self._division.halt, axis=1)

    def _record(self, mothers: IntArray, values: FloatArray) -> None:
        cells = self._cells
        self._records.append({
            "cell": cells.cell[mothers], "mother": cells.mother[mothers],
            "founder": cells.founder[mothers], "generation": cells.generation[mothers],
            "born": cells.born[mothers], "divided": values[:, -1],
            "at_birth": cells.birth[mothers], "at_division": values[:, :-1],
            "log_weight": np.full(len(mothers), self._log_weight),
        })  # fmt: skip

    def _snapshot(self, t: float) -> Snapshot:
        cells, task = self._cells, self._motion.task
        names = tuple(self._division.how)
        table = self._values(np.arange(len(cells)))[:, :-1]
        rules = [name for name in task.observables if name not in task.lowered.species]
        if rules:
            observed = self._motion.shares.joined(self._motion.observe_own(t))
            places = [task.observables.index(name) for name in rules]
            table = np.concatenate([table, observed[:, places]], axis=1)
        return Snapshot(
            t, (*names, *rules), table, cells.cell.copy(), cells.mother.copy(),
            cells.founder.copy(), cells.generation.copy(), t - cells.born,
            self._log_weight + value_of("log", float(len(cells))), self._log_pairs,
        )  # fmt: skip

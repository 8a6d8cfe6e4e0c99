"""Particles that are whole lattices: replicas on a device, moved by whole steps."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from tauslab.analysis.particles.motions.cut_lattice import CutLattice, can_be_cut
from tauslab.analysis.particles.motions.motion import Motion, own_rows, require_each
from tauslab.analysis.particles.shares import CommonShares, Copies, Shares
from tauslab.base.arrays import Array, BoolArray, FloatArray, Int32Array, IntArray
from tauslab.base.errors import ConfigError
from tauslab.base.option_names import warn
from tauslab.decomposition.ranks.mpi import Communicator
from tauslab.kernels.backends import Backend
from tauslab.kernels.lattice.changing import drawn_places
from tauslab.kernels.lattice.halving import Halving
from tauslab.kernels.lattice.lowering import (
    LatticeObject,
    LoweredLattice,
    lower_lattice,
    with_rates,
)
from tauslab.kernels.lattice.planes import LatticeEngineName, engine_of
from tauslab.kernels.lattice.planes_replicas import bytes_of, replicas_of
from tauslab.kernels.lattice.replicas import COUNTED, Replicas, Rest
from tauslab.kernels.lattice.reshaping import REACH, Reshaped, as_reach, as_site_types
from tauslab.kernels.lattice.state import WAITING
from tauslab.model.lattice.diagnosis.check import model_warnings
from tauslab.model.lattice.lattice import Lattice
from tauslab.model.lattice.values import rates_behind
from tauslab.options.lattice import MOST_REPLICAS, set_parameters
from tauslab.runner.lattice.judging import Judge
from tauslab.store.state import State

_MOST_KNOWN = 64  # values for which the model is kept as numbers
_MOVED = 4  # lattices that one takes while it moves, about
_HALVING = 3  # a call of draws, beside those of `put_table`
_WAITING_FIELDS = ("site", "age", "particle")


def column_names(lattice: Lattice) -> tuple[str, ...]:
    """Names of what is counted in a lattice: ``A``, and ``A_in_membrane`` where there are types."""
    return (*lattice.species, *region_names(lattice))


def region_names(lattice: Lattice) -> tuple[str, ...]:
    """Counts in the sites of each type, ``A_in_membrane``; none where there is one type."""
    if len(lattice.type_names) == 1:
        return ()
    return tuple(f"{one}_in_{kind}" for kind in lattice.type_names for one in lattice.species)


class LatticeMotion(Motion):
    """Whole lattices as particles, moved by the steps of the model.

    Every lattice makes the same steps. At time t the last step that was made ends at t or
    before. Of a lattice that is given others are the replicas of a run: replica
    number i is placed as in ``tauslab.run(lattice, seed=...)``.
    """

    def __init__(
        self,
        model: Lattice,
        n: int,
        rows: Mapping[str, Any],
        backend: Backend,
        comm: Communicator,
    ) -> None:
        super().__init__(n, backend, comm)
        self._cut = can_be_cut(model, n, comm)
        self.shares = self._shares_of(n)
        self._model = model
        self._reaction_names = tuple(reaction.name for reaction in model.reactions)
        self._own_names = frozenset(model.species)
        self._regions = region_names(model)  # tens of thousands of names in large models
        self._step: float | None = None  # seconds; of the first values that were given
        self._done = 0  # steps of the model
        self._starts: list[LoweredLattice] = []  # with the values `_given`, of which each has one
        self._given: list[dict[str, float]] = []
        self._known: dict[tuple[tuple[str, float], ...], LoweredLattice] = {}
        self._last: tuple[dict[str, float], LoweredLattice] | None = None
        self._behind: dict[frozenset[str], list[int] | None] = {}  # by names: see `rates_behind`
        self._replicas: Replicas | None = None
        self._engine: LatticeEngineName | None = None  # of the first values, or of a file
        self._by_type: IntArray = np.zeros(0, np.int64)
        self._sizes: IntArray | None = None  # sites of each type, where they are known
        self._looked: IntArray = np.zeros(0, np.int64)  # firings at the last look, as `Rest.fired`
        self._splitting_reported = False
        self._seed, self._first = 0, 0  # of draws of `put` and `reshape`
        # Site types where species may be, of hops; and sites of some types, in a lattice of types.
        self._homes: tuple[Any, dict[int, BoolArray]] = (None, {})
        self._places: tuple[Array | None, dict[bytes, IntArray]] = (None, {})
        self.prepare(rows, n)
        self._judge = Judge(self.lattice)

    # ---------------------------------------------------------------- looking

    @property
    def species(self) -> tuple[str, ...]:
        """Names of the columns of counts."""
        return tuple(self._model.species)

    @property
    def observables(self) -> tuple[str, ...]:
        """Counts in the sites of each type, where there are several."""
        return self._regions

    def device_counts(self) -> Any:
        """Counts int32 ``[particle of this rank, species]`` on the device."""
        return self._backend.upload(self.own_counts())

    @property
    def cells(self) -> Any:
        """Species + 1, or 0, ``[particle of this rank, z, y, x, slot]`` on the device."""
        return self._lattices.cells

    @property
    def lattice(self) -> LoweredLattice:
        """The model as numbers: that of the first particle, where rates differ."""
        return self._lattices.lattice

    @property
    def _lattices(self) -> Replicas:
        assert self._replicas is not None
        return self._replicas

    def own_counts(self) -> Int32Array:
        """A copy of the counts ``[particle of this rank, species]`` on the host."""
        return np.ascontiguousarray(self._by_type.sum(axis=1), np.int32)

    def own_count(self, number: int) -> Array:
        """A copy of one column of them."""
        return self.own_counts()[:, number]

    def observe_own(self, now: float) -> FloatArray:  # noqa: ARG002 - as every motion
        """Counts by site type ``[particle of this rank, observable]``."""
        n, *each = self._by_type.shape
        of_all = self._by_type.reshape(n, math.prod(each))  # also where this rank has none
        return of_all[:, : len(self.observables)].astype(np.float64)

    @property
    def reaction_names(self) -> tuple[str, ...]:
        """All reactions."""
        return self._reaction_names

    def own_fired(self) -> IntArray:
        """Firings int64 ``[particle of this rank, reaction]`` since the last call."""
        before, self._looked = self._looked, self._lattices.rest.fired.copy()
        return self._looked - before

    def own_profile(self, species: str, axis: str) -> IntArray:
        """Particles int64 ``[particle of this rank, plane]`` of a species along z, y or x."""
        number = self.species.index(species) + 1
        return self._lattices.profile(number, "zyx".index(axis))

    # ---------------------------------------------------------------- values

    def prepare(self, rows: Mapping[str, Any], n: int) -> None:
        """Take values of parameters, one per particle or one for all.

        Raises
        ------
        ConfigError
            Values that change hops, or what is held at a face, differ between particles.
        """
        each = {name: np.asarray(row, np.float64) for name, row in rows.items() if np.ndim(row)}
        single = {name: float(row) for name, row in rows.items() if not np.ndim(row)}
        set_parameters(self._model, {**single, **dict.fromkeys(each, 0.0)})
        first = {**single, **{name: float(row[0]) for name, row in each.items()}}
        base = self._lowered(first, warns=self._replicas is None)
        starts, all_given = [base], [first]
        which: IntArray = np.zeros(n, np.int64)
        if each:
            table = np.stack(list(each.values()), axis=1)
            unique, which = np.unique(table, axis=0, return_inverse=True)
            all_given = [{**single, **dict(zip(each, row, strict=True))} for row in unique.tolist()]
            starts = [self._lowered(values) for values in all_given]
            base = _joint_model(base, starts, list(each))
        self._warn_of_splitting(starts)
        self._values, self._starts, self._given = dict(rows), starts, all_given
        self._which = which.reshape(-1)
        self._base = base
        self._use(base, n)

    def _lowered(self, values: Mapping[str, float], *, warns: bool = False) -> LoweredLattice:
        key = tuple(sorted(values.items()))
        if key in self._known:
            return self._known[key]
        if len(self._known) > max(_MOST_KNOWN, self.n):
            self._known = {}
        result = self._with_rates(values)
        if result is not None:
            self._known[key], self._last = result, (dict(values), result)
            return result
        with warnings.catch_warnings():
            if not warns:
                warnings.simplefilter("ignore")
            result = lower_lattice(self._model, step=self._step, parameters=dict(values) or None)
            if warns:
                hop = result.splitting.hop
                for sentence in model_warnings(self._model, dict(values) or None, hop=hop):
                    warn(f"{self._model.name}: {sentence}")
        self._step = result.step
        self._known[key], self._last = result, (dict(values), result)
        return result

    def _with_rates(self, values: Mapping[str, float]) -> LoweredLattice | None:
        """The task prepared last, with new rates; None if more than rates changed."""
        if self._last is None:
            return None
        given, before = self._last
        names = frozenset(name for name in (*given, *values) if given.get(name) != values.get(name))
        if names not in self._behind:
            self._behind[names] = rates_behind(self._model, names)
        reactions = self._behind[names]
        return None if reactions is None else with_rates(before, self._model, reactions, values)

    def _warn_of_splitting(self, starts: list[LoweredLattice]) -> None:
        """Warn, once, where reactions are so fast that hops should come between them."""
        reported = max(starts, key=lambda one: one.splitting.error).splitting_warning()
        if reported is not None and not self._splitting_reported:
            warn(reported)
        self._splitting_reported |= reported is not None

    def _use(self, base: LoweredLattice, n: int) -> None:
        """Make the replicas that move lattices of this model, or give them their rates."""
        held = self._replicas
        engine = self._engine = self._engine or engine_of(base)
        if held is None:
            each = bytes_of(base, engine) // (self._comm.size if self._cut else 1)
            # Before and after they are copied; and what moves, of one at least.
            self._rows.require_memory(n, 2 * each, self._model.name, _MOVED * each)
        if held is None or not _serves(held.lattice, base):
            made = self._made(base, engine)
            if held is not None:
                made.put(held.particles, held.rest)
                held.close()
            self._replicas = made
        if len(self._starts) == 1 and np.array_equal(self.lattice.rates, base.rates):
            self._lattices.use_rates(None)
            return
        own = self._which[self._shares_of(n).own]
        self._lattices.use_rates(np.stack([one.rates for one in self._starts])[own])

    def _made(self, base: LoweredLattice, engine: LatticeEngineName) -> Replicas:
        """Make no lattices yet: whole ones, or a slab on each rank of the only one."""
        if self._cut:
            return CutLattice(self._backend, base, engine, self._comm)
        return replicas_of(self._backend, base, engine)

    def _shares_of(self, n: int) -> Shares:
        return CommonShares(n, self._comm) if self._cut else Shares(n, self._comm)

    def _use_engine(self, engine: LatticeEngineName) -> None:
        """Make no lattices yet, in the form of an engine."""
        if engine is not self._engine:
            base = self._base
            self.close()
            self._replicas, self._engine = None, engine
            self._use(base, self.n)

    # ---------------------------------------------------------------- moving

    def begin(self, seed: int, first: int) -> None:
        """Place the particles of the model; the first lattice has this number."""
        self._require_numbers(first)
        own = self.shares.own
        starts = [(self._starts[self._which[i]], first + i) for i in range(own.start, own.stop)]
        self._done, self._sizes = 0, None
        self._seed, self._first = seed, first
        self._lattices.begin(starts, seed)
        self._lattices.place_objects([number for _, number in starts], seed=seed)
        self._by_type = self._lattices.count()
        self._looked = self._lattices.rest.fired.copy()

    def place(self, columns: Mapping[str, IntArray], seed: int, first: int) -> None:
        """As of `Motion`."""
        held = self._starts, self._which
        table = np.stack([*columns.values(), self._which], axis=1)
        unique, which = np.unique(table, axis=0, return_inverse=True)
        self._starts = [
            self._lowered(self._given[row[-1]] | dict(zip(columns, map(float, row), strict=False)))
            for row in unique.tolist()
        ]
        self._which = which.reshape(-1)
        self.begin(seed, first)
        self._starts, self._which = held

    def holds(self, name: str) -> bool:
        """Return whether a name is a species, whose number is part of the state."""
        return name in self._own_names and name not in self._model.parameters

    def expect(self, names: Sequence[str]) -> None:
        """Compile kernels that put particles, and find sites where these species may be."""
        none = np.zeros(0, np.int64)
        self._lattices.put_in(none, none, none)
        if len(self._lattices):
            for name in names:
                self._places_of(self._lattices.lattice.numbers[name], 0)

    def put_table(self, names: tuple[str, ...], values: FloatArray, now: float) -> None:  # noqa: ARG002 - as every motion
        """Give numbers of particles, which come to random sites, or go, drawn at random.

        Raises
        ------
        ConfigError
            A number that is negative or not whole.
        """
        if not names:
            return
        own, lattices = self.shares.own, self._lattices
        good = (values >= 0) & (values <= 2**31 - 1) & (values == np.rint(values))
        require_each(good, names, "counts must be whole numbers from 0 to 2147483647")
        kinds = np.array([lattices.lattice.numbers[name] for name in names], np.int64)
        rows = own_rows(values, own).astype(np.int64)
        more = rows - self._by_type.sum(axis=1)[:, kinds]
        lattices.rest = replace(lattices.rest, puts=lattices.rest.puts + more.any(axis=1))
        fewer = np.zeros((len(more), len(self.species) + 1), np.int64)
        fewer[:, kinds + 1] = np.maximum(-more, 0)
        first = self._first + own.start
        gone = lattices.take_out(fewer, seed=self._seed, call=1, first=first)
        self._add_counts(gone[0], gone[1], gone[2], -1)
        self._put_in(np.maximum(more, 0), kinds, first)

    def _add_counts(self, rows: IntArray, sites: IntArray, particles: IntArray, by: int) -> None:
        """Count particles that came or went."""
        for row in np.unique(rows).tolist():
            local = rows == row
            kinds = self._types_in(row)[sites[local]], particles[local] - 1
            np.add.at(self._by_type[row], kinds, by)

    def _put_in(self, numbers: IntArray, kinds: IntArray, first: int) -> None:
        """Put ``numbers[particle of this rank, kind]`` at random sites where they may be."""
        for row in np.flatnonzero(numbers.any(axis=1)).tolist():
            places = [self._places_of(kind, row) for kind in kinds.tolist()]
            sizes = np.array([len(one) for one in places], np.int64)
            kind = np.repeat(np.arange(len(kinds)), numbers[row])
            drawn = drawn_places(
                len(kind), sizes[kind], seed=self._seed, step=int(self._lattices.rest.puts[row]),
                call=2, replica=first + row,
            )  # fmt: skip
            ends = np.cumsum(numbers[row])
            parts = zip(places, np.split(drawn, ends[:-1]), strict=True)
            sites = np.concatenate([where[part] for where, part in parts])
            rows = np.full(len(sites), row)
            self._lattices.put_in(rows, sites, kinds[kind] + 1)
            self._add_counts(rows, sites, kinds[kind] + 1, 1)

    def _types_in(self, row: int) -> Array:
        """Types of all sites of a lattice of this rank."""
        own = self._lattices.rest.types[row]
        return self._site_types if own is None else own.reshape(-1)

    def _places_of(self, kind: int, row: int) -> IntArray:
        """Sites where a species may be: where it hops, or is at the start, or reacts; or all."""
        types = self._lattices.rest.types[row]
        if self._homes[0] is not self.lattice.hop:
            self._homes = self.lattice.hop, {}
        if self._places[0] is not types:
            self._places = types, {}
        homes, places = self._homes[1], self._places[1]
        if kind not in homes:
            homes[kind] = self._types_of(kind)
        those = homes[kind].tobytes()
        if those not in places:
            result = np.flatnonzero(homes[kind][self._types_in(row)])
            places[those] = result if len(result) else np.arange(len(self._site_types))
        return places[those]

    def types_of(self, row: int) -> Array:
        """Site types ``[z, y, x]`` of a lattice of this rank."""
        return self._types_in(row).reshape(self.lattice.shape)

    def lift(self, rows: Sequence[int], names: Sequence[str]) -> IntArray:
        """Take all particles of species out of lattices of this rank.

        Returns
        -------
        Lattice, site and species + 1 of each, int64 ``[3, particle]``, in this order.
        """
        kinds = np.array([self.lattice.numbers[name] for name in names], np.int64)
        numbers = np.zeros((len(self._lattices), len(self.species) + 1), np.int64)
        at = np.ix_(np.asarray(rows, np.int64), kinds)
        numbers[at[0], at[1] + 1] = self._by_type.sum(axis=1)[at]
        gone = self._lattices.take_out(
            numbers, seed=self._seed, call=1, first=self._first + self.shares.own.start
        )
        self._add_counts(gone[0], gone[1], gone[2], -1)
        return gone[:, np.lexsort(gone[::-1])]

    def lay(self, particles: IntArray) -> None:
        """Put particles into lattices of this rank: lattice, site and species + 1 of each."""
        self._lattices.put_in(*particles)
        self._add_counts(particles[0], particles[1], particles[2], 1)

    def _types_of(self, kind: int) -> BoolArray:
        """Site types where a species may be, whatever the rates are."""
        lattice, name = self.lattice, self.species[kind]
        types = np.asarray((lattice.hop[:, :, kind] > 0).any(axis=0))
        if not types.any():
            for one in lattice.start.placed:
                if one.species == kind and one.positions is None:
                    types[one.site_type] = True
                elif one.species == kind and one.positions is not None:
                    where = np.ravel_multi_index(tuple(one.positions.T), lattice.shape)
                    types[self._site_types[where]] = True
        if not types.any():
            for reaction in self._model.reactions:
                if name in reaction.reactants or name in reaction.products:
                    within = reaction.site_types or self._model.type_names
                    types[[self._model.type_names.index(one) for one in within]] = True
        return types

    def reshape(
        self, given: Sequence[Any], follow: Mapping[str, str] | None = None, *, reach: int = REACH
    ) -> list[Reshaped]:
        """Give each lattice other site types, as `LatticeView.reshape` does. Collective.

        Parameters
        ----------
        given
            Site types of each lattice of this rank; None: those that it has.

        Returns
        -------
        What changed in each lattice of this rank.
        """
        lattices, own = self._lattices, self.shares.own
        reach, anew = as_reach(reach), np.array([one is not None for one in given], np.int64)
        lattices.rest = replace(lattices.rest, shapes=lattices.rest.shapes + anew)
        every = [
            None
            if one is None
            else lattices.with_objects(row, as_site_types(lattices.lattice, one))
            for row, one in enumerate(given)
        ]
        result = [
            Reshaped(0, 0, 0)
            if types is None or np.array_equal(types.reshape(-1), self._types_in(row))
            else lattices.reshape(
                row, types, follow or {}, seed=self._seed, number=self._first + own.start + row,
                call=int(lattices.rest.shapes[row]), reach=reach,
            )
            for row, types in enumerate(every)
        ]  # fmt: skip
        self._by_type = lattices.count()
        self._sizes = None
        return result

    def halve(
        self, rows: Sequence[int], kept: Sequence[int], mothers: Sequence[int], how: Halving,
        step: int,
    ) -> tuple[IntArray, FloatArray, IntArray]:  # fmt: skip
        """Let lattices, of all ranks, become one of their daughters. Collective.

        Parameters
        ----------
        kept
            1 or 2 of each row; 0: nothing changes.
        mothers
            Numbers of the mothers of which rows are copies, for the draws of a `step`.

        Returns
        -------
        Particles int64 ``[row, daughter, species]`` of both daughters, the part f64 ``[row]``
        of the sites that the first has, and by how many sites ``[row]`` the kept one moved.
        """
        own = self.shares.own
        counts = np.zeros((own.stop - own.start, 2, len(self.species)), np.int64)
        shares = np.zeros(own.stop - own.start)
        moved = np.zeros(own.stop - own.start, np.int64)
        for row, daughter, mother in zip(rows, kept, mothers, strict=True):
            if own.start <= row < own.stop:
                half = self._lattices.halve(
                    row - own.start, daughter, how, seed=self._seed, number=self._first + row,
                    mother=self._first + mother, step=step, call=_HALVING,
                )  # fmt: skip
                at = row - own.start
                counts[at], shares[at], moved[at] = half.counts, half.share, -half.shift
        if any(kept):
            self._by_type, self._sizes = self._lattices.count(), None
        joined, which = self.shares.joined, np.asarray(rows)
        result = (np.asarray(joined(one))[which] for one in (counts, shares, moved))
        return next(result), next(result), next(result)

    def settle_objects(self, rows: Sequence[int], time: int) -> None:
        """Place objects of lattices, of all ranks, that lost their sites in a new shape."""
        own = self.shares.own
        for row in rows if self.lattice.objects else ():
            if own.start <= row < own.stop:
                self._lattices.settle_objects(
                    row - own.start, self._first + row, seed=self._seed, time=time
                )
        self._by_type, self._sizes = self._lattices.count(), None

    def sites_of_types(self) -> IntArray:
        """Sites int64 ``[particle, site type]`` of all ranks. Collective after a new shape."""
        if self._sizes is None:
            types = range(len(self._model.type_names))
            rows = range(len(self._lattices))
            own = [[np.count_nonzero(self._types_in(row) == t) for t in types] for row in rows]
            self._sizes = np.asarray(
                self.shares.joined(np.array(own, np.int64).reshape(len(own), len(types)))
            )
        return self._sizes

    @cached_property
    def _site_types(self) -> Array:
        """Types of all sites of the model."""
        return np.asarray(self.lattice.sites(0, self.lattice.shape[0])).reshape(-1)

    def advance(self, start: float, end: float, seed: int, *, first: int = 0) -> Array:
        """Move all lattices by whole steps; all go on."""
        del start
        lattices = self._lattices
        self._require_numbers(first)
        assert self._step is not None
        due = math.floor(end / self._step * (1 + 1e-12))
        if not due * lattices.lattice.diffusion_substeps < 1 << 48:
            raise ConfigError(
                f"t = {end:g} is {due:.3g} steps of {self._step:.3g} s; at most 2^48 are done"
            )
        own = self.shares.own
        numbers = range(first + own.start, first + own.stop)
        self._by_type = lattices.advance(self._done, due, numbers, seed=seed)
        self._done, self._sizes = due, None if lattices.lattice.objects else self._sizes
        if not self._cut or self._comm.rank == 0:
            self._judge.truncated[0] = int(lattices.rest.truncated.sum())
            self._judge.add(lattices.waiting, int(self._by_type.sum()))
        self._judge.speak(self._comm)
        return np.zeros(self.n, np.uint8)

    def take(self, ancestors: IntArray) -> None:
        """Make lattice i a copy of lattice ``ancestors[i]``; their number may change."""
        if self._cut:
            self._copied(len(ancestors))
            return
        lattices = self._lattices
        self._rows.require_memory(len(ancestors), lattices.bytes_each, self._model.name)
        order, wanted = self.shares.route(ancestors)
        particles = self._rows.moved(self.shares, lattices.particles, order, wanted)
        rest, by_type, looked = self._moved_rest(order, wanted)
        self.shares = Shares(len(ancestors), self._comm)
        self._which = self._which[ancestors]
        lattices.put(particles, rest)
        self._by_type, self._looked, self._sizes = by_type, looked, None
        self._use(self._base, len(ancestors))

    def copy(self, copies: Copies) -> None:
        """As of `Motion`."""
        self.take(self.ancestors_on_host(copies))

    def copied(self, values: Array, copies: Copies) -> Array:
        """As of `Motion`."""
        return values[self.ancestors_on_host(copies)]

    def _copied(self, n: int) -> None:
        """Make so many copies, whole on ranks, of the lattice that ranks share."""
        if n == 1:
            return
        held, base = self._lattices, self._base
        cells, rest = held.host_cells(), held.rest
        self.close()
        self._cut, self._replicas = False, None
        self.shares, self._which, self._sizes = self._shares_of(n), self._which[[0] * n], None
        own = self.shares.own
        rows = np.zeros(own.stop - own.start, np.int64)
        self._use(base, n)
        self._lattices.take_up(cells[rows], rest.take(rows))
        self._by_type, self._looked = self._by_type[rows], self._looked[rows]

    def close(self) -> None:
        """As of `Motion`."""
        if self._replicas is not None:
            self._replicas.close()

    def _moved_rest(self, order: IntArray, wanted: Any) -> tuple[Rest, IntArray, IntArray]:
        """The rest of the state of lattices, after a move as of `DeviceRows.moved`."""
        held, own = self._lattices.rest, (self._by_type, self._looked)
        if self._comm.size == 1:
            return held.take(order), own[0][order], own[1][order]
        rank = self._comm.rank
        out = {to: (held.take(rows), *(one[rows] for one in own)) for to, rows in enumerate(wanted)}
        mine = out[rank]
        sent = self._comm.allgather({to: part for to, part in out.items() if to != rank})
        parts = [mine, *(each[rank] for by, each in enumerate(sent) if by != rank)]
        pool = Rest.joined([part[0] for part in parts]).take(order)
        by_type, looked = (np.concatenate([part[i] for part in parts])[order] for i in (1, 2))
        return pool, by_type, looked

    def _require_numbers(self, first: int) -> None:
        if first + self.n > MOST_REPLICAS:
            raise ConfigError(
                f"{first + self.n} lattices: a draw knows {MOST_REPLICAS} at most, so n, with the "
                "numbers of filters, must be as small"
            )

    # ---------------------------------------------------------------- keeping

    def stored(self) -> dict[str, Array]:
        """Whole lattices of all ranks."""
        lattices, joined = self._lattices, self.shares.joined
        rest = lattices.rest
        lengths = np.array([len(one) for one in rest.waiting], np.int64)
        entries = np.concatenate([np.zeros(0, WAITING), *rest.waiting])
        result = {
            "particles": joined(lattices.host_cells()),
            "in_planes": np.array(int(self._engine is LatticeEngineName.PLANES)),
            "counts_by_type": joined(self._by_type),
            **{name: joined(getattr(rest, name)) for name in COUNTED},
            "looked": joined(self._looked),
            "waiting/lengths": joined(lengths),
            "done": np.array(self._done),
            "step": np.array(self._step),
        }
        for name in _WAITING_FIELDS:
            result[f"waiting/{name}"] = self.shares.gathered(entries[name])
        if self.lattice.objects:
            texts = [json.dumps(one).encode() for one in rest.objects]
            result["objects/lengths"] = joined(np.array([len(text) for text in texts], np.int64))
            result["objects/text"] = self.shares.gathered(np.frombuffer(b"".join(texts), np.uint8))
        if result["shapes"].any() or self.lattice.objects:
            sites = [self._types_in(row) for row in range(len(lattices))]
            whole = len(sites), lattices.sites
            result["site_types"] = joined(np.array(sites, np.uint8).reshape(whole))
        return result

    def take_up(self, state: State) -> None:
        """Go on from what `stored` gave."""
        step = state.real("step", np.nextafter(0.0, 1.0), np.finfo(np.float64).max)
        if step != self._step:
            self._step, self._known, self._last = step, {}, None
            self.prepare(self._values, self.n)
        # Files of earlier versions lack it: there all lattices were in slots.
        planes = "in_planes" in state and state.whole("in_planes")
        self._use_engine(LatticeEngineName.PLANES if planes else LatticeEngineName.SLOTS)
        lattices, own, n = self._lattices, self.shares.own, self.n
        lattice = lattices.lattice
        held = state.take("particles", lattice.particle_type, n, *lattice.shape, lattice.slots)
        if held.max(initial=0) > len(self._model.species):
            raise state.damaged("it holds particles of no species")
        fired = state.take("fired", np.int64, n, len(lattice.reactions))
        others = (self._counted_of(state, name)[own] for name in COUNTED[1:])
        lattices.take_up(
            held[own],
            Rest(
                self._waiting_of(state)[own],
                fired[own],
                *others,
                types=self._shapes_of(state),
                objects=self._objects_of(state)[own],
            ),
        )
        # Files of earlier versions lack it: nobody looked.
        looked = state.take("looked", np.int64, *fired.shape) if "looked" in state else 0 * fired
        self._looked = np.ascontiguousarray(looked[own])
        self._by_type = state.take("counts_by_type", np.int64, n, *self._by_type.shape[1:])[own]
        self._done = state.whole("done")
        self._sizes = None

    def _counted_of(self, state: State, name: str) -> IntArray:
        """Numbers ``[particle]``; files of earlier versions have one of all, or none."""
        if name in ("puts", "shapes") and (name not in state or not state[name].ndim):
            return np.full(self.n, state.whole(name) if name in state else 0, np.int64)
        result: IntArray = state.take(name, np.int64, self.n)
        return result

    def _shapes_of(self, state: State) -> list[Array | None]:
        """Site types of this rank's lattices, of a file."""
        lattice, own = self._lattices.lattice, self.shares.own
        if "site_types" not in state:
            return [None] * (own.stop - own.start)
        held = state.take("site_types", np.uint8, self.n, math.prod(lattice.shape))
        if held.max(initial=0) >= len(lattice.site_types):
            raise state.damaged("it holds sites of no type")
        return list(np.ascontiguousarray(held[own]).reshape(-1, *lattice.shape))

    def _objects_of(self, state: State) -> list[Any]:
        """Objects of several sites in each lattice, of a file."""
        if not self.lattice.objects:
            return [{}] * self.n
        lengths = state.take("objects/lengths", np.int64, self.n)
        if lengths.min(initial=0) < 0:
            raise state.damaged("a text of objects is shorter than 0")
        text = state.take("objects/text", np.uint8, int(lengths.sum())).tobytes()
        ends = np.cumsum(lengths).tolist()
        return [json.loads(text[end - n : end]) for end, n in zip(ends, lengths, strict=True)]

    def _waiting_of(self, state: State) -> list[Array]:
        """Particles that wait in each lattice, of a file."""
        lengths = state.take("waiting/lengths", np.int64, self.n)
        if lengths.min(initial=0) < 0:
            raise state.damaged("a number of waiting particles is below 0")
        entries = np.zeros(int(lengths.sum()), WAITING)
        entries["next"] = -1
        for name in _WAITING_FIELDS:
            entries[name] = state.take(f"waiting/{name}", WAITING[name], len(entries))
        sites = math.prod(self._lattices.lattice.shape)
        kinds = entries["particle"]
        if (entries["site"] >= sites).any() or (kinds > len(self._model.species)).any():
            raise state.damaged("its waiting particles are in no site, or of no species")
        return np.split(entries, np.cumsum(lengths)[:-1])


def _joint_model(
    base: LoweredLattice, found: list[LoweredLattice], names: list[str]
) -> LoweredLattice:
    """One model for lattices whose rates differ, with the largest of them."""
    for one in found:
        if not _same_hops(base, one):
            raise ConfigError(
                f"{' and '.join(names)} change how particles hop, or what is held at a face: give "
                "one value for all particles"
            )
    fastest = tuple(
        replace(reaction, rates=np.stack([one.reactions[j].rates for one in found]).max(axis=0))
        for j, reaction in enumerate(base.reactions)
    )
    return replace(base, reactions=fastest)


def _same_hops(one: LoweredLattice, other: LoweredLattice) -> bool:
    return bool(
        one.diffusion_substeps == other.diffusion_substeps
        and (one.hop is other.hop or (one.hop == other.hop).all())
        and (one.ghost == other.ghost).all()
        and all(map(_same_moves, one.objects, other.objects))
    )


def _same_moves(one: LatticeObject, other: LatticeObject) -> bool:
    return one.every == other.every and bool((one.hops == other.hops).all())


def _serves(held: LoweredLattice, other: LoweredLattice) -> bool:
    """Return whether kernels and tables of a model serve another, with rates of each lattice.

    What happens in the other may happen in it, so that no tile is passed over.
    """
    happens = bool(((other.rates > 0) <= (held.rates > 0)).all())
    return happens and held.reaction_substeps == other.reaction_substeps and _same_hops(held, other)

"""The view that a hook has of a running lattice: counts, device arrays, and changes.

On several ranks every rank calls the hook, and sees its slab. Methods are collective: every rank
must call the same ones in the same order with the same arguments, and gets the same answers, those
of the whole lattice. So a hook that decides by what these return does the same on any number of
ranks.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterable, Mapping, MutableMapping
from contextlib import suppress
from typing import Any, Literal, overload

import numpy as np
import numpy.typing as npt

from tauslab.base.arrays import Array, DeviceArray, FloatArray, IntArray
from tauslab.base.errors import ConfigError, ModelError
from tauslab.base.option_names import warn
from tauslab.base.unknown import checks_keywords
from tauslab.kernels.lattice.changing import drawn_places, faulty_slots, first_of
from tauslab.kernels.lattice.objects import Objects
from tauslab.kernels.lattice.reshaping import REACH, Reshaped, as_reach, as_site_types
from tauslab.kernels.lattice.slab_memory import SlabMemory
from tauslab.kernels.lattice.state import Samples, Slab, waiting_anew
from tauslab.model.lattice.parts import as_positions

_BITS = 31  # of numbers of particles of a species that are placed or taken out


class LatticeView:
    """The lattice between two steps.

    Hooks receive this object. Arrays are NumPy's on a CPU, CuPy's on a GPU. On several ranks each
    rank calls the hook with its slab, and all ranks must call the same methods in the same order.

    `memory` is a mapping of JSON values for later calls, the same on all ranks, and part of
    checkpoints.
    """

    def __init__(
        self, engine: SlabMemory, count: Callable[[], Samples],
        total: Callable[[IntArray], IntArray], gather: Callable[..., list[tuple[Array, ...]]],
        share_sites: Callable[..., None], memory: MutableMapping[str, Any], looked: IntArray,
        objects: Objects | None = None,
    ) -> None:  # fmt: skip
        """Look at an engine's lattice.

        Parameters
        ----------
        count, total, gather
            Count the whole lattice; the sum of an array over the ranks that share it; what each of
            them gives, in their order.
        share_sites
            Sends the neighbours' ranks the site types that changed.
        memory
            Of `LatticeView.memory`.
        looked
            Firings ``[reaction]`` at the last call of `fired`, which changes them.
        objects
            Of several sites, which lie over the sites of a shape.
        """
        self._engine, self._count, self._total = engine, count, total
        self._gather, self._share_sites, self._looked = gather, share_sites, looked
        self._lattice, self._objects = engine.lattice, objects
        self.memory = memory
        self._cells: Any = None  # `particles`, which may be changed by hand, if they were given
        self._faults = np.zeros(2, np.int64)  # as of `faulty_slots`, that were seen
        self._marks = False  # whether particles were changed
        self._counted: Samples | None = None

    @property
    def step(self) -> int:
        """Steps of the model done."""
        return self._engine.step // self._lattice.diffusion_substeps

    @property
    def time(self) -> float:
        """Seconds of model time."""
        return self.step * self._lattice.step

    @property
    def replica(self) -> int:
        """Number of the replica."""
        return self._engine.replica

    @property
    def parameters(self) -> Mapping[str, float]:
        """Values of the model's parameters; in a sweep, of this run's point."""
        return self._lattice.parameters

    @property
    def slab(self) -> Slab:
        """Planes ``begin .. end - 1`` that this rank has; on one rank all of them."""
        return self._engine.slab

    @property
    def _whole(self) -> bool:
        """Whether this rank has the whole lattice."""
        return self.slab.end - self.slab.begin == self._lattice.shape[0]

    @property
    def shape(self) -> tuple[int, int, int]:
        """Sites of the whole lattice along z, y and x."""
        return self._lattice.shape

    @property
    def spacing(self) -> float:
        """Edge of a site in metres."""
        return self._lattice.spacing

    @property
    def particles(self) -> Any:
        """Particles ``[z, y, x, slot]`` of the slab: species number + 1, 0 if empty.

        They may be changed by hand. In a site, filled slots come first. Of bit planes this is a
        copy (docs/rdme.md).
        """
        self._engine.synchronize()
        if self._cells is None:
            self._cells = self._engine.in_slots()
        return self._cells

    def _take_up(self, *, ends: bool = False) -> None:
        """Give the engine what was changed by hand; slots that kernels cannot read are noted."""
        if self._cells is None or not (ends or self._engine.SLOTS_APART):
            return
        self._faults += faulty_slots(self._cells, len(self._lattice.species))
        self._engine.from_slots(self._cells)

    @property
    def _content(self) -> DeviceArray:
        """The device array that the engine's kernels change."""
        self._take_up()
        return self._engine.content

    @property
    def sites(self) -> Any:
        """Site types ``[z, y, x]`` of the slab on the device; None where the model has one type.

        `paint` changes them.
        """
        types = self._engine.types
        return None if types is None else types[self._engine.own]

    def number(self, species: str) -> int:
        """Number of a species; `particles` holds it plus 1.

        Raises
        ------
        ConfigError
            A name, number, mask or position is not allowed.
        """
        number = self._lattice.numbers.get(species)
        if number is None:
            raise ConfigError(
                f"{species!r} is not a species of {self._lattice.name}; "
                f"it has {', '.join(self._lattice.species)}"
            )
        return number

    def _numbers(self, names: Iterable[str]) -> IntArray:
        """Numbers of several species, in their order."""
        try:
            return self._lattice.numbers.of(names)
        except KeyError as error:
            self.number(error.args[0])
            raise

    # ---------------------------------------------------------------- looking

    def count(self, species: str, site_type: str | None = None) -> int:
        """Count the particles of a species on the whole lattice, including waiting ones.

        Raises
        ------
        ConfigError
            A name, number, mask or position is not allowed.
        """
        by_type = self._samples().by_type[0, :, self.number(species)]
        return int(by_type.sum() if site_type is None else by_type[self._type(site_type)])

    def counts(self, by: Literal["site_type"] | None = None) -> IntArray:
        """Count all species on the whole lattice, including waiting particles.

        Returns
        -------
        int64 ``[species]``, or by site type ``[site type, species]``.

        Raises
        ------
        ConfigError
            A name, number, mask or position is not allowed.
        """
        if by not in (None, "site_type"):
            raise ConfigError(f"counts(by={by!r}): by is 'site_type', or left out")
        samples = self._samples()
        result: IntArray = (samples.counts if by is None else samples.by_type)[0]
        return result.copy()

    def fired(self) -> IntArray:
        """Firings of each reaction on the whole lattice since a hook last called `fired`.

        The first call counts from the start of the run. A resumed run continues these counts.

        Returns
        -------
        int64 ``[reaction]``, in the order of `reaction_names`.
        """
        now = self._samples().fired[0]
        result = now - self._looked
        self._looked[...] = now
        return np.asarray(result)

    @property
    def species(self) -> tuple[str, ...]:
        """Names of the columns of `counts`."""
        return self._lattice.species

    @property
    def reaction_names(self) -> tuple[str, ...]:
        """Names of the columns of `fired`."""
        return tuple(self._lattice.reaction_numbers)

    def _samples(self) -> Samples:
        """Counts of the whole lattice, made once between two changes."""
        given = self._cells is not None
        if self._counted is None or given:
            if given:
                self._take_up()
            self._counted = self._count()
        return self._counted

    # ---------------------------------------------------------------- changing

    @checks_keywords
    def add(
        self, species: str | Mapping[str, npt.ArrayLike], positions: npt.ArrayLike = ()
    ) -> None:
        """Add a particle at each of `positions` ``[n, 3]``, z, y, x; at a full site it waits.

        Positions refer to the whole lattice. A mapping of names to positions adds several species.

        Raises
        ------
        ConfigError
            A name, number, mask or position is not allowed.
        """
        given = {species: positions} if isinstance(species, str) else species
        kinds, shape = self._numbers(given) + 1, self._lattice.shape
        if given:
            places = self._positions(given)
            sites = np.ravel_multi_index(tuple(np.concatenate(places).T), shape)
            self._put(sites, np.repeat(kinds, [len(one) for one in places]))

    @checks_keywords
    def place(self, numbers: Mapping[str, int], site_type: str | None = None) -> None:
        """Add particles of each species at random sites of a type, or of the whole lattice.

        All sites have equal probability; at a full site a particle waits.

        Raises
        ------
        ConfigError
            A name, number, mask or position is not allowed.
        """
        kinds = self._numbers(numbers) + 1
        counts = _counts("place", numbers)
        if site_type is not None:
            self._type(site_type)
        own, before, total = self._sites_of(site_type)
        if not total:
            raise ConfigError(f"place: no site is of type {site_type!r}")
        call = self._call()
        drawn = drawn_places(
            int(counts.sum()), total, seed=self._engine.seed, step=self._engine.step, call=call,
            replica=self.replica,
        )  # fmt: skip
        particles = np.repeat(kinds, counts)
        if len(own) < total:
            local = (drawn >= before) & (drawn < before + len(own))
            drawn, particles = drawn[local] - before, particles[local]
        first = self.slab.begin * self._lattice.shape[1] * self._lattice.shape[2]
        self._put(own[drawn] + first, particles)

    @overload
    def remove(self, species: str, where: Any = None) -> int: ...
    @overload
    def remove(
        self, species: list[str] | tuple[str, ...] | Mapping[str, int], where: Any = None
    ) -> dict[str, int]: ...
    @checks_keywords
    def remove(
        self, species: str | list[str] | tuple[str, ...] | Mapping[str, int], where: Any = None
    ) -> int | dict[str, int]:
        """Remove particles of species: all, all at the sites of a mask, or a given number.

        Parameters
        ----------
        species
            A name, or several; or a mapping of names to numbers of particles, which are chosen at
            random. If there are fewer, all are removed.
        where
            Booleans ``[z, y, x]`` of the slab or of the whole lattice, a NumPy or device array; not
            with numbers.

        Returns
        -------
        Number of removed particles of the whole lattice, by name if several are given. Waiting
        particles stay.

        Raises
        ------
        ConfigError
            A name, number, mask or position is not allowed.
        """
        if isinstance(species, Mapping):
            if where is not None:
                raise ConfigError("remove: a mask goes with all particles, not with numbers")
            return self._remove_some(species)
        names = [species] if isinstance(species, str) else list(species)
        result = self._become(dict.fromkeys(names), None, where)
        return result[species] if isinstance(species, str) else result

    @overload
    def relabel(self, old: str, new: str, where: Any = None) -> int: ...
    @overload
    def relabel(
        self, old: Mapping[str, str], new: None = None, where: Any = None
    ) -> dict[str, int]: ...
    @checks_keywords
    def relabel(
        self, old: str | Mapping[str, str], new: str | None = None, where: Any = None
    ) -> int | dict[str, int]:
        """Change the species of particles, of all or at sites of a mask, as for `remove`.

        A mapping changes several species at once: ``{"A": "B", "B": "A"}`` swaps two.

        Returns
        -------
        Number of changed particles of the whole lattice, by old name for a mapping. Waiting
        particles keep their species.

        Raises
        ------
        ConfigError
            A name, number, mask or position is not allowed.
        """
        if isinstance(old, str):
            if new is None:
                raise ConfigError(f"relabel({old!r}): the new species is missing")
            return self._become([old], [new], where)[old]
        if new is not None:
            raise ConfigError(f"relabel: leave out {new!r}, as a mapping has the new species")
        try:
            return self._become(old, old.values(), where)
        except ConfigError:
            if None in old.values():
                what = "relabel: a new name is None: `remove` takes particles out"
                raise ConfigError(what) from None
            raise

    def _become(
        self, names: Collection[str], new: Iterable[str] | None, where: Any
    ) -> dict[str, int]:
        """Turn particles into others, or none, in one pass; how many, by old name."""
        before = self._numbers(names)
        after = None if new is None else self._numbers(new)
        mask = self._mask(where)
        changed = self._engine.changing.become(self._content, before, after, mask)
        self._changed()
        result = self._total(changed)[before].tolist()
        return dict(zip(names, result, strict=True))

    def _remove_some(self, numbers: Mapping[str, int]) -> dict[str, int]:
        """Take out so many particles of each species, drawn at random."""
        engine, shape = self._engine, self._lattice.shape
        kinds, counts = self._numbers(numbers) + 1, _counts("remove", numbers)
        first = self.slab.begin * shape[1] * shape[2]
        at = {
            "each": math.prod(shape), "first": first, "seed": engine.seed, "step": engine.step,
            "call": self._call(), "replica": self.replica,
        }  # fmt: skip
        if self._whole:
            removed = engine.changing.remove(self._content, kinds, counts, **at)
            if removed is not None:
                self._changed()
                return dict(zip(numbers, removed.tolist(), strict=True))
        mine = engine.changing.chosen(self._content, kinds, counts, **at)
        chosen = mine if self._whole else self._chosen_of_all(mine, kinds, counts, first)
        engine.changing.take(self._content, chosen)
        self._changed()
        most = len(self._lattice.species) + 1
        gone = np.bincount(chosen["particle"].astype(np.int64), minlength=most)
        return dict(zip(numbers, self._total(gone)[kinds].tolist(), strict=True))

    def _chosen_of_all(self, own: Array, kinds: IntArray, counts: IntArray, first: int) -> Array:
        """Those of this rank's candidates that are among the first of all ranks."""
        numbers = np.zeros(len(self._lattice.species) + 1, np.int64)
        numbers[kinds] = counts
        ranks = self._gather(own["particle"], own["key"], own["site"] + np.uint64(first))
        pool = np.zeros(sum(len(one[0]) for one in ranks), own.dtype)
        for place, name in enumerate(("particle", "key", "site")):
            pool[name] = np.concatenate([one[place] for one in ranks])
        best = first_of(pool, numbers)
        last = {int(one["particle"]): (int(one["key"]), int(one["site"])) for one in best}
        inside = [
            (int(one["key"]), int(one["site"]) + first) <= last[int(one["particle"])] for one in own
        ]
        result: Array = own[np.array(inside, bool)]
        return result

    def _sites_of(self, site_type: str | None) -> tuple[IntArray, int, int]:
        """The slab's own sites of a type, how many come before them on others, and all."""
        kept = self._engine.places
        if site_type not in kept:
            sites = self.sites
            if site_type is None or sites is None:
                _, ny, nx = self._lattice.shape
                own = np.arange((self.slab.end - self.slab.begin) * ny * nx)
            else:
                types = self._engine.seen(sites).reshape(-1)
                own = np.flatnonzero(types == self._type(site_type))
            kept[site_type] = self._among_all(own)
        return kept[site_type]

    def _among_all(self, own: IntArray) -> tuple[IntArray, int, int]:
        """The slab's own sites of a type, how many come before them on others, and all."""
        if self._whole:
            return own, 0, len(own)
        slab, (nz, ny, nx) = self.slab, self._lattice.shape
        planes = np.zeros(nz, np.int64)
        planes[slab.begin : slab.end] = np.bincount(
            own // (ny * nx), minlength=slab.end - slab.begin
        )
        planes = self._total(planes)
        return own, int(planes[: slab.begin].sum()), int(planes.sum())

    def _call(self) -> int:
        """Number of this call among those of the step that draw."""
        engine = self._engine
        step, calls = engine.calls
        engine.calls = (engine.step, calls + 1 if step == engine.step else 1)
        return engine.calls[1]

    @checks_keywords
    def paint(self, site_type: str, where: Any = None) -> int:
        """Give all sites, or the sites of a mask as for `remove`, a site type; particles stay.

        Returns
        -------
        Number of changed sites on the whole lattice.

        Raises
        ------
        ConfigError
            Objects cover sites with this type.
        """
        number, where, sites = self._type(site_type), self._mask(where), self.sites
        if self._objects and number in self._objects.site_types:
            raise ConfigError(
                f"site type {site_type!r} belongs to objects, which cover sites with it"
            )
        if sites is None:
            return 0
        self._engine.synchronize()
        made = sites.copy()
        made[slice(None) if where is None else where] = number
        if self._objects:
            parts = self._gather(self._engine.host(made))
            whole = self._objects.without(np.concatenate([part[0] for part in parts]))
            own = self._objects.over(whole)[self.slab.begin : self.slab.end]
            made = self._engine.backend.upload(np.ascontiguousarray(own))
        changed = self._sum(int((made != sites).sum()))
        sites[...] = made
        if changed:
            self._share_sites()
            self._engine.places.clear()
            self._counted = None
        return changed

    @checks_keywords
    def reshape(
        self,
        site_types: npt.ArrayLike | Mapping[str, npt.ArrayLike],
        *,
        particles: Mapping[str, str] | None = None,
        reach: int = REACH,
    ) -> Reshaped:
        """Give all sites new types; particles that cannot stay move to the nearest free sites.

        A particle cannot stay at a site if its species does not diffuse in the new type. It moves
        to the nearest allowed site with a free slot, at random if several are equally near. If
        there is none within `reach`, it waits at the nearest allowed site.

        Parameters
        ----------
        site_types
            Numbers of types ``[z, y, x]`` of the whole lattice; or masks by type, as
            `tauslab.shapes` makes them, where a later mask replaces earlier ones and other sites
            get the first type.
        particles
            By species: ``stay`` (default), as above; ``shell``: particles move to the nearest site
            of the old type of their site; ``pinned``: particles stay unless no species can diffuse
            in their site.
        reach
            Largest distance in sites, up to 16.

        Returns
        -------
        Numbers of changed sites, moved particles and waiting particles of the whole lattice.

        Raises
        ------
        ConfigError
            A mask or name is wrong, or no site is left for some particles.
        """
        types, engine = as_site_types(self._lattice, site_types), self._engine
        if self._objects:
            types = self._objects.over(types)
        self._take_up()
        own: dict[str, IntArray] = {}

        def find_sites() -> None:
            """Of the types that `place` has asked for, beside a device that looks for particles."""
            local = types[self.slab.begin : self.slab.end].reshape(-1)
            for name in engine.places:
                if name is not None:
                    own[name] = np.flatnonzero(local == self._type(name))

        result = engine.reshaping.run(
            engine, types, engine.reshaping.following(particles or {}), call=self._call(),
            gather=self._gather, reach=as_reach(reach), meanwhile=find_sites,
        )  # fmt: skip
        if result.sites:
            self._share_sites(known=True)
            for name, sites in own.items():
                engine.places[name] = self._among_all(sites)
            self._changed()
        return result

    @checks_keywords
    def set_rate(self, reaction: str, rate: float, site_type: str | None = None) -> None:
        """Set the stochastic rate constant per site (1/s) of a reaction.

        Without `site_type` it changes in the site types for which the model has the reaction.
        With `site_type` it changes in this one; the model need not have the reaction there.

        Raises
        ------
        ConfigError
            There is no such reaction or site type, or the constant is negative or not finite.
        """
        self.set_rates({reaction: rate}, site_type)

    @checks_keywords
    def set_rates(self, rates: Mapping[str, float], site_type: str | None = None) -> None:
        """Set the stochastic constants per site (1/s) of several reactions, as `set_rate`.

        Raises
        ------
        ConfigError
            As for `set_rate`; then none is changed.
        """
        known, engine = self._lattice.reaction_numbers, self._engine
        try:
            which = known.of(rates)
        except KeyError as error:
            raise ConfigError(
                f"{error.args[0]!r} is not a reaction; there are {', '.join(known)}"
            ) from None
        values, table = _rates(rates), engine.rates[which]
        if site_type is None:
            table = np.where(self._lattice.reacting[which], values[:, None], table)
        else:
            number = self._type(site_type)
            covering = [one.site_type for one in self._lattice.objects if one.within == number]
            table[:, [number, *covering]] = values[:, None]
        if not len(which):
            return
        warning = engine.set_rates(which, table)
        if warning is not None:
            warn(warning)

    def changed(self) -> None:
        """Say that particles were changed by hand, which the end of a hook's call does too."""
        self._marks, self._counted = True, None

    def _changed(self) -> None:
        """Note that kernels changed particles, and show that where they were given."""
        self.changed()
        if self._cells is not None and self._engine.SLOTS_APART:
            self._engine.in_slots(self._cells)

    def finish(self) -> None:
        """End a hook's call: check what it changed by hand, and what it noted.

        `memory` becomes what a resumed run would read: lists in place of tuples.

        Raises
        ------
        ConfigError
            A slot holds no species or is filled behind an empty one; or a note cannot be stored.
        """
        self._take_up(ends=True)
        self._require_particles()
        if self._cells is not None or self._marks:
            self._engine.mark_all()
        for name, value in list(self.memory.items()):
            text = _as_json(value) if isinstance(name, str) else None
            if text is None:
                raise ConfigError(
                    f"view.memory[{name!r}] = {value!r:.80} cannot be stored in a checkpoint: "
                    "names are texts, and values numbers, texts, lists and dicts of JSON"
                )
            self.memory[name] = json.loads(text)

    def _require_particles(self) -> None:
        """Refuse slots that kernels cannot read; one rank may have changed its slab alone."""
        species = len(self._lattice.species)
        wrong, holes = self._total(self._faults).tolist()
        if wrong or holes:
            what = f"{wrong} hold no species" if wrong else f"{holes} come after an empty one"
            raise ConfigError(
                f"view.particles: of the slots that a hook changed {what}: a slot is 0 or a "
                f"species' number + 1, up to {species}, and filled slots come first"
            )

    def _positions(self, given: Mapping[str, npt.ArrayLike]) -> list[IntArray]:
        """Sites ``[n, 3]``, checked; one site may be given alone, and none as an empty list."""
        arrays, shape = list(given.values()), self._lattice.shape
        usual: list[IntArray] = [
            one for one in arrays
            if isinstance(one, np.ndarray) and one.dtype == np.int64 and one.shape[1:] == (3,)
        ]  # fmt: skip
        if len(usual) == len(arrays):  # all of them are checked at once
            sites = np.concatenate(usual)
            if ((sites >= 0) & (sites < np.array(shape))).all():
                return usual
        try:
            return [
                as_positions(np.atleast_2d(one), shape, f"add({name!r})")
                if np.size(one) else np.zeros((0, 3), np.int64)
                for name, one in zip(given, map(np.asarray, arrays), strict=True)
            ]  # fmt: skip
        except ModelError as error:
            raise ConfigError(str(error)) from None

    def _type(self, name: str) -> int:
        if name not in self._lattice.site_types:
            raise ConfigError(
                f"{name!r} is not a site type; there are {', '.join(self._lattice.site_types)}"
            )
        return self._lattice.site_types.index(name)

    def _mask(self, where: Any) -> Any:
        """The slab's part of a mask, on the device; None for all sites."""
        if where is None:
            return None
        if getattr(where, "dtype", None) != np.bool_:
            raise ConfigError(
                f"where: an array of {getattr(where, 'dtype', type(where).__name__)} is no mask: "
                "booleans [z, y, x] are expected"
            )
        slab, (nz, *plane) = self.slab, self._lattice.shape
        own = slab.end - slab.begin
        if tuple(where.shape) == (nz, *plane):
            where = where[slab.begin : slab.end]
        if tuple(where.shape) != (own, *plane):
            raise ConfigError(
                f"where: a mask of {list(where.shape)} is neither of the lattice, "
                f"{[nz, *plane]}, nor of the slab, {[own, *plane]}"
            )
        if isinstance(where, np.ndarray):
            return self._engine.backend.upload(where)
        return where if where.flags.c_contiguous else where.copy()

    def _sum(self, value: int) -> int:
        """Sum of a number over the ranks."""
        return int(self._total(np.array([value]))[0])

    def _put(self, sites: IntArray, particles: IntArray) -> None:
        """Put particles at sites of the whole lattice, in order: into slots, or on their lists."""
        section = self._lattice.shape[1] * self._lattice.shape[2]
        begin, end = self.slab.begin * section, self.slab.end * section
        if not self._whole:
            local = (sites >= begin) & (sites < end)
            sites, particles = sites[local], particles[local]
        order = sites.argsort(kind="stable")
        sites, particles = sites[order], particles[order]
        left = self._engine.changing.put(self._content, sites - begin, particles)
        if left.any():
            self._wait(sites[left], particles[left])
        self._changed()

    def _wait(self, sites: IntArray, particles: IntArray) -> None:
        engine = self._engine
        waiting = engine.waiting()
        fresh = waiting_anew(waiting, sites, particles, engine.step)
        engine.replace_waiting(np.concatenate([waiting, fresh]), len(sites))


def _as_json(value: object) -> str | None:
    try:
        return json.dumps(value)
    except (TypeError, ValueError):
        return None


def _rate(name: str, rate: Any) -> float:
    """A stochastic constant, finite, 0 or more."""
    try:
        value = math.nan if isinstance(rate, str | bytes) else float(rate)
    except (TypeError, ValueError, OverflowError):
        value = math.nan
    if not 0 <= value < math.inf:
        raise ConfigError(
            f"set_rate({name!r}, {rate!r:.80}): it must be a finite number, 0 or more"
        )
    return value


def _rates(rates: Mapping[str, Any]) -> FloatArray:
    """Stochastic constants, as of `_rate`."""
    if {*map(type, rates.values())} == {float}:
        result = np.fromiter(rates.values(), np.float64, len(rates))
        if ((result >= 0) & (result < math.inf)).all():
            return result
    return np.array([_rate(name, rate) for name, rate in rates.items()], np.float64)


def _counts(verb: str, numbers: Mapping[str, Any]) -> IntArray:
    """Numbers of particles, as of `_number`."""
    values = numbers.values()
    if {*map(type, values)} == {int}:
        with suppress(OverflowError):
            result = np.fromiter(values, np.int64, len(values))
            if not (result >> _BITS).any():
                return result
    several = [_number(f"{verb}({name!r})", count) for name, count in numbers.items()]
    return np.array(several, np.int64)


def _number(what: str, value: object) -> int:
    """A number of particles, 0 or more."""
    if (
        isinstance(value, int | np.integer)
        and not isinstance(value, bool)
        and 0 <= value < 1 << _BITS
    ):
        return int(value)
    raise ConfigError(f"{what}: {value!r:.80} is no number of particles, 0 or more")

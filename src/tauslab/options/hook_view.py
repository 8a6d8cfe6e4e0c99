"""The view that a hook has of a running lattice: counts, device arrays, and changes.

On several ranks every rank calls the hook, and sees its slab. Methods are collective: every rank
must call the same ones in the same order with the same arguments, and gets the same answers, those
of the whole lattice. So a hook that decides by what these return does the same on any number of
ranks.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tauslab.base.errors import ConfigError, ModelError
from tauslab.base.option_names import warn
from tauslab.kernels.lattice.engine import LatticeEngine
from tauslab.kernels.lattice.state import WAITING, Samples, Slab
from tauslab.model.lattice.parts import as_positions

_HOOK_ORDER = 0xF000  # in an age: after all passes of a step
_LAST_ORDER = 0xFFFF
_LOOKED_AT = 1 << 22  # slots at a time


class LatticeView:
    """The lattice between two steps.

    A hook with an interval of n steps is called after steps n, 2 n, ..., up to the run's last; not
    at t = 0, where the model's own particles, rates and site types hold.

    Arrays stay on the device: NumPy arrays on a CPU, CuPy arrays on a GPU; `particles` may be
    changed by hand. On several ranks every rank calls the hook and
    sees its slab: all must call the same methods in the same order, and get the same answers about
    the whole lattice.

    ``memory`` is what a hook notes for its next calls: names and JSON values, the same on all
    ranks; stored in checkpoints, so that a resumed run continues with it.

    Parameters
    ----------
    count, total
        Count the whole lattice; the sum of a number over the ranks that share it.
    share_sites
        Sends the neighbours' ranks the site types that changed.
    memory
        Of `LatticeView.memory`.
    """

    def __init__(
        self,
        engine: LatticeEngine,
        count: Callable[[], Samples],
        total: Callable[[int], int],
        share_sites: Callable[[], None],
        memory: MutableMapping[str, Any],
    ) -> None:
        self._engine, self._count, self._total = engine, count, total
        self._share_sites = share_sites
        self._lattice = engine.lattice
        self.memory = memory
        self._given = False  # particles, which may be changed by hand

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
    def shape(self) -> tuple[int, int, int]:
        """Sites of the whole lattice along z, y and x."""
        return self._lattice.shape

    @property
    def _own(self) -> slice:
        """The rank's own planes in its memory."""
        slab = self._engine.slab
        return slice(slab.below, slab.below + slab.end - slab.begin)

    @property
    def particles(self) -> Any:
        """Particles ``[z, y, x, slot]`` of the slab: species number + 1, 0 if empty; no copy.

        In a site the slots that are not empty come first.
        """
        self._given = True
        return self._cells

    @property
    def _cells(self) -> Any:
        self._engine.synchronize()
        return self._engine.particles[self._own]

    @property
    def sites(self) -> Any:
        """Site types ``[z, y, x]`` of the slab on the device; None where the model has one type.

        `paint` changes them.
        """
        types = self._engine.types
        return None if types is None else types[self._own]

    def number(self, species: str) -> int:
        """Number of a species; `particles` holds it plus 1."""
        if species not in self._lattice.species:
            raise ConfigError(
                f"{species!r} is not a species of {self._lattice.name}; "
                f"it has {', '.join(self._lattice.species)}"
            )
        return self._lattice.species.index(species)

    def count(self, species: str, site_type: str | None = None) -> int:
        """Count the particles of a species on the whole lattice; waiting ones count too."""
        by_type = self._count().by_type[0, :, self.number(species)]
        return int(by_type.sum() if site_type is None else by_type[self._type(site_type)])

    def add(self, species: str, positions: npt.ArrayLike) -> None:
        """Put a particle at each of `positions` ``[n, 3]``, z, y, x; at a full site it waits.

        Positions refer to the whole lattice; each rank uses the ones in its slab.
        """
        particle = self.number(species) + 1
        places, shape = self._positions(species, positions), self._lattice.shape
        slab = self.slab
        places = places[(places[:, 0] >= slab.begin) & (places[:, 0] < slab.end)]
        sites, numbers = np.unique(np.ravel_multi_index(tuple(places.T), shape), return_counts=True)
        if len(sites):
            self._put(sites, numbers, particle)
        self.changed()

    def remove(self, species: str, where: Any = None) -> int:
        """Take out all particles of a species, or only at the sites of a mask.

        Parameters
        ----------
        where
            Booleans ``[z, y, x]`` of the slab or of the whole lattice, on the device or NumPy.

        Returns
        -------
        How many, on the whole lattice; particles that wait for a slot stay.
        """
        particle = self.number(species) + 1
        removed, where = 0, self._mask(where)
        lattice = self._cells
        for z in range(lattice.shape[0]):
            plane = lattice[z]
            gone = self._chosen(plane == particle, where, z)
            n = int(gone.sum())
            if n:
                plane[gone] = 0
                order = (plane == 0).argsort(axis=-1, kind="stable")
                lattice[z] = _take_along(plane, order)
                removed += n
        self.changed()
        return self._total(removed)

    def relabel(self, old: str, new: str, where: Any = None) -> int:
        """Turn particles of a species into another, all or at sites of a mask, as for `remove`.

        Returns
        -------
        How many, on the whole lattice; particles that wait for a slot stay what they are.
        """
        before, after = self.number(old) + 1, self.number(new) + 1
        changed, where = 0, self._mask(where)
        lattice = self._cells
        for z in range(lattice.shape[0]):
            chosen = self._chosen(lattice[z] == before, where, z)
            changed += int(chosen.sum())
            lattice[z][chosen] = after
        self.changed()
        return self._total(changed)

    def paint(self, site_type: str, where: Any = None) -> int:
        """Give all sites, or the sites of a mask as for `remove`, a site type; particles stay.

        Returns
        -------
        How many were of another, on the whole lattice.
        """
        number, where, sites = self._type(site_type), self._mask(where), self.sites
        if sites is None:
            return 0
        where = sites == sites if where is None else where  # noqa: PLR0124 - all true
        self._engine.synchronize()
        changed = self._total(int((where & (sites != number)).sum()))
        sites[where] = number
        if changed:
            self._share_sites()
        return changed

    def set_rate(self, reaction: str, rate: float, site_type: str | None = None) -> None:
        """Give a reaction another stochastic constant per site (1/s), everywhere or in a type.

        Everywhere is in all site types, even if the model's `site_types` leave some out.

        Raises
        ------
        ConfigError
            There is no such reaction or site type, or the constant is negative or not finite.
        """
        names = [r.name for r in self._lattice.reactions]
        if reaction not in names:
            raise ConfigError(f"{reaction!r} is not a reaction; there are {', '.join(names)}")
        if not (np.isfinite(rate) and rate >= 0):
            raise ConfigError(f"set_rate({reaction!r}, {rate:g}): it must be finite, 0 or more")
        index = names.index(reaction)
        rates = self._engine.rates[index].copy()
        rates[slice(None) if site_type is None else self._type(site_type)] = rate
        before = self._lattice.splitting_with(self._engine.rates).error
        self._engine.set_rate(index, rates)
        found = self._lattice.splitting_with(self._engine.rates)
        warning = self._lattice.splitting_warning(found)
        if warning is not None and found.error > before:
            warn(warning)

    def changed(self) -> None:
        """Say that particles were changed by hand, which the end of a hook's call does too."""
        self._engine.mark_all()

    def finish(self) -> None:
        """End a hook's call: check what it changed by hand, and what it noted.

        `memory` becomes what a resumed run would read: lists in place of tuples.

        Raises
        ------
        ConfigError
            A slot holds no species or is filled behind an empty one; or a note cannot be stored.
        """
        self._require_particles()
        if self._given:
            self.changed()
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
        cells, species = self._cells, len(self._lattice.species)
        planes = max(1, _LOOKED_AT * len(cells) // max(1, cells.size))
        wrong = holes = 0
        for z in range(0, len(cells) if self._given else 0, planes):
            part = cells[z : z + planes]
            wrong += int((part > species).sum())
            holes += int(((part[..., 1:] > 0) & (part[..., :-1] == 0)).sum())
        wrong, holes = self._total(wrong), self._total(holes)
        if wrong or holes:
            what = f"{wrong} hold no species" if wrong else f"{holes} come after an empty one"
            raise ConfigError(
                f"view.particles: of the slots that a hook changed {what}: a slot is 0 or a "
                f"species' number + 1, up to {species}, and those that are filled come first"
            )

    def _positions(self, species: str, positions: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """Sites ``[n, 3]``, checked; one site may be given alone, and none as an empty list."""
        found = np.asarray(positions)
        if not found.size:
            return np.zeros((0, 3), np.int64)
        try:
            return as_positions(np.atleast_2d(found), self._lattice.shape, f"add({species!r})")
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
        return where

    @staticmethod
    def _chosen(cells: Any, where: Any, z: int) -> Any:
        return cells if where is None else cells & where[z][..., None]

    def _put(
        self, sites: npt.NDArray[np.int64], numbers: npt.NDArray[np.int64], particle: int
    ) -> None:
        """Put particles into free slots of sites of the slab, and the others on their lists."""
        engine, upload = self._engine, self._engine.backend.upload
        z, y, x = np.unravel_index(sites, self._lattice.shape)
        at = tuple(upload(np.asarray(i, np.int64)) for i in (z - self.slab.begin, y, x))
        found = self._cells[at]
        engine.wait_for_arrays()
        rows = engine.host(found)
        filled = (rows > 0).sum(axis=1)
        room = np.minimum(numbers, rows.shape[1] - filled)
        slot = np.arange(rows.shape[1])
        rows[(slot >= filled[:, None]) & (slot < (filled + room)[:, None])] = particle
        self._cells[at] = upload(rows)
        left = numbers - room
        if left.any():
            self._wait(np.repeat(sites, left), particle)

    def _wait(self, sites: npt.NDArray[np.int64], particle: int) -> None:
        engine = self._engine
        waiting = engine.waiting()
        fresh = np.zeros(len(sites), WAITING)
        same = np.concatenate([[0], np.cumsum(sites[1:] != sites[:-1])])
        # Hooks act between steps: older than what comes later, younger than what waits already.
        last = np.uint64(max(engine.step, 1) - 1)
        by_hooks = waiting["age"] >= (last << np.uint64(16) | np.uint64(_HOOK_ORDER))
        before = np.sort(waiting["site"][by_hooks]).astype(np.int64)
        waits = np.searchsorted(before, sites, "right") - np.searchsorted(before, sites, "left")
        order = _HOOK_ORDER + waits + np.arange(len(sites)) - np.searchsorted(same, same)
        if order.max() > _LAST_ORDER:
            raise ConfigError(
                f"add: more than {_LAST_ORDER - _HOOK_ORDER + 1} particles would wait at a site"
            )
        fresh["site"], fresh["particle"] = sites, particle
        fresh["age"] = last << np.uint64(16) | order.astype(np.uint64)
        engine.replace_waiting(np.concatenate([waiting, fresh]), len(sites))


def _as_json(value: object) -> str | None:
    try:
        return json.dumps(value)
    except (TypeError, ValueError):
        return None


def _take_along(plane: Any, order: Any) -> Any:
    y, x = np.indices(plane.shape[:2])
    if not isinstance(plane, np.ndarray):
        import cupy

        y, x = cupy.asarray(y), cupy.asarray(x)
    return plane[y[..., None], x[..., None], order]

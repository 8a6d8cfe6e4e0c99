"""What a hook sees of a running lattice: counts, device arrays, and ways to change things."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tauslab.kernels.rdme import LatticeEngine
from tauslab.kernels.waiting import WAITING
from tauslab.model.errors import ConfigError

_HOOK_ORDER = 0xF000  # in an age: after all passes of a step


class LatticeView:
    """The lattice between two steps.

    Arrays stay on the device: NumPy arrays on a CPU, CuPy arrays on a GPU. After a change by hand
    call `changed`; the methods do so themselves.
    """

    def __init__(self, engine: LatticeEngine) -> None:
        self._engine = engine
        self._lattice = engine.lattice

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
    def particles(self) -> Any:
        """Particles ``[z, y, x, slot]``: species number + 1, 0 for an empty slot; no copy."""
        self._engine.synchronize()
        return self._engine.particles

    @property
    def sites(self) -> Any:
        """Site types ``[z, y, x]`` on the device, not to be changed; None where there is one."""
        return self._engine.types

    def number(self, species: str) -> int:
        """Number of a species."""
        if species not in self._lattice.species:
            raise ConfigError(
                f"{species!r} is not a species of {self._lattice.name}; "
                f"it has {', '.join(self._lattice.species)}"
            )
        return self._lattice.species.index(species)

    def count(self, species: str, site_type: str | None = None) -> int:
        """Particles of a species, with those that wait for a slot."""
        by_type = self._engine.count().by_type[0, :, self.number(species)]
        return int(by_type.sum() if site_type is None else by_type[self._type(site_type)])

    def add(self, species: str, positions: npt.ArrayLike) -> None:
        """Put a particle at each of `positions` ``[n, 3]``, z, y, x; at a full site it waits."""
        particle = self.number(species) + 1
        places = np.asarray(positions, np.int64).reshape(-1, 3)
        shape = self._lattice.shape
        if len(places) and not ((places >= 0) & (places < shape)).all():
            raise ConfigError(f"add({species!r}): a position is outside of {list(shape)}")
        sites, numbers = np.unique(np.ravel_multi_index(tuple(places.T), shape), return_counts=True)
        if not len(sites):
            return
        where = tuple(np.unravel_index(sites, shape))
        rows = self._rows(where)
        filled = (rows > 0).sum(axis=1)
        room = np.minimum(numbers, rows.shape[1] - filled)
        slot = np.arange(rows.shape[1])
        rows[(slot >= filled[:, None]) & (slot < (filled + room)[:, None])] = particle
        self._put(where, rows)
        left = numbers - room
        if left.any():
            self._wait(np.repeat(sites, left), particle)
        self.changed()

    def remove(self, species: str, where: Any = None) -> int:
        """Take out all particles of a species, or those at sites of a mask ``[z, y, x]``.

        Returns how many; those that wait for a slot stay.
        """
        particle = self.number(species) + 1
        removed, where = 0, self._mask(where)
        lattice = self.particles
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
        return removed

    def relabel(self, old: str, new: str, where: Any = None) -> int:
        """Turn particles of a species into another, all or at sites of a mask ``[z, y, x]``.

        Returns how many; those that wait for a slot stay what they are.
        """
        before, after = self.number(old) + 1, self.number(new) + 1
        changed, where = 0, self._mask(where)
        lattice = self.particles
        for z in range(lattice.shape[0]):
            chosen = self._chosen(lattice[z] == before, where, z)
            changed += int(chosen.sum())
            lattice[z][chosen] = after
        self.changed()
        return changed

    def set_rate(self, reaction: str, rate: float, site_type: str | None = None) -> None:
        """Give a reaction another stochastic constant per site (1/s), everywhere or in a type."""
        names = [r.name for r in self._lattice.reactions]
        if reaction not in names:
            raise ConfigError(f"{reaction!r} is not a reaction; there are {', '.join(names)}")
        if not (np.isfinite(rate) and rate >= 0):
            raise ConfigError(f"set_rate({reaction!r}, {rate:g}): it must be finite, 0 or more")
        index = names.index(reaction)
        rates = self._engine.rates[index].copy()
        rates[slice(None) if site_type is None else self._type(site_type)] = rate
        self._engine.set_rate(index, rates)

    def changed(self) -> None:
        """Say that particles were changed by hand."""
        self._engine.mark_all()

    def _type(self, name: str) -> int:
        if name not in self._lattice.site_types:
            raise ConfigError(
                f"{name!r} is not a site type; there are {', '.join(self._lattice.site_types)}"
            )
        return self._lattice.site_types.index(name)

    def _mask(self, where: Any) -> Any:
        """A mask ``[z, y, x]`` on the device, or None."""
        if isinstance(where, np.ndarray):
            return self._engine.backend.upload(where.astype(bool))
        return where

    @staticmethod
    def _chosen(cells: Any, where: Any, z: int) -> Any:
        return cells if where is None else cells & where[z][..., None]

    def _rows(self, where: Sequence[Any]) -> npt.NDArray[Any]:
        """Slots ``[n, slot]`` of some sites, on the host."""
        engine = self._engine
        at = tuple(engine.backend.upload(np.asarray(i, np.int64)) for i in where)
        rows = self.particles[at]
        engine.wait_for_arrays()
        return engine.host(rows)

    def _put(self, where: Sequence[Any], rows: npt.NDArray[Any]) -> None:
        upload = self._engine.backend.upload
        self._engine.particles[tuple(upload(np.asarray(i, np.int64)) for i in where)] = upload(rows)

    def _wait(self, sites: npt.NDArray[np.int64], particle: int) -> None:
        engine = self._engine
        state = engine.save()
        fresh = np.zeros(len(sites), WAITING)
        same = np.concatenate([[0], np.cumsum(sites[1:] != sites[:-1])])
        first = np.searchsorted(same, same)
        order = _HOOK_ORDER + np.arange(len(sites)) - first
        fresh["site"], fresh["particle"] = sites, particle
        # Hooks act between steps: older than what comes later, younger than what waits already.
        last = max(engine.step, 1) - 1
        fresh["age"] = np.uint64(last) << np.uint64(16) | order.astype(np.uint64)
        engine.replace_waiting(np.concatenate([state.waiting, fresh]), len(sites))


def _take_along(plane: Any, order: Any) -> Any:
    y, x = np.indices(plane.shape[:2])
    if not isinstance(plane, np.ndarray):
        import cupy

        y, x = cupy.asarray(y), cupy.asarray(x)
    return plane[y[..., None], x[..., None], order]

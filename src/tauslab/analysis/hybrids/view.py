"""The state that hooks of a hybrid read between two exchanges: values, lattices, chains."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from tauslab.analysis.hybrids.links import matching
from tauslab.analysis.hybrids.parts import Part
from tauslab.analysis.polymers.polymer import Polymer
from tauslab.base.arrays import BoolArray, FloatArray, IntArray
from tauslab.base.errors import ConfigError
from tauslab.model.lattice.lattice import Lattice
from tauslab.model.network.counts import some

if TYPE_CHECKING:
    from tauslab.analysis.hybrids.driver import HybridRun


class HybridView:
    """The state of all parts at one time, for reading only.

    All ranks call the hook; it must call the same methods on each rank.
    """

    def __init__(self, run: HybridRun) -> None:
        self._run = run
        self._states: dict[str, dict[str, Any]] = {}  # of parts that were asked for

    @property
    def time(self) -> float:
        """Time of all parts."""
        return self._run.time

    def values(self, name: str) -> FloatArray:
        """Values ``[cell]`` of a recorded quantity, ``part.quantity``.

        Raises
        ------
        ConfigError
            No part records it.
        """
        part, _, quantity = name.partition(".")
        known = self._run.recorded.get(part, ())
        if quantity not in known:
            of = f"part {part} records {some(dict.fromkeys(known))}"
            raise ConfigError(f"{name!r} is not a recorded quantity: {of}")
        return self._run.table(part)[:, known.index(quantity)]

    def mask(self, part: str, site_types: str = "*", *, cell: int = 0) -> BoolArray:
        """Sites ``[z, y, x]`` of some types, such as ``"membrane"``, of a lattice."""
        model = self._lattice(part)
        types = self._state(part).get("state/site_types")
        sites = model.sites.planes(0, model.shape[0]) if types is None else types[cell]
        chosen = [model.type_names.index(one) for one in self._named(model.type_names, site_types)]
        return np.isin(np.reshape(sites, model.shape), chosen)

    def particles(self, part: str, species: str = "*", *, cell: int = 0) -> IntArray:
        """Numbers ``[z, y, x]`` of particles of some species, such as ``"P*"``, in each site."""
        names = tuple(self._lattice(part).species)
        chosen = [names.index(one) + 1 for one in self._named(names, species)]
        held = self._state(part)["state/particles"][cell]
        return np.asarray(np.isin(held, chosen).sum(axis=-1), np.int64)

    def positions(self, part: str, objects: str = "*", *, cell: int = 0) -> FloatArray:
        """Positions ``[bead or object, 3]`` (z, y, x) in metres.

        Positions of the beads of a chain, copies last; or of the objects of a lattice, all or of
        one name, such as ``"ribosome"``: the centres of the sites of their particles, oldest
        first.

        Raises
        ------
        ConfigError
            The part is neither a polymer nor a lattice with objects, or has none of that name.
        """
        of_chain = isinstance(self._part(part).made.model, Polymer)
        state = self._state(part)
        if not of_chain:
            model = self._lattice(part)
            if not model.objects:
                raise ConfigError(f"part {part} is neither a polymer nor a lattice with objects")
            names = self._named(tuple(one.name for one in model.objects), objects)
            ends = np.cumsum(state["state/objects/lengths"])[cell]
            begin = ends - state["state/objects/lengths"][cell]
            held = json.loads(state["state/objects/text"][begin:ends].tobytes())
            sites = np.array([site for name in names for site in held[name]["sites"]], np.int64)
            middles = np.stack(np.unravel_index(sites, model.shape), axis=-1) + 0.5
            return np.asarray(middles * model.spacing, np.float64)
        places, (origin, left, right) = state["positions"][cell], state["forks"][cell].tolist()
        beads = len(places) // 2
        copied = np.sort(np.arange(origin - left, origin + right + 1) % beads)
        copied = copied[: int(state["copied"][cell])]  # none before there are forks
        result: FloatArray = np.concatenate([places[:beads], places[beads + copied]])
        return result

    def _part(self, name: str) -> Part:
        parts = self._run.parts
        if name not in parts:
            raise ConfigError(f"there is no part {name!r}; there are {', '.join(parts)}")
        return parts[name]

    def _lattice(self, part: str) -> Lattice:
        model = self._part(part).made.model
        if not isinstance(model, Lattice):
            raise ConfigError(f"part {part} is not a lattice")
        return model

    def _state(self, part: str) -> dict[str, Any]:
        if part not in self._states:
            self._states[part] = self._run.parts[part].stored()
        return self._states[part]

    @staticmethod
    def _named(names: tuple[str, ...], pattern: str) -> list[str]:
        result = list(matching(pattern, names))
        if not result:
            raise ConfigError(
                f"no name matches {pattern!r}; known are {some(dict.fromkeys(names))}"
            )
        return result

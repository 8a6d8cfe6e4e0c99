"""The fields of a lattice model and what follows from them, without the methods that build it.

`Lattice`, the class that users see, adds the methods.  What `write`, `validate`, `to_network` and
`well_stirred` need works on the fields alone and so lies below that class.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tauslab.base.errors import ModelError
from tauslab.model.expressions.expression import Expression
from tauslab.model.lattice.parts import (
    FACES,
    Boundary,
    Diffusion,
    Placement,
    SiteObject,
    SiteReaction,
)
from tauslab.model.lattice.site_map import SiteMap
from tauslab.model.network.network import Network
from tauslab.model.network.parts import Parameters


@dataclass(eq=False, repr=False)
class LatticeData:
    """The parts of a lattice model; `Lattice` checks them while it is built."""

    name: str
    shape: tuple[int, int, int]
    spacing: float
    step: float | None
    slots: int
    reaction_substeps: int | None
    t_end: float | None
    sites: SiteMap
    site_types: list[str] = field(default_factory=list)
    species: list[str] = field(default_factory=list)
    parameters: dict[str, Expression] = field(default_factory=Parameters)
    diffusion: list[Diffusion] = field(default_factory=list)
    reactions: list[SiteReaction] = field(default_factory=list)
    placements: list[Placement] = field(default_factory=list)
    objects: list[SiteObject] = field(default_factory=list)
    pinned: list[str] = field(default_factory=list)  # species that stay at their sites
    boundary: dict[str, Boundary] = field(
        default_factory=lambda: {face: Boundary("reflecting") for face in FACES}
    )
    notes: list[str] = field(default_factory=list)
    source_path: Path | None = None
    source_text: str | None = None
    # Reactions of one particle with the name of a volume, which changes nothing.
    first_order_volumes: list[tuple[str, str]] = field(default_factory=list)
    # Sites outside the mask with which the first type came, unless another mask has them.
    _outside: npt.NDArray[np.bool_] | None = field(default=None, repr=False, compare=False)

    def __setattr__(self, name: str, value: Any) -> None:
        """Set a field; parameters take numbers, also as a whole mapping."""
        if name == "parameters":
            value = Parameters.anew(name, value, vars(self).get(name, {}))
        super().__setattr__(name, value)

    def sites_of_no_mask(self) -> int:
        """Sites that are of the first type although that came with a mask without them."""
        if self._outside is None:
            return 0
        return int((self._outside & (self.sites.planes(0, self.shape[0]) == 0)).sum())

    @property
    def type_names(self) -> tuple[str, ...]:
        """Names of the site types by number; ``default`` if none was added."""
        return tuple(self.site_types) or ("default",)

    def type_number(self, name: str, where: str) -> int:
        """Number of a site type; a `ModelError` that begins with `where` if there is none."""
        try:
            return self.type_names.index(name)
        except ValueError:
            raise ModelError(
                f"{where}: {name!r} is not a site type of {self.name}; "
                f"types: {', '.join(self.type_names)}"
            ) from None

    @property
    def site_volume(self) -> float:
        """Volume of a site in cubic metres."""
        return self.spacing * self.spacing * self.spacing  # pow differs from machine to machine

    def parameter_values(self, overrides: Mapping[str, float] | None = None) -> dict[str, float]:
        """Value of every parameter, as `Network.parameter_values`."""
        return Network(self.name, parameters=self.parameters).parameter_values(overrides)

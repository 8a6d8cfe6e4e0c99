"""A reaction-diffusion model on a lattice of cubic sites: what a reader or a script builds.

Units: lengths in metres, times in seconds, diffusion coefficients in m^2/s, concentrations in
mol/L (M).  Arrays are ``[z, y, x]``.  Particles hop between neighbouring sites and react within
a site, at most two at a time (multi-particle diffusion, Hallock & Peterson 2013, Algorithm 1).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tauslab.base.door import behind_door
from tauslab.base.errors import ModelError
from tauslab.base.files.opening import at_home
from tauslab.base.host import require_memory
from tauslab.base.html import Listing
from tauslab.base.unknown import Hinting, checks_keywords
from tauslab.model.expressions.expression import Expression
from tauslab.model.expressions.infix import as_expression
from tauslab.model.lattice.as_network import per_site_network, well_stirred_network
from tauslab.model.lattice.data import LatticeData
from tauslab.model.lattice.describe import diffusion_text, lattice_html, lattice_text
from tauslab.model.lattice.diagnosis.check import lattice_report
from tauslab.model.lattice.diagnosis.membranes import measured_site_area, surface_of
from tauslab.model.lattice.file import write_lattice
from tauslab.model.lattice.parts import (
    ANY,
    AREA_UNITS,
    FACES,
    MAX_HOP,
    MOST_SITE_TYPES,
    MOST_SPECIES,
    UNITS,
    VOLUMES,
    Boundary,
    Diffusion,
    Names,
    Placement,
    SiteObject,
    SiteReaction,
    Value,
    as_face_kind,
    as_label,
    as_names,
    as_offsets,
    as_positions,
    as_shape,
    as_slots,
    as_spacing,
    as_substeps,
    as_volume,
    check_name,
    face_names,
    number,
    positive,
    require_parameters,
    short,
)
from tauslab.model.lattice.site_map import ArraySites, UniformSites
from tauslab.model.lattice.values import lattice_values, species_number
from tauslab.model.network.equations import (
    REVERSIBLE,
    both_ways,
    pair_of,
    parse_equation,
    plain_equation,
)
from tauslab.model.network.network import Network

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from tauslab.base.view3d import View3d


class Lattice(Hinting, LatticeData):
    """Sites, species, diffusion, reactions, boundaries and the particles at the start.

    Without `add_site_type` there is one site type, ``default``. Species without `add_diffusion` do
    not move.

    Parameters
    ----------
    name
        Name of the model in messages and results.
    shape
        Number of sites along z, y and x, in this order, as in all arrays ``[z, y, x]``.
    spacing
        Edge of a site, in metres.
    step
        Time step in seconds; by default the longest for which no hop probability exceeds
        ``max_hop``.
    slots
        Number of particles that a site can contain: 8, 16 or 32. Others wait until a slot is free.
    boundary
        ``periodic``, ``reflecting`` or ``absorbing``, for all faces; `set_boundary` changes single
        faces.
    reaction_substeps
        Number of reaction passes per step; by default as ``tauslab check`` states.
    t_end
        End time of a run without `t_end`, in seconds.

    Raises
    ------
    ModelError
        Of every method: a number, name or mask that is not allowed; the element is named.

    Examples
    --------
    >>> import tauslab as ts
    >>> lattice = ts.Lattice("pairs", shape=(8, 8, 8), spacing=32e-9, step=1e-4)
    >>> lattice.add_species("A")
    >>> lattice.add_diffusion("A", 1e-12)
    >>> lattice.add_reaction("2 A ->", rate=1e6, unit="M^-1 s^-1")
    >>> lattice.place("A", count=100)
    >>> lattice.validate()
    """

    @checks_keywords
    def __init__(
        self, name: str = "lattice", *, shape: Sequence[int], spacing: float,
        step: float | None = None, slots: int = 16, boundary: str = "reflecting",
        reaction_substeps: int | None = None, t_end: float | None = None,
    ) -> None:  # fmt: skip
        label, size = as_label(name, "name"), as_shape(shape)
        super().__init__(
            label, size, as_spacing(spacing),
            None if step is None else positive(step, "step", "seconds"), as_slots(slots),
            as_substeps(reaction_substeps),
            None if t_end is None else positive(t_end, "t_end", "seconds"), UniformSites(size),
        )  # fmt: skip
        self._names: dict[str, set[str]] = {"species": set(), "site type": set()}
        self._reaction_names: set[str] = set()
        self.set_boundary(FACES, boundary)

    def __repr__(self) -> str:
        return f"<Lattice {self.name}: {self.shape} sites, {len(self.species)} species>"

    def __str__(self) -> str:
        """Sites, species, diffusion and reactions in lines; of many the first."""
        return lattice_text(self)

    def _repr_html_(self) -> str:
        return lattice_html(self)

    @checks_keywords
    def add_site_type(self, name: str, mask: npt.ArrayLike | None = None) -> None:
        """Add a site type; `mask` (booleans ``[z, y, x]``) selects its sites.

        The first type, without a mask, fills the lattice. If the first has a mask, later types
        must cover all other sites.

        Raises
        ------
        ModelError
            A name, number or array is not allowed; the message names what is expected.
        """
        check_name(name, "site type", self._names["site type"])
        if name in VOLUMES:
            raise ModelError(f"site type {name!r}: the name stands for a volume already")
        if len(self.site_types) == MOST_SITE_TYPES:
            raise ModelError(f"site type {name!r}: a lattice has at most {MOST_SITE_TYPES} types")
        self._names["site type"].add(name)
        self.site_types.append(name)
        if mask is not None:
            self.paint(name, mask)
            if len(self.site_types) == 1:
                self._outside = ~np.asarray(mask)

    def paint(self, site_type: str, mask: npt.ArrayLike) -> None:
        """Give the sites of a mask, booleans ``[z, y, x]``, a type.

        Raises
        ------
        ModelError
            A name, number or array is not allowed; the message names what is expected.
        """
        number = self.type_number(site_type, "paint")
        chosen = np.asarray(mask)
        if chosen.dtype != np.bool_ or chosen.shape != self.shape:
            raise ModelError(
                f"mask of {site_type!r}: {chosen.dtype} {list(chosen.shape)} is given; "
                f"it must be bool {list(self.shape)}, [z, y, x]"
            )
        self.site_array()[chosen] = number
        if self._outside is not None:
            self._outside &= ~chosen

    def site_array(self) -> npt.NDArray[np.uint8]:
        """Numbers of site types ``[z, y, x]``, which may be changed."""
        if not isinstance(self.sites, ArraySites):
            z, y, x = self.shape
            require_memory(z * y * x, f"a lattice of {z} x {y} x {x} sites of several types")
            self.sites = ArraySites(self.sites.planes(0, self.shape[0]))
        return self.sites.array

    def add_species(self, *names: str) -> None:
        """Add one or more kinds of particle.

        Raises
        ------
        ModelError
            A name, number or array is not allowed; the message names what is expected.
        """
        for name in names:
            if isinstance(name, int | float):
                raise ModelError(
                    f"add_species takes names alone; place puts {name} particles into the lattice"
                )
            check_name(name, "species", self._names["species"])
        for name in names:
            check_name(name, "species", self._names["species"])
            if len(self.species) == MOST_SPECIES:
                raise ModelError(f"species {name!r}: a lattice has at most {MOST_SPECIES} species")
            self._names["species"].add(name)
            self.species.append(name)

    @checks_keywords
    def add_parameter(self, name: str, value: Value) -> None:
        """Add a parameter; `value` may be an expression of other parameters.

        Raises
        ------
        ModelError
            A name, number or array is not allowed; the message names what is expected.
        """
        check_name(name, "parameter", self.parameters)
        self.parameters[name] = as_expression(value, f"parameter {name}")

    @checks_keywords
    def add_diffusion(
        self, species: Names, coefficient: Value, *, within: str | None = None,
        between: tuple[str, str] | None = None, source: str | None = None,
        target: str | None = None, surface: Names | None = None,
    ) -> None:  # fmt: skip
        """Let species hop with a diffusion coefficient in m^2/s; with 0 they cannot hop.

        If several rules apply to a hop, the last is used.

        Parameters
        ----------
        species
            A name, several, or ``"*"`` for all.
        within
            A site type: hops from its sites to its sites.
        between
            Two site types: hops from either to the other.
        source, target
            Hops from sites of one type to sites of another, in this direction only; ``"*"``, the
            default, is any type. Without `within`, `between`, `source` and `target`: all hops.
        surface
            One or several site types whose sites together form a surface, such as a membrane. Hops
            are corrected so that species diffuse on it with this coefficient (docs/lattices.md).
            Add these site types before this call.

        Raises
        ------
        ModelError
            Also for a surface whose sites are not joined by hops, or are no sheet.
        """
        where = f"diffusion of {' and '.join(as_names(species))}"
        for one in as_names(species):
            if one != ANY:
                self._require_species(one, where)
        if surface is not None:
            if (within, between, source, target) != (None, None, None, None):
                raise ModelError("diffusion: surface= takes the place of within= and its like")
            types = as_names(surface)
            measured = surface_of(self, types)
            tree = self._tree(coefficient, f"{where}: coefficient")
            self.diffusion += [
                Diffusion(name, start, end, tree, one)
                for name in as_names(species)
                for (start, end), one in measured.items()
            ]
            return
        ends = [name for name in (within, source, target) if name is not None]
        as_names((*ends, *(() if between is None else as_names(between))))
        given = sum((within is not None, between is not None, (source or target) is not None))
        if given > 1:
            raise ModelError("diffusion: give one of within=, between= and source= with target=")
        pairs = [(source or ANY, target or ANY)]
        if within is not None:
            pairs = [(within, within)]
        elif between is not None:
            if len(between) != 2:
                raise ModelError("diffusion: between= has two site types")
            pairs = [(between[0], between[1]), (between[1], between[0])]
        for site_type in {name for pair in pairs for name in pair} - {ANY}:
            self.type_number(site_type, "diffusion")
        tree = self._tree(coefficient, f"{where}: coefficient")
        for name in as_names(species):
            self.diffusion += [Diffusion(name, start, end, tree) for start, end in pairs]

    @checks_keywords
    def add_reaction(
        self, equation: str, *, rate: Value | tuple[Value, Value], unit: str | None = None,
        volume: str | float | None = None, site_types: Names | None = None,
        area: float | None = None, name: str | None = None,
    ) -> None:  # fmt: skip
        """Add a reaction written as ``"A + B -> C"``, of up to two particles.

        ``"A + B <-> C"`` adds two reactions, `name` and ``<name>_reverse``. `rate` is then a pair,
        forward first, and `unit` that of the directions that need one.

        Parameters
        ----------
        equation
            Species with whole numbers before them; a side may be empty.
        rate
            Rate constant, a number or an expression of parameters. First order: per second.
        unit
            Unit of a macroscopic rate constant of order 0 or 2: ``M s^-1`` or ``M^-1 s^-1``
            (docs/lattices.md). On the surface of `site_types`: ``um^-2 s^-1`` or ``um^2 s^-1``;
            ``um s^-1`` for adsorption of particles from the volume.
        volume
            Orders 0 and 2, instead of `unit`: `rate` is the stochastic rate constant (1/s) for
            this volume: ``site``, ``lattice``, a site type for all its sites, or a number of m^3.
        site_types
            Site types in which the reaction occurs; by default all.
        area
            Area of the surface in m^2; by default computed from the sites.
        name
            ``R1``, ``R2``, ... by position if not given.

        Raises
        ------
        ModelError
            A name, number or array is not allowed; the message names what is expected.
        """
        name = as_label(name or f"R{len(self.reactions) + 1}", "reaction")
        where = f"reaction {name}"
        if not isinstance(equation, str):
            raise ModelError(f"{where}: its equation {short(equation)} is not a text")
        if name in self._reaction_names:
            raise ModelError(f"{where} is defined twice")
        equation = plain_equation(equation)
        if REVERSIBLE in equation:
            given: Any = {"unit": unit, "volume": volume, "site_types": site_types, "area": area}
            self._add_both_ways(equation, rate, name, given)
            return
        if isinstance(rate, tuple | list):
            raise ModelError(f"{where}: rate is a pair, and {equation!r} has no '<->'")
        reactants, products = parse_equation(equation, where)
        for one in (*reactants, *products):
            self._require_species(one, where)
        order = sum(reactants.values())
        if order > 2:
            raise ModelError(
                f"{where}: {order} particles react in {equation!r}; a lattice takes mass action of "
                "up to 2: write it as two steps with a species that lives for a short time, "
                "A + B <-> AB and AB + C -> ..."
            )
        on_surface = unit is not None and unit in AREA_UNITS.values()
        if area is not None and not on_surface:
            raise ModelError(f"{where}: area= needs a unit of a surface, {AREA_UNITS[order]!r}")
        if order != 1 and (unit is None) == (volume is None):
            raise ModelError(
                f'{where}: its rate needs either unit="{UNITS[order]}" or volume= of the '
                "stochastic constant (site, lattice, a site type or m^3)"
            )
        if unit is not None and unit not in (UNITS[order], AREA_UNITS[order]):
            raise ModelError(
                f"{where}: unit {short(unit)} where {UNITS[order]!r} is expected, or on a surface "
                f"{AREA_UNITS[order]!r}"
            )
        volume = as_volume(volume, f"{where}: volume")
        if order == 1:  # the same number for any volume, but a wrong one shows a mistake
            if isinstance(volume, str):
                self.first_order_volumes.append((where, volume))
            volume = None
        chosen = () if site_types is None else as_names(site_types)
        self._require_types(chosen, volume, where)
        surface = self._site_area(chosen, area, where) if on_surface else (None, 0)
        self.reactions.append(
            SiteReaction(
                name,
                reactants,
                products,
                self._tree(rate, f"{where}: rate"),
                volume,
                chosen,
                *surface,
            )
        )
        self._reaction_names.add(name)

    @checks_keywords
    def place(
        self, species: str, count: Value | None = None, *, concentration: Value | None = None,
        positions: npt.ArrayLike | None = None, site_type: str | None = None,
        site_types: Names | None = None,
    ) -> None:  # fmt: skip
        """Put particles of a species on the lattice at t = 0.

        Parameters
        ----------
        count
            Number of particles, placed at random sites of `site_type`.
        concentration
            Concentration in mol/L in the volume of these sites; the number is rounded.
        positions
            Sites of the particles: integers ``[particle, 3]``, z, y and x.
        site_type
            Site type of the sites; optional if there is only one.
        site_types
            Several types, each of which gets `count` or `concentration`.

        Raises
        ------
        ModelError
            A name, number or array is not allowed; the message names what is expected.
        """
        if site_types is not None:
            if site_type is not None:
                raise ModelError(f"place {species}: give site_type= or site_types=, not both")
            for one in as_names(site_types):
                self.place(
                    species, count, concentration=concentration, positions=positions, site_type=one
                )
            return
        as_names((species, *(() if site_type is None else (site_type,))))
        self._require_species(species, f"place {species}")
        given = sum(value is not None for value in (count, concentration, positions))
        if given != 1:
            raise ModelError(f"place {species}: give one of count=, concentration=, positions=")
        if positions is not None:
            if site_type is not None:
                raise ModelError(f"place {species}: positions need no site type")
            result = as_positions(positions, self.shape, f"place {species}")
            self.placements.append(Placement(species, positions=result))
            return
        types = self.type_names
        if site_type is not None:
            self.type_number(site_type, f"place {species}")
        if site_type is None and len(types) > 1:
            raise ModelError(f"place {species}: name its site type; types: {', '.join(types)}")
        self.placements.append(
            Placement(
                species,
                site_type or types[0],
                None if count is None else self._tree(count, f"place {species}: count"),
                None
                if concentration is None
                else self._tree(concentration, f"place {species}: concentration"),
            )
        )

    @checks_keywords
    def pin(self, species: Names, positions: npt.ArrayLike | None = None) -> None:
        """Keep all particles of species at their sites, also when the geometry changes.

        Parameters
        ----------
        positions
            Sites of particles of each species at the start, as for `place`.

        Raises
        ------
        ModelError
            A name, number or array is not allowed; the message names what is expected.
        """
        for name in as_names(species):
            if positions is not None:
                self.place(name, positions=positions)
            if name not in self.pinned:
                self.pinned.append(name)

    @checks_keywords
    def add_object(
        self, name: str, *, sites: npt.ArrayLike, follows: Names, within: str | None = None,
        obstacle: bool | float = True, every: int | None = None,
    ) -> None:  # fmt: skip
        """Add a rigid set of sites that moves with each particle of some species.

        An object moves by single sites, with the diffusion coefficient of its particle in
        `within`, and exchanges places with particles that it blocks. Objects do not overlap.
        Reactions of `within` also occur in their sites.

        Parameters
        ----------
        name
            Name of the object and of the site type of its sites.
        sites
            Positions relative to the particle, integers ``[n, 3]`` (z, y, x) with 0, 0, 0; or a
            radius: 1 is a site with its six neighbours.
        follows
            Species; a particle that becomes another of these species keeps its object.
        within
            Site type of the sites that the object may cover; optional if there is one type.
        obstacle
            Whether the object blocks other particles, or a factor of their diffusion coefficients.
            `add_diffusion` with the site type `name` makes exceptions.
        every
            Number of steps between two moves; by default the most that the diffusion coefficient
            permits, up to 1000.

        Raises
        ------
        ModelError
            A name, number or array is not allowed; the message names what is expected.
        """
        where = f"object {name}"
        kinds = [one for one in self.type_names if one not in {each.name for each in self.objects}]
        if within is None and len(kinds) > 1:
            raise ModelError(f"{where}: name the site type within= which it is: {', '.join(kinds)}")
        within = within or kinds[0]
        self.type_number(within, where)
        if within == name or any(name == each.name for each in self.objects):
            raise ModelError(f"{where}: the name has another use")
        flag = isinstance(obstacle, bool | np.bool_)
        if not (flag or isinstance(obstacle, int | float | np.number)) or not 0 <= obstacle <= 1:
            raise ModelError(f"{where}: obstacle is True, False, or a factor from 0 to 1")
        factor = float(not obstacle if flag else obstacle)
        if every is not None:
            whole = isinstance(every, int | np.integer) and not isinstance(every, bool)
            if not whole or every < 1:
                raise ModelError(f"{where}: every = {short(every)}: whole steps, 1 or more")
            every = int(every)
        if not (followed := as_names(follows)):
            raise ModelError(f"{where}: follows names no species")
        offsets = as_offsets(sites, where)
        if not self.site_types:
            self.add_site_type("default")
        if name not in self.site_types:
            self.add_site_type(name)
        self.objects.append(SiteObject(name, offsets, followed, within, factor, every))

    @checks_keywords
    def set_boundary(
        self, faces: Names, kind: str, *, concentrations: Mapping[str, Value] | None = None,
        site_type: str | None = None,
    ) -> None:  # fmt: skip
        """Set the boundary condition of faces: ``z-``, ``z+``, ..., or ``z`` for both of an axis.

        Parameters
        ----------
        kind
            ``periodic`` (both faces of an axis), ``reflecting``, ``absorbing``, or ``held``: ghost
            sites that keep `concentrations` (mol/L by species, 0 for others).
        site_type
            Type of the ghost sites outside of an absorbing or held face; by default the first
            type.

        Raises
        ------
        ModelError
            A name, number or array is not allowed; the message names what is expected.
        """
        chosen = face_names(faces)
        if not chosen:
            raise ModelError("set_boundary: no face is named")
        kind = as_face_kind(kind, f"face {chosen[0]}")
        if concentrations is not None and not isinstance(concentrations, Mapping):
            raise ModelError(
                f"face {chosen[0]}: concentrations = {short(concentrations)}: numbers by species "
                "are expected"
            )
        held = {
            name: self._tree(value, f"face {chosen[0]}: concentration of {name}")
            for name, value in (concentrations or {}).items()
        }
        if held and kind != "held":
            raise ModelError(f"face {chosen[0]}: concentrations belong to a held face, not {kind}")
        if site_type is not None:
            self.type_number(site_type, f"face {chosen[0]}")
        for face in chosen:
            self.boundary[face] = Boundary(as_face_kind(kind, f"face {face}"), held, site_type)

    def _add_both_ways(self, equation: str, rate: Any, name: str, given: dict[str, Any]) -> None:
        where = f"reaction {name}"
        rates = pair_of(rate, "rate", where)
        names = name, f"{name}_reverse"
        for one, constant, called in zip(both_ways(equation, where), rates, names, strict=True):
            order = sum(parse_equation(one, where)[0].values())
            back = called != name or given["unit"] != AREA_UNITS[1]
            own = given | ({"unit": None, "area": None} if order == 1 and back else {})
            self.add_reaction(one, rate=constant, name=called, **own)

    def _site_area(
        self, site_types: Sequence[str], area: float | None, where: str
    ) -> tuple[float, int]:
        """Square metres of a surface that belong to a site of it; and the number of its sites."""
        if not site_types:
            raise ModelError(f"{where}: site_types= are to say which sites are the surface")
        numbers = [self.type_number(name, where) for name in site_types]
        sites = int(self.sites.per_plane.sum(axis=0)[numbers].sum())
        if sites == 0:
            raise ModelError(f"{where}: no site has the type {' or '.join(site_types)}")
        if area is None:
            return measured_site_area(self, tuple(site_types), where), sites
        return positive(area, f"{where}: area", "m^2") / sites, sites

    def _require_types(
        self, site_types: Sequence[str], volume: str | float | None, where: str
    ) -> None:
        for site_type in site_types:
            self.type_number(site_type, where)
        if isinstance(volume, str) and volume not in VOLUMES:
            self.type_number(volume, f"{where}: volume")

    def _require_species(self, name: str, where: str) -> None:
        if name not in self._names["species"]:  # a set: a model has up to 65,535 species
            species_number(name, dict.fromkeys(self.species, 0), where)

    def _tree(self, value: Value, where: str) -> Expression:
        """An expression whose parameters there are; a number is finite and 0 or more."""
        tree = as_expression(value, where)
        if isinstance(value, int | float):
            number(tree, {}, where)
        require_parameters(tree, self.parameters, where, self._names["species"])
        return tree

    # ---------------------------------------------------------------- looking

    def check(
        self, max_hop: float | None = None, parameters: Mapping[str, float] | None = None
    ) -> Listing:
        """Return the report of ``tauslab check``: time step, spacing, occupancy, memory, as lines.

        Parameters
        ----------
        max_hop
            Largest probability of a hop in a step, as for a run.
        parameters
            Values by name, instead of the model's.

        Raises
        ------
        ModelError
            The model is wrong; the element is named.
        """
        hop = MAX_HOP if max_hop is None else max_hop
        return Listing("\n".join(lattice_report(self, hop, parameters)))

    def diffusion_matrix(
        self, species: str, parameters: Mapping[str, float] | None = None
    ) -> Listing:
        """Diffusion coefficients of a species in m^2/s: a row per source type, a column per target.

        They result from all rules. On a surface they are corrected.

        Parameters
        ----------
        parameters
            Values by name, instead of the model's.

        Raises
        ------
        ModelError
            The model is wrong, or has no such species.
        """
        return Listing(diffusion_text(self, species, lattice_values(self, parameters).diffusion))

    def plot(
        self, path: str | Path | None = None, *, axis: str | None = None, at: int | None = None,
        ax: Axes | None = None,
    ) -> Figure:  # fmt: skip
        """Draw the site types in planes through the lattice.

        Parameters
        ----------
        path
            File to write too: PNG, SVG or PDF by its suffix.
        axis
            ``z``, ``y`` or ``x``: one plane across it; by default one across each.
        at
            Number of the plane along `axis`; by default the middle plane.
        ax
            Axes of a matplotlib figure of your own, for one plane.

        Raises
        ------
        ConfigError
            An unknown axis, plane or suffix, or no matplotlib.
        OutputError
            The picture cannot be written.
        """
        place = None if path is None else at_home(path)
        figure: Figure = behind_door("Lattice.plot")(self, place, axis, at, ax)
        return figure

    def view(self) -> View3d:
        """Show the site types, and particles placed by positions, in three dimensions.

        Needs plotly. Of a large lattice a part of the sites is shown, with a note.

        Raises
        ------
        ConfigError
            No plotly.
        """
        seen: View3d = behind_door("Lattice.view")(self)
        return seen

    # ---------------------------------------------------------------- using

    def write(self, path: str | Path) -> Path:
        """Write the model as HDF5 (``.h5``), for ``tauslab rdme`` and `tauslab.read`.

        Raises
        ------
        ModelError
            The model is wrong, or the file is not named ``.h5`` or cannot be written.
        """
        return write_lattice(self, path)

    def to_network(self, *, seed: int) -> Network:
        """Return a network in which A at site [k, j, i] is the species ``A_k_j_i``.

        A hop is a reaction, so ``ssa`` has no time-step error (Elf & Ehrenberg, Syst. Biol. 1, 230
        (2004)). The number of particles in a site is not limited. The random initial state is that
        of a lattice run with this `seed`.

        Raises
        ------
        ModelError
            The model is wrong, or an argument is not allowed.
        """
        return per_site_network(self, seed=seed)

    def well_stirred(
        self, volume: str | float = "lattice", parameters: Mapping[str, float] | None = None
    ) -> Network:
        """The model without space, for comparison.

        Parameters
        ----------
        volume
            ``lattice``, a site type (all its sites), or a number of cubic metres; a reaction has
            its largest rate of all site types. ``reachable``: each species is well mixed in the
            sites that it can reach.

        Raises
        ------
        ModelError
            The model is wrong, or an argument is not allowed.
        """
        return well_stirred_network(self, volume, parameters)

    def validate(self) -> None:
        """Check that every name is defined, every number allowed and that all particles fit.

        Raises
        ------
        ModelError
            One sentence that names the element.
        """
        lattice_values(self)

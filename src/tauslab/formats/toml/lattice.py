"""Read a lattice model in TOML; the page ``docs/lattice-toml.md`` is its schema."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tauslab.base.errors import ModelError
from tauslab.formats.toml.regions import add_region
from tauslab.formats.toml.values import Naming, Table, as_number, load_toml
from tauslab.model.lattice.lattice import Lattice
from tauslab.model.lattice.parts import Placement, Positions, Surface, positive
from tauslab.model.lattice.site_map import SiteMap

_TOP = (
    "name", "t_end", "lattice", "boundary", "parameters", "regions", "species", "diffusion",
    "reactions", "objects", "place",
)  # fmt: skip
_LATTICE = (
    "shape", "spacing", "step", "slots", "boundary", "reaction_substeps", "site_types", "pinned",
)  # fmt: skip
_STORED = ("sites_sha256",)
_BOUNDARY = ("kind", "concentrations", "site_type")
_SPECIES = ("count", "concentration", "positions", "site_type")
_PLACE = ("species", *_SPECIES)
_PLACE_STORED = ("number", "positions_sha256")
_DIFFUSION = ("species", "coefficient", "within", "between", "source", "target", "surface")
_OBJECT = ("name", "sites", "follows", "within", "obstacle", "every")
_REACTION = ("name", "equation", "rate", "unit", "volume", "site_types", "area")
_REACTION_STORED = ("site_area",)


@dataclass(frozen=True)
class Stored:
    """Arrays that a normal form leaves to its file: the sites, and the positions in order."""

    sites: SiteMap
    positions: Sequence[Positions]


def digest_of_sites(text: str) -> str:
    """The SHA-256 of the sites that a normal form names; empty where it names none."""
    try:
        return Table(load_toml(text)).table("lattice").text("sites_sha256")
    except ModelError:
        return ""  # who reads all of it says what is wrong


def read_lattice_text(text: str, path: Path, stored: Stored | None = None) -> Lattice:
    """Read a model that is in memory; files it names are looked for beside `path`.

    Raises
    ------
    ModelError
        The text is not TOML, or has a table, a key or a value that the format does not have.
    """
    try:
        lattice = _LatticeReader(load_toml(text), path, stored).read()
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from None
    lattice.source_path, lattice.source_text = path, text
    return lattice


class _LatticeReader:
    """Reads the tables of one model, in the order in which they need each other."""

    def __init__(self, data: dict[str, Any], path: Path, stored: Stored | None) -> None:
        self.data, self.path, self.stored = Table(data), path, stored
        self.positions = iter(stored.positions if stored is not None else ())

    def read(self) -> Lattice:
        data = self.data.only(_TOP)
        self.lattice = self._lattice()
        parameters = data.table("parameters")
        for name in parameters.data:
            with Naming(parameters.place(name)):
                self.lattice.add_parameter(name, parameters.value(name))
        for table in data.tables("regions"):
            with Naming(table.where):
                add_region(self.lattice, table, self.path.parent)
        self._boundary()
        species = data.table("species")
        for name in species.data:
            with Naming(species.place(name)):
                self.lattice.add_species(name)
        for name, value in species.data.items():
            for one in value if isinstance(value, list) else [value]:
                short = "" if isinstance(value, list) else "count"
                table = Table.of(one, species.place(name), short).only(_SPECIES)
                if table.data and table.data != {"count": 0}:
                    self._place(name, table)
        with Naming("[lattice]"):
            for name in data.table("lattice").texts("pinned"):
                self.lattice.pin(name)
        for table in data.tables("diffusion"):
            self._diffusion(table)
        for table in data.tables("reactions"):
            self._reaction(table)
        for table in data.tables("objects"):
            self._object(table)
        for table in data.tables("place"):
            table.only(_PLACE + (_PLACE_STORED if self.stored else ()))
            self._place(table.text("species"), table)
        self.lattice.validate()
        return self.lattice

    def _lattice(self) -> Lattice:
        data, table = self.data, self.data.table("lattice")
        table.only(_LATTICE + (_STORED if self.stored else ())).need("shape", "spacing")
        with Naming("[lattice]"):
            lattice = Lattice(
                data.text("name", self.path.stem),
                shape=table.wholes("shape"),
                spacing=table.number("spacing"),
                step=table.given(table.number, "step"),
                slots=table.whole("slots", 16),
                boundary=table.text("boundary", "reflecting"),
                reaction_substeps=table.given(table.whole, "reaction_substeps"),
                t_end=data.given(data.number, "t_end"),
            )
            for name in table.texts("site_types"):
                lattice.add_site_type(name)
        if self.stored is not None:
            lattice.sites = self.stored.sites
        return lattice

    def _boundary(self) -> None:
        for face, table in self.data.table("boundary").entries("kind"):
            table.only(_BOUNDARY)
            with Naming(table.where):
                self.lattice.set_boundary(
                    face,
                    table.text("kind"),
                    concentrations=table.values("concentrations"),
                    site_type=table.given(table.text, "site_type"),
                )

    def _place(self, species: str, table: Table) -> None:
        with Naming(table.where):
            if "positions_sha256" in table:
                at = next(self.positions, None)
                if at is None:
                    raise ModelError("its positions are not in the file")
                self.lattice.placements.append(Placement(species, positions=at))
                return
            self.lattice.place(
                species,
                count=table.given(table.value, "count"),
                concentration=table.given(table.value, "concentration"),
                positions=table.data.get("positions"),
                site_type=table.given(table.text, "site_type"),
            )

    def _diffusion(self, table: Table) -> None:
        table.only(_DIFFUSION).need("species", "coefficient")
        between = table.texts("between")
        if len(between) not in (0, 2):
            raise ModelError("two site types are expected", where=table.place("between"))
        stored = isinstance(table.data.get("surface"), dict)
        before = len(self.lattice.diffusion)
        with Naming(table.where):
            self.lattice.add_diffusion(
                table.names("species"),
                table.value("coefficient"),
                within=table.given(table.text, "within"),
                between=(between[0], between[1]) if between else None,
                source=table.given(table.text, "source"),
                target=table.given(table.text, "target"),
                surface=None if stored else table.given(table.names, "surface"),
            )
            if stored:
                surface = _surface(Table(table.data["surface"], table.place("surface")))
                rules = self.lattice.diffusion[before:]
                self.lattice.diffusion[before:] = [replace(one, surface=surface) for one in rules]

    def _object(self, table: Table) -> None:
        table.only(_OBJECT).need("name", "sites", "follows")
        obstacle = table.data.get("obstacle", True)
        with Naming(table.where):
            self.lattice.add_object(
                table.text("name"),
                sites=table.data["sites"],
                follows=table.names("follows"),
                within=table.given(table.text, "within"),
                obstacle=obstacle
                if isinstance(obstacle, bool)
                else as_number(obstacle, table.place("obstacle"), "true, false or a number"),
                every=table.given(table.whole, "every"),
            )

    def _reaction(self, table: Table) -> None:
        name = table.given(table.text, "name")
        if name:
            table.where = f"[[reactions]] {name}"
        table.only(_REACTION + (_REACTION_STORED if self.stored else ()))
        table.need("equation", "rate")
        volume = table.data.get("volume")
        with Naming(table.where):
            self.lattice.add_reaction(
                table.text("equation"),
                rate=table.value("rate"),
                unit=table.given(table.text, "unit"),
                volume=volume
                if volume is None or isinstance(volume, str)
                else as_number(volume, table.place("volume"), "a number or the name of a volume"),
                site_types=table.given(table.names, "site_types"),
                area=1.0 if "site_area" in table.data else table.given(table.number, "area"),
                name=name,
            )
            if "site_area" in table.data:
                area = positive(table.number("site_area"), "site_area", "m^2")
                reactions = self.lattice.reactions
                reactions[-1] = replace(reactions[-1], site_area=area)


def _surface(table: Table) -> Surface:
    """A surface as a normal form has it, measured."""
    table.only(Surface._fields).need(*Surface._fields)
    ratio, quickening = table.number("ratio"), table.number("quickening")
    if not (0 < ratio < math.inf and 0 <= quickening < math.inf):
        raise ModelError("ratio above 0 and quickening from 0 on are expected", where=table.where)
    return Surface(tuple(table.texts("site_types")), table.whole("sites"), ratio, quickening)

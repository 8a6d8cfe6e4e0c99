"""Read a lattice model in TOML; the page ``docs/lattice-toml.md`` is its schema."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tauslab.base.errors import ModelError
from tauslab.formats.toml.values import Naming, Table, as_number, as_text, load_toml, shown
from tauslab.model.geometry import shapes
from tauslab.model.geometry.labels import paint_labels, read_labels, resample_labels, stored_voxel
from tauslab.model.geometry.obstacles import obstacles
from tauslab.model.geometry.shapes import Mask
from tauslab.model.lattice.lattice import Lattice
from tauslab.model.lattice.parts import Placement, Positions, Surface, positive
from tauslab.model.lattice.site_map import SiteMap

_COMMON = ("site_type", "shape", "within")
_LABEL = re.compile(r"-?[0-9]{1,19}")
_OF_LABELS = ("file", "component", "axes", "voxel", "labels")


def add_region(lattice: Lattice, table: Table, folder: Path) -> None:
    """Paint one region; a site type that is not known yet is added.

    Raises
    ------
    ModelError
        A key is missing, unknown or not allowed, or a value is.
    """
    kind = table.text("shape")
    if kind == "labels":
        _labels(lattice, table.only(("shape", *_OF_LABELS)), folder)
        return
    if kind not in _SHAPES:
        raise ModelError(
            f"{kind!r} is not a shape; shapes: {', '.join(_SHAPES)}, labels", where=table.where
        )
    keys, build = _SHAPES[kind]
    mask = build(lattice, table.only(_COMMON + keys))
    if "within" in table:
        mask &= _sites_of(lattice, table, "within")
    name = table.text("site_type")
    if name not in lattice.type_names:
        lattice.add_site_type(name, mask)
    else:
        lattice.paint(name, mask)


def _whole(table: Table, key: str, default: int | None = None) -> int:
    """A whole number, which may be written as 2.0."""
    value = table.number(key, default)
    if not value.is_integer():
        raise ModelError(f"{value:g} where a whole number is expected", where=table.place(key))
    return int(value)


def _point(table: Table, key: str) -> list[float]:
    value = table.data.get(key)
    if not isinstance(value, list) or len(value) != 3:
        raise ModelError(f"{shown(value)} where [z, y, x] is expected", where=table.place(key))
    return [as_number(entry, table.place(key)) for entry in value]


def _centre(table: Table) -> list[float] | None:
    return _point(table, "centre") if "centre" in table else None


def _sites_of(lattice: Lattice, table: Table, key: str = "of") -> Mask:
    mask: Mask = lattice.site_array() == lattice.type_number(table.text(key), table.where)
    return mask


def _along(shape: Callable[..., Mask]) -> Callable[[Lattice, Table], Mask]:
    """A shape with a length along an axis."""
    return lambda lattice, table: shape(
        lattice, table.number("length"), table.number("radius"), table.text("axis", "z"),
        _centre(table),
    )  # fmt: skip


def _around(shape: Callable[..., Mask]) -> Callable[[Lattice, Table], Mask]:
    """A shape of sites around those of a type."""
    return lambda lattice, table: shape(
        _sites_of(lattice, table), _whole(table, "steps", 1), _whole(table, "neighbours", 26)
    )


def _obstacles(lattice: Lattice, table: Table) -> Mask:
    return obstacles(
        lattice,
        _sites_of(lattice, table),
        table.number("radius"),
        table.number("fraction"),
        seed=_whole(table, "seed"),
        overlap=table.boolean("overlap"),
    )


_SHAPES: Mapping[str, tuple[tuple[str, ...], Callable[[Lattice, Table], Mask]]] = {
    "box": (("low", "high"), lambda lattice, table: shapes.box(
        lattice, _point(table, "low"), _point(table, "high"))),
    "sphere": (("radius", "centre"), lambda lattice, table: shapes.sphere(
        lattice, table.number("radius"), _centre(table))),
    "ellipsoid": (("radii", "centre"), lambda lattice, table: shapes.ellipsoid(
        lattice, _point(table, "radii"), _centre(table))),
    "cylinder": (("length", "radius", "axis", "centre"), _along(shapes.cylinder)),
    "capsule": (("length", "radius", "axis", "centre"), _along(shapes.capsule)),
    "shell": (("of", "steps", "neighbours"), _around(shapes.shell)),
    "membrane": (("of", "steps", "neighbours"), _around(shapes.membrane)),
    "obstacles": (("of", "radius", "fraction", "seed", "overlap"), _obstacles),
}  # fmt: skip


def _labels(lattice: Lattice, table: Table, folder: Path) -> None:
    names = table.data.get("labels")
    if not isinstance(names, dict) or not all(_LABEL.fullmatch(key) for key in names):
        raise ModelError(
            f"{shown(names)} where a table label = type is expected", where=table.place("labels")
        )
    component, file = table.given(table.text, "component"), folder / table.text("file")
    volume = read_labels(file, component, table.text("axes", "zyx"))
    voxel = [lattice.spacing] * 3
    if "voxel" in table:
        given = table.data["voxel"]
        edges = {"voxel": given if isinstance(given, list) else [given] * 3}
        voxel = _point(Table(edges, table.where), "voxel")
        volume = resample_labels(lattice, volume, voxel)
    types = {int(key): as_text(x, f"{table.place('labels')}.{key}") for key, x in names.items()}
    paint_labels(lattice, volume, types)
    stored = stored_voxel(file)
    if stored is not None and not np.allclose(stored, voxel, rtol=0.01, atol=0):
        lattice.notes.append(
            f"{file.name} says that its voxels have {_nanometres(stored)} along z, y, x; they are "
            f"taken for {_nanometres(voxel)}"
        )


def _nanometres(edges: Sequence[float]) -> str:
    return " x ".join(f"{edge * 1e9:.4g}" for edge in edges) + " nm"


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
class StoredArrays:
    """Arrays that a normal form leaves to its file: the sites, and the positions in order."""

    sites: SiteMap
    positions: Sequence[Positions]


def digest_of_sites(text: str) -> str:
    """The SHA-256 of the sites that a normal form names; empty where it names none."""
    try:
        return Table(load_toml(text)).table("lattice").text("sites_sha256")
    except ModelError:
        return ""  # who reads all of it says what is wrong


def read_lattice_text(text: str, path: Path, stored: StoredArrays | None = None) -> Lattice:
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

    def __init__(self, data: dict[str, Any], path: Path, stored: StoredArrays | None) -> None:
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
                rate=table.rates("rate"),
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

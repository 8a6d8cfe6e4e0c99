"""Read a lattice model in TOML; the page ``docs/lattice-toml.md`` is its schema."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tauslab.base.errors import ModelError
from tauslab.formats.toml.regions import add_region
from tauslab.formats.toml.values import (
    Naming,
    as_number,
    as_text,
    as_value,
    load_toml,
    only_keys,
    shown,
    table_of,
    tables_of,
)
from tauslab.model.lattice.lattice import Lattice
from tauslab.model.lattice.parts import Names, Placement, Positions, Value
from tauslab.model.lattice.site_map import SiteMap

_TOP = (
    "name", "t_end", "lattice", "boundary", "parameters", "regions", "species", "diffusion",
    "reactions", "place",
)  # fmt: skip
_LATTICE = ("shape", "spacing", "step", "slots", "boundary", "reaction_substeps", "site_types")
_STORED = ("sites_sha256",)
_BOUNDARY = ("kind", "concentrations", "site_type")
_SPECIES = ("count", "concentration", "positions", "site_type")
_PLACE = ("species", *_SPECIES)
_PLACE_STORED = ("number", "positions_sha256")
_DIFFUSION = ("species", "coefficient", "within", "between", "source", "target")
_REACTION = ("name", "equation", "rate", "unit", "volume", "site_types")


@dataclass(frozen=True)
class Stored:
    """What a normal form leaves to its file: the sites, and the positions in order."""

    sites: SiteMap
    positions: Sequence[Positions]


def digest_of_sites(text: str) -> str:
    """The SHA-256 of the sites that a normal form names; empty where it names none."""
    try:
        return as_text(table_of(load_toml(text), "lattice").get("sites_sha256"), "sites_sha256")
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
        self.data, self.path, self.stored = data, path, stored
        self.positions = iter(stored.positions if stored is not None else ())

    def read(self) -> Lattice:
        only_keys(self.data, _TOP, "the file")
        self.lattice = self._lattice()
        for name, value in table_of(self.data, "parameters").items():
            where = f"[parameters] {name}"
            with Naming(where):
                self.lattice.add_parameter(name, as_value(value, where))
        for index, table in enumerate(tables_of(self.data, "regions"), start=1):
            where = f"[[regions]] number {index}"
            with Naming(where):
                add_region(self.lattice, table, where, self.path.parent)
        self._boundary()
        for name in table_of(self.data, "species"):
            with Naming(f"[species] {name}"):
                self.lattice.add_species(name)
        for name, value in table_of(self.data, "species").items():
            self._start(name, value, f"[species] {name}")
        for index, table in enumerate(tables_of(self.data, "diffusion"), start=1):
            self._diffusion(table, f"[[diffusion]] number {index}")
        for index, table in enumerate(tables_of(self.data, "reactions"), start=1):
            self._reaction(table, f"[[reactions]] number {index}")
        for index, table in enumerate(tables_of(self.data, "place"), start=1):
            where = f"[[place]] number {index}"
            only_keys(table, _PLACE + (_PLACE_STORED if self.stored else ()), where)
            self._place(as_text(table.get("species"), f"{where}, species"), table, where)
        self.lattice.validate()
        return self.lattice

    def _lattice(self) -> Lattice:
        table = table_of(self.data, "lattice")
        only_keys(table, _LATTICE + (_STORED if self.stored else ()), "[lattice]")
        for key in ("shape", "spacing"):
            if key not in table:
                raise ModelError(f"the key {key} is missing", where="[lattice]")
        step, t_end = table.get("step"), self.data.get("t_end")
        with Naming("[lattice]"):
            lattice = Lattice(
                as_text(self.data.get("name", self.path.stem), "name"),
                shape=_whole_numbers(table["shape"], "[lattice] shape"),
                spacing=as_number(table["spacing"], "[lattice] spacing"),
                step=None if step is None else as_number(step, "[lattice] step"),
                slots=_whole(table.get("slots", 16), "[lattice] slots"),
                boundary=as_text(table.get("boundary", "reflecting"), "[lattice] boundary"),
                reaction_substeps=_whole(table["reaction_substeps"], "[lattice] reaction_substeps")
                if "reaction_substeps" in table
                else None,
                t_end=None if t_end is None else as_number(t_end, "t_end"),
            )
            for name in _texts(table.get("site_types", []), "[lattice] site_types"):
                lattice.add_site_type(name)
        if self.stored is not None:
            lattice.sites = self.stored.sites
        return lattice

    def _boundary(self) -> None:
        for face, value in table_of(self.data, "boundary").items():
            where = f"[boundary] {face}"
            table = value if isinstance(value, dict) else {"kind": value}
            only_keys(table, _BOUNDARY, where)
            held = table.get("concentrations", {})
            if not isinstance(held, dict):
                raise ModelError(
                    f"{shown(held)} where a table is expected", where=f"{where}, concentrations"
                )
            with Naming(where):
                self.lattice.set_boundary(
                    face,
                    as_text(table.get("kind"), f"{where}, kind"),
                    concentrations={k: as_value(v, f"{where}, {k}") for k, v in held.items()},
                    site_type=_optional_text(table, "site_type", where),
                )

    def _start(self, name: str, value: object, where: str) -> None:
        if isinstance(value, list):
            for entry in value:
                if not isinstance(entry, dict):
                    raise ModelError(f"{shown(entry)} where a table is expected", where=where)
                self._start(name, entry, where)
            return
        table = value if isinstance(value, dict) else {"count": value}
        only_keys(table, _SPECIES, where)
        if table and table != {"count": 0}:
            self._place(name, table, where)

    def _place(self, species: str, table: dict[str, Any], where: str) -> None:
        with Naming(where):
            if "positions_sha256" in table:
                at = next(self.positions, None)
                if at is None:
                    raise ModelError("its positions are not in the file")
                self.lattice.placements.append(Placement(species, positions=at))
                return
            self.lattice.place(
                species,
                count=_optional_value(table, "count", where),
                concentration=_optional_value(table, "concentration", where),
                positions=table.get("positions"),
                site_type=_optional_text(table, "site_type", where),
            )

    def _diffusion(self, table: dict[str, Any], where: str) -> None:
        only_keys(table, _DIFFUSION, where)
        for key in ("species", "coefficient"):
            if key not in table:
                raise ModelError(f"the key {key} is missing", where=where)
        between = _texts(table.get("between", []), f"{where}, between")
        if len(between) not in (0, 2):
            raise ModelError("two site types are expected", where=f"{where}, between")
        with Naming(where):
            self.lattice.add_diffusion(
                _names(table["species"], f"{where}, species"),
                as_value(table["coefficient"], f"{where}, coefficient"),
                within=_optional_text(table, "within", where),
                between=(between[0], between[1]) if between else None,
                source=_optional_text(table, "source", where),
                target=_optional_text(table, "target", where),
            )

    def _reaction(self, table: dict[str, Any], where: str) -> None:
        name = _optional_text(table, "name", where)
        where = f"[[reactions]] {name}" if name else where
        only_keys(table, _REACTION, where)
        for key in ("equation", "rate"):
            if key not in table:
                raise ModelError(f"the key {key} is missing", where=where)
        volume, types = table.get("volume"), table.get("site_types")
        with Naming(where):
            self.lattice.add_reaction(
                as_text(table["equation"], f"{where}, equation"),
                rate=as_value(table["rate"], f"{where}, rate"),
                unit=_optional_text(table, "unit", where),
                volume=volume
                if volume is None or isinstance(volume, str)
                else as_number(volume, f"{where}, volume", "a number or the name of a volume"),
                site_types=None if types is None else _names(types, f"{where}, site_types"),
                name=name,
            )


def _optional_text(table: dict[str, Any], key: str, where: str) -> str | None:
    return as_text(table[key], f"{where}, {key}") if key in table else None


def _optional_value(table: dict[str, Any], key: str, where: str) -> Value | None:
    return as_value(table[key], f"{where}, {key}") if key in table else None


def _whole(value: object, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ModelError(f"{shown(value)} where a whole number is expected", where=where)
    return value


def _whole_numbers(value: object, where: str) -> list[int]:
    if not isinstance(value, list):
        raise ModelError(f"{shown(value)} where an array of whole numbers is expected", where=where)
    return [_whole(entry, where) for entry in value]


def _texts(value: object, where: str) -> list[str]:
    if not isinstance(value, list):
        raise ModelError(f"{shown(value)} where an array of texts is expected", where=where)
    return [as_text(entry, where) for entry in value]


def _names(value: object, where: str) -> Names:
    return value if isinstance(value, str) else _texts(value, where)

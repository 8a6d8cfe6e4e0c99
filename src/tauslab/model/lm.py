"""Read a model file of Lattice Microbes (``.lm``), which is HDF5 behind a user block.

What its solvers take for granted is written into `Lattice.notes`, and ``tauslab check`` prints it:
constants of order 0 and 2 are stochastic constants for the volume of the whole lattice, so for a
site k / N and k N with N sites.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from tauslab.model.errors import ModelError
from tauslab.model.lattice import Lattice
from tauslab.model.lattice_parts import ANY, SLOTS
from tauslab.model.lm_reactions import LmReactions, add_reactions
from tauslab.model.site_map import ArraySites

_VERSIONS = (2, 3, 4)
_MARK = b"LMH5"
# Keys of /Parameters that only say how that program writes, or that the lattice does not need.
_INTERVALS = ("writeInterval", "latticeWriteInterval", "hookInterval", "perfPrintInterval")
_DROPPED = ("fptTrackingList", "speciesLowerLimitList", "speciesUpperLimitList")
_BOUNDARIES = ("periodic", "reflecting", "absorbing")
_JLM = ("diffConstNames", "reactionConstNames")
_JLM_KINDS = ("Diffusion", "Reaction")


def read_lm(path: str | Path) -> Lattice:
    """Read the lattice model of a ``.lm`` file; output of runs in it is not read.

    Raises
    ------
    ModelError
        The file is not HDF5, holds no lattice, or asks for something that no lattice engine here
        can honour, such as reactions of types above 3; the element is named.
    """
    import h5py

    path = Path(path)
    try:
        with h5py.File(path, "r") as file:
            lattice = _Reader(file, path).read()
    except OSError as error:
        raise ModelError(f"{path}: cannot be read as HDF5: {error}") from None
    except KeyError as error:
        raise ModelError(f"{path}: is not whole: {error.args[0]}") from None
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from None
    lattice.source_path = path
    return lattice


class _Reader:
    """One open file and what was assumed about it so far."""

    def __init__(self, file: Any, path: Path) -> None:
        self.file, self.path = file, path
        self.notes: list[str] = []
        self.parameters: dict[str, str] = {}

    def read(self) -> Lattice:
        self._check_format()
        if "Model/Diffusion" not in self.file or "Lattice" not in self.file["Model/Diffusion"]:
            raise ModelError("holds no lattice, as /Model/Diffusion/Lattice")
        self.diffusion = self.file["Model/Diffusion"]
        group = self.file.get("Parameters")
        self.parameters = {k: _text(v) for k, v in group.attrs.items()} if group is not None else {}
        if _one(self.diffusion, "numberSpecies") is None:
            raise ModelError("/Model/Diffusion has no attribute numberSpecies: it is a part of one")
        lattice = self._lattice()
        self._names(lattice)
        self._sites_and_particles(lattice)
        self._diffusion(lattice)
        self._reactions(lattice)
        self._note_parameters()
        lattice.notes = self.notes
        lattice.validate()
        return lattice

    def _check_format(self) -> None:
        version = _one(self.file, "formatVersion")
        if version not in _VERSIONS:
            raise ModelError(f"formatVersion is {version}; 2 to 4 can be read")
        with self.path.open("rb") as raw:
            if raw.read(len(_MARK)) != _MARK:
                self.notes.append(
                    "the file does not begin with LMH5, as Lattice Microbes writes it"
                )

    def _lattice(self) -> Lattice:
        sizes = [_need(self.diffusion, f"lattice{axis}Size") for axis in "XYZ"]
        # jLM calls its z x: its arrays are [z, y, x] and are stored as they are.
        self.is_jlm = (
            any(key in self.parameters for key in _JLM)
            or "name" in self.file["Model"].attrs
            or any(f"Parameters/{kind}ParameterMatrix" in self.file for kind in _JLM_KINDS)
        )
        self.notes.append(
            "written by jLM: the first axis of its arrays is z"
            if self.is_jlm
            else "the axes of its arrays are x, y, z"
        )
        stored = int(_need(self.diffusion, "particlesPerSite"))
        slots = next((n for n in SLOTS if n >= stored), None)
        if slots is None:
            raise ModelError(f"particlesPerSite is {stored}; a site holds up to {SLOTS[-1]} here")
        if slots != stored:
            self.notes.append(f"particlesPerSite is {stored}; {slots} slots are used")
        self.sizes = tuple(int(n) for n in sizes)
        return Lattice(
            self.path.stem,
            shape=self.sizes if self.is_jlm else self.sizes[::-1],
            spacing=float(_need(self.diffusion, "latticeSpacing")),
            step=self._number("timestep"),
            slots=slots,
            boundary=self._boundary(),
            t_end=self._number("maxTime"),
        )

    def _number(self, key: str) -> float | None:
        if key not in self.parameters:
            return None
        try:
            return float(self.parameters[key])
        except ValueError:
            raise ModelError(
                f"/Parameters {key} = {self.parameters[key]!r} is not a number"
            ) from None

    def _boundary(self) -> str:
        given = self.parameters.get("boundaryConditions")
        if given is None:
            self.notes.append("the file does not say what its faces do: periodic is assumed")
            return "periodic"
        if given.lower() not in _BOUNDARIES:
            raise ModelError(
                f"/Parameters boundaryConditions = {given!r}: {', '.join(_BOUNDARIES)} can be read"
            )
        return given.lower()

    def _names(self, lattice: Lattice) -> None:
        n_species = int(_need(self.diffusion, "numberSpecies"))
        n_types = int(_need(self.diffusion, "numberSiteTypes"))
        if "Parameters/SpeciesNames" in self.file:
            species = [_text(v) for v in self.file["Parameters/SpeciesNames"][...].ravel()]
        else:
            species = _listed(self.parameters.get("speciesNames", ""))
        types = _listed(self.parameters.get("siteTypeNames", ""))
        lattice.add_species(*self._as_names(species, n_species, "species"))
        for name in self._as_names(types, n_types, "type"):
            lattice.add_site_type(name)

    def _as_names(self, given: list[str], count: int, what: str) -> list[str]:
        """Names that a model may use, in place of those in the file."""
        if len(given) != count:
            names = [f"{what}{i}" for i in range(count)]
            trouble = "no names" if not given else f"{len(given)} names"
            kinds = "species" if what == "species" else "site types"
            self.notes.append(f"{trouble} for {count} {kinds}: called {names[0]}, ...")
            return names
        names = []
        for name in given:
            usable = re.sub(r"\W", "_", name, flags=re.ASCII) or what
            usable = f"_{usable}" if usable[0].isdigit() else usable
            usable = f"{usable}_" if usable in ("site", "lattice") else usable
            while usable in names:
                usable += "_"
            if usable != name:
                self.notes.append(f"{what} {name!r} is called {usable}")
            names.append(usable)
        return names

    def _sites_and_particles(self, lattice: Lattice) -> None:
        sites = np.asarray(self.diffusion["LatticeSites"][...])
        particles = np.asarray(self.diffusion["Lattice"][...])
        if sites.shape != self.sizes or particles.shape[:3] != self.sizes:
            raise ModelError(
                f"Lattice is {list(particles.shape)} and LatticeSites {list(sites.shape)}; "
                f"the attributes say {list(self.sizes)}"
            )
        if not self.is_jlm:
            sites, particles = sites.transpose(2, 1, 0), particles.transpose(2, 1, 0, 3)
        lattice.sites = ArraySites(np.ascontiguousarray(sites, dtype=np.uint8))
        largest = int(particles.max(initial=0))
        if largest > len(lattice.species):
            raise ModelError(
                f"Lattice holds particles of species {largest}; there are {len(lattice.species)}"
            )
        z, y, x, slot = np.nonzero(particles)
        which = particles[z, y, x, slot]
        for index, name in enumerate(lattice.species):
            mine = which == index + 1  # 0 is an empty slot
            if mine.any():
                lattice.place(name, positions=np.stack([z[mine], y[mine], x[mine]], axis=1))

    def _diffusion(self, lattice: Lattice) -> None:
        matrix = np.asarray(self.diffusion["DiffusionMatrix"][...], dtype=np.float64)
        types = lattice.type_names
        expected = (len(types), len(types), len(lattice.species))
        if matrix.shape != expected:
            raise ModelError(f"DiffusionMatrix is {list(matrix.shape)}; {list(expected)} expected")
        for source, target in np.ndindex(expected[:2]):
            row = matrix[source, target]
            names = (types[source], types[target])
            if row.any() and (row == row[0]).all():
                lattice.add_diffusion(ANY, float(row[0]), source=names[0], target=names[1])
                continue
            for index in np.flatnonzero(row):
                lattice.add_diffusion(
                    lattice.species[index], float(row[index]), source=names[0], target=names[1]
                )

    def _reactions(self, lattice: Lattice) -> None:
        group = self.file.get("Model/Reaction")
        count = 0 if group is None else int(_one(group, "numberReactions") or 0)
        if count == 0:
            self.notes.append("no reactions")
            return
        add_reactions(lattice, LmReactions.read(group, self.diffusion, count), self.notes)
        counts = np.asarray(group["InitialSpeciesCounts"][...]) if group is not None else ()
        if np.any(counts):
            self.notes.append("InitialSpeciesCounts is not used: particles are those of Lattice")

    def _note_parameters(self) -> None:
        for key in _INTERVALS:
            if key in self.parameters:
                unit = ", in time steps (in seconds in files of old versions)"
                self.notes.append(
                    f"{key} = {self.parameters[key]}{unit if 'rite' in key else ''}: not used"
                )
        self.notes += [
            f"{key} = {self.parameters[key]}: not used, the run does not end there"
            for key in _DROPPED
            if self.parameters.get(key)
        ]
        runs = len(self.file.get("Simulations", ()))
        if runs:
            self.notes.append(f"output of {runs} runs in the file is not read")


def _one(item: Any, name: str) -> Any:
    """The scalar attribute `name`, stored with shape (1,) or (), or None."""
    value = item.attrs.get(name)
    return None if value is None else np.asarray(value).ravel()[0]


def _need(item: Any, name: str) -> Any:
    value = _one(item, name)
    if value is None:
        raise ModelError(f"{item.name} has no attribute {name}")
    return value


def _text(value: Any) -> str:
    """Text of a parameter: bytes, str, or an array of one."""
    first = value.ravel()[0] if isinstance(value, np.ndarray) else value
    return first.decode().rstrip("\0") if isinstance(first, bytes) else str(first)


def _listed(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")] if text.strip() else []

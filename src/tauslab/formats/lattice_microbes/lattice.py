"""Read a model file of Lattice Microbes (``.lm``), which is HDF5 behind a user block.

What its solvers take for granted is written into `Lattice.notes`, and ``tauslab check`` prints it:
constants of order 0 and 2 are stochastic constants for the volume of the whole lattice, so for a
site k / N and k N with N sites.  For 2 A its GPU solver has the propensity k N n (n - 1), for which
the constant is 2 k here.  A file without a lattice is a well-stirred network (`lm_network`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tauslab.base.errors import ModelError, reason_of
from tauslab.base.files.opening import open_h5
from tauslab.formats.lattice_microbes.fields import (
    check_format,
    indices,
    listed,
    note_what_is_dropped,
    number,
    numbers,
    one,
    parameters_of,
    real,
    species_names,
    usable_names,
    whole,
    whole_numbers,
)
from tauslab.formats.lattice_microbes.reactions import (
    LmReactions,
    add_reactions,
    holds_reactions,
    lm_network,
)
from tauslab.model.lattice.lattice import Lattice
from tauslab.model.lattice.parts import ANY, SLOTS
from tauslab.model.lattice.site_map import ArraySites
from tauslab.model.network.network import Network

# Keys of /Parameters that only say how that program writes.
_INTERVALS = ("writeInterval", "latticeWriteInterval", "hookInterval", "perfPrintInterval")
_BOUNDARIES = ("periodic", "reflecting", "absorbing")
_JLM = ("diffConstNames", "reactionConstNames")
_JLM_KINDS = ("Diffusion", "Reaction")


def read_lm(path: str | Path) -> Lattice | Network:
    """Read the model of a ``.lm`` file; output of runs in it is not read.

    A file with /Model/Diffusion is a `Lattice`, one with reactions alone a `Network`.

    Raises
    ------
    ModelError
        The file is not HDF5, holds no model, or asks for something that cannot be honoured here,
        such as reactions of types above 3; the element is named.
    """
    path = Path(path)
    try:
        with open_h5(path) as file:
            model = _MicrobesReader(file, path).read()
    except OSError as error:
        raise ModelError(f"{path}: cannot be read as HDF5: {error}") from None
    except KeyError as error:
        raise ModelError(f"{path}: is not whole: {reason_of(error)}") from None
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from None
    except (AttributeError, IndexError, OverflowError, TypeError, ValueError) as error:
        # What a value of another shape or type than the format's leads to, wherever it is used.
        reason = reason_of(error)[:200]
        raise ModelError(f"{path}: a value is not of its kind or shape: {reason}") from None
    model.source_path = path
    return model


class _MicrobesReader:
    """One open file and what was assumed about it so far."""

    def __init__(self, file: Any, path: Path) -> None:
        self.file, self.path = file, path
        self.notes: list[str] = []
        self.parameters: dict[str, str] = {}

    def read(self) -> Lattice | Network:
        check_format(self.file, self.path, self.notes)
        if "Model/Diffusion" not in self.file and holds_reactions(self.file):
            return lm_network(self.file, self.path.stem, self.notes)
        if "Model/Diffusion" not in self.file or "Lattice" not in self.file["Model/Diffusion"]:
            raise ModelError(
                "holds no lattice, as /Model/Diffusion/Lattice, and is no well-stirred model, "
                "which has /Model/Reaction and no /Model/Diffusion"
            )
        self.diffusion = self.file["Model/Diffusion"]
        self.parameters = parameters_of(self.file)
        if one(self.diffusion, "numberSpecies") is None:
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

    def _lattice(self) -> Lattice:
        sizes = [whole(self.diffusion, f"lattice{axis}Size") for axis in "XYZ"]
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
        stored = whole(self.diffusion, "particlesPerSite")
        slots = next((n for n in SLOTS if n >= stored), None)
        if slots is None:
            raise ModelError(f"particlesPerSite is {stored}; a site holds at most {SLOTS[-1]}")
        if slots != stored:
            self.notes.append(f"particlesPerSite is {stored}; {slots} slots are used")
        self.sizes = tuple(sizes)
        return Lattice(
            self.path.stem,
            shape=self.sizes if self.is_jlm else self.sizes[::-1],
            spacing=real(self.diffusion, "latticeSpacing"),
            step=number(self.parameters, "timestep"),
            slots=slots,
            boundary=self._boundary(),
            t_end=number(self.parameters, "maxTime"),
        )

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
        n_species = whole(self.diffusion, "numberSpecies")
        n_types = whole(self.diffusion, "numberSiteTypes")
        species = species_names(self.file, self.parameters, n_species, self.notes)
        lattice.add_species(*species)
        types = listed(self.parameters.get("siteTypeNames", ""))
        for name in usable_names(types, n_types, "type", self.notes):
            lattice.add_site_type(name)

    def _sites_and_particles(self, lattice: Lattice) -> None:
        sites = indices(self.diffusion, "LatticeSites", 3, 255)
        particles = indices(self.diffusion, "Lattice", 4)
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
        matrix = numbers(self.diffusion, "DiffusionMatrix", 3)
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
        is_there = group is not None and one(group, "numberReactions") is not None
        count = whole(group, "numberReactions") if is_there else 0
        if count == 0:
            self.notes.append("no reactions")
            return
        add_reactions(lattice, LmReactions.read(group, self.diffusion, count), self.notes)
        if np.any(whole_numbers(group, "InitialSpeciesCounts", 1)):
            self.notes.append("InitialSpeciesCounts is not used: particles are those of Lattice")

    def _note_parameters(self) -> None:
        for key in _INTERVALS:
            if key in self.parameters:
                unit = ", in time steps (in seconds in files of old versions)"
                self.notes.append(
                    f"{key} = {self.parameters[key]}{unit if 'rite' in key else ''}: not used"
                )
        note_what_is_dropped(self.file, self.parameters, self.notes)

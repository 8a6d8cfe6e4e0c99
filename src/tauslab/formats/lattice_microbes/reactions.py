"""The reactions of a ``.lm`` file, of a lattice or of a well-stirred network."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tauslab.base.arrays import FloatArray, IntArray
from tauslab.base.errors import ModelError
from tauslab.base.option_names import warn
from tauslab.formats.lattice_microbes.fields import (
    note_what_is_dropped,
    number,
    numbers,
    one,
    parameters_of,
    species_names,
    whole,
    whole_numbers,
)
from tauslab.model.lattice.lattice import Lattice
from tauslab.model.network.network import Network

Matrix = IntArray

_INTERVALS = ("writeInterval", "hookInterval")

# Type of a reaction: how many species it depends on, and how often each reacts.
_PAIR_OF_ONE = 3  # 2 A
_REACTANTS = {0: (0, 0), 1: (1, 1), 2: (2, 1), _PAIR_OF_ONE: (1, 2)}


@dataclass(frozen=True)
class LmReactions:
    """Arrays of a file for R reactions of S species in T site types.

    `types` ``[R]``, `constants` 1/s ``[R]`` for the volume of the whole lattice, `change`
    ``[S, R]``, `depends` ``[S, R]`` (1 for a reactant), `places` ``[R, T]`` or None.
    """

    types: Matrix
    constants: FloatArray
    change: Matrix
    depends: Matrix
    places: Matrix | None

    @classmethod
    def read(cls, group: Any, diffusion: Any | None, count: int) -> LmReactions:
        """Read the arrays of /Model/Reaction and, if there is a lattice, /Model/Diffusion's places.

        Raises
        ------
        ModelError
            Constants change with time (ReactionRateNoise), or an array has another shape.
        """
        if "ReactionRateNoise" in group:
            noisy = np.flatnonzero(np.nan_to_num(numbers(group, "ReactionRateNoise", 2)[:, :1]))
            if len(noisy):
                raise ModelError(
                    f"reaction R{noisy[0] + 1}: a noisy rate constant is not supported"
                )
        constants = numbers(group, "ReactionRateConstants", 2)
        if constants.shape[1] == 0:
            raise ModelError("/Model/Reaction: ReactionRateConstants holds no constants")
        is_placed = diffusion is not None and "ReactionLocationMatrix" in diffusion
        result = cls(
            whole_numbers(group, "ReactionTypes", 1),
            constants[:, 0],
            whole_numbers(group, "StoichiometricMatrix", 2),
            whole_numbers(group, "DependencyMatrix", 2),
            whole_numbers(diffusion, "ReactionLocationMatrix", 2) if is_placed else None,
        )
        sizes = (len(result.types), len(result.constants), result.change.shape[1])
        if set(sizes) != {count} or result.depends.shape != result.change.shape:
            raise ModelError(f"/Model/Reaction: its arrays are not all for {count} reactions")
        return result

    def check_species(self, count: int, others: str) -> None:
        """Refuse matrices for another number of species than `others` of the file say."""
        if self.change.shape[0] != count:
            raise ModelError(
                f"/Model/Reaction has {self.change.shape[0]} species, {others} {count}"
            )


def add_reactions(lattice: Lattice, found: LmReactions, notes: list[str]) -> None:
    """Add the reactions of a file to a lattice whose species and site types are there.

    Raises
    ------
    ModelError
        A type, a row or a column that no lattice here can honour; the reaction is named.
    """
    found.check_species(len(lattice.species), "/Model/Diffusion")
    if found.places is None:
        notes.append("there is no ReactionLocationMatrix: reactions happen everywhere")
    elif found.places.shape != (len(found.types), len(lattice.type_names)):
        raise ModelError(f"ReactionLocationMatrix is {list(found.places.shape)}")
    for index in range(len(found.types)):
        _add(lattice, found, index, notes)
    if ((found.types == 0) | (found.types > 1)).any():
        volume = lattice.site_volume * np.prod(lattice.shape)
        notes.append(
            "constants of order 0 and 2 are taken for the volume of the whole lattice, "
            f"{volume:.4g} m^3, as that program's solvers do; one that was divided by the volume "
            "of the cell is too large by the ratio of the two"
        )
    if (found.types == _PAIR_OF_ONE).any():
        notes.append(
            "2 A: the propensity is k n (n - 1), as in that program's GPU solver of lattices: the "
            "constants of these reactions are 2 k"
        )


def sides_of(found: LmReactions, index: int, species: Sequence[str]) -> tuple[Matrix, Matrix]:
    """Particles of each species before and after a reaction, one row of numbers each.

    Raises
    ------
    ModelError
        The type is not 0 to 3, or its columns do not fit it; the reaction is named.
    """
    where = f"reaction R{index + 1}"
    kind = int(found.types[index])
    if kind not in _REACTANTS:
        raise ModelError(
            f"{where}: type {kind} is not supported; types 0 to 3 are (orders 0, 1, A + B, 2 A)"
        )
    n_reactants, times = _REACTANTS[kind]
    taking_part = np.flatnonzero(found.depends[:, index])
    if len(taking_part) != n_reactants:
        raise ModelError(
            f"{where}: depends on {len(taking_part)} species; type {kind} depends on {n_reactants}"
        )
    before = np.zeros(len(species), np.int64)
    before[taking_part] = times
    after: Matrix = before + found.change[:, index]
    if (after < 0).any():
        name = species[int(np.flatnonzero(after < 0)[0])]
        raise ModelError(f"{where}: takes more {name} than its reactants hold")
    return before, after


def equation(species: Sequence[str], before: Matrix, after: Matrix) -> str:
    """Text of a reaction, such as ``1 A + 1 B -> 1 C``."""
    sides = (
        " + ".join(f"{n} {name}" for n, name in zip(counts.tolist(), species, strict=True) if n)
        for counts in (before, after)
    )
    return " -> ".join(sides)


def _add(lattice: Lattice, found: LmReactions, index: int, notes: list[str]) -> None:
    before, after = sides_of(found, index, lattice.species)
    types = None
    if found.places is not None:
        types = [lattice.type_names[t] for t in np.flatnonzero(found.places[index])]
        if not types:  # the name stays taken, so that numbers agree with the file's
            notes.append(f"reaction R{index + 1} is allowed nowhere and was left out")
            return
    kind = int(found.types[index])
    lattice.add_reaction(
        equation(lattice.species, before, after),
        rate=float(found.constants[index]) * (2 if kind == _PAIR_OF_ONE else 1),
        volume="lattice" if kind != 1 else None,
        site_types=types,
        name=f"R{index + 1}",
    )


# ---------------------------------------------------------------- a well-stirred network


def holds_reactions(file: Any) -> bool:
    """Return whether a file has a reaction model that is not empty."""
    group = file.get("Model/Reaction")
    return group is not None and bool(one(group, "numberReactions"))


def lm_network(file: Any, name: str, notes: list[str]) -> Network:
    """Read /Model/Reaction: constants are stochastic constants of the one volume, 1/s.

    Raises
    ------
    ModelError
        A reaction of a type above 3, a noisy constant, or arrays that do not fit each other.
    """
    group = file["Model/Reaction"]
    parameters = parameters_of(file)
    names = species_names(file, parameters, whole(group, "numberSpecies"), notes)
    result = LmReactions.read(group, None, whole(group, "numberReactions"))
    result.check_species(len(names), "/Model/Reaction has the attribute numberSpecies of")
    initial = whole_numbers(group, "InitialSpeciesCounts", 1)
    if len(initial) != len(names):
        raise ModelError(
            f"InitialSpeciesCounts has {len(initial)} numbers for {len(names)} species"
        )
    network = Network(name, t_end=number(parameters, "maxTime"))
    for species, count in zip(names, initial.tolist(), strict=True):
        network.add_species(species, count)
    for index, constant in enumerate(result.constants.tolist()):
        before, after = sides_of(result, index, names)
        if not (math.isfinite(constant) and constant >= 0):
            raise ModelError(
                f"reaction R{index + 1}: its constant is {constant:g}; it must be finite, 0 or more"
            )
        network.add_reaction(equation(names, before, after), rate=constant, name=f"R{index + 1}")
    notes.append(
        "no lattice: a well-stirred model, its constants taken as stochastic constants (1/s)"
    )
    if (result.types == _PAIR_OF_ONE).any():
        notes.append(
            "2 A: the propensity is k n (n - 1) / 2; some versions of that program have twice it"
        )
        warn(f"{name}: {notes[-1]}: compare the counts of a small run")
    notes += [f"{key} = {parameters[key]}: not used" for key in _INTERVALS if key in parameters]
    note_what_is_dropped(file, parameters, notes)
    network.notes = notes
    network.validate()
    return network

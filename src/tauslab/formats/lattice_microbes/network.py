"""The well-stirred model of a ``.lm`` file that holds no lattice, as a network."""

from __future__ import annotations

import math
from typing import Any

from tauslab.base.errors import ModelError
from tauslab.formats.lattice_microbes.fields import (
    note_what_is_dropped,
    number,
    one,
    parameters_of,
    species_names,
    whole,
    whole_numbers,
)
from tauslab.formats.lattice_microbes.reactions import LmReactions, equation, sides_of
from tauslab.model.network.network import Network

_INTERVALS = ("writeInterval", "hookInterval")


def holds_reactions(file: Any) -> bool:
    """Whether a file has a reaction model that is not empty."""
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
    found = LmReactions.read(group, None, whole(group, "numberReactions"))
    found.check_species(len(names), "/Model/Reaction has the attribute numberSpecies of")
    initial = whole_numbers(group, "InitialSpeciesCounts", 1)
    if len(initial) != len(names):
        raise ModelError(
            f"InitialSpeciesCounts has {len(initial)} numbers for {len(names)} species"
        )
    network = Network(name, t_end=number(parameters, "maxTime"))
    for species, count in zip(names, initial.tolist(), strict=True):
        network.add_species(species, count)
    for index, constant in enumerate(found.constants.tolist()):
        before, after = sides_of(found, index, names)
        if not (math.isfinite(constant) and constant >= 0):
            raise ModelError(
                f"reaction R{index + 1}: its constant is {constant:g}; it must be finite, 0 or more"
            )
        network.add_reaction(equation(names, before, after), rate=constant)
    notes.append(
        "no lattice: a well-stirred model, its constants taken as stochastic constants (1/s)"
    )
    if (found.types == 3).any():
        notes.append(
            "2 A: the propensity is k n (n - 1) / 2; some versions of that program have twice it"
        )
    notes += [f"{key} = {parameters[key]}: not used" for key in _INTERVALS if key in parameters]
    note_what_is_dropped(file, parameters, notes)
    network.notes = notes
    network.validate()
    return network

"""The normal form of a lattice model: one text that is stored in files and hashed.

It is TOML that `tauslab.formats.toml.lattice` reads back, except that digests stand for
the sites and for positions of particles: these lie beside it in the file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping

import numpy as np

from tauslab.model.expressions.expression import Expression
from tauslab.model.lattice.data import LatticeData
from tauslab.model.lattice.parts import FACES, Boundary, Placement, Positions, Surface
from tauslab.model.network.canonical import expression_toml, quoted
from tauslab.model.network.equations import equation_text


def lattice_canonical_text(lattice: LatticeData) -> str:
    """Normal form of `lattice`, as TOML; its name is not part of it."""
    return "\n".join(_lines(lattice)) + "\n"


def positions_sha256(positions: Positions) -> str:
    """SHA-256 of positions as little-endian 64-bit integers."""
    return hashlib.sha256(positions.astype("<i8").tobytes()).hexdigest()


def _lines(lattice: LatticeData) -> Iterator[str]:
    if lattice.t_end is not None:
        yield f"t_end = {lattice.t_end!r}"
    yield "[lattice]"
    yield f"shape = {list(lattice.shape)}"
    yield f"spacing = {lattice.spacing!r}"
    if lattice.step is not None:
        yield f"step = {lattice.step!r}"
    yield f"slots = {lattice.slots}"
    if lattice.reaction_substeps is not None:
        yield f"reaction_substeps = {lattice.reaction_substeps}"
    yield f"site_types = [{', '.join(map(quoted, lattice.type_names))}]"
    yield f'sites_sha256 = "{lattice.sites.sha256}"'
    if lattice.pinned:
        yield f"pinned = [{', '.join(map(quoted, lattice.pinned))}]"
    yield "[boundary]"
    for face in FACES:
        yield f'"{face}" = {_boundary(lattice.boundary[face])}'
    yield "[parameters]"
    for name, value in lattice.parameters.items():
        yield f"{name} = {expression_toml(value)}"
    yield "[species]"
    for name in lattice.species:
        yield f"{name} = 0"
    yield from _rules(lattice)
    for one in lattice.objects:
        yield "[[objects]]"
        yield f"name = {quoted(one.name)}"
        yield f"sites = {[list(site) for site in one.sites]}"
        yield f"follows = [{', '.join(map(quoted, one.follows))}]"
        yield f"within = {quoted(one.within)}"
        yield f"obstacle = {one.factor!r}"
        if one.every is not None:
            yield f"every = {one.every}"
    for placement in lattice.placements:
        yield "[[place]]"
        yield from _placement(placement)


def _rules(lattice: LatticeData) -> Iterator[str]:
    for rule in lattice.diffusion:
        yield "[[diffusion]]"
        yield f"species = {quoted(rule.species)}"
        yield f"source = {quoted(rule.source)}"
        yield f"target = {quoted(rule.target)}"
        yield f"coefficient = {expression_toml(rule.coefficient)}"
        if rule.surface is not None:
            yield f"surface = {_surface(rule.surface)}"
    for reaction in lattice.reactions:
        yield "[[reactions]]"
        yield f"name = {quoted(reaction.name)}"
        yield f'equation = "{equation_text(reaction.reactants, reaction.products)}"'
        yield f"rate = {expression_toml(reaction.rate)}"
        if isinstance(reaction.volume, str):
            yield f"volume = {quoted(reaction.volume)}"
        elif reaction.volume is not None:
            yield f"volume = {reaction.volume!r}"
        elif reaction.order != 1 or reaction.site_area is not None:
            yield f"unit = {quoted(reaction.unit)}"
            if reaction.site_area is not None:
                yield f"site_area = {reaction.site_area!r}"
        if reaction.site_types:
            yield f"site_types = [{', '.join(map(quoted, reaction.site_types))}]"


def _surface(surface: Surface) -> str:
    types = f"[{', '.join(map(quoted, surface.site_types))}]"
    return (
        f"{{site_types = {types}, sites = {surface.sites}, ratio = {surface.ratio!r}, "
        f"quickening = {surface.quickening!r}}}"
    )


def _boundary(boundary: Boundary) -> str:
    keys = [f'kind = "{boundary.kind}"']
    if boundary.concentrations:
        keys.append(f"concentrations = {_amounts(boundary.concentrations)}")
    if boundary.site_type is not None:
        keys.append(f"site_type = {quoted(boundary.site_type)}")
    return f"{{{', '.join(keys)}}}"


def _amounts(amounts: Mapping[str, Expression]) -> str:
    return f"{{{', '.join(f'{k} = {expression_toml(v)}' for k, v in amounts.items())}}}"


def _placement(placement: Placement) -> Iterator[str]:
    yield f"species = {quoted(placement.species)}"
    if placement.positions is not None:
        yield f"number = {len(placement.positions)}"
        yield f'positions_sha256 = "{positions_sha256(np.asarray(placement.positions))}"'
        return
    if placement.count is not None:
        yield f"count = {expression_toml(placement.count)}"
    elif placement.concentration is not None:
        yield f"concentration = {expression_toml(placement.concentration)}"
    assert placement.site_type is not None
    yield f"site_type = {quoted(placement.site_type)}"

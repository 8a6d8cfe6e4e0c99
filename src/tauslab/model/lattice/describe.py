"""Text and HTML of a lattice for terminals and notebooks."""

from __future__ import annotations

from collections.abc import Sequence

from tauslab.base.arrays import FloatArray
from tauslab.base.errors import ModelError
from tauslab.base.html import card, folded, table
from tauslab.model.lattice.data import LatticeData
from tauslab.model.lattice.parts import ANY, FACES, Diffusion, Placement, SiteReaction
from tauslab.model.network.equations import equation_text
from tauslab.model.network.text import short_text, shortened

_MOST = 20  # lines of a kind


def lattice_text(lattice: LatticeData) -> str:
    """Return the text that `print` shows."""
    facts = _facts(lattice)
    lines = [f"lattice {lattice.name}: {facts.pop('lattice')}"]
    lines += [f"{name}: {value}" for name, value in facts.items() if value]
    for title, rows in (
        ("diffusion", [_diffusion(rule) for rule in lattice.diffusion]),
        ("reactions", [_reaction(reaction) for reaction in lattice.reactions]),
        ("particles at the start", [_placement(placed) for placed in lattice.placements]),
    ):
        lines += [f"{title}:", *(f"  {'  '.join(row)}" for row in rows[:_MOST])] if rows else []
        lines += [f"  and {len(rows) - _MOST} more"] if len(rows) > _MOST else []
    return "\n".join(lines)


def diffusion_text(lattice: LatticeData, species: str, coefficients: FloatArray) -> str:
    """Return a table of coefficients ``[from type, to type, species]`` of one species."""
    if species not in lattice.species:
        known = shortened(lattice.species, _MOST)
        raise ModelError(f"{lattice.name}: {species!r} is not a species; species: {known}")
    values = coefficients[:, :, list(lattice.species).index(species)]
    types = lattice.type_names
    rows = [(name, *(f"{one:g}" for one in own)) for name, own in zip(types, values, strict=True)]
    lines = [(f"{species}, m^2/s: from \\ to", *types), *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)


def lattice_html(lattice: LatticeData) -> str:
    """Return the HTML that a notebook shows; every name and note is escaped."""
    diffusion = [_diffusion(rule) for rule in lattice.diffusion]
    reactions = [_reaction(reaction) for reaction in lattice.reactions]
    placed = [_placement(one) for one in lattice.placements]
    notes = [(note,) for note in lattice.notes]
    return card(
        f"Lattice {lattice.name}",
        _facts(lattice),
        [
            _table(("reaction", "equation", "rate"), reactions),
            folded("diffusion", _table(("species", "where", "m²/s"), diffusion)),
            folded("particles at the start", _table(("species", "where", "how many"), placed)),
            folded("notes", _table(("note",), notes)),
        ],
    )


def _table(header: tuple[str, ...], rows: Sequence[Sequence[str]]) -> str:
    return table(header, rows[:_MOST], more=len(rows) - _MOST)


def _facts(lattice: LatticeData) -> dict[str, str]:
    z, y, x = lattice.shape
    types = lattice.sites.per_plane.sum(axis=0)
    named = zip(lattice.type_names, types.tolist(), strict=False)
    values = [f"{name} = {short_text(tree)}" for name, tree in lattice.parameters.items()]
    return {
        "lattice": f"{z} x {y} x {x} sites (z, y, x) of {lattice.spacing * 1e9:g} nm",
        "site types": shortened([f"{name} {count:,}" for name, count in named], _MOST),
        "species": shortened(lattice.species, _MOST),
        "objects": ", ".join(f"{one.name} of {len(one.sites)} sites" for one in lattice.objects),
        "parameters": shortened(values, _MOST),
        "faces": ", ".join(f"{face} {lattice.boundary[face].kind}" for face in FACES),
        "time step": "" if lattice.step is None else f"{lattice.step:g} s",
        "end time": "" if lattice.t_end is None else f"{lattice.t_end:g} s",
    }


def _diffusion(rule: Diffusion) -> tuple[str, str, str]:
    everywhere = rule.source == rule.target == ANY
    where = "everywhere" if everywhere else f"{rule.source} -> {rule.target}"
    if rule.surface is not None:
        where += f", a surface on which hops are slower by {rule.surface.ratio:.3g}"
    return rule.species, where, short_text(rule.coefficient)


def _reaction(reaction: SiteReaction) -> tuple[str, str, str]:
    equation = equation_text(reaction.reactants, reaction.products)
    unit = reaction.unit
    if reaction.volume is not None:
        of = reaction.volume if isinstance(reaction.volume, str) else f"{reaction.volume:g} m^3"
        unit = f"s^-1 for the volume {of}"
    where = f" in {', '.join(reaction.site_types)}" if reaction.site_types else ""
    return reaction.name, equation, f"{short_text(reaction.rate)} {unit}{where}"


def _placement(placed: Placement) -> tuple[str, str, str]:
    if placed.positions is not None:
        return placed.species, "at positions", f"{len(placed.positions):,}"
    if placed.count is not None:
        return placed.species, placed.site_type or "", short_text(placed.count)
    assert placed.concentration is not None
    return placed.species, placed.site_type or "", f"{short_text(placed.concentration)} M"

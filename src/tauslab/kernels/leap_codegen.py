"""Writes the part of `model.h` that only leaps need: critical reactions, step limit, firings.

Step selection after Cao, Gillespie & Petzold, J. Chem. Phys. 124, 044109 (2006), equations 26-33;
critical reactions after the same authors, J. Chem. Phys. 123, 054104 (2005).
"""

from __future__ import annotations

from fractions import Fraction

from tauslab.kernels.codegen import Style, unrolled_header
from tauslab.kernels.lowering import LoweredNetwork, LoweredReaction, counts_in

CRITICAL_FIRINGS = 10  # a reaction that could exhaust a reactant in fewer firings is critical


def leap_header(network: LoweredNetwork, style: Style) -> str:
    """`model.h` for tau-leaping: all that exact SSA has, and the functions for leaps."""
    parts = [unrolled_header(network, style), _split(network), _limit(network), _apply(network)]
    return "\n".join(parts)


def _split(network: LoweredNetwork) -> str:
    lines = []
    for j, reaction in enumerate(network.reactions):
        few = " || ".join(
            f"x[{index}] < {-by * CRITICAL_FIRINGS}" for index, by in reaction.change if by < 0
        )
        lines.append(f"    leaping[{j}] = {f'{few} ? 0.0 : ' if few else ''}a[{j}];\n")
    return (
        f"// Propensities without those of critical reactions: a reactant lasts for fewer than "
        f"{CRITICAL_FIRINGS}\n// firings.\n"
        "DEVICE void leave_critical_out([[maybe_unused]] const i32 *x, const double *a, "
        f"double *leaping) {{\n{''.join(lines)}}}\n"
    )


def _limit(network: LoweredNetwork) -> str:
    bodies = [_species_limit(network, i) for i in range(len(network.species))]
    return (
        "// The longest leap in which no propensity is expected to change by more than a fraction "
        "epsilon.\n"
        "DEVICE double leap_limit([[maybe_unused]] i32 *x, [[maybe_unused]] const double *c,\n"
        "                         [[maybe_unused]] const double *a, "
        "[[maybe_unused]] const double *leaping,\n"
        "                         [[maybe_unused]] double epsilon) {\n"
        "    double limit = from_bits(0x7ff0000000000000ull);\n"
        f"{''.join(bodies)}    return limit;\n}}\n"
    )


def _species_limit(network: LoweredNetwork, species: int) -> str:
    """Bound by one species: nothing where no propensity reads it or no reaction changes it."""
    readers = [(j, r) for j, r in enumerate(network.reactions) if species in r.depends_on()]
    changes = [
        (j, by) for j, r in enumerate(network.reactions) for i, by in r.change if i == species
    ]
    if not readers or not changes:
        return ""
    mean = " + ".join(_times(by, j) for j, by in changes)
    variance = " + ".join(_times(by * by, j) for j, by in changes)
    lines = ["    {\n", f"        const double count = (double)x[{species}];\n"]
    lines.append("        double order = 1.0;\n")
    formulas = _orders(readers, species)
    lines += [f"        order = larger(order, {formula});\n" for formula in formulas]
    for j, reaction in readers:
        if reaction.law is not None and species in counts_in(reaction.law):
            lines.append(
                f"        x[{species}] += 1;\n"
                f"        order = larger(order, law_order(count, a[{j}], propensity_{j}(x, c)));\n"
                f"        x[{species}] -= 1;\n"
            )
    lines += [
        "        const double change = larger(epsilon * count / order, 1.0);\n",
        f"        limit = smaller(limit, change / magnitude({mean}));\n",
        f"        limit = smaller(limit, change * change / magnitude({variance}));\n",
        "    }\n",
    ]
    return "".join(lines)


def _times(factor: int, reaction: int) -> str:
    return f"{float(factor)!r} * leaping[{reaction}]" if factor != 1 else f"leaping[{reaction}]"


def _orders(readers: list[tuple[int, LoweredReaction]], species: int) -> list[str]:
    """G of the species for every kind of mass-action reaction that it reacts in, without repeats.

    A species that takes part k times in a reaction of order n has
    g = n / k * (k + sum over m < k of m / (x - m)): 2 + 1 / (x - 1) for both molecules of an order
    of 2, 3 / 2 (2 + 1 / (x - 1)) for two of three, 3 + 1 / (x - 1) + 2 / (x - 2) for three.
    """
    kinds = set()
    for _, reaction in readers:
        copies = dict(reaction.orders).get(species, 0)
        if copies:
            kinds.add((sum(k for _, k in reaction.orders), copies))
    formulas = []
    for order, copies in sorted(kinds):
        if (order, copies) == (1, 1):
            continue
        terms = [f"{float(copies)!r}"]
        terms += [f"{float(m)!r} / (count - {float(m)!r})" for m in range(1, copies)]
        ratio = float(Fraction(order, copies))
        text = " + ".join(terms)
        formulas.append(text if ratio == 1.0 else f"{ratio!r} * ({text})")
    return formulas


def _apply(network: LoweredNetwork) -> str:
    changes: dict[int, list[str]] = {}
    for j, reaction in enumerate(network.reactions):
        for index, by in reaction.change:
            changes.setdefault(index, []).append(f"{by} * firings[{j}]")
    lines = []
    for index in range(len(network.species)):
        terms = changes.get(index)
        if terms is None:
            lines.append(f"    after[{index}] = x[{index}];\n")
            continue
        lines.append(f"    put(after + {index}, x[{index}] + {' + '.join(terms)}, outcome);\n")
    return (
        "// Counts after a leap; tells whether one fell below 0 or passed 2147483647.\n"
        "DEVICE int apply_firings(const i32 *x, [[maybe_unused]] const i64 *firings, i32 *after) "
        "{\n    int outcome = FITS;\n"
        f"{''.join(lines)}    return outcome;\n}}\n"
    )

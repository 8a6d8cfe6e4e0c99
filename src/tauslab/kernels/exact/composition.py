"""The groups of the selector `cr`, as places in a trajectory's arrays for tables/composition.h."""

from __future__ import annotations

from math import frexp

from tauslab.kernels.exact.owners import literal_of
from tauslab.kernels.exact.tables import TableBook, padded
from tauslab.kernels.network.lowering import LoweredReaction

COUNT_BITS = 31
LOWEST = -128  # exponent of the smallest propensities that fire
# Of the largest: at least this, so that the groups of most networks are the same; at most so much
# that the total of 2^22 bounds is a number.
HIGHEST = 127, 990


def write_groups(
    book: TableBook, n_species: int, items: int | None, highest: int = HIGHEST[0]
) -> None:
    """Add the places of groups behind a trajectory's counts and values; None: it has no groups.

    `highest` is the exponent of the largest propensities. Of an item its group and its place in
    the order of items (`C_WHERE`), the items in that order (`C_ITEM`), of a group its size and the
    place of its first item (`C_GROUP`), a bit for each that has items (`C_FILLED`), the first of
    those (`C_TOP`); and the total of all bounds (`V_TOTAL`).
    """
    grouped, count = items is not None, items or 0
    groups = highest - LOWEST + 1
    of_all = groups + 2  # of nothing, and of what is no number
    at = n_species + n_species % 2
    for name, size in (
        ("C_WHERE", 2 * count), ("C_GROUP", 2 * of_all), ("C_ITEM", count),
        ("C_FILLED", padded(of_all) // 32), ("C_TOP", 1),
    ):  # fmt: skip
        book.constant(name, at)
        at += size
    book.constant("C_GROUPS", groups)
    book.constant("IS_GROUPED", grouped)
    book.constant("N_COUNTS", at if grouped else n_species)
    book.constant("V_TOTAL", book["N_VALUES"])
    book.constant("N_VALUES", padded(book["N_VALUES"] + grouped))


def highest_exponent(reactions: tuple[LoweredReaction, ...]) -> int:
    """Exponent that no mass-action propensity exceeds, within `HIGHEST`.

    Laws, and rate constants that differ from trajectory to trajectory, are not looked at.
    """
    least, most = HIGHEST
    found = [
        frexp(literal_of(reaction))[1] + COUNT_BITS * sum(order for _, order in reaction.orders)
        for reaction in reactions
        if literal_of(reaction) > 0
    ]
    return min(most, max([least, *found]))

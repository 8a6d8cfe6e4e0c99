"""The groups of the selector `cr`, as places in a trajectory's arrays for csrc/composition.h."""

from __future__ import annotations

from tauslab.kernels.tables import TableBook, padded

GROUPS = 258  # as in csrc/composition.h: by exponent, of nothing, of what is no number


def write_groups(book: TableBook, n_species: int, items: int | None) -> None:
    """Add the places of groups behind a trajectory's counts and values; None: it has no groups.

    Of an item its group and its place in the order of items (`C_WHERE`), the items in that order
    (`C_ITEM`), of a group its size and the place of its first item (`C_GROUP`), a bit for each that
    has items (`C_FILLED`), the first of those (`C_TOP`); and the total of all bounds (`V_TOTAL`).
    """
    grouped, count = items is not None, items or 0
    at = n_species + n_species % 2
    for name, size in (
        ("C_WHERE", 2 * count), ("C_GROUP", 2 * GROUPS), ("C_ITEM", count),
        ("C_FILLED", padded(GROUPS) // 32), ("C_TOP", 1),
    ):  # fmt: skip
        book.constant(name, at)
        at += size
    book.constant("IS_GROUPED", grouped)
    book.constant("N_COUNTS", at if grouped else n_species)
    book.constant("V_TOTAL", book["N_VALUES"])
    book.constant("N_VALUES", padded(book["N_VALUES"] + grouped))

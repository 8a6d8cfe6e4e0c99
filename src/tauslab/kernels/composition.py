"""The groups of the selector `cr`, as places in a trajectory's arrays for csrc/composition.h."""

from __future__ import annotations

import os

from tauslab.kernels.forest import ForestTables
from tauslab.kernels.tables import TableBook, padded

BUNDLE = int(os.environ.get("BUNDLE", "32"))

GROUPS = 258  # as in csrc/composition.h: by exponent, of nothing, of what is no number
_FIELDS = ("C_GROUP", "C_PLACE", "C_ITEM", "C_SIZE", "C_FIRST", "C_FILLED", "C_TOP")


def write_groups(book: TableBook, n_species: int, forest: ForestTables | None) -> None:
    """Add the places of groups of the forest's stored sums; without a forest there are none."""
    items, bundles, values = 0, 0, 0
    if forest is not None:
        items = max(1, -(-len(forest.stored) // BUNDLE))
        bundles, values = forest.stored_at[-1], book["N_VALUES"]
        book.constant("N_VALUES", padded(values + 1))
    at = n_species
    sizes = (items, items, items, GROUPS, GROUPS, padded(GROUPS) // 32, 1)
    for name, size in zip(_FIELDS, sizes, strict=True):
        book.constant(name, at)
        at += size if items else 0
    for name, value in (
        ("N_ITEMS", items), ("BUNDLE", BUNDLE), ("V_ITEMS", bundles), ("V_TOTAL", values),
        ("ITEM_STAGE", 3 if BUNDLE > 1 else 0), ("N_COUNTS", at),
    ):  # fmt: skip
        book.constant(name, value)

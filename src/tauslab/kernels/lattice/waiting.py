"""Particles that wait for a slot, on the host: their list as lattice/site/waiting.h keeps it."""

from __future__ import annotations

import numpy as np

from tauslab.base.arrays import Array

# `Waiting` in csrc/lattice/site/lattice.h.
WAITING = np.dtype([("site", "<u8"), ("age", "<u8"), ("particle", "<u4"), ("next", "<i4")])


def chained(entries: Array, tiles: Array) -> tuple[Array, Array]:
    """Entries in the order of their tiles, those of a tile chained; and their tiles."""
    order = np.argsort(tiles, kind="stable")
    entries, tiles = entries[order].copy(), tiles[order]
    entries["next"] = -1
    if len(entries) > 1:
        following = np.arange(1, len(entries))
        entries["next"][:-1] = np.where(tiles[1:] == tiles[:-1], following, -1)
    return entries, tiles


def first_entries(entries: Array, tiles: Array) -> Array:
    """For each entry, the place of the first of its tile."""
    return np.searchsorted(tiles, tiles, "left").astype(np.int32) if len(entries) else tiles


def in_order(entries: Array, first_site: int, end_site: int) -> Array:
    """Those of sites ``first_site .. end_site - 1``, unchained, by site and age."""
    site = entries["site"]
    entries = entries[(site >= first_site) & (site < end_site)].copy()
    entries["next"] = -1
    return entries[np.lexsort((entries["age"], entries["site"]))]

"""Passes in which a site had more reactions than random draws have addresses for."""

from __future__ import annotations


def truncation_text(truncated: int) -> str | None:
    """What a reader is told of so many truncated passes of sites; None for 0."""
    if not truncated:
        return None
    passes = "1 pass" if truncated == 1 else f"{truncated} passes"
    return (
        f"in {passes} of a site reactions are lost, because more happened than random draws have "
        "addresses for (about 262,000 after each pass of hops), or 49,000 products found no slot: "
        "choose a shorter step"
    )

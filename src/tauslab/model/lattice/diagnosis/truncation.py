"""Passes in which a site had more reactions than random draws have addresses for."""

from __future__ import annotations


def truncation_text(truncated: int) -> str | None:
    """What a reader is told of so many truncated passes of sites; None for 0."""
    if not truncated:
        return None
    passes = "1 pass" if truncated == 1 else f"{truncated} passes"
    return (
        f"in {passes} of a site later reactions are lost, because more than 262,000 happened, or "
        "49,000 products found no slot: choose a shorter step"
    )

"""How full a lattice is: by it steps look for the sites that hold particles, or go through all."""

from __future__ import annotations

from enum import IntEnum

# Particles a site. With more than FEW a warp has too few lanes for those of a tile, and a large
# lattice is no faster than where no site is left out.
FEW = 0.1
# A step of A + B <-> C in 64^3 sites with 0.16, 0.32 and 0.48 particles each takes 0.6, 0.8 and 1.0
# times as long on an H200 if it looks for those that hold particles.
MANY = 0.4
# By how much a lattice passes such a number before the choice is made again, which takes longer
# than some steps.
BEYOND = 1.25


class Filling(IntEnum):
    """Few particles, more of them, or so many that steps go through all sites."""

    FEW = 0
    SOME = 1
    MANY = 2


def filling_of(density: float, before: Filling | None = None) -> Filling:
    """How full a lattice is with so many particles a site.

    Near a limit it stays what it was before.

    >>> filling_of(0.3), filling_of(0.45), filling_of(0.45, Filling.SOME)
    (<Filling.SOME: 1>, <Filling.MANY: 2>, <Filling.SOME: 1>)
    """
    if before is None:
        return Filling((density > FEW) + (density > MANY))
    least, most = filling_of(density / BEYOND), filling_of(density * BEYOND)
    return max(least, min(before, most))

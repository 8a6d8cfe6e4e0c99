"""Rules that divide each quantity of a hybrid between daughters: words of `Hybrid.divide`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from tauslab.analysis.hybrids.board import Board, Key
from tauslab.analysis.hybrids.links import address, matching
from tauslab.analysis.hybrids.parts import PartModel
from tauslab.analysis.particles.daughters import OF_COUNTS, OF_QUANTITIES
from tauslab.base.errors import ConfigError
from tauslab.kernels.lattice.halving import SHARES as OF_PARTICLES
from tauslab.model.lattice.lattice import Lattice
from tauslab.model.network.network import Network

if TYPE_CHECKING:
    from tauslab.analysis.hybrids.hybrid import Hybrid

INITIAL = "initial"  # both daughters begin with what a cell has at t = 0
_OF_POOLS = ("binomial", "even", "share", "copy", "first")


class PoolShare(NamedTuple):
    """How a pool is divided: its word, or by the particles of a species of a lattice.

    `real`: no part counts its units, so that each daughter may have any part of one.
    """

    word: str
    lattice: str = ""
    species: int = 0
    real: bool = False


def words_of(hybrid: Hybrid, board: Board) -> dict[str, dict[str, str]]:
    """Words by part and quantity; empty of one in a pool that has none of its own.

    Raises
    ------
    ConfigError
        A pattern fits nothing, a quantity cannot do what is asked, or needs a word and has none.
    """
    assert hybrid.dividing is not None
    result: dict[str, dict[str, str]] = {
        name: dict.fromkeys(made.states, "") for name, made in hybrid.parts.items()
    }
    # Quantities with a formula are equal in mother and daughters until the formula changes.
    driven = {
        name: board.watches[name].driven if made.is_function else ()
        for name, made in hybrid.parts.items()
    }
    for pattern, word in hybrid.dividing.partition.items():
        to = address(pattern, "a quantity of partition=")
        names = matching(to.name, result.get(to.part, ()))
        if not names:
            raise ConfigError(f"divide: no quantity fits {pattern!r} of partition=")
        if names != [to.name] and not isinstance(hybrid.parts[to.part].model, Lattice):
            others = (*(name for part, name in board.pool_of if part == to.part), *driven[to.part])
            names = [one for one in names if one not in others]
        result[to.part] |= dict.fromkeys(names, word)
    for name, words in result.items():
        made = hybrid.parts[name]
        pooled = {one for part, one in board.pool_of if part == name}
        own = _usual(made)
        own |= dict.fromkeys(driven[name], ("copy", ("copy",)))
        if not isinstance(made.model, Lattice):
            own |= dict.fromkeys(pooled, ("", _OF_POOLS))
        for one, (usual, allowed) in own.items():
            words[one] = word = words[one] or usual
            if one not in pooled and not word:
                raise ConfigError(
                    f"divide: part {name} has {one}, which may be an amount or a concentration: "
                    f'give partition={{"{name}.*": "share"}} or "copy"'
                )
            if word and word not in allowed:
                raise ConfigError(
                    f"divide: partition {name}.{one}={word} is not allowed: {', '.join(allowed)}"
                )
    return result


def _usual(made: PartModel) -> dict[str, tuple[str, tuple[str, ...]]]:
    """The word that a quantity has if none is given, and those that it may have."""
    model = made.model
    if isinstance(model, Lattice):
        rigid = {name for one in model.objects for name in one.follows}
        every = tuple(OF_PARTICLES)
        return {one: ("position", every[:1] if one in rigid else every) for one in model.species}
    if not isinstance(model, Network):
        return dict.fromkeys(made.states, ("", (*OF_QUANTITIES, INITIAL)))
    reals = set(model.species) if made.real else set(model.real_species())
    result: dict[str, tuple[str, tuple[str, ...]]] = {}
    for name, one in model.species.items():
        usual = "" if made.real else "binomial"
        if one.fixed:
            usual = "copy"
        elif name in reals and not made.real:
            usual = "share" if name in model.rates else "copy"
        result[name] = usual, (*(OF_QUANTITIES if name in reals else OF_COUNTS), INITIAL)
    return result


def pools_of_daughters(
    hybrid: Hybrid, board: Board, words: Mapping[str, Mapping[str, str]]
) -> list[PoolShare]:
    """How each pool is divided.

    Raises
    ------
    ConfigError
        Its members have several words, or particles on two lattices.
    """
    result = []
    for pool in board.pools:
        members = [one for one, first in board.pool_of.items() if first == pool]
        result.append(_pool_of(hybrid, pool, members, words))
    return result


def _pool_of(
    hybrid: Hybrid, pool: Key, members: list[Key], words: Mapping[str, Mapping[str, str]]
) -> PoolShare:
    parts = hybrid.parts
    lattices = [one for one in members if isinstance(parts[one[0]].model, Lattice)]
    if len(lattices) > 1:
        raise ConfigError(
            f"divide: the pool of {'.'.join(pool)} has particles on two lattices, which may be on "
            "two sides"
        )
    for part, name in lattices:
        return PoolShare(words[part][name], part, list(parts[part].states).index(name))
    given = sorted({words[part][name] for part, name in members} - {""})
    if len(given) > 1:
        raise ConfigError(
            f"divide: partition= has several words for the pool of {'.'.join(pool)}: "
            f"{', '.join(given)}"
        )
    counts = any(parts[part].whole(name) for part, name in members)
    return PoolShare(given[0] if given else "binomial" if counts else "share", real=not counts)

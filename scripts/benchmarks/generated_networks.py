"""Networks made by rule: random ones of any size, cyclic chains, colloidal aggregation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from random_words import RandomWords

from tauslab.base.arrays import IntArray
from tauslab.model.expressions.expression import Number
from tauslab.model.network.equations import continuous_law, mass_action_law
from tauslab.model.network.network import Network, Reaction, Species

_BIMOLECULAR = 0.5  # probability of two reactants and two products, where masses allow fewer
_HEAVIEST = 6  # masses of species are 1 to this
_OF_A_MASS = 4  # as many species of each mass at least, in networks large enough
_COUNTED = 4096  # reactions whose dependents are counted, to meet a mean
_ATTEMPTS = 6
_NONE = -1
_REACTIONS, _RATES = 0, 1  # streams: the same reactions whatever the rates
Side = tuple[int, ...]


def random_network(
    *,
    reactions: int,
    species: int | None = None,
    dependents: float | None = None,
    rates: Literal["uniform"] | tuple[float, float] = "uniform",
    initial: int | Sequence[int] = 1000,
    seed: int = 0,
) -> Network:
    """Make a random mass-action network that is consistent: a positive mass vector is conserved.

    Every reaction has one or two reactants and one or two products; every species is consumed by a
    reaction and made by another. The network is a pure function of the arguments, on every platform
    and with every version of NumPy.

    Parameters
    ----------
    reactions, species
        Numbers of each; species are named S1, S2, ..., at most one per reaction.
    dependents
        If `species` is not given: mean number of reactions, itself included, that read a species that a
        reaction changes; 8 to 16 in Komarov & D'Souza, PLoS ONE 7:e46693 (2012), figure 7.
    rates
        Stochastic rate constants: ``"uniform"`` in [0, 1), or ``(low, high)`` for values whose
        logarithm is uniform.
    initial
        Molecules of every species, or of each ``[species]``.
    seed
        64 bits.

    Examples
    --------
    >>> import tauslab as ts
    >>> net = random_network(species=33, reactions=35, rates=(1e-6, 10.0), seed=1)
    >>> len(net.species), len(net.reactions)
    (33, 35)
    """
    if species is not None:
        drawn = _draw(species, reactions, seed)
    else:
        assert dependents is not None
        drawn = _with_dependents(dependents, reactions, seed)
    words = RandomWords(seed, _RATES)
    values = (
        words.uniform(reactions) if rates == "uniform" else words.log_uniform(*rates, reactions)
    )
    counts = np.broadcast_to(np.asarray(initial, np.int64), (drawn.species,)).tolist()
    sides = ((_side(x, y), _side(z, w)) for x, y, z, w in zip(*drawn.columns(), strict=True))
    return _network("random", counts, sides, values.tolist())


def cyclic_chain(n: int, *, rate: float = 1.0, initial: int = 1) -> Network:
    """Make the chain S1 -> S2 -> ... -> Sn -> S1, a weakly coupled network.

    Defaults as in Komarov & D'Souza (2012), figure 7: rate constant and molecules of all species.

    >>> import tauslab as ts
    >>> [r.net_change() for r in cyclic_chain(2).reactions]
    [{'S1': -1, 'S2': 1}, {'S2': -1, 'S1': 1}]
    """
    sides = (((i,), ((i + 1) % n,)) for i in range(n))
    return _network("cyclic_chain", [initial] * n, sides, [rate] * n)


def colloidal_aggregation(n: int, *, rate: float = 1.0, initial: int = 1) -> Network:
    """Make clusters of 1 to n particles that join and break in all ways: n^2 / 2 reactions.

    S_i is a cluster of i particles. Any two whose sum is at most n join, and any cluster breaks
    into any two: a strongly coupled network (Meakin, Annu. Rev. Phys. Chem. 39:237, 1988;
    Ramaswamy & Sbalzarini, J. Chem. Phys. 132:044102, 2010).

    >>> import tauslab as ts
    >>> len(colloidal_aggregation(16).reactions)
    128
    """
    sides: list[tuple[Side, Side]] = []
    for i in range(1, n // 2 + 1):
        sides += [((i - 1, j - 1), (i + j - 1,)) for j in range(i, n - i + 1)]
    for k in range(2, n + 1):
        sides += [((k - 1,), (i - 1, k - i - 1)) for i in range(1, k // 2 + 1)]
    return _network("colloidal_aggregation", [initial] * n, sides, [rate] * len(sides))


@dataclass(frozen=True)
class _Drawn:
    """Reactants and products by species number, int64 ``[reaction]``; -1 where there is none."""

    species: int
    reactants: tuple[IntArray, IntArray]
    products: tuple[IntArray, IntArray]

    def columns(self) -> list[list[int]]:
        """First and second reactant, first and second product."""
        return [column.tolist() for column in (*self.reactants, *self.products)]


class _Masses:
    """Species by mass; every mass from 1 to `heaviest` has about as many."""

    def __init__(self, n: int, words: RandomWords) -> None:
        self.heaviest = max(1, min(_HEAVIEST, n // _OF_A_MASS))
        self.of = 1 + words.permutation(n) % self.heaviest
        self._sorted = np.argsort(self.of, kind="stable")
        self._place = np.empty(n, np.int64)
        self._place[self._sorted] = np.arange(n)
        self._first = np.searchsorted(self.of[self._sorted], np.arange(self.heaviest + 2))
        self._words = words

    def draw(self, mass: IntArray, but: IntArray) -> IntArray:
        """A species of each mass, other than the one in `but`."""
        first, own = self._first[mass], self.of[but] == mass
        chosen = first + self._words.below(self._first[mass + 1] - first - own)
        drawn: IntArray = self._sorted[chosen + (own & (chosen >= self._place[but]))]
        return drawn


def _draw(n: int, m: int, seed: int) -> _Drawn:
    """Draw m reactions a (+ x) -> b (+ y): a and b are given, x and y level the masses.

    The first n reactions take every species once as a and once as b. That x is never b, and y
    never a, makes every reaction consume its a and make its b.
    """
    words = RandomWords(seed, _REACTIONS)
    masses = _Masses(n, words)
    a = np.concatenate([words.permutation(n), words.below(np.full(m - n, n))])
    b = np.concatenate([_other_permutation(a[:n], words), words.below(np.full(m - n, n - 1))])
    b[n:] += b[n:] >= a[n:]
    excess = masses.of[a] - masses.of[b]
    both = words.uniform(m) < _BIMOLECULAR
    none = np.full(m, _NONE)
    # Two and two: x of any mass for which there is a y.
    least, most = np.maximum(1, 1 - excess), np.minimum(masses.heaviest, masses.heaviest - excess)
    mass = least + words.below(most - least + 1)
    x, y = masses.draw(mass, b), masses.draw(mass + excess, a)
    lighter, heavier = excess > 0, excess < 0
    part = masses.draw(np.where(both | (excess == 0), 1, np.abs(excess)), np.where(lighter, a, b))
    return _Drawn(
        n,
        (a, np.where(both, x, np.where(heavier, part, none))),
        (b, np.where(both, y, np.where(lighter, part, none))),
    )


def _other_permutation(first: IntArray, words: RandomWords) -> IntArray:
    """A permutation that has no number where `first` has it."""
    second = words.permutation(len(first))
    for i in np.flatnonzero(second == first).tolist():
        j = (i + 1) % len(first)
        if second[i] == first[i]:
            second[[i, j]] = second[[j, i]]
    return second


def _with_dependents(wanted: float, m: int, seed: int) -> _Drawn:
    """Draw with the number of species whose mean dependents are nearest to those wanted."""
    tried: dict[int, tuple[float, _Drawn]] = {}
    n = max(2, min(m, round(5 * m / wanted)))
    for _ in range(_ATTEMPTS):
        drawn = _draw(n, m, seed)
        found = _mean_dependents(drawn)
        tried[n] = (abs(found - wanted), drawn)
        n = max(2, min(m, round(n * found / wanted)))
        if n in tried:
            break
    return min(tried.values(), key=lambda found: found[0])[1]


def _mean_dependents(drawn: _Drawn) -> float:
    """Return the mean number of dependents, over the first `_COUNTED` reactions."""
    small = range(min(_COUNTED, len(drawn.reactants[0])))
    readers: dict[int, list[int]] = {}
    a, x, b, y = drawn.columns()
    for j, (first, second) in enumerate(zip(a, x, strict=True)):
        for species in {first, second} - {_NONE}:
            readers.setdefault(species, []).append(j)
    result = 0
    for j in small:
        left, right = sorted(_side(a[j], x[j])), sorted(_side(b[j], y[j]))
        changed = {s for s in (*left, *right) if left.count(s) != right.count(s)}
        result += len({i for s in changed for i in readers[s]})
    return result / len(small)


def _side(first: int, second: int) -> Side:
    """One side of a reaction, by species number."""
    return (first,) if second == _NONE else (first, second)


def _network(
    name: str, counts: Sequence[int], sides: Iterable[tuple[Side, Side]], rates: Sequence[float]
) -> Network:
    """Build without reading a text for every reaction: a million takes seconds."""
    names = [f"S{i + 1}" for i in range(len(counts))]
    species = {s: Species(s, Number(float(c))) for s, c in zip(names, counts, strict=True)}
    reactions = []
    for j, ((left, right), rate) in enumerate(zip(sides, rates, strict=True)):
        reactants, products = _amounts(names, left), _amounts(names, right)
        law = mass_action_law(Number(rate), reactants)
        limit = continuous_law(Number(rate), reactants)
        reactions.append(Reaction(f"R{j + 1}", reactants, products, law, limit))
    return Network(name, species=species, reactions=reactions)


def _amounts(names: Sequence[str], side: Side) -> dict[str, int]:
    if len(side) == 2 and side[0] == side[1]:
        return {names[side[0]]: 2}
    return {names[i]: 1 for i in side}

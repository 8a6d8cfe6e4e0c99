"""Systems of equations made by rule, of the sizes that a paper on code generation used.

Hagiescu et al., ACM TACO 10(4):55 (2013), table II, tells of five synthetic systems how many
equations, unknown parameters and operations of each kind they have, and in words how long their
equations are. Systems made here have the same numbers and lengths of that kind; the paper does not
print the equations themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from random_words import RandomWords

from tauslab.base.arrays import FloatArray, IntArray
from tauslab.model.network.network import Network

_LEVELS = 8  # constant targets are multiples of 1 / this, exact in every precision
_CONSTANT_TARGETS = 4  # one pull in so many goes to a constant
_HALF = 0.5  # half saturation
_SLOWEST, _FASTEST = 1.0, 100.0  # rate constants, times the duration of a trajectory
_SHAPE, _VALUES = 0, 1  # streams: the same equations whatever the numbers


@dataclass(frozen=True)
class SyntheticSize:
    """One row of table II, and how it was run (tables II and III).

    `additions`, `multiplications` and `divisions` are of all right-hand sides as written, `lengths`
    how the terms are shared out. A trajectory had `points` intervals of `interval` time units, each
    of `substeps` Runge-Kutta steps; `homogeneous` and `heterogeneous` are the seconds that the
    paper measured for `trajectories` of them on a Tesla S2050.
    """

    equations: int
    parameters: int
    additions: int
    multiplications: int
    divisions: int
    lengths: str
    trajectories: int
    points: int
    interval: float
    substeps: int
    homogeneous: float
    heterogeneous: float

    @property
    def step(self) -> float:
        """Duration of a Runge-Kutta step."""
        return self.interval / self.substeps

    @property
    def steps(self) -> int:
        """Runge-Kutta steps of a trajectory."""
        return self.points * self.substeps


SYNTHETIC: Mapping[int, SyntheticSize] = {
    1: SyntheticSize(200, 86, 650, 680, 0, "disparate", 10_000, 100, 300.0, 500, 276.3, 121.67),
    2: SyntheticSize(205, 163, 939, 2132, 2, "shared", 3_000, 10, 2.0, 20_000, 331.0, 233.0),
    3: SyntheticSize(100, 66, 385, 450, 0, "equal", 10_000, 100, 300.0, 500, 57.54, 28.01),
    4: SyntheticSize(40, 35, 125, 101, 8, "unbalanced", 50_000, 100, 60.0, 1_000, 83.28, 27.47),
    5: SyntheticSize(100, 97, 601, 821, 0, "mostly long", 10_000, 100, 300.0, 500, 145.36, 44.05),
}
_DECAYS = {1: 250, 3: 185, 4: 37, 5: 301}  # the rest are pulls, as many as the additions ask for


def synthetic_equations(number: int, *, seed: int = 0) -> Network:
    """Make a system of equations as large, and of the kind, as one of a paper's five, for ``ode``.

    The paper is Hagiescu et al., ACM TACO 10(4):55 (2013), table II.

    Systems 1, 3, 4 and 5 consist of *pulls* ``k * y * (z - x)`` of a variable x towards another
    or a constant, and of decays ``- k * y * x``, with or without the factor y; so every variable
    stays between 0 and 1, where it starts. System 2 is mass action, whose rates recur in the
    equations of all reactants and products: 205 equations of 324 different terms. Constants are
    uniform in the logarithm, 1 to 100 over the duration of a trajectory. The system is a pure
    function of the arguments, on every platform.

    Parameters
    ----------
    number
        1 to 5.
    seed
        64 bits.
    """
    size, decays = SYNTHETIC[number], _DECAYS.get(number, 0)
    return equations_of_size(f"synthetic{number}", size, decays, (seed, number))


def equations_of_size(
    name: str, size: SyntheticSize, decays: int, draws: tuple[int, int]
) -> Network:
    """Make a system of any size, of which so many terms are decays unless it is ``shared``.

    `draws` are a seed and a number that tells systems of one seed apart.
    """
    seed, number = draws
    shape, values = (RandomWords(seed, 2 * number + stream) for stream in (_SHAPE, _VALUES))
    terms = _reactions(size, shape) if size.lengths == "shared" else _pulls(size, decays, shape)
    duration = size.points * size.interval
    network = Network(name, t_end=duration)
    constants = values.log_uniform(_SLOWEST / duration, _FASTEST / duration, size.parameters)
    for i, value in enumerate(constants.tolist()):
        network.add_parameter(f"k{i + 1}", value)
    for i, value in enumerate(values.uniform(size.equations).tolist()):
        network.add_species(_x(i), value)
    for i, own in enumerate(terms):
        network.add_rate(_x(i), "".join(own).removeprefix(" + "))
    return network


def _x(index: int) -> str:
    return f"x{index + 1}"


def _pulls(size: SyntheticSize, decays: int, words: RandomWords) -> list[list[str]]:
    """Terms of all equations: a pull first, then pulls and decays as they come."""
    n = size.equations
    # Each pull has a difference inside, each term but an equation's first a sign before it, and
    # a quotient a sum below.
    pulls = (size.additions + n - decays - size.divisions) // 2
    terms = pulls + decays
    lengths = _lengths(size.lengths, n, terms, words)
    first = np.cumsum(lengths) - lengths
    decaying = np.zeros(terms, bool)
    later = np.setdiff1d(np.arange(terms), first)
    decaying[later[words.permutation(len(later))[:decays]]] = True
    factors = np.zeros(terms, bool)  # a second factor
    factors[words.permutation(terms)[: size.multiplications - terms]] = True
    quotients = np.flatnonzero(~decaying)
    saturating = np.zeros(terms, bool)
    saturating[quotients[words.permutation(len(quotients))[: size.divisions]]] = True
    owner = np.repeat(np.arange(n), lengths)
    others = [_others(owner, n, words) for _ in range(3)]
    constant = words.below(np.full(terms, _CONSTANT_TARGETS)) == 0
    levels = (1 + words.below(np.full(terms, _LEVELS))) / _LEVELS
    k = _spread(size.parameters, terms, words)
    result: list[list[str]] = [[] for _ in range(n)]
    for t in range(terms):
        x, (y, z, w) = _x(int(owner[t])), (_x(int(other[t])) for other in others)
        rate = f"k{k[t] + 1} * {y}" if factors[t] else f"k{k[t] + 1}"
        target = f"{float(levels[t])!r}" if constant[t] else z
        below = f" / ({_HALF} + {w})" if saturating[t] else ""
        term = f" - {rate} * {x}" if decaying[t] else f" + {rate} * ({target} - {x}){below}"
        result[owner[t]].append(term)
    return result


def _reactions(size: SyntheticSize, words: RandomWords) -> list[list[str]]:
    """Terms of mass action: a + b -> c + d, a + b -> c and a -> b, some of these saturated.

    A quotient stands in two equations, and adds a sum below to each.
    """
    n, saturated = size.equations, size.divisions // 2
    slots = size.additions + n - size.divisions  # signs before all terms but the first
    twofold = size.multiplications - slots  # terms with two factors beside the constant
    three = next(t for t in range(4) if (twofold - 3 * t) % 4 == 0)
    four, single = (twofold - 3 * three) // 4, (slots - twofold) // 2
    sides = [(2, 2)] * four + [(2, 1)] * three + [(1, 1)] * single
    products = sum(right for _, right in sides)
    # Every variable is made by a reaction, so that its equation begins with a positive term.
    made = np.concatenate([words.permutation(n), words.below(np.full(products - n, n))])
    k = _spread(size.parameters, len(sides), words)
    gains: list[list[str]] = [[] for _ in range(n)]
    losses: list[list[str]] = [[] for _ in range(n)]
    at = 0
    for j in words.permutation(len(sides)).tolist():
        left, right = sides[j]
        own = made[at : at + right].tolist()
        at += right
        if len(set(own)) < len(own):
            own[1] = (own[0] + 1) % n
        taken = _distinct(left, own, n, words)
        rate = " * ".join([f"k{k[j] + 1}", *(_x(i) for i in taken)])
        if j >= len(sides) - saturated:
            rate += f" / ({_HALF} + {_x(taken[0])})"
        for i in own:
            gains[i].append(f" + {rate}")
        for i in taken:
            losses[i].append(f" - {rate}")
    return [gained + lost for gained, lost in zip(gains, losses, strict=True)]


def _distinct(count: int, but: Sequence[int], n: int, words: RandomWords) -> list[int]:
    """Numbers below n, none twice and none of `but`."""
    result: list[int] = []
    while len(result) < count:
        drawn = int(words.below(np.array([n]))[0])
        if drawn not in result and drawn not in but:
            result.append(drawn)
    return result


def _lengths(kind: str, n: int, terms: int, words: RandomWords) -> IntArray:
    """Number of terms of each equation: one, and its share of the others by weight."""
    order = words.permutation(n)
    weights: FloatArray = np.ones(n)
    if kind == "disparate":
        weights = words.uniform(n) ** 2
    elif kind == "unbalanced":  # a tenth of the equations have half of what is shared out
        weights[order[: n // 10]] = n - n // 10
        weights[order[n // 10 :]] = n // 10
    elif kind == "mostly long":  # nine tenths are long and alike
        weights[order[: n // 10]] = 0.0
    shares = weights / weights.sum() * (terms - n)
    lengths: IntArray = np.floor(shares).astype(np.int64)
    largest = np.argsort(lengths - shares, kind="stable")
    lengths[largest[: terms - n - int(lengths.sum())]] += 1
    lengths += 1
    return lengths


def _others(owner: IntArray, n: int, words: RandomWords) -> IntArray:
    """Draw a variable for each term, other than its own."""
    drawn = words.below(np.full(len(owner), n - 1))
    shifted: IntArray = drawn + (drawn >= owner)
    return shifted


def _spread(parameters: int, terms: int, words: RandomWords) -> IntArray:
    """A parameter for each term, all equally often but for one."""
    chosen: IntArray = (np.arange(terms) % parameters)[words.permutation(terms)]
    return chosen

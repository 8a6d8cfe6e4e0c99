"""Channels of leaps, what they change, and the orders by which species bound a leap."""

from __future__ import annotations

from collections.abc import Callable

from tauslab.kernels.network.lowering import LoweredNetwork, LoweredReaction, counts_in

CRITICAL_FIRINGS = 10  # a reaction that could exhaust a reactant in fewer firings is critical
# With 8 bytes for each of 128 lanes, two blocks fit on a processor up to here.
LARGEST_SHARED = 96


def channels(network: LoweredNetwork) -> list[tuple[int, ...]]:
    """Reactions by what they change, in order of the first of each.

    Those that change the same draw one Poisson number together: a sum of Poisson numbers is one.
    """
    together: dict[tuple[tuple[int, int], ...], list[int]] = {}
    for j, reaction in enumerate(network.reactions):
        together.setdefault(tuple(sorted(reaction.change)), []).append(j)
    return [tuple(reactions) for reactions in together.values()]


def shared_cells(network: LoweredNetwork) -> int:
    """Doubles that a lane has in a processor's shared memory: one for each reaction, or none."""
    return len(network.reactions) if len(network.reactions) <= LARGEST_SHARED else 0


def parked_words(network: LoweredNetwork) -> int:
    """32-bit words for a trajectory that waits for its turn: counts, constants and 20 more."""
    return len(network.species) + 2 * len(network.constants) + 20


_SIZES = """\
// Sets of reactions that change the same.
constexpr int N_CHANNELS = {channels};
// Doubles of a lane in shared memory; 0 where they do not fit.
constexpr int SHARED_CELLS = {cells};
// 32-bit words for a trajectory that waits for its turn.
constexpr int PARKED_WORDS = {words};
"""


def sizes_of(network: LoweredNetwork) -> str:
    """Sizes that every leap needs."""
    return _SIZES.format(
        channels=len(channels(network)),
        cells=shared_cells(network),
        words=parked_words(network),
    )


def readers_of(network: LoweredNetwork, species: int) -> list[tuple[int, LoweredReaction]]:
    """Reactions whose propensity reads the species, with their numbers."""
    return [(j, r) for j, r in enumerate(network.reactions) if species in r.depends_on()]


def orders_of(network: LoweredNetwork, species: int, number: Callable[[str], str]) -> list[str]:
    """Statements that raise ``order``, from 1, to the order of each reaction in the species."""
    readers = readers_of(network, species)
    formulas = [number(formula) for formula in _orders(readers, species)]
    orders = [f"        order = larger(order, {formula});\n" for formula in formulas]
    for j, reaction in readers:
        if reaction.law is not None and species in counts_in(reaction.law):
            orders.append(
                f"        const Real now_{j} = propensity_{j}(x, c);\n"
                f"        x[{species}] += 1;\n"
                f"        order = larger(order, law_order(count, now_{j}, "
                f"propensity_{j}(x, c)));\n"
                f"        x[{species}] -= 1;\n"
            )
    return orders


def changes_of(network: LoweredNetwork, species: int) -> list[tuple[int, int]]:
    """Channels that change the species, each with the change."""
    return [
        (channel, by)
        for channel, reactions in enumerate(channels(network))
        for index, by in network.reactions[reactions[0]].change
        if index == species
    ]


def _orders(readers: list[tuple[int, LoweredReaction]], species: int) -> list[str]:
    """The order g of the species in every kind of mass-action reaction, without repeats.

    A species that takes part k times in a reaction of order n has
    g = n / k * (k + sum over m < k of m / (x - m)): 2 + 1 / (x - 1) for both molecules of an order
    of 2, 3 / 2 (2 + 1 / (x - 1)) for two of three, 3 + 1 / (x - 1) + 2 / (x - 2) for three.
    """
    kinds = set()
    for _, reaction in readers:
        copies = dict(reaction.orders).get(species, 0)
        if copies:
            kinds.add((sum(k for _, k in reaction.orders), copies))
    formulas = []
    for order, copies in sorted(kinds):
        if (order, copies) == (1, 1):
            continue
        terms = [f"{float(copies)!r}"]
        terms += [f"over({float(m)!r}, count - {float(m)!r})" for m in range(1, copies)]
        ratio = order / copies
        text = " + ".join(terms)
        formulas.append(text if ratio == 1.0 else f"{ratio!r} * ({text})")
    return formulas

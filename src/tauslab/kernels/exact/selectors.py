"""Selectors, which choose the next reaction of an exact trajectory, and that of a network.

========== ======================================================== ==============================
selector   paper                                                    kernel, below csrc
========== ======================================================== ==============================
`linear`   direct method, Gillespie 1977                            ensemble/ssa.cc, ssa_lanes.cc;
                                                                    with events events/
`tree`     direct method with a tree of sums                        tables/ssa_table.cc, forest.h
`pdm`      partial propensities, Ramaswamy and others 2009          same files; tables/dense.h
`rssa`     rejection with bounds, Thanh, Priami and Zunino 2014     tables/rejection/
========== ======================================================== ==============================

`selector_of` chooses by the network alone, `selector_after` by what a pilot counted.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from tauslab.base.arrays import FloatArray
from tauslab.base.errors import ConfigError
from tauslab.base.option_names import opt
from tauslab.kernels.exact.owners import can_be_owned
from tauslab.kernels.network.lowering import LoweredNetwork

Selector: TypeAlias = Literal["linear", "tree", "pdm", "rssa"]
SELECTORS: tuple[str, ...] = get_args(Selector)

# Up to this many reactions a network is unrolled and uses the selector `linear`; beyond it tables.
# Part of the method: changing it changes results. Measured, docs/developers/selectors.md: on a core
# `linear` takes a quarter of the time of a tree or less at 128 reactions, and as long at about 400,
# but compiling takes 4 times as long at 128 as with tables, and minutes where laws are long.
LARGEST_UNROLLED = 128
# With more dependents `pdm` is faster than `tree`, with fewer it only takes more memory: measured,
# see docs/developers/selectors.md.
MOST_DEPENDENTS_OF_A_TREE = 16.0
# The same of networks with events, whose text is shorter; up to it they use `linear` by default.
LARGEST_WITH_EVENTS = 2000


# A pilot of so many firings a trajectory orders networks beyond so many reactions, where there are
# trajectories enough to pay for it and for compiling twice.
PILOT_EVENTS = 1 << 17
SMALLEST_PILOTED = 256
FEWEST_PILOTED = 64
# When `rssa` becomes the selector after a pilot that it ran. Two averages over the pilot's firings
# decide: candidates that were tried (MOST_CANDIDATES), and upper bounds that were computed anew
# (MOST_BOUNDS, by the selector that `rssa` would replace). Neither may be larger than given here.
# Measured on a CPU core: a new bound takes 20 to 70 ns, a firing of `rssa` without new bounds 30 to
# 140, a firing of the other selectors 60 to 300. Part of the method: changing it changes results.
MOST_CANDIDATES = 2.0
MOST_BOUNDS = {"tree": 0.25, "pdm": 2.0}


@dataclass(frozen=True)
class PilotCounts:
    """Counts of a pilot: numbers of work, never times, so they are the same on every machine.

    `firings` f64 ``[reaction]``, whole numbers: how often each reaction fired. `candidates` that
    were tried and `bounds` of propensities that were made again, 0 unless `rssa` ran it.
    """

    firings: FloatArray
    candidates: int = 0
    bounds: int = 0

    @property
    def work(self) -> tuple[float, float]:
        """Candidates and bounds of a firing, on average; none where nothing fired."""
        events = max(1.0, float(self.firings.sum()))
        return self.candidates / events, self.bounds / events


def pilot_events(network: LoweredNetwork, selector: str, trajectories: int) -> int:
    """Events of a pilot trajectory; 0 for none. A function of the network and of how many run."""
    large = len(network.reactions) > SMALLEST_PILOTED and selector != "linear"
    large &= network.thinning is None  # whose bounds end with the run
    return PILOT_EVENTS if large and trajectories >= FEWEST_PILOTED else 0


def pilot_selector(network: LoweredNetwork) -> str:
    """The selector of a pilot: `rssa` where it can count its work, so that it can be chosen.

    A function of the network alone, never of the selector that a run is given: so a run that takes
    its selector from a file has the same pilot, the same order, and the same results.
    """
    mass_action = sum(reaction.law is None for reaction in network.reactions)
    if 2 * mass_action >= len(network.reactions):
        return "rssa"
    base = selector_of(network)
    return "tree" if base == "linear" else base  # unrolled code counts nothing


def selector_after(network: LoweredNetwork, base: str, pilot: PilotCounts) -> str:
    """The selector of a run to which the network alone gives `base`, after its pilot.

    `rssa` where the pilot, which it ran, shows that few candidates are refused and few bounds are
    made again: such a firing takes the same work however many propensities depend on it.
    """
    if pilot_selector(network) != "rssa" or not pilot.firings.any():
        return base
    candidates, bounds = pilot.work
    return "rssa" if candidates <= MOST_CANDIDATES and bounds <= MOST_BOUNDS[base] else base


def selector_of(network: LoweredNetwork, forced: str | None = None) -> str:
    """The selector of a network: the one that is `forced`, or a function of the network alone.

    Raises
    ------
    ConfigError
        `linear` is forced on a network that is too large for it, or a selector of tables on one in
        which something moves between events.
    """
    if network.thinning is not None and network.thinning.in_tables:
        return "tree"
    if network.dynamics is not None:
        why = only_linear(network)
        if forced in (None, "linear") and len(network.reactions) <= LARGEST_WITH_EVENTS:
            return "linear"
        if why is not None and forced not in (None, "linear"):
            raise ConfigError(f"{opt('selector', forced)} is not for {why}: leave it out")
        if why is not None or forced == "linear":
            what = why or f"events by {opt('selector', 'linear')}"
            raise ConfigError(
                f"ssa runs {what} in models of up to {LARGEST_WITH_EVENTS} reactions, not "
                f"{len(network.reactions)}"
            )
    if forced == "linear" and not 0 < len(network.reactions) <= LARGEST_UNROLLED:
        raise ConfigError(
            f"{opt('selector', 'linear')} is for 1 to {LARGEST_UNROLLED} reactions, not "
            f"{len(network.reactions)}: use one of {', '.join(SELECTORS[1:])}"
        )
    if forced is not None:
        return forced
    if network.dynamics is None and 0 < len(network.reactions) <= LARGEST_UNROLLED:
        return "linear"
    if mean_dependents(network) <= MOST_DEPENDENTS_OF_A_TREE:
        return "tree"
    if "owned" not in network.made:
        network.made["owned"] = sum(can_be_owned(reaction) for reaction in network.reactions)
    return "pdm" if 2 * network.made["owned"] > len(network.reactions) else "tree"


def only_linear(network: LoweredNetwork) -> str | None:
    """Words, after "for", for what `linear` alone runs of a network; None for nothing."""
    if network.dynamics is None:
        return None
    if network.dynamics.moves:
        return "rate rules, and rates that depend on the time other than by comparisons"
    return None


def mean_dependents(network: LoweredNetwork) -> float:
    """Number of propensities that read what a firing changes, on average over reactions.

    A propensity that reads two changed species counts twice, so that no pairs are made.
    """
    if "dependents" not in network.made:
        network.made["dependents"] = _mean_dependents(network)
    result: float = network.made["dependents"]
    return result


def _mean_dependents(network: LoweredNetwork) -> float:
    readers: Counter[int] = Counter()
    for reaction in network.reactions:
        readers.update(reaction.depends_on())
    read = sum(readers[index] for reaction in network.reactions for index, _ in reaction.change)
    return read / max(1, len(network.reactions))

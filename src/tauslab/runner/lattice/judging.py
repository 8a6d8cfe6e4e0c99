"""What a run of lattices says of its own result: every kind of run counts, and one place judges.

A run, its replicas, an ensemble, a filter and a weighted ensemble add what they count while
lattices move to a `Judge`, and let it speak.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace

from tauslab.base.option_names import warn
from tauslab.decomposition.ranks.mpi import Communicator
from tauslab.kernels.lattice.lowering import LoweredLattice
from tauslab.model.lattice.diagnosis.occupancy import CROWDED
from tauslab.model.lattice.diagnosis.time_step import truncation_text


@dataclass(frozen=True)
class Tally:
    """Sums over all lattices of a run and over the times at which they were counted.

    Attributes
    ----------
    waiting
        Particles that waited for a slot.
    particles
        All particles.
    truncated
        Passes of sites that ended before their time, since the start.
    """

    waiting: int = 0
    particles: int = 0
    truncated: int = 0

    def __add__(self, other: Tally) -> Tally:
        """Both together."""
        names = [one.name for one in fields(self)]
        return Tally(**{name: getattr(self, name) + getattr(other, name) for name in names})


def of_waiting(tally: Tally, lattice: LoweredLattice) -> str | None:
    """A sentence where slots take a part in the result."""
    if tally.waiting <= CROWDED * tally.particles:
        return None
    return (
        f"{100 * tally.waiting / tally.particles:.2g} % of the particles waited for one of the "
        f"{lattice.slots} slots of their site, on average, and what waits neither hops nor reacts: "
        "take more slots, or smaller sites"
    )


def of_truncation(tally: Tally, _: LoweredLattice) -> str | None:
    """A sentence where reactions were lost."""
    return truncation_text(tally.truncated)


_JUDGEMENTS: tuple[Callable[[Tally, LoweredLattice], str | None], ...] = (of_waiting, of_truncation)


class Judge:
    """Adds up what this rank counts of a run, and warns of what its result suffers from.

    Attributes
    ----------
    tally
        Of this rank, but for truncated passes.
    truncated
        Truncated passes of some lattices of this rank since their start, by any number that stays
        theirs.
    """

    def __init__(self, lattice: LoweredLattice) -> None:
        self._lattice = lattice
        self._left = list(_JUDGEMENTS)
        self.tally = Tally()
        self.truncated: dict[int, int] = {}

    def add(self, waiting: int, particles: int) -> None:
        """Count the particles of some lattices at some times."""
        self.tally += Tally(int(waiting), int(particles))

    def speak(self, comm: Communicator) -> None:
        """Warn on the first rank, of each thing once. Collective."""
        own = replace(self.tally, truncated=sum(self.truncated.values()))
        total = sum(comm.allgather(own), Tally())
        for judgement in [*self._left]:
            sentence = judgement(total, self._lattice)
            if sentence is not None:
                self._left.remove(judgement)
                if comm.rank == 0:
                    warn(f"{self._lattice.name}: {sentence}")

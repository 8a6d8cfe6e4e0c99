"""Warnings of a run of lattices about its own result: every kind of run counts, one place judges.

A run, its replicas, an ensemble, a filter and a weighted ensemble add what they count while
lattices move to a `Judge`, and let it speak.
"""

from __future__ import annotations

from tauslab.base.option_names import warn
from tauslab.decomposition.ranks.mpi import Communicator
from tauslab.kernels.lattice.lowering import LoweredLattice
from tauslab.model.lattice.diagnosis.occupancy import CROWDED
from tauslab.model.lattice.diagnosis.time_step import truncation_text


class Judge:
    """Adds up what this rank counts of a run, and warns of what its result suffers from.

    Attributes
    ----------
    truncated
        Truncated passes of some lattices of this rank since their start, by any number that stays
        theirs.
    """

    def __init__(self, lattice: LoweredLattice) -> None:
        self._lattice = lattice
        self._waiting = self._particles = 0  # over all lattices and all times at which they counted
        self._warned = [False, False]
        self.truncated: dict[int, int] = {}

    def add(self, waiting: int, particles: int) -> None:
        """Count particles that wait for a slot, and all, of some lattices at some times."""
        self._waiting += int(waiting)
        self._particles += int(particles)

    def speak(self, comm: Communicator) -> None:
        """Warn on the first rank, of each thing once. Collective."""
        own = (self._waiting, self._particles, sum(self.truncated.values()))
        waiting, particles, truncated = map(sum, zip(*comm.allgather(own), strict=True))
        sentences = (self._crowded(waiting, particles), truncation_text(truncated))
        for number, sentence in enumerate(sentences):
            if sentence is not None and not self._warned[number]:
                self._warned[number] = True
                if comm.rank == 0:
                    warn(f"{self._lattice.name}: {sentence}")

    def _crowded(self, waiting: int, particles: int) -> str | None:
        """A sentence where slots take a part in the result."""
        if waiting <= CROWDED * particles:
            return None
        return (
            f"{100 * waiting / particles:.2g} % of the particles waited for one of the "
            f"{self._lattice.slots} slots of their site, on average, and what waits neither hops "
            "nor reacts: take more slots, or smaller sites"
        )

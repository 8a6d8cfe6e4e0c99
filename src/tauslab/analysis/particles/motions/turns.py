"""The order in which a launch takes particles: those first that took longest a while ago.

A launch lasts as long as its last particle. What is long stays long for a while, so the longest
begin first, and the last to begin are short. The order changes no result: draws follow the number
of a particle.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tauslab.analysis.particles.motions.motion import DeviceRows
from tauslab.kernels.ensemble.engine import Engine

_MOST = 1 << 14  # particles, of which more hide the last one
_OFTEN, _EACH = 4, 16  # launches after which the order is found anew: at first, and later


class Turns:
    """Lengths of particles in launches, and the order of the next one.

    Attributes
    ----------
    order, lengths
        int64 and u64 ``[particle of this rank]`` on the device, as launches take and give them;
        None where the order is of no use.
    """

    def __init__(self, rows: DeviceRows, size: int) -> None:
        self._rows, self._size, self._launches = rows, size, 0
        self.order: Any = None
        self.lengths: Any = rows.backend.empty((size,), np.uint64)

    def serves(self, size: int) -> bool:
        """Return whether it is of so many particles."""
        return size == self._size

    def over(self) -> None:
        """Look at a launch that is over."""
        self._launches += 1
        if self._launches <= _OFTEN or self._launches % _EACH == 0:
            result = np.argsort(self._rows.host(self.lengths), kind="stable")[::-1]
            self.order = self._rows.backend.upload(np.ascontiguousarray(result))


def turns_of(before: Turns | None, engine: Engine, rows: DeviceRows, size: int) -> Turns | None:
    """Turns of so many particles, those `before` if they are; None where an order is of no use."""
    if not (engine.takes_turns and 1 < size <= _MOST):
        return None
    return before if before is not None and before.serves(size) else Turns(rows, size)

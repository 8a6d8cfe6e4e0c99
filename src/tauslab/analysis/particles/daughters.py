"""Division of quantities between two daughters: words for it, and the first one's share."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tauslab.base.arrays import FloatArray
from tauslab.base.errors import ConfigError
from tauslab.base.option_names import assigned
from tauslab.model.network.network import Network

OF_COUNTS = ("binomial", "even", "copy", "first")
OF_QUANTITIES = ("copy", "share", "first")
_UNIFORM = re.compile(r"\s*uniform\(([^(),]+),([^(),]+)\)\s*\Z")


@dataclass(frozen=True)
class Fraction:
    """Part of a mother that the first daughter gets: from `low` to `high`, evenly."""

    low: float
    high: float

    @classmethod
    def parse(cls, given: float | str) -> Fraction:
        """Read a number, or ``"uniform(LO,HI)"``.

        Raises
        ------
        ConfigError
            It is neither, or not between 0 and 1.
        """
        result = _UNIFORM.match(given) if isinstance(given, str) else None
        try:
            ends = (result[1], result[2]) if result else (given, given)
            low, high = float(ends[0]), float(ends[1])
        except (TypeError, ValueError):
            low, high = 1.0, 0.0
        if isinstance(given, bool) or not 0 < low <= high < 1:
            raise ConfigError(
                f"{assigned('fraction')}{given} is not allowed: a number between 0 and 1, or "
                '"uniform(LO,HI)"'
            )
        return cls(low, high)

    def at(self, uniforms: FloatArray) -> FloatArray:
        """Parts by numbers in [0, 1)."""
        return self.low + (self.high - self.low) * uniforms


def require_no_delay(network: Network) -> None:
    """Refuse reactions that have begun in a mother and complete in a daughter.

    Raises
    ------
    ConfigError
        A reaction is delayed.
    """
    delayed = [one.name for one in network.reactions if one.delay is not None]
    if delayed:
        raise ConfigError(
            f"reaction {delayed[0]} is delayed, which cells that divide cannot have: it is not "
            "known in which daughter it completes"
        )

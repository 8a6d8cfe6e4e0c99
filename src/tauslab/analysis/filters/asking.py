"""A function of the user on several ranks, each of which holds a part of what it asks for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np

from tauslab.analysis.particles.shares import Shares
from tauslab.base.arrays import FloatArray
from tauslab.base.errors import ConfigError

T = TypeVar("T")


class Asking:
    """The argument `values` of the function; the device is asked once for each name.

    To give a value is collective. So before each, and at the end, ranks compare how far the
    function is: where one of them failed, or asks for something else, none is left waiting.
    """

    def __init__(self, ask: Callable[[str], FloatArray], shares: Shares) -> None:
        self._ask, self._shares = ask, shares
        self._known: dict[str, FloatArray] = {}
        self._broken = False

    def __call__(self, name: str) -> FloatArray:
        """Values of all particles. Collective."""
        if name not in self._known:
            self._tell(f"asks for {name!r}")
            self._broken = True  # a failure before all have given their part ends all ranks
            self._known[name] = np.asarray(self._shares.joined(self._ask(name)))
            self._broken = False
        return self._known[name]

    def answer(self, function: Callable[[], T]) -> T:
        """The value of `function`, which calls this object; where it fails on a rank, all fail.

        Raises
        ------
        ConfigError
            It failed on another rank, or does not do the same everywhere.
        """
        try:
            found = function()
        except Exception as error:
            if not self._broken:
                self._tell("failed", f"{type(error).__name__}: {error}")
            raise
        self._tell("is done")
        return found

    def _tell(self, state: str, failure: str = "") -> None:
        if self._shares.ranks == 1:
            return
        states = self._shares.all_of((state, failure))
        self._broken = True  # unless nothing is wrong
        for rank, (_, why) in enumerate(states):
            if why and not failure:
                raise ConfigError(f"observe= failed on rank {rank}: {why}")
        for rank, (other, _) in enumerate(states):
            if other != state and not failure:
                raise ConfigError(
                    f"observe= {other} on rank {rank} and {state} on rank {self._shares.rank}: it "
                    "must do the same on all ranks"
                )
        self._broken = False

"""Times at which the steps of a run must end, because of jumps that depend on the time alone."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from tauslab.base.arrays import FloatArray
from tauslab.base.option_names import opt, warn
from tauslab.model.expressions.expression import Expression, symbols, to_text
from tauslab.model.network.diagnosis.time_breaks import (
    TimeBreaks,
    pulses_that_vary,
    steps_of_time,
    time_breaks,
    uses_time,
)
from tauslab.model.network.network import Network

_LONGEST = 60  # characters of an expression that are shown
_PASSED_OVER = "and steps may pass over short pulses of it: compare the time itself with numbers"


class _Timed(Protocol):
    @property
    def times(self) -> FloatArray: ...


def breaks_of(
    network: Network,
    options: _Timed,
    values: Mapping[str, float],
    varying: Collection[str],
    *,
    equations: bool = False,
) -> TimeBreaks:
    """Find expressions of the time alone that jump, bend or have a pulse.

    A warning names what jumps at times that are not known here, because they differ between
    trajectories or are too many; of `equations` also pulses between linear relations, whose times
    they do not take from each trajectory. Another names triggers that hold at instants which are
    not known.
    """
    end = float(options.times[-1])
    if not (end > 0 and uses_time(network)):
        return TimeBreaks()
    amounts = network.initial_amounts(values, negative=True)
    known = {**values, **{name: amounts[name] for name in network.constant_species()}}
    lost = _depending(network, set(varying))
    for name in lost:
        known.pop(name, None)
    found = time_breaks(network, known, end)
    if equations:
        found = replace(found, unknown=(*found.unknown, *pulses_that_vary(network, lost)))
    if found.unknown:
        warn(
            f"{network.name}: {_shown(found.unknown)} jumps or has pulses, at times that are too "
            f"many or differ between trajectories, {_PASSED_OVER}, use events, or give "
            f"{opt('times')} as dense as the pulses are short"
        )
    for part in found.hiding:
        warn(
            f"{network.name}: {_shown([part])} may hold for intervals too short to be detected "
            "before a trajectory, and steps may pass over these: compare the time itself with "
            "numbers"
        )
    for name, part in found.missed:
        warn(
            f"{network.name}: the trigger of event {name} needs {_shown([part])}, which holds at "
            "single instants that are not known before a trajectory: the event may not come; "
            "compare by <, <=, > or >="
        )
    return found


def warn_of_steps(network: Network) -> None:
    """Warn of expressions that jump by the time, not linearly, of particles without an end time."""
    parts = steps_of_time(network)
    if parts:
        warn(
            f"{network.name}: {_shown(parts)} jumps at times that particles do not look for, "
            f"{_PASSED_OVER}, use events, or advance by as little as the pulses are short"
        )


def _shown(parts: Sequence[Expression]) -> str:
    text = to_text(parts[0])
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _depending(network: Network, varying: set[str]) -> set[str]:
    """Names that vary, and parameters and amounts that are computed from them."""
    trees = {**network.parameters, **{n: one.initial for n, one in network.species.items()}}
    while True:
        more = {n for n, tree in trees.items() if n not in varying and symbols(tree) & varying}
        if not more:
            return varying
        varying |= more

"""Versions of the program that wrote a file: that began, completed or enlarged it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tauslab._version import BITS_SINCE, BITS_VERSION, __version__
from tauslab.base.files.seals import FORMAT, FORMAT_VERSION

WRITERS = "progress/writers"
BITS = "bits_version"  # attribute of the root: the version of the bits of the first block
THINNED_RATES = "thinned_rates"  # attribute of runs that thin time-dependent rates
CLOCKS = "clocks"  # of runs whose laws use a quantity with a constant rate rule, or moving pulses
SET_BY_EVENTS = "set by events"  # what `CLOCKS` is where events or draws set times of pulses
MIXED_EVENTS = "mixed_events"  # of runs with events at times and events with triggers
UNCHANGED = "unchanged"  # of runs in which species that nothing changes move pulses of the time
CONDITIONS = "conditions"  # of runs of equations that compare quantities
PULSES = "pulses"  # what `CONDITIONS` is where rates have narrow pulses of these
JUMPS = "jumps"  # of hybrids in whose steps jumps happen: "within steps", or "beside noise"
WITHIN_STEPS, BESIDE_NOISE = "within steps", "beside noise"
_MOST = 16
_DTYPE = "S40"
Names = npt.NDArray[np.bytes_]


def conditions(relations: Collection[object], *, pulses: bool) -> dict[str, str]:
    """The attribute of runs of equations with these relations of quantities, some of `pulses`."""
    return {CONDITIONS: PULSES if pulses else "1"} if relations else {}


def head_of_file(format_version: int = FORMAT_VERSION) -> dict[str, Any]:
    """Attributes of the root of every result file that is written now."""
    return {
        "format": FORMAT, "format_version": format_version, "tauslab_version": __version__,
        BITS: BITS_VERSION, "created": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
    }  # fmt: skip


def this_program() -> str:
    """The version that runs, as files hold it."""
    return f"{__version__} (bits {BITS_VERSION})"


def writers_of(data: Any) -> tuple[str, ...]:
    """Versions that wrote a result, the first one first; none in a file without a list of them."""
    if WRITERS not in data:
        return ()
    stored = np.asarray(data[WRITERS][()]).ravel().tolist()
    return tuple(name.decode("utf-8", "replace") for name in stored if name)


def with_this_program(*before: Sequence[str]) -> Names:
    """Versions of all that was there, each once, and this one, to be stored ``[writer]``."""
    names = list(dict.fromkeys([name for each in before for name in each] + [this_program()]))
    stored = np.zeros(_MOST, _DTYPE)
    names = names[: _MOST - 1] + names[-1:] if len(names) > _MOST else names
    stored[: len(names)] = [name.encode() for name in names]
    return stored


def other_bits(attributes: Mapping[str, Any], *engines: str, same: bool = True) -> str:
    """Says that a file's first blocks have other bits than this program gives; else nothing.

    Parameters
    ----------
    engines
        Names of `BITS_SINCE`.
    same
        Whether the file's first blocks are of these engines.
    """
    bits = int(attributes.get(BITS, 1))
    if same and max(BITS_SINCE[one] for one in engines) <= bits <= BITS_VERSION:
        return ""
    program = attributes.get("tauslab_version", "?")
    return (
        f"was begun by tauslab {program} with bits of version {bits}, and {this_program()} gives "
        "other bits for the same seed"
    )

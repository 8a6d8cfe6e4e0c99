"""Random numbers of pilots that run the kernels of the run itself."""

from __future__ import annotations

# A pilot whose kernel has no stream of its own (STREAM_PILOT of streams.h) runs with this key,
# so that what it decides by is independent of what the run will draw.
_PILOT_KEY = 0x70696C6F7470696C


def pilot_seed(seed: int) -> int:
    """The seed of a pilot of a run with this seed; never the run's own."""
    return seed ^ _PILOT_KEY

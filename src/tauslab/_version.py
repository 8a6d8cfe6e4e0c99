"""The version of the package and of the bits that it gives, which every layer may ask for."""

__version__ = "0.1.0"

# Rises when the same seed gives other bits with any engine; a file without it is of version 1.
# docs/decisions/bits-version.md lists what changed.
BITS_VERSION = 18
BITS_SINCE = {
    "ensemble": 1, "ensemble of thinned rates": 16, "ensemble of noise": 9,
    "ensemble of jumps within steps": 13, "ensemble of conditions": 11, "ensemble of pulses": 15,
    "ensemble of clocks": 15, "ensemble of clocks that events set": 15,
    "ensemble of pulses that unchanged species move": 16,
    "ensemble of events at times beside triggers": 18,
    "lattice": 1, "lattice with reactions": 2, "lattice with objects and hooks": 13,
    "lattice sweep": 18,
}  # fmt: skip

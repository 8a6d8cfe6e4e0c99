"""The exact sums over an ensemble, as data: accumulators on a device, and datasets in a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tauslab.kernels.fields import Field

# Sums of real quantities are digits of 23 bits in a window (store/format/windows.py): so
# many for a sum, and for one of squares, as in csrc/ensemble/statistics.cc.
DIGIT_BITS, SUM_DIGITS, SQUARE_DIGITS = 23, 4, 7
DIGITS = {"sum_digit": SUM_DIGITS, "sumsq_digit": SQUARE_DIGITS}


@dataclass(frozen=True)
class Power:
    """The sum of a power of counts.

    Parameters
    ----------
    words
        Accumulators: word k has the weight 2^(32 k), and a trajectory adds less than 2^32 to each
        but the first power. The last is there where more than 2^32 trajectories are summed: all are
        then sums of the halves of such words.
    stored
        Datasets: the sum in words of 64 bits, the lowest first.
    since
        As of `Field`.
    """

    words: tuple[str, ...]
    stored: tuple[str, ...]
    dtype: str = "<u8"
    since: int = 2

    def fields(self, *, wide: bool) -> list[Field]:
        """The datasets; those above 64 bits of a plain sum only where it is `wide`."""
        names = self.stored if wide else self.stored[: (len(self.words) + 1) // 2]
        return [Field(name, ("time", "species"), self.dtype, since=self.since) for name in names]


POWERS = (
    Power(("sum", "sum_high"), ("sum", "sum_hi"), "<i8"),
    Power(("sq_low", "sq_high", "sq_top"), ("sumsq_lo", "sumsq_hi")),
    Power(
        ("cube_low", "cube_middle", "cube_high", "cube_top"),
        ("sumcube_lo", "sumcube_hi", "sumcube_top"),
        since=3,
    ),
)
REALS = (
    Field("obs_n", ("time", "real")),
    Field("obs_infinite", ("time", "real")),
    Field("obs_top", ("time", "real"), merge="max"),
    Field("obs_low", ("time", "real"), merge="max"),
    Field("obs_sum", ("time", "real", "sum_digit")),
    Field("obs_sq", ("time", "real", "sumsq_digit")),
)


def accumulators(
    powers: tuple[Power, ...] = POWERS, *, reals: bool, wide: bool = False
) -> tuple[Field, ...]:
    """Sums that statistics take, in the order of checkpoints."""
    words = [word for power in powers for word in power.words[:-1]]
    words += [power.words[-1] for power in powers] if wide else []
    counted = (Field(word, ("time", "species")) for word in words)
    return (Field("n", ("time",)), *counted, *(REALS if reals else ()))


def accumulator_shapes(
    fields: tuple[Field, ...], sizes: Mapping[str, int], cells: Mapping[str, int]
) -> dict[str, tuple[int, ...]]:
    """Shapes by name, those of histograms included, whose numbers of cells are `cells`."""
    shapes = {field.name: field.shape({**sizes, **DIGITS}) for field in fields}
    return shapes | {f"histogram/{name}": (sizes["time"], n) for name, n in cells.items()}

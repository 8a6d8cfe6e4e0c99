"""The types of NumPy arrays that modules share, by what they hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
BoolArray = npt.NDArray[np.bool_]
FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
UintArray = npt.NDArray[np.uint64]
Int32Array = npt.NDArray[np.int32]
Uint32Array = npt.NDArray[np.uint32]


def doubles(values: Any) -> FloatArray:
    """A copy as f64, of what is numbers.

    Raises
    ------
    ValueError
        It is not: texts that are none, dates and durations, which NumPy makes counts of, masked
        values, whole numbers beyond all doubles. The message is the end of a sentence.
    """
    if np.ma.is_masked(values):
        raise ValueError("must be numbers, and some of these are masked")
    try:
        given = np.asarray(values)
        found = np.array(given, np.float64)
    except OverflowError:
        raise ValueError("must be numbers below 1.8e308") from None
    except (TypeError, ValueError):
        raise ValueError("must be numbers") from None
    if given.dtype.kind in "mM":
        raise ValueError("must be numbers, not dates or durations")
    return found

"""The types of NumPy arrays that modules share, by what they hold."""

from __future__ import annotations

from decimal import Decimal
from numbers import Real
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
BoolArray = npt.NDArray[np.bool_]
FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
UintArray = npt.NDArray[np.uint64]
Int32Array = npt.NDArray[np.int32]
Uint32Array = npt.NDArray[np.uint32]


class DeviceArray(Protocol):
    """An array in the memory of a device: what is used of NumPy's arrays and of CuPy's."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Length of each axis."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of its numbers."""

    @property
    def size(self) -> int:
        """Number of elements."""

    @property
    def nbytes(self) -> int:
        """Number of bytes of all elements."""

    @property
    def data(self) -> Any:
        """Address of the array, as its own library gives it."""

    def __len__(self) -> int:
        """Length of the first axis."""

    def __getitem__(self, key: Any, /) -> Any:
        """A part, in the same memory where a slice gives it."""

    def __setitem__(self, key: Any, value: Any, /) -> None:
        """Set a part."""

    def reshape(self, shape: Any, /, *more: Any) -> Any:
        """The same numbers with other axes."""

    def view(self, dtype: Any, /) -> Any:
        """The same memory as numbers of another type."""

    def fill(self, value: Any, /) -> None:
        """Set all numbers."""

    def copy(self) -> Any:
        """A copy, on the same device."""


def is_number(value: object) -> bool:
    """Return whether a value is one real number, also as an array without axes."""
    if isinstance(value, np.ndarray):
        return value.ndim == 0 and value.dtype.kind in "biuf"
    return isinstance(value, Real | Decimal)


def doubles(values: Any) -> FloatArray:
    """A copy as f64, of what is numbers.

    Raises
    ------
    ValueError
        It is not: texts that are none, dates and durations, which NumPy makes counts of, complex
        numbers, of which it drops a part, masked values, whole numbers beyond all doubles. The
        message is the end of a sentence.
    """
    if np.ma.is_masked(values):
        raise ValueError("must be numbers, and some of these are masked")
    try:
        given = np.asarray(values)
        real = given.dtype.kind not in "cmM"
        result = np.array(given if real else 0, np.float64)
    except OverflowError:
        raise ValueError("must be numbers below 1.8e308") from None
    except (TypeError, ValueError):
        raise ValueError("must be numbers") from None
    if not real:
        raise ValueError("must be real numbers, not complex ones, dates or durations")
    return result

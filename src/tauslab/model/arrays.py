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

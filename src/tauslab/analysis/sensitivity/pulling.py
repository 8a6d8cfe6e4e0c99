"""The chain rule for means: from the gradient of a loss by them to that by parameters."""

from __future__ import annotations

import numpy as np

from tauslab.base.arrays import FloatArray


def pulled_back(gradient: FloatArray, jacobian: FloatArray) -> FloatArray:
    """The gradient ``[p]`` of a loss whose gradient by the means is `gradient` ``[...]``.

    Parameters
    ----------
    jacobian
        f64 ``[..., p]``: derivatives of the means.
    """
    return np.tensordot(gradient, jacobian, axes=gradient.ndim)

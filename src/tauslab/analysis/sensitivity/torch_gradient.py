"""Means with a gradient for PyTorch, which the program that calls has imported."""

from __future__ import annotations

from functools import cache
from typing import Any

from tauslab.analysis.sensitivity.pulling import pulled_back


def mean_with_gradient(expectation: Any, theta: Any) -> Any:
    """Means at a tensor `theta` ``[p]``, on its device and of its type."""
    return _function().apply(theta, expectation)


@cache
def _function() -> Any:
    """The mean of outputs as a `torch.autograd.Function`."""
    import torch

    class Mean(torch.autograd.Function):  # type: ignore[misc]
        """The derivatives are estimated with the means, and wait for the gradient of a loss."""

        @staticmethod
        def forward(ctx: Any, theta: Any, expectation: Any) -> Any:
            mean, jacobian = expectation.with_jacobian(theta.detach().cpu().double().numpy())
            ctx.jacobian = jacobian
            return torch.as_tensor(mean, dtype=theta.dtype, device=theta.device)

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            found = pulled_back(gradient.detach().cpu().double().numpy(), ctx.jacobian)
            return torch.as_tensor(found, dtype=gradient.dtype, device=gradient.device), None

    return Mean

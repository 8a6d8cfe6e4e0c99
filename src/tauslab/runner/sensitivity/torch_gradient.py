"""Means with a gradient for PyTorch, which the program that calls has imported."""

from __future__ import annotations

from typing import Any

import torch

from tauslab.runner.sensitivity.pulling import pulled_back


class _Mean(torch.autograd.Function):  # type: ignore[misc]
    """The mean of outputs, whose derivative was estimated with it."""

    @staticmethod
    def forward(ctx: Any, theta: Any, expectation: Any) -> Any:
        """Means as a tensor of the kind of `theta`."""
        mean, jacobian = expectation.with_jacobian(theta.detach().cpu().double().numpy())
        ctx.jacobian = jacobian
        return torch.as_tensor(mean, dtype=theta.dtype, device=theta.device)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        """The gradient of a loss by `theta`, from that by the means."""
        found = pulled_back(gradient.detach().cpu().double().numpy(), ctx.jacobian)
        return torch.as_tensor(found, dtype=gradient.dtype, device=gradient.device), None


def mean_with_gradient(expectation: Any, theta: Any) -> Any:
    """Means at a tensor `theta` ``[p]``."""
    return _Mean.apply(theta, expectation)

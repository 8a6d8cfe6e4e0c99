"""Means of outputs as a function of parameters, which gradient methods may descend."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from tauslab.analysis.sensitivity.estimators import differences
from tauslab.analysis.sensitivity.steps import Step, steps_of
from tauslab.base.arrays import FloatArray
from tauslab.base.errors import ConfigError
from tauslab.decomposition.ranks.all_ranks import require_same
from tauslab.decomposition.ranks.mpi import Communicator
from tauslab.kernels.backends import Backend
from tauslab.model.network.network import Network
from tauslab.options.ensemble import Options
from tauslab.runner.ensemble.task import with_settings


class Expectation:
    """Means of outputs at parameters, and their derivatives; made by `tauslab.expectation`.

    Called with parameters ``[p]``, an array or a tensor of PyTorch, it gives means ``[time,
    output]``, with conditions ``[condition, time, output]``: of a tensor, a tensor with a gradient.
    Each call has its own seed, made of `seed` and the number of the call. Under ``mpirun`` all
    ranks call together.

    Attributes
    ----------
    parameters, outputs, conditions
        Names of the parameters, outputs as texts, values ``[condition]`` by name.
    time
        f64 ``[time]``.
    seed
        Given or drawn.
    calls
        How often it was called.
    """

    def __init__(
        self, network: Network, parameters: Sequence[str], outputs: Sequence[str], options: Options,
        conditions: Mapping[str, FloatArray], step: float | Mapping[str, float], backend: Backend,
        comm: Communicator,
    ) -> None:  # fmt: skip
        self.parameters, self.outputs = tuple(parameters), tuple(outputs)
        self.conditions, self.time = dict(conditions), options.times
        assert options.seed is not None
        self.seed = options.seed
        self.calls = 0
        self._network, self._options, self._step = network, options, step
        self._backend, self._comm = backend, comm

    def __repr__(self) -> str:
        """One line: from what to what."""
        under = f" under {', '.join(self.conditions)}" if self.conditions else ""
        return (
            f"<Expectation of {self._network.name}: {', '.join(self.parameters)} to "
            f"{', '.join(self.outputs)} at {len(self.time)} times{under}, {self._options.n} pairs, "
            f"seed {self.seed}>"
        )

    def __call__(self, theta: npt.ArrayLike) -> Any:
        """Means at `theta` ``[p]``: an array, or for a tensor one with a gradient."""
        tensor = getattr(sys.modules.get("torch"), "Tensor", None)
        if tensor is not None and isinstance(theta, tensor):
            return _mean_with_gradient().apply(theta, self)
        return self.with_jacobian(theta)[0]

    def with_jacobian(
        self,
        theta: npt.ArrayLike,
        *,
        seed: int | None = None,
        conditions: Mapping[str, npt.ArrayLike] | None = None,
    ) -> tuple[FloatArray, FloatArray]:
        """Means ``[..., time, output]`` and their derivatives ``[..., time, output, p]``.

        Parameters
        ----------
        theta
            Values of the parameters, or initial amounts, ``[p]``.
        seed
            Seed of this call, which is then not counted.
        conditions
            Values ``[condition]`` by name, of this call alone, in place of the first ones.

        Raises
        ------
        ConfigError
            `theta` or a condition has another shape, or a value that the model does not allow.
        """
        require_same(
            self._comm, "a call of ts.expectation",
            {"theta": theta, "seed": seed, "conditions": conditions},
        )  # fmt: skip
        held = self._held(conditions or {})
        try:
            given = np.asarray(theta, np.float64)
        except (TypeError, ValueError):
            given = np.zeros(0)
        if given.shape != (len(self.parameters),) or not np.isfinite(given).all():
            raise ConfigError(
                f"theta must be {len(self.parameters)} finite numbers: {', '.join(self.parameters)}"
            )
        values = dict(zip(self.parameters, given.tolist(), strict=True))
        network = with_settings(self._network, values)
        network.validate()
        options = replace(self._options, seed=self._seed_of_call() if seed is None else seed)
        result = differences(
            network, self._steps(network, held), self.outputs, options,
            self._backend, self._comm, held or None,
        )  # fmt: skip
        mean, jacobian = result.mean, np.moveaxis(result.value, 1, -1)
        return (mean, jacobian) if self.conditions else (mean[0], jacobian[0])

    def close(self) -> None:
        """Release the device; ``with ts.expectation(...) as mean`` does so at its end."""
        self._backend.close()

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(self, *error: object) -> None:
        """Release the device."""
        self.close()

    def _held(self, conditions: Mapping[str, npt.ArrayLike]) -> dict[str, FloatArray]:
        """The conditions of a call."""
        held = dict(self.conditions)
        for name, given in conditions.items():
            values = np.asarray(given, np.float64)
            if name not in held or values.shape != held[name].shape:
                raise ConfigError(
                    f"conditions: {name} must be one of the first conditions, and as long: "
                    f"{', '.join(held) or 'none'}"
                )
            held[name] = values
        return held

    def _steps(self, network: Network, held: Mapping[str, FloatArray]) -> tuple[Step, ...]:
        """Steps that every condition allows."""
        number = len(next(iter(held.values()), (0,)))
        for row in range(1, number):
            other = with_settings(
                network, {name: float(column[row]) for name, column in held.items()}
            )
            steps_of(other, self.parameters, self._step, "centred")
        first = {name: float(column[0]) for name, column in held.items()}
        return steps_of(with_settings(network, first), self.parameters, self._step, "centred")

    def _seed_of_call(self) -> int:
        state = np.random.SeedSequence([self.seed, self.calls])
        self.calls += 1
        return int(state.generate_state(1, np.uint64)[0])


@cache
def _mean_with_gradient() -> Any:
    """The mean of outputs as a `torch.autograd.Function` of a tensor ``[p]`` and an expectation."""
    import torch

    class Mean(torch.autograd.Function):  # type: ignore[misc]
        """Derivatives are estimated with the means, and wait for the gradient of a loss."""

        @staticmethod
        def forward(ctx: Any, theta: Any, expectation: Expectation) -> Any:
            mean, jacobian = expectation.with_jacobian(theta.detach().cpu().double().numpy())
            ctx.jacobian = jacobian
            return torch.as_tensor(mean, dtype=theta.dtype, device=theta.device)

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            given = gradient.detach().cpu().double().numpy()
            found = np.tensordot(given, ctx.jacobian, axes=given.ndim)
            return torch.as_tensor(found, dtype=gradient.dtype, device=gradient.device), None

    return Mean

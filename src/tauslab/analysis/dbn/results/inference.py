"""Inference in a dynamic Bayesian network: marginals over time, with and without evidence.

`factored_frontier` carries the marginals of all nodes from one time point to the next, as if nodes
of a time point were independent (Murphy and Weiss 2001); `exact` carries their joint distribution
and is for small networks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tauslab.analysis.dbn.results.network import BinArray, DynamicNetwork, ProbabilityRows
from tauslab.base.arrays import FloatArray
from tauslab.base.errors import ConfigError

Evidence = Mapping[str, FloatArray]
"""Likelihood of what was seen, given the interval a variable is in: ``[time, bin]`` by name."""

_MOST_STATES = 1 << 24  # entries of a joint distribution
_PIECE = 1 << 22  # products of marginals that are in memory at a time


@dataclass(frozen=True, eq=False)
class Beliefs:
    """Probabilities of the intervals of all variables, given evidence.

    `probabilities` are arrays ``[time, bin]`` by name; `network` is the network.

    `log_likelihood` is the logarithm of the likelihood of the evidence.
    """

    network: DynamicNetwork
    probabilities: Mapping[str, FloatArray]
    log_likelihood: float

    def __repr__(self) -> str:
        """One line."""
        return f"Beliefs({self.network!r}, log-likelihood {self.log_likelihood:.6g})"

    def mean(self, name: str) -> FloatArray:
        """Mean over the middles of the intervals ``[time]``."""
        return self.probabilities[name] @ self.network.midpoints(name)


def factored_frontier(
    network: DynamicNetwork,
    evidence: Evidence | None = None,
    given: Mapping[str, int] | None = None,
    *,
    smooth: bool = True,
) -> Beliefs:
    """Marginals of all variables over time by the factored frontier (Murphy and Weiss 2001).

    Parameters
    ----------
    evidence
        Likelihoods by variable; none by default.
    given
        Parameters whose interval is known.
    smooth
        Whether later evidence changes earlier marginals, by one backward pass.

    Raises
    ------
    ConfigError
        Evidence or intervals of nodes that are not there or of another shape, or evidence that has
        probability 0.
    """
    seen = _checked(network, evidence or {})
    check_given(network, given or {})
    priors = {
        name: _prior(network, name, (given or {}).get(name))[None] for name in network.parameters
    }
    forward, likelihood = frontier_forward(network, seen, priors)
    beliefs = {name: result[:, 0] for name, result in forward.items()}
    if not math.isfinite(likelihood[0]):
        raise ConfigError("this evidence has probability 0 in the network")
    if smooth and seen:
        beliefs = _backward(network, seen, beliefs, {n: p[0] for n, p in priors.items()})
    return Beliefs(network, beliefs, float(likelihood[0]))


def frontier_forward(
    network: DynamicNetwork, evidence: Evidence, priors: Mapping[str, FloatArray]
) -> tuple[dict[str, FloatArray], FloatArray]:
    """The sweep forward for several settings of the parameters at once.

    Parameters
    ----------
    priors
        Probabilities of the parameters' intervals ``[setting, bin]``.

    Returns
    -------
    tuple
        Marginals ``[time, setting, bin]`` by variable, and log-likelihoods ``[setting]``.
    """
    settings = len(next(iter(priors.values()))) if priors else 1
    steps = len(network.times) - 1
    result = {
        name: np.empty((steps + 1, settings, network.bins(name))) for name in network.variables
    }
    likelihood = np.zeros(settings)
    for time in range(steps + 1):
        for name in network.variables:
            if time == 0:
                belief = np.repeat(network.marginal(name)[:1], settings, axis=0)
            else:
                parents = [
                    result[p][time - 1] if p in result else priors[p]
                    for p in network.structure.parents[name]
                ]
                rows = network.rows(name, time - 1)
                belief = _predicted(rows, parents, network.marginal(name)[time])
            if name in evidence:
                belief = belief * evidence[name][time]
            total = belief.sum(axis=1)
            with np.errstate(divide="ignore"):
                likelihood += np.log(total)
            result[name][time] = belief / np.where(total > 0, total, 1)[:, None]
    return result, likelihood


def _predicted(rows: ProbabilityRows, parents: list[FloatArray], unseen: FloatArray) -> FloatArray:
    """Marginals ``[setting, bin]`` after a step; rows that never occurred give `unseen`."""
    settings = len(parents[0])
    belief = np.zeros((settings, rows.probabilities.shape[1]))
    mass = np.zeros(settings)
    piece = max(1, _PIECE // settings)
    for first in range(0, len(rows.parents), piece):
        own = slice(first, first + piece)
        weight = _product(rows.parents[own], parents)
        belief += weight @ rows.probabilities[own]
        mass += weight.sum(axis=1)
    # Rounding may bring the sum of a full table a little above 1.
    return belief + np.clip(1 - mass, 0, None)[:, None] * unseen


def _product(bins: BinArray, parents: list[FloatArray]) -> FloatArray:
    """Probability of each row's configuration ``[setting, row]`` under independent parents."""
    weight = parents[0][:, bins[:, 0]]
    for index, parent in enumerate(parents[1:], start=1):
        weight = weight * parent[:, bins[:, index]]
    return weight


def _backward(
    network: DynamicNetwork,
    evidence: Evidence,
    forward: Mapping[str, FloatArray],
    priors: Mapping[str, FloatArray],
) -> dict[str, FloatArray]:
    """Marginals given all evidence: messages from the end to the start."""
    result = {name: belief.copy() for name, belief in forward.items()}
    later = {name: _at(evidence, name, len(network.times) - 1) for name in network.variables}
    for step in reversed(range(len(network.times) - 1)):
        messages = {name: np.ones(network.bins(name)) for name in network.variables}
        for child, message in later.items():
            if message is None:
                continue
            names = network.structure.parents[child]
            parents = [forward[p][step] if p in forward else priors[p] for p in names]
            rows = network.rows(child, step)
            unseen = float(network.marginal(child)[step + 1] @ message)
            likelihood = rows.probabilities @ message
            for index, name in enumerate(names):
                if name in messages:
                    messages[name] *= _message(rows, parents, index, likelihood, unseen)
        later = {}
        for name, message in messages.items():
            belief = result[name][step] * message
            total = belief.sum()
            result[name][step] = belief / total if total > 0 else result[name][step]
            own, reported = _at(evidence, name, step), bool((message != message[0]).any())
            if own is not None or reported:
                scaled = message / message.max() if message.max() > 0 else np.ones_like(message)
                later[name] = scaled if own is None else scaled * own
            else:
                later[name] = None
    return result


def _at(evidence: Evidence, name: str, time: int) -> FloatArray | None:
    """The evidence for a variable at a time; None without evidence."""
    if name not in evidence:
        return None
    own = evidence[name][time]
    return own if (own != own[0]).any() else None


def _message(
    rows: ProbabilityRows,
    parents: list[FloatArray],
    index: int,
    likelihood: FloatArray,
    unseen: float,
) -> FloatArray:
    """Likelihood of what comes after, given each interval of parent number `index`."""
    others = [p[None] if i != index else np.ones((1, len(p))) for i, p in enumerate(parents)]
    weight = _product(rows.parents, others)[0]
    bins, size = rows.parents[:, index], len(parents[index])
    reported = np.asarray(np.bincount(bins, weight * likelihood, size), float)
    reported += np.clip(1 - np.bincount(bins, weight, size), 0, None) * unseen
    return reported


def exact(
    network: DynamicNetwork,
    evidence: Evidence | None = None,
    given: Mapping[str, int] | None = None,
) -> Beliefs:
    """Marginals of all nodes given all evidence, from their joint distribution.

    The result includes marginals of parameters, which are the same at all times. Initial values
    are independent, as in the factored frontier.

    Raises
    ------
    ConfigError
        As `factored_frontier`; or the joint distribution of two time points is too large.
    """
    seen = _checked(network, evidence or {})
    check_given(network, given or {})
    joint = _Joint(network)
    alpha = joint.start({n: _prior(network, n, (given or {}).get(n)) for n in network.parameters})
    forward, likelihood = [], 0.0
    for time in range(len(network.times)):
        if time > 0:
            alpha = joint.step(alpha, time - 1)
        alpha = alpha * joint.likelihood(seen, time)
        total = float(alpha.sum())
        if not total > 0:
            raise ConfigError("this evidence has probability 0 in the network")
        likelihood += math.log(total)
        alpha = alpha / total
        forward.append(alpha)
    beta = np.ones_like(alpha)
    marginals = []
    for time in reversed(range(len(network.times))):
        if time < len(network.times) - 1:
            beta = joint.back(beta * joint.likelihood(seen, time + 1), time)
            beta = beta / beta.max()
        marginals.append(joint.marginals(forward[time] * beta))
    names = network.structure.names
    result = {name: np.array([m[name] for m in marginals[::-1]]) for name in names}
    return Beliefs(network, result, likelihood)


class _Joint:
    """Joint distributions of all nodes of a time point, an axis per node, and their steps."""

    def __init__(self, network: DynamicNetwork) -> None:
        self._network = network
        names = network.structure.names
        self.shape = tuple(network.bins(name) for name in names)
        moving = math.prod(network.bins(name) for name in network.variables)
        if math.prod(self.shape) * moving > _MOST_STATES:
            raise ConfigError(
                f"exact inference takes {math.prod(self.shape) * float(moving):.3g} pairs of "
                f"states, at most {_MOST_STATES}: use factored_frontier"
            )
        self._axis = {name: i for i, name in enumerate(names)}
        self._after = {name: len(names) + i for i, name in enumerate(network.variables)}

    def start(self, priors: Mapping[str, FloatArray]) -> FloatArray:
        joint = np.ones(())
        for name in self._axis:
            own = priors[name] if name in priors else self._network.marginal(name)[0]
            joint = np.multiply.outer(joint, own)
        return joint

    def likelihood(self, evidence: Evidence, time: int) -> FloatArray:
        """Likelihood of all that is seen at a time, for broadcasting."""
        result = np.ones((1,) * len(self._axis))
        for name, own in evidence.items():
            shape = [1] * len(self._axis)
            shape[self._axis[name]] = -1
            result = result * own[time].reshape(shape)
        return result

    def step(self, joint: FloatArray, step: int) -> FloatArray:
        names = self._axis
        after = [self._after.get(name, axis) for name, axis in names.items()]
        operands: list[Any] = [joint, list(names.values()), *self._tables(step), after]
        stepped: FloatArray = np.einsum(*operands, optimize="greedy")
        return stepped

    def back(self, later: FloatArray, step: int) -> FloatArray:
        after = [self._after.get(name, axis) for name, axis in self._axis.items()]
        operands: list[Any] = [later, after, *self._tables(step), list(self._axis.values())]
        stepped: FloatArray = np.einsum(*operands, optimize="greedy")
        return stepped

    def _tables(self, step: int) -> list[Any]:
        result: list[Any] = []
        for name, after in self._after.items():
            axes = [self._axis[p] for p in self._network.structure.parents[name]]
            result += [self._network.table(name, step), [*axes, after]]
        return result

    def marginals(self, joint: FloatArray) -> dict[str, FloatArray]:
        result = {}
        for name, axis in self._axis.items():
            own = joint.sum(axis=tuple(a for a in self._axis.values() if a != axis))
            result[name] = own / own.sum()
        return result


def _prior(network: DynamicNetwork, name: str, given: int | None) -> FloatArray:
    """Probabilities of a parameter's intervals."""
    prior: FloatArray = network.marginal(name)[0]
    return prior if given is None else np.eye(network.bins(name))[given]


def check_given(network: DynamicNetwork, given: Mapping[str, int]) -> None:
    """Refuse what is no unknown parameter, or no number of one of its intervals."""
    for name, bin_ in given.items():
        unknown_parameter(network, name)
        if not isinstance(bin_, int | np.integer) or not 0 <= bin_ < network.bins(name):
            raise ConfigError(f"{name} has intervals 0 to {network.bins(name) - 1}, not {bin_}")


def unknown_parameter(network: DynamicNetwork, name: str) -> int:
    """The number of an unknown parameter; a `ConfigError` for any other name."""
    if name not in network.parameters:
        raise ConfigError(
            f"{name} is not an unknown parameter; these are {', '.join(network.parameters)}"
        )
    return network.parameters.index(name)


def _checked(network: DynamicNetwork, evidence: Evidence) -> dict[str, FloatArray]:
    result = {}
    for name, own in evidence.items():
        if name not in network.variables:
            raise ConfigError(
                f"{name} is not a variable of the network; it has {', '.join(network.variables)}"
            )
        array = np.asarray(own, np.float64)
        shape = (len(network.times), network.bins(name))
        if array.shape != shape or not (np.isfinite(array) & (array >= 0)).all():
            raise ConfigError(
                f"evidence on {name} must be finite numbers of 0 or more, [time, bin] = {shape}"
            )
        result[name] = array
    return result

"""The registry of distributions: one name has one meaning wherever it is written.

Formulas, ``--sample``, priors and noises take the names and parameters of SBML's package distrib,
which are SciPy's too: ``lognormal(mu, sigma)`` has the mean and the deviation of the logarithm.
The registry also has what only some of them know, such as ``loguniform``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tauslab.base.errors import ConfigError

# Parameters that must be above 0. In formulas 0 is allowed of some, since there it is computed.
POSITIVE = frozenset({"sd", "sigma", "scale", "rate", "shape", "size"})
_LARGEST_LOG = 700.0  # exp of it is finite, and above 0 of its negative


@dataclass(frozen=True)
class Family:
    """Names of the parameters of a distribution, in order.

    `arguments` are the numbers of arguments with which a formula draws from it, none if no formula
    does; with two more than its parameters it is truncated to bounds, both inclusive.
    """

    parameters: tuple[str, ...]
    arguments: tuple[int, ...] = ()


FAMILIES: Mapping[str, Family] = {
    "normal": Family(("mean", "sd"), (2, 4)),
    "uniform": Family(("low", "high"), (2,)),
    "loguniform": Family(("low", "high")),
    "bernoulli": Family(("p",), (1,)),
    "binomial": Family(("n", "p"), (2, 4)),
    "cauchy": Family(("location", "scale"), (1, 2, 4)),
    "chisquare": Family(("degrees",), (1, 3)),
    "exponential": Family(("rate",), (1, 3)),
    "gamma": Family(("shape", "scale"), (2, 4)),
    "laplace": Family(("location", "scale"), (1, 2, 4)),
    "lognormal": Family(("mu", "sigma"), (2, 4)),
    "poisson": Family(("mean",), (1, 3)),
    "rayleigh": Family(("scale",), (1, 3)),
    "negative_binomial": Family(("mean", "size")),
}

# What is drawn once for each trajectory or chain: two numbers each.
PRIORS = ("uniform", "loguniform", "normal", "lognormal")


def spelled(names: Iterable[str]) -> str:
    """Distributions with their parameters, for messages.

    >>> spelled(["uniform", "lognormal"])
    'uniform(low,high), lognormal(mu,sigma)'
    """
    return ", ".join(f"{name}({','.join(FAMILIES[name].parameters)})" for name in names)


def arguments_of(what: str, kind: str, inside: str, allowed: Sequence[str]) -> dict[str, str]:
    """Return the arguments in the brackets by the name of the parameter.

    >>> arguments_of("prior", "normal", "3, sd=0.5", ("mean", "sd"))
    {'mean': '3', 'sd': '0.5'}

    Raises
    ------
    ConfigError
        A name is not `allowed`, or given twice, or there are too many; the message begins by
        `what`.
    """
    chosen: dict[str, str] = {}
    parts = [part.strip() for part in inside.split(",") if part.strip()]
    for place, part in enumerate(parts):
        name, equals, value = (word.strip() for word in part.partition("="))
        if not equals:
            if place >= len(allowed):
                raise ConfigError(f"{what}: {kind} takes {', '.join(allowed)} alone")
            name, value = allowed[place], part
        if name not in allowed:
            raise ConfigError(f"{what}: {kind} has no {name}; it has {', '.join(allowed)}")
        if name in chosen:
            raise ConfigError(f"{what}: {kind} is given {name} twice")
        chosen[name] = value
    return chosen


def fault_of(kind: str, values: Sequence[float]) -> str:
    """Names the parameter that makes no distribution, and why; empty where all are right.

    >>> fault_of("normal", [0.0, -1.0]), fault_of("uniform", [0.0, 1.0])
    ('sd is -1, and must be above 0', '')
    """
    named = dict(zip(FAMILIES[kind].parameters, values, strict=True))
    for name, value in named.items():
        if not math.isfinite(value):
            return f"{name} is {value:g}, and must be finite"
        if name in POSITIVE and value <= 0:
            return f"{name} is {value:g}, and must be above 0"
    if "low" in named and not named["low"] < named["high"]:
        return f"low is {named['low']:g}, and must be below high, {named['high']:g}"
    if kind == "loguniform" and named["low"] <= 0:
        return f"low is {named['low']:g}, and must be above 0"
    if kind == "lognormal" and abs(named["mu"]) > _LARGEST_LOG:
        return (
            f"mu is {named['mu']:g}, the mean of the logarithm, so that exp(mu) is no number; a "
            f"median is written lognormal(median={named['mu']:g},sigma={named['sigma']:g})"
        )
    return ""

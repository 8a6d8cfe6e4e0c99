"""A model and the settings of ``tauslab dbn`` made into a structure and equations."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tauslab.analysis.dbn.results.network import Structure
from tauslab.base.arrays import FloatArray
from tauslab.base.errors import ConfigError, ModelError
from tauslab.base.option_names import assigned, opt
from tauslab.kernels.ode.lowering import OdeSystem, lower_ode
from tauslab.kernels.ode.priors import SampledPrior
from tauslab.model.network.canonical import canonical_text
from tauslab.model.network.dependencies import parents, right_sides
from tauslab.model.network.diagnosis.check import require_support
from tauslab.model.network.diagnosis.events import warn_of_model
from tauslab.model.network.network import Network
from tauslab.options.dbn import DEFAULT_SOLVER, DbnOptions
from tauslab.options.sampling import Sampling
from tauslab.options.values.definition import attributes_of
from tauslab.options.values.texts import some
from tauslab.runner.ensemble.breaks import breaks_of
from tauslab.runner.ensemble.ode_task import SLACK
from tauslab.runner.ensemble.task import with_settings


@dataclass(frozen=True)
class DbnTask:
    """A build, ready to run; every rank counts its share.

    `inputs` f64 ``[1, input]`` are the model's own values of what is drawn; of the drawn numbers
    the unknown parameters come first, then initial amounts of variables.
    """

    network: Network
    options: DbnOptions
    structure: Structure
    system: OdeSystem
    inputs: FloatArray
    sampling: Sampling
    sha256: str

    @property
    def planes(self) -> int:
        """Planes of bins: of a sample, the one before, and the parameters."""
        return 2 * len(self.structure.variables) + len(self.structure.parameters)

    @property
    def settings(self) -> dict[str, Any]:
        """Attributes of the file that must be equal to resume: all that decides the counts."""
        options = self.options
        assert options.seed is not None
        return {
            **attributes_of(options),
            **attributes_of(options.method.settled(DEFAULT_SOLVER)),
            "unknown": ",".join(options.unknown),
            "sample": "; ".join(self.sampling.texts),
            "intervals": _interval_settings(options),
            "model_sha256": self.sha256,
        }


def prepare_dbn(network: Network, options: DbnOptions) -> DbnTask:
    """Check a model against the settings and lower it.

    Raises
    ------
    ModelError
        A feature that equations cannot honour, or a formula that is not known.
    ConfigError
        A name that the model does not have, or a model without variables.
    """
    require_support(network, "ode")
    network = with_settings(network, options.set)
    network.validate()
    values = network.parameter_values()
    warn_of_model(network, values)
    back = [f for f in network.features if f.kind in ("delay", "delayed reaction")]
    if back:
        raise ModelError(
            f"{back[0].element}: {back[0].message}, and a Bayesian network looks back one step only"
        )
    sides = right_sides(network)
    if not sides:
        raise ConfigError(f"{network.name} has nothing that changes, so no variables")
    parameters = tuple(name for name in options.unknown if name not in sides)
    _check_names(network, options, [*sides, *parameters])
    structure = Structure(tuple(sides), parameters, parents(sides, parameters))
    nominal = {**network.initial_amounts(values), **values}
    sampling = _sampling(options, nominal, parameters)
    breaks = breaks_of(
        network, options, values, options.unknown, {}, reals=None, followed=False
    )  # fmt: skip
    system = lower_ode(
        breaks.applied(network, all_tables=True),
        parameters=values, varying=options.unknown, recorded=tuple(sides),
        slack=SLACK * options.integration.atol,
        breaks=breaks.times,
    )  # fmt: skip
    inputs = np.array([[nominal[name] for name in system.inputs] or [0.0]])
    digest = hashlib.sha256(canonical_text(network).encode())
    digest.update(sampling.digest())
    return DbnTask(network, options, structure, system, inputs, sampling, digest.hexdigest())


def _interval_settings(options: DbnOptions) -> str:
    """The options of the intervals, in one line."""
    words = [f"{options.intervals} {options.spacing}"]
    words += [f"{name}={count}" for name, count in sorted(options.own_intervals.items())]
    words += [f"{name}={low!r}:{high!r}" for name, (low, high) in sorted(options.ranges.items())]
    words += [f"{name}={own.tolist()}" for name, own in sorted(options.edges.items())]
    return "; ".join(words)


def _check_names(network: Network, options: DbnOptions, nodes: list[str]) -> None:
    known = [*network.parameters, *network.species]
    for name in options.unknown:
        if name not in known:
            raise ConfigError(
                f"{opt('unknown', name)}: neither a parameter nor a species of {network.name}; "
                f"parameters: {some(network.parameters)}; species: {some(network.species)}"
            )
    drawn = {name for text in options.sample for name in Sampling.parse([text]).names}
    for option, names in (
        ("ranges", [*options.ranges]),
        ("intervals", [*options.own_intervals]),
        ("edges", [*options.edges]),
    ):
        for name in names:
            if name not in nodes and not (option == "ranges" and name in options.unknown):
                raise ConfigError(
                    f"{opt(option, key=name)}: no variable of {network.name} and not "
                    f"{opt('unknown')}; variables and unknown parameters: {', '.join(nodes[:12])}"
                )
    for name in sorted(drawn - set(options.unknown)):
        raise ConfigError(f"{opt('sample', key=name)} is not among {opt('unknown')}: leave it out")


def _sampling(
    options: DbnOptions, nominal: Mapping[str, float], parameters: tuple[str, ...]
) -> Sampling:
    """Distributions of what is unknown, parameters first: uniform where nothing else is said."""
    given = Sampling.parse(options.sample)
    texts = list(options.sample)
    for name in options.unknown:
        if name in given.names:
            continue
        low, high = options.ranges.get(name) or _around(name, nominal[name])
        texts.append(f"{name}=uniform({low!r},{high!r})")
    whole = Sampling.parse(texts)
    order: list[SampledPrior] = sorted(whole.priors.priors, key=lambda p: p.name not in parameters)
    first = {name: i for i, name in enumerate(parameters)}
    order.sort(key=lambda prior: first.get(prior.name, len(first)))
    return replace(whole, priors=replace(whole.priors, priors=tuple(order)))


def _around(name: str, value: float) -> tuple[float, float]:
    """Half to twice the model's own value."""
    if not value > 0:
        raise ConfigError(
            f"{opt('unknown', name)}: its value in the model is {value:g}, so it needs a range: "
            f"{assigned('ranges', key=name)}LO:HI"
        )
    return value / 2, value * 2

"""The Python interface to dynamic Bayesian networks."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from tauslab.analysis.dbn.build import build_network
from tauslab.analysis.dbn.results.network import DynamicNetwork
from tauslab.api.model_reading import network_of
from tauslab.api.typed import chosen, takes
from tauslab.base.errors import ConfigError
from tauslab.decomposition.ranks.all_ranks import ranks_of
from tauslab.model.network.network import Network
from tauslab.options.dbn import DEFAULT_INTERVALS, DbnChoices, DbnKeywords, DbnOptions
from tauslab.options.methods import ODE
from tauslab.options.places import device_settings, file_settings
from tauslab.options.values.sample_times import sample_times


@takes(DbnKeywords)
def build(model: Network | str | os.PathLike[str], **options: Any) -> DynamicNetwork | None:
    """Build a dynamic Bayesian network from sampled solutions of the rate equations of a model.

    Under ``mpirun`` rank 0 gets the network, the other ranks None.

    Parameters
    ----------
    model
        A network, or a model file.
    {options}

    Raises
    ------
    ModelError, ConfigError
        The model or an option is not allowed; one sentence says what is.
    DeviceError, DeviceFailed, KernelCompileError, OutputError
        The machine lacks something, or failed.
    """
    given = chosen(DbnKeywords, options, "dbn.build")
    ranks = ranks_of(given.comm, "dbn.build", model=model, **options)
    network = network_of(model, "dbn.build")
    intervals = given.intervals
    settings = DbnOptions(
        times=sample_times(given.times, given.t_end, given.points, model_t_end=network.t_end),
        unknown=_listed("unknown", given.unknown),
        ranges=_by_name("ranges", given.ranges),
        sample=_texts(given.sample),
        set={} if given.set is None else given.set,
        method=_equations(given.method),
        intervals=DEFAULT_INTERVALS if isinstance(intervals, Mapping) else intervals,
        own_intervals=intervals if isinstance(intervals, Mapping) else {},
        edges=_edges(given.edges),
        **device_settings(given.device),
        **file_settings(given.output),
        **{one.name: getattr(given, one.name) for one in fields(DbnChoices)},
    )
    return build_network(network, settings, ranks)


def _listed(name: str, texts: Sequence[str]) -> tuple[str, ...]:
    """Several names; one text would be taken for a list of its letters."""
    if isinstance(texts, str) or not isinstance(texts, Iterable):
        raise ConfigError(f"{name}={texts!r}: a list of names is expected")
    return tuple(texts)


def _equations(method: object) -> ODE:
    if method is not None and not isinstance(method, ODE):
        raise ConfigError(f"method={method!r} is not allowed: ts.ODE(...)")
    return method or ODE()


def _texts(sample: Sequence[str]) -> tuple[str, ...]:
    """Distributions; `DbnOptions` refuses one text in place of several, and what is no text."""
    if isinstance(sample, str) or not isinstance(sample, Iterable):
        return sample  # type: ignore[return-value]
    return tuple(sample)


def _edges(edges: Any) -> Any:
    """Lists of any kind as arrays of doubles; `DbnOptions` refuses what are no numbers."""
    if not isinstance(edges, Mapping):
        return {} if edges is None else edges
    return {name: _doubles(own) for name, own in edges.items()}


def _doubles(values: Any) -> Any:
    try:
        return np.asarray(values, np.float64)
    except (TypeError, ValueError):
        return values


def _by_name(name: str, values: Mapping[str, Any] | None) -> dict[str, Any]:
    if values is not None and not isinstance(values, Mapping):
        raise ConfigError(f"{name}={values!r}: pairs of numbers by name are expected")
    return dict(values or {})

"""Keywords of the command line or of Python, made into `Options`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any

from tauslab.base.errors import ConfigError
from tauslab.base.option_names import opt
from tauslab.model.network.diagnosis.time_breaks import has_times
from tauslab.model.network.network import Network
from tauslab.options.ensemble import Options, default_n
from tauslab.options.keywords import CommonChoices, EnsembleChoices, NetworkKeywords
from tauslab.options.methods import Method, given_in, method_of, method_with
from tauslab.options.python_values import names_of, numbers_by_name, points_of, whole
from tauslab.options.record import Record
from tauslab.options.sampling import Sampling
from tauslab.options.sweep import Design, Sweep, task_of
from tauslab.options.values.sample_times import sample_times
from tauslab.runner.ensemble.from_file import (
    taken_to_extend,
    times_to_append,
    times_to_resume,
)
from tauslab.runner.ensemble.initial import initial_amounts, require_followed

_KEYWORDS = frozenset(one.name for one in fields(NetworkKeywords))
_PLAIN = {one.name for kind in (CommonChoices, EnsembleChoices) for one in fields(kind)}
_WHOLE = ("max_steps", "block", "append", "append_to")  # which may be written as 1e4


def ensemble_options(
    network: Network,
    asked: Mapping[str, Any],
    place: Mapping[str, Any],
    sweep: Sweep | None = None,
    keywords: NetworkKeywords | None = None,
) -> Options:
    """Check keywords and make `Options` of them.

    Parameters
    ----------
    asked
        Keywords of `NetworkKeywords` that the user gave, and options of methods beside them.
    place
        Fields of `Options` that say where to compute and what to write.
    sweep
        Points that are known.
    keywords
        The keywords of `asked`, where they have been checked.

    Raises
    ------
    ConfigError
        A value outside what is allowed, or options that do not go together.
    """
    if asked.get("extend") is not None:
        own = {name: value for name, value in asked.items() if value is not None}
        (asked, sweep), keywords = taken_to_extend(own, network), None
    if keywords is None:
        keywords = NetworkKeywords(**{k: v for k, v in asked.items() if k in _KEYWORDS})
    given = {name: value for name, value in asked.items() if value is not None}
    own = {name: value for name, value in given.items() if name not in _KEYWORDS}
    if isinstance(keywords.method, Method):
        own |= given_in(keywords.method)
    method = method_of(keywords.method)
    if "method" in given:
        given["method"] = method.word
    grows = keywords.append is not None or keywords.append_to is not None
    goes_on = keywords.resume or grows
    if own and ("method" in given or not goes_on):  # else the file says which method
        method = method_with(method.word, own)
    own_times = keywords.times, keywords.t_end, keywords.points
    at = times_to_append(place.get("output"), *own_times) if grows else None
    plain = {name: getattr(keywords, name) for name in _PLAIN}
    initial = keywords.initial
    known = numbers_by_name("set", keywords.set)
    values = {} if initial is None else initial_amounts(network, initial, known, keywords.seed)
    values |= known
    require_followed(network, known, values)
    sample = Sampling.parse(_texts(keywords.sample))
    n = default_n(method, values, sample, equations_alone=network.counts_nothing())
    n = n if keywords.n is None else whole(keywords.n)
    decimal = has_times(network)
    times = sample_times(
        keywords.times if at is None else at,
        keywords.t_end,
        whole(keywords.points),
        model_t_end=network.t_end,
        decimal=decimal,
    )
    if decimal and keywords.resume and keywords.times is None:
        times = times_to_resume(place.get("output"), times)
    recorded = names_of("record", keywords.record)
    return Options(
        times=times,
        n=n,
        method=method,
        given={**given, **own},
        **{name: whole(value) if name in _WHOLE else value for name, value in plain.items()},
        set=values,
        sweep=_points(keywords, sweep),
        species=names_of("species", keywords.species),
        record=None if recorded is None else Record.parse(recorded),
        sample=sample,
        extend=keywords.extend,
        **place,
    )


def _points(keywords: NetworkKeywords, known: Sweep | None) -> Sweep | Design | None:
    """The points, or those of one task of an array."""
    points = known or points_of(keywords.sweep, keywords.table, keywords.design)
    task = task_of(keywords.task)
    if task is None:
        return points
    if points is None:
        raise ConfigError(
            f"{opt('task')} divides points among the tasks of an array: give {opt('sweep')} or "
            f"{opt('table')}"
        )
    if keywords.until is not None or keywords.first_point:
        raise ConfigError(
            f"{opt('task')} sets the numbers of points: leave out {opt('first_point')} and "
            f"{opt('until')}"
        )
    if keywords.seed is None:
        raise ConfigError(f"{opt('task')} needs {opt('seed')}, the same for all tasks of an array")
    return points.of_task(task)


def _texts(sample: Mapping[str, str] | Sequence[str] | str) -> Sequence[str]:
    """Distributions as ``NAME=FORM``, which may be given by name or one alone."""
    if isinstance(sample, Mapping):
        wrong = [name for name, form in sample.items() if not isinstance(form, str)]
        if not wrong:
            return [f"{name}={form}" for name, form in sample.items()]
        sample = {wrong[0]: sample[wrong[0]]}
    elif isinstance(sample, str):
        return [sample]
    elif isinstance(sample, Iterable):
        sample = list(sample)
        if all(isinstance(text, str) for text in sample):
            return sample
    raise ConfigError(f'{opt("sample")}: give {{NAME: "uniform(0.1,2)"}}, not {sample!r:.60}')

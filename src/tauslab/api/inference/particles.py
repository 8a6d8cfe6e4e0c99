"""Models against time courses: `tauslab.particle_filter`, its kin, and `pmmh`."""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any

import numpy as np
import numpy.typing as npt

from tauslab.analysis.exact_filter import ExactFilterKeywords, exactly_filtered
from tauslab.analysis.filters.cells import MOST_PARTICLES
from tauslab.analysis.filters.chains import Chain
from tauslab.analysis.filters.filtering import (
    FilterCheckpoint,
    ParticleFilters,
    ended_before,
    ended_counts,
)
from tauslab.analysis.filters.keywords import ChainKeywords, FilterKeywords, FiltersKeywords
from tauslab.analysis.filters.result import FilterResult, FilterResults, joined
from tauslab.analysis.filters.walk import MOST_RHAT, Walk
from tauslab.analysis.particles.ensemble import Ensemble
from tauslab.analysis.particles.store import StateCheckpoint, digest_of
from tauslab.analysis.particles.weights import SCHEMES
from tauslab.api.inference.given import (
    constants_of,
    initial_for_digest,
    limit_for_digest,
    priors_of,
    require_parameters,
    search_seed,
    text_of,
    warn_of_ended,
)
from tauslab.api.inference.likelihood import CellsLikelihood
from tauslab.api.model_reading import model_of, network_of
from tauslab.api.typed import chosen, takes
from tauslab.base.arrays import FloatArray, doubles
from tauslab.base.errors import ConfigError, ModelError, one_of
from tauslab.base.host import require_memory
from tauslab.base.option_names import assigned, warn
from tauslab.base.unknown import checks_keywords
from tauslab.decomposition.ranks.all_ranks import ranks_of
from tauslab.decomposition.ranks.progress import Progress
from tauslab.model.lattice.lattice import Lattice
from tauslab.model.network.network import Network
from tauslab.options.ensemble import MOST_TRAJECTORIES
from tauslab.options.python_values import numbers, numbers_by_name
from tauslab.options.values.checks import by_name, within
from tauslab.options.values.definition import check_values
from tauslab.options.values.priors import Prior
from tauslab.runner.ensemble.choices.outlook import Pace

_CHAIN_BYTES = 1000  # of its generator and its proposal
_TOLD_EVERY = 25  # steps between figures of how chains mix
_APART, _MANY_STEPS = 1.2, 100  # R-hat of chains of so many steps that do not agree
_FEW, _MANY = 2.5, 100  # effective particles that hold no distribution, of so many


@checks_keywords
@takes(FilterKeywords)
def particle_filter(
    model: Network | Lattice | str | os.PathLike[str], data: Any, **options: Any
) -> FilterResult:
    """Estimate the likelihood of a time course, and the hidden states, with n particles.

    The bootstrap filter (Gordon, Salmond and Smith 1993). The estimate of the likelihood, not of
    its logarithm, is unbiased.

    Parameters
    ----------
    model
        A network or a lattice, or a model file, of which `tauslab.Ensemble` makes particles.
    data
        Columns by name as a mapping, a data frame or the path of a CSV file: ``time``, increasing
        and 0 or above, and the measured quantities; NaN means missing. Of many cells, whose
        log-likelihoods add, with a column ``cell``, or a list with one table per cell.
    {options}

    Returns
    -------
    A `FilterResult`. If no particle is compatible with a row, its `log_likelihood` is -inf, and a
    warning names the row.

    Raises
    ------
    ModelError, ConfigError
        The model, the data or an option is not allowed.

    Examples
    --------
    >>> import tauslab as ts
    >>> net = ts.Network("immigration")
    >>> net.add_species("X", 10)
    >>> net.add_reaction("-> X", rate=4.0)
    >>> net.add_reaction("X ->", rate=0.2)
    >>> data = {"time": [1.5, 3.0, 4.5], "X": [14.5, float("nan"), 12.0]}
    >>> found = ts.particle_filter(net, data, observe={"X": "normal(sd=2.5)"}, seed=1, device="cpu")
    >>> found.mean.shape
    (3, 1)
    """
    network = model_of(model, "ts.particle_filter")
    given = chosen(FilterKeywords, {"data": data, **options}, "particle_filter")
    check_values(given)
    rows = numbers_by_name("set", given.set)
    for name, row in rows.items():
        if np.ndim(row) and np.shape(row) != (given.n,):
            raise ConfigError(
                f"set {name}: one value, or one per particle ({given.n}); many filters at "
                "once are ts.particle_filters"
            )
    return _filters(network, given, rows, 1)[0]


@checks_keywords
@takes(FiltersKeywords)
def particle_filters(
    model: Network | Lattice | str | os.PathLike[str], data: Any, **options: Any
) -> FilterResults:
    """Estimate likelihoods of a time course at many parameter values at once.

    Filter f gives the bits of `tauslab.particle_filter` with ``number=f``.

    Parameters
    ----------
    model, data
        As of `tauslab.particle_filter`.
    {options}

    Returns
    -------
    `FilterResults`, whose `log_likelihood` is an array ``[filter]``.

    Raises
    ------
    ModelError, ConfigError
        The model, the data or an option is not allowed.
    DeviceError
        The device lacks memory for all particles.

    Examples
    --------
    >>> import tauslab as ts
    >>> net = ts.Network("immigration")
    >>> net.add_species("X", 10)
    >>> net.add_parameter("k", 4.0)
    >>> net.add_reaction("-> X", rate="k")
    >>> net.add_reaction("X ->", rate=0.2)
    >>> data = {"time": [1.5, 3.0], "X": [14.5, 12.0]}
    >>> found = ts.particle_filters(
    ...     net,
    ...     data,
    ...     observe={"X": "normal(sd=2.5)"},
    ...     set={"k": [2, 3, 4]},
    ...     seed=1,
    ...     device="cpu",
    ... )
    >>> found.log_likelihood.shape
    (3,)
    """
    network = model_of(model, "ts.particle_filters")
    given = chosen(FiltersKeywords, {"data": data, **options}, "particle_filters")
    check_values(given)
    rows = numbers_by_name("set", given.set)
    for name, row in rows.items():
        if np.ndim(row) > 1 or not np.size(row):
            raise ConfigError(
                f"set {name}: one value, or one per filter, not an array of shape {np.shape(row)}"
            )
    lengths = {len(row) for row in rows.values() if isinstance(row, np.ndarray)}
    if given.filters is not None:
        lengths.add(given.filters)
    if len(lengths) != 1:
        raise ConfigError(
            "set= has no array: give filters=, the number of filters"
            if not lengths
            else "set= and filters= must give the same number of filters, not "
            + " and ".join(map(str, sorted(lengths)))
        )
    count = lengths.pop()
    rows = {k: np.repeat(v, given.n) if np.ndim(v) else v for k, v in rows.items()}
    return _filters(network, given, rows, count)


def _filters(
    network: Network | Lattice, given: FilterKeywords, rows: Mapping[str, Any], count: int
) -> FilterResults:
    """`count` filters; `rows` hold one value for all particles, or one each."""
    cells = given.observations()
    ranks = ranks_of(
        given.comm, "a particle filter",
        **vars(given) | {"model": network, "data": cells.digest(), "set": rows},
    )  # fmt: skip
    one_of("resample", given.resample, SCHEMES)
    probabilities = tuple(np.atleast_1d(given.quantiles).tolist())
    n, runs = given.n, cells.runs(max(1, MOST_PARTICLES // (given.n * count)))
    most = MOST_TRAJECTORIES // (n * count * len(cells)) - 1
    if most < 0:
        raise ConfigError(f"{count} filters of {n} particles are more than {MOST_TRAJECTORIES}")
    within("number", given.number, 0, most)
    if len(cells) > 1 and (given.checkpoint is not None or given.number):
        raise ConfigError("checkpoint= and number= need the time course of a single cell")
    digest = b"" if given.checkpoint is None else digest_of(
        text_of(network), cells.digest(), rows, given.seed, n, count, given.number,
        initial_for_digest(given.initial), repr(given.method), given.resample, given.threshold,
        given.states, *limit_for_digest(given.max_steps),
        *([probabilities] if probabilities else []),
    )  # fmt: skip
    file = FilterCheckpoint(
        given.checkpoint, given.checkpoint_every, digest, ranks, "particles", "file of particles"
    )
    ended, collected, done = Counter[int](), list[FilterResults](), 0
    bar: Progress | None = None
    pace = Pace(f"{network.name}: the filter", quiet=given.quiet, announces=ranks.rank == 0)
    whole, passed = sum(float(one.longest.times[-1]) for one in runs), 0.0
    with file.held(), ExitStack() as stack:
        for run in runs:
            side = len(run.cells)

            def beside(values: Mapping[str, Any], side: int = side) -> dict[str, Any]:
                return {k: np.tile(v, side) if np.ndim(v) else v for k, v in values.items()}

            def opened(values: Mapping[str, Any], total: int, side: int = side) -> Ensemble:
                cells[0].check(constants_of(network, values, cells[0]))
                return Ensemble(
                    network, total * side, seed=given.seed, device=given.device,
                    set=beside(values), initial=given.initial, method=given.method,
                    comm=ranks, max_steps=given.max_steps,
                )  # fmt: skip

            with _naming_rows(opened, rows, n, count) as particles:
                number = given.number + run.first * count
                particles.in_groups(n, number)
                course = ParticleFilters(
                    particles, run.cells, count=count * side, number=number,
                    scheme=given.resample, threshold=given.threshold, states=given.states,
                    probabilities=probabilities,
                )  # fmt: skip
                file.particles = particles
                if kept := file.take_up():
                    course.go_on(kept)
                    pace.before = particles.time / whole if whole > 0 else 0.0
                bar = bar or stack.enter_context(
                    Progress(
                        sum(len(one.longest) for one in runs), ranks.rank, quiet=given.quiet,
                        description=network.name, unit="rows", started_at=course.row,
                    )
                )  # fmt: skip

                def after_row(
                    course: ParticleFilters = course, done: int = done, bar: Progress = bar,
                    particles: Ensemble = particles, passed: float = passed,
                ) -> None:  # fmt: skip
                    bar.update(done + course.row, 0)
                    pace.reached((passed + particles.time) / whole if whole > 0 else 1.0)
                    file.save(course.kept, last=course.row == len(cells[0]))

                now = {**beside(rows), **particles.given}
                both = course.run(constants_of(network, now, cells[0]), after_row)
            collected += [
                both.part(slice(i * count, (i + 1) * count), len(cell))
                for i, cell in enumerate(run.cells)
            ]
            ended.update(course.ended)
            done += len(run.longest)
            passed += float(run.longest.times[-1])
    warn_of_ended(ended, overflow=count == 1)
    result = joined(collected)
    if count == 1:
        _warn_of_few(result, n, all_go_on=not ended)
    return result


def _warn_of_few(found: FilterResults, n: int, *, all_go_on: bool) -> None:
    """Say where a likelihood is 0, or rests with a mean on one or two particles."""
    impossible = np.flatnonzero(found.terms[0] == -np.inf)
    if len(impossible) and all_go_on:
        warn(
            f"at t = {found.time[impossible[0]]:g} the data have likelihood 0 with all {n} "
            "particles: the log-likelihood is -inf; give more particles, or a model or noise that "
            "reaches the data"
        )
    sizes = np.where(found.terms[0] > -np.inf, found.effective_size[0], np.inf)
    row = int(sizes.argmin())
    if n >= _MANY and sizes[row] < _FEW:
        warn(
            f"at t = {found.time[row]:g} the {n} particles have an effective size of "
            f"{sizes[row]:.2g}: the data are far from all particles, so the likelihood and means "
            "of this row are unreliable; give more particles or noise, or a model that reaches "
            "the data"
        )


def _naming_rows(
    opened: Callable[[Mapping[str, Any], int], Ensemble],
    rows: Mapping[str, Any],
    n: int,
    count: int,
) -> Ensemble:
    """An ensemble of `count` filters; an error names the first row of values that fails."""
    each = {name: row[::n] for name, row in rows.items() if np.ndim(row)} if count > 1 else {}

    def failing(low: int, high: int) -> ModelError | ConfigError | None:
        one = high - low == 1
        given = {name: row[low].item() if one else row[low:high] for name, row in each.items()}
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # given before
                opened({**rows, **given}, high - low).close()
        except (ModelError, ConfigError) as error:
            return error
        return None

    try:
        return opened(rows, n * count)
    except (ModelError, ConfigError) as error:
        low, high = 0, count
        while each and high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if failing(low, middle) else (middle, high)
        alone = failing(low, high) if each else None
        of_all = low == 0 and str(failing(count - 1, count)) == str(alone)
        if alone is None or of_all:
            raise
        values = ", ".join(f"{name} = {row[low]:g}" for name, row in each.items())
        reported = type(error)(f"set= row {low} ({values}): {alone}")
        reported.raised_by = error.raised_by
        raise reported from None


@checks_keywords
@takes(ExactFilterKeywords)
def exact_filter(
    model: Network | str | os.PathLike[str], data: Any, **options: Any
) -> FilterResult:
    """Compute the likelihood of a time course of a small network by the forward algorithm.

    Between rows, the probability distribution is computed as by `tauslab.cme`.

    Parameters
    ----------
    model, data
        As of `tauslab.particle_filter`.
    {options}

    Returns
    -------
    A `FilterResult`; its `log_likelihood` is too small by at most its `bound`.

    Raises
    ------
    ModelError, ConfigError
        As of `tauslab.cme` and `tauslab.particle_filter`.

    Examples
    --------
    >>> import tauslab as ts
    >>> net = ts.Network("decay")
    >>> net.add_species("X", 1)
    >>> net.add_reaction("X ->", rate=1.0)
    >>> data = {"time": [1.0], "X": [1]}
    >>> found = ts.exact_filter(net, data, observe={"X": "binomial(p=0.5)"})
    >>> round(found.log_likelihood, 6)  # log(exp(-1) / 2)
    -1.693147
    """
    network = network_of(model, "ts.exact_filter")
    return exactly_filtered(
        network, chosen(ExactFilterKeywords, {"data": data, **options}, "exact_filter")
    )


@checks_keywords
@takes(ChainKeywords)
def pmmh(
    model: Network | Lattice | str | os.PathLike[str],
    data: Any,
    priors: Mapping[str, str],
    **options: Any,
) -> Chain:
    """Sample the posterior of parameters by particle marginal Metropolis-Hastings.

    Andrieu, Doucet and Holenstein (2010). The posterior is exact for any n; with few particles,
    few proposals are accepted. Chains share one proposal distribution.

    Parameters
    ----------
    model, data
        As of `tauslab.particle_filter`.
    priors
        Priors of the unknown parameters by name: ``uniform(LO,HI)``, ``loguniform(LO,HI)``,
        ``normal(MEAN,SD)``, ``lognormal(MU,SIGMA)`` with mean and deviation of the logarithm, or
        ``lognormal(median=...,sigma=...)``. Values that the model cannot take have likelihood 0.
    {options}

    Returns
    -------
    A `Chain`, with arrays ``[chain, step]``. A warning appears if `target_ess` was not reached.

    Raises
    ------
    ModelError, ConfigError
        The model, the data, a prior or an option is not allowed, or the chain cannot start.

    Examples
    --------
    >>> import tauslab as ts
    >>> net = ts.Network("decay")
    >>> net.add_species("X", 100)
    >>> net.add_parameter("k", 1.0)
    >>> net.add_reaction("X ->", rate="k")
    >>> data = {"time": [0.5, 1.0], "X": [60, 38]}
    >>> chain = ts.pmmh(
    ...     net,
    ...     data,
    ...     {"k": "loguniform(0.1,10)"},
    ...     observe={"X": "normal(sd=2)"},
    ...     n=50,
    ...     steps=50,
    ...     warm_up=50,
    ...     device="cpu",
    ... )
    >>> chain["k"].shape
    (8, 50)
    """
    network = model_of(model, "ts.pmmh")
    parsed = priors_of(priors)
    given = chosen(ChainKeywords, {"data": data, "priors": priors, **options}, "pmmh")
    check_values(given)
    steps, warm_up, n, count = given.steps, given.warm_up, given.n, given.chains
    start = {k: doubles(numbers(f"start {k}", v)) for k, v in by_name("start", given.start).items()}
    proposal = _proposal_of(given.proposal, len(parsed))
    places = 2 * (steps + warm_up) * (8 * len(parsed) + 9)  # with likelihoods, and the result
    cells = given.observations()
    beside = min(len(cells), max(1, MOST_PARTICLES // (n * count)))
    runs = cells.runs(beside)
    states = n * beside * (64 + 24 * (len(network.species) + len(parsed))) + _CHAIN_BYTES
    require_memory(
        count * (places + states),
        f"chains={count} with steps={steps}, warm_up={warm_up} and n={n}",
    )
    require_parameters(network, parsed, start)
    for name, values in start.items():
        if np.shape(values) not in ((), (count,)):
            raise ConfigError(f"start {name}: one value, or one per chain ({count})")
    ranks = ranks_of(
        given.comm, "ts.pmmh", **vars(given) | {"model": network, "data": cells.digest()}
    )
    seed = search_seed(given.seed, given.checkpoint, ranks)
    digest = b"" if given.checkpoint is None else digest_of(
        text_of(network), cells.digest(), parsed, n, warm_up, count, seed, start, proposal,
        initial_for_digest(given.initial), repr(given.method), *_named_numbers(parsed),
        "one proposal by moves", *limit_for_digest(given.max_steps),
    )  # fmt: skip
    file = StateCheckpoint(
        given.checkpoint, given.checkpoint_every, digest, ranks, "chains",
        "file of chains, which ts.pmmh writes",
    )  # fmt: skip

    def opened(total: int) -> Ensemble:
        middle = {k: np.full(total, of.value(of.start())) for k, of in parsed.items()}
        return Ensemble(
            network, total, seed=0, device=given.device, set=middle,
            initial=given.initial, method=given.method, comm=ranks, max_steps=given.max_steps,
        )  # fmt: skip

    with file.held(), ExitStack() as stack:
        likelihood = CellsLikelihood(
            network, runs, lambda size: stack.enter_context(opened(n * size)), count, seed
        )
        walk = Walk(
            parsed, likelihood, chains=count, steps=steps, warm_up=warm_up, seed=seed,
            start=start, proposal=proposal, target_ess=given.target_ess,
        )  # fmt: skip
        ended = Counter[int]()
        if kept := file.take_up():
            likelihood.go_on_by(kept.text("solver"))
            ended = ended_before(kept)
            walk.go_on(kept)
        else:
            walk.begin()
        total, unit = steps + warm_up, "steps"
        pace = Pace(f"{network.name}: ts.pmmh", quiet=given.quiet, announces=ranks.rank == 0)
        pace.before = walk.step / total if total else 0.0
        with Progress(
            total, ranks.rank, quiet=given.quiet, description=network.name, unit=unit,
            started_at=walk.step,
        ) as bar:  # fmt: skip

            def after_step() -> None:
                pace.reached(walk.step / total)
                if given.quiet is not True:
                    if walk.step % _TOLD_EVERY == 0 and walk.step >= warm_up + _TOLD_EVERY:
                        bar.show("effective size {:.4g}, R-hat {:.3f}".format(*walk.mixed()))
                    bar.update(walk.step, 0)
                file.save(state_now, last=walk.done)

            def state_now() -> dict[str, Any]:
                now = ended_counts(ended + likelihood.ended)
                return {**walk.kept(), **now, "solver": np.bytes_(likelihood.solver)}

            walk.run(after_step)
        warn_of_ended(ended + likelihood.ended, overflow=False)
        if walk.step == total:
            _warn_of_mixing(walk, given.target_ess)
        return Chain(tuple(parsed), *walk.result(), seed=seed)


def _proposal_of(given: npt.ArrayLike | None, size: int) -> FloatArray | None:
    """Standard deviations of first steps."""
    if given is None:
        return None
    result = doubles(numbers("proposal", given))
    if result.shape != (size,):
        raise ConfigError(f"proposal= must have one number per prior ({size})")
    if not (np.isfinite(result) & (result > 0)).all():
        raise ConfigError("proposal= are standard deviations: finite and above 0")
    return result


def _warn_of_mixing(walk: Walk, target: float | None) -> None:
    """Say where the chains came, if that is not the target, or if they do not agree."""
    size, rhat = walk.mixed()
    known = f"of {size:.4g}" if np.isfinite(size) else "not known, as some hardly moved,"
    came = f"the chains ended with an effective size {known} and R-hat {rhat:.3f}"
    if target is None:
        if not rhat <= _APART and walk.step >= _MANY_STEPS:
            why = "they do not agree on the posterior" if rhat > _APART else "none moved"
            warn(f"{came}: {why}; give more steps, or more particles where few steps move")
    elif not (size >= target and rhat <= MOST_RHAT):
        warn(
            f"{came}, and {assigned('target_ess')}{target:g} with R-hat {MOST_RHAT} at most was "
            "asked for: give more steps, or more particles where few steps move"
        )


def _named_numbers(parsed: Mapping[str, Prior]) -> set[str]:
    """A mark of ``lognormal``, whose first number was a median in checkpoints of older versions."""
    return {"lognormal(mu, sigma)" for prior in parsed.values() if prior.kind == "lognormal"}

"""Posteriors that follow the data: `tauslab.smc2`."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

import numpy as np

from tauslab.analysis.filters.filtering import ended_before, ended_counts
from tauslab.analysis.filters.keywords import Smc2Keywords
from tauslab.analysis.filters.priors import table_at, values_at
from tauslab.analysis.filters.smc2.result import Smc2Result
from tauslab.analysis.filters.smc2.sampler import Sampler, Settings
from tauslab.analysis.particles.ensemble import Ensemble
from tauslab.analysis.particles.store import StateCheckpoint, digest_of
from tauslab.api.inference.given import (
    initial_for_digest,
    limit_for_digest,
    priors_of,
    require_parameters,
    search_seed,
    text_of,
    warn_of_ended,
)
from tauslab.api.inference.likelihood import Likelihood
from tauslab.api.model_reading import model_of
from tauslab.api.typed import chosen, takes
from tauslab.base.arrays import FloatArray
from tauslab.base.errors import ConfigError
from tauslab.base.host import require_memory
from tauslab.base.option_names import opt, warn
from tauslab.base.unknown import checks_keywords
from tauslab.decomposition.ranks.all_ranks import ranks_of
from tauslab.decomposition.ranks.progress import Progress
from tauslab.model.lattice.lattice import Lattice
from tauslab.model.network.network import Network
from tauslab.options.values.definition import check_values

_FEW_DRAWS, _FEW_PART = 10, 8  # too few: effective draws, all draws for an effective one


@checks_keywords
@takes(Smc2Keywords)
def smc2(
    model: Network | Lattice | str | os.PathLike[str],
    data: Any,
    priors: Mapping[str, str],
    **options: Any,
) -> Smc2Result:
    """Sample the posterior of parameters after each row of a time course, and its evidence: SMC².

    Chopin, Jacob and Papaspiliopoulos (2013). Parameter sets, each with a particle filter, are
    weighted by each row of the data. If a few sets have most of the weight, the sets are resampled
    and moved by particle marginal Metropolis-Hastings. The posterior is exact for any n as the
    number of draws grows. In contrast to `tauslab.pmmh`, SMC² starts from the prior, needs no
    warm-up, and estimates the evidence of the model.

    Parameters
    ----------
    model, data
        As of `tauslab.particle_filter`.
    priors
        As of `tauslab.pmmh`.
    {options}

    Returns
    -------
    An `Smc2Result`.

    Raises
    ------
    ModelError, ConfigError
        The model, the data, a prior or an option is not allowed, or no draw explains the data.

    Examples
    --------
    >>> import tauslab as ts
    >>> net = ts.Network("decay")
    >>> net.add_species("X", 100)
    >>> net.add_parameter("k", 1.0)
    >>> net.add_reaction("X ->", rate="k")
    >>> data = {"time": [0.5, 1.0], "X": [60, 38]}
    >>> found = ts.smc2(
    ...     net,
    ...     data,
    ...     {"k": "loguniform(0.1,10)"},
    ...     observe={"X": "normal(sd=2)"},
    ...     draws=200,
    ...     n=50,
    ...     device="cpu",
    ... )
    >>> found["k"].shape
    (200,)
    """
    network = model_of(model, "ts.smc2")
    parsed = priors_of(priors)
    given = chosen(Smc2Keywords, {"data": data, "priors": priors, **options}, "smc2")
    check_values(given)
    require_parameters(network, parsed)
    cells = given.observations()
    run = cells.runs(len(cells))[0]
    rows = run.longest
    if len(run.cells) < len(cells):
        raise ConfigError(
            "ts.smc2 goes through the times of all cells at once: give them equal times, NaN where "
            "one was not seen, or use ts.pmmh"
        )
    ranks = ranks_of(
        given.comm, "ts.smc2", **vars(given) | {"model": network, "data": cells.digest()}
    )
    seed = search_seed(given.seed, given.checkpoint, ranks)
    digest = b"" if given.checkpoint is None else digest_of(
        text_of(network), cells.digest(), parsed, given.draws, given.n, given.moves,
        given.threshold, seed, initial_for_digest(given.initial), repr(given.method),
        *limit_for_digest(given.max_steps),
    )  # fmt: skip
    file = StateCheckpoint(
        given.checkpoint, given.checkpoint_every, digest, ranks, "smc2",
        "file of draws, which ts.smc2 writes",
    )  # fmt: skip
    results = given.draws * 8 * (len(parsed) * (len(rows) + 4) + 3 * len(rows))
    filters = given.draws * len(cells)
    _require_memory(results, given, filters, given.n)
    settings = Settings(given.draws, given.n, given.moves, given.threshold, seed)
    middle = np.array([[prior.start() for prior in parsed.values()]])
    with file.held(), ExitStack() as stack:
        particles: Ensemble | None = None
        solver, ended = "", Counter[int]()

        def terms(values: Mapping[str, FloatArray], call: int, n: int) -> FloatArray:
            nonlocal particles, solver
            total = filters * n
            if particles is None or particles.n != total:
                stack.pop_all().close()
                _require_memory(results, given, filters, n)
                start = {k: np.repeat(v, total) for k, v in values_at(parsed, middle).items()}
                particles = stack.enter_context(
                    Ensemble(
                        network, total, seed=0, device=given.device, set=start,
                        initial=given.initial, method=given.method, comm=ranks,
                        max_steps=given.max_steps,
                    )
                )  # fmt: skip
                if solver:
                    particles.go_on_by(solver)
            likelihood = Likelihood(network, run, particles, given.draws, seed)
            result = likelihood.terms(values, call, required=0 if call else 1)
            ended.update(likelihood.ended)
            solver = particles.solver
            return result

        def state_now() -> dict[str, Any]:
            return {**sampler.kept(), **ended_counts(ended), "solver": np.bytes_(solver)}

        sampler = Sampler(parsed, terms, rows.times, settings)
        if kept := file.take_up():
            solver = kept.text("solver")
            ended.update(ended_before(kept))
            sampler.go_on(kept)
        with Progress(
            len(rows), ranks.rank, quiet=given.quiet, description=network.name, unit="rows",
            started_at=sampler.row,
        ) as bar:  # fmt: skip

            def after_row() -> None:
                bar.update(sampler.row, 0)
                file.save(state_now, last=sampler.row == len(rows))

            sampler.run(after_row)
        warn_of_ended(ended, overflow=False)
    _warn_of_copies(sampler, rows.times)
    return Smc2Result(
        tuple(parsed), np.array([table_at(parsed, places) for places in sampler.places]),
        sampler.weights, rows.times, sampler.log_evidence,
        sampler.acceptance, sampler.particles, seed=seed,
    )  # fmt: skip


def _warn_of_copies(sampler: Sampler, times: FloatArray) -> None:
    """Warn if nearly all weight is on copies of a few draws, which moves did not separate."""
    sizes = []
    for places, weights in zip(sampler.places, sampler.weights, strict=True):
        _, which = np.unique(places, axis=0, return_inverse=True)
        shares = np.bincount(which.ravel(), weights)
        sizes.append(1 / float(shares @ shares))
    draws, row = sampler.weights.shape[1], int(np.argmin(sizes))
    if sizes[row] < min(_FEW_DRAWS, draws / _FEW_PART):
        warn(
            f"after t = {times[row]:g} the {draws} draws are copies of a few: the effective "
            f"number is {sizes[row]:.2g}, so posteriors are too narrow from there on, and the "
            "evidence is unreliable; give more draws, more particles (n=), or priors that reach "
            "the data"
        )


def _require_memory(results: int, given: Smc2Keywords, filters: int, n: int) -> None:
    """Refuse filters of n particles that need more host memory than there is.

    Fewer particles would be another result than that of a larger machine.
    """
    grown = (
        f", as many as filters have now that fewer than 15 % of moves were accepted: give fewer "
        f"draws or a larger threshold, or go on from {opt('checkpoint')} on a larger machine,"
        if n > given.n
        else ""
    )
    require_memory(results + filters * 64 * n, f"draws={given.draws} with n={n}{grown}")

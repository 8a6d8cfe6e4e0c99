"""A job of any estimator: checks, device, progress, result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy.typing as npt

from tauslab.analysis.counts_alone import require_counts_alone
from tauslab.analysis.sensitivity.certainty import warn_of_few
from tauslab.analysis.sensitivity.finite import finite_differences
from tauslab.analysis.sensitivity.keywords import SensitivityKeywords
from tauslab.analysis.sensitivity.outputs import chosen_outputs, with_outputs
from tauslab.analysis.sensitivity.result import LIKELIHOOD_RATIO, METHODS, SensitivityResult
from tauslab.analysis.sensitivity.score import likelihood_ratios
from tauslab.analysis.sensitivity.steps import DEFAULT_STEP, chosen_names, steps_of
from tauslab.base.errors import ConfigError, ModelError, one_of
from tauslab.base.option_names import opt, said
from tauslab.decomposition.ranks.job import agreed_seed, devices, failing_together
from tauslab.decomposition.ranks.mpi import Communicator
from tauslab.decomposition.ranks.progress import Progress
from tauslab.decomposition.ranks.together import agree
from tauslab.model.network.network import Network
from tauslab.options.ensemble import Options
from tauslab.options.places import Device, device_settings
from tauslab.options.python_values import names_of, one_number_each
from tauslab.options.values.definition import check_values
from tauslab.options.values.sample_times import sample_times
from tauslab.runner.ensemble.task import with_settings


def run_sensitivity(
    network: Network, given: SensitivityKeywords, comm: Communicator
) -> SensitivityResult:
    """Derivatives of means. Collective.

    Raises
    ------
    ModelError, ConfigError
        As of `tauslab.sensitivity`.
    """
    check_values(given)
    one_of("method", given.method, METHODS)
    network, options, names, recorded = checked_options(
        network, names_of(given.parameters), given.outputs, times=given.times, n=given.n,
        seed=given.seed, device=given.device, settings=given.set, max_steps=given.max_steps,
        what="a sensitivity", comm=comm,
    )  # fmt: skip
    unit = "pairs"
    if given.method == LIKELIHOOD_RATIO:
        if given.step != DEFAULT_STEP or given.difference != "centred":
            raise ConfigError(
                f"{opt('step')} and {opt('difference')} are of {opt('method', 'coupled')} and "
                f"{opt('method', 'common')}: a likelihood ratio has none"
            )
        unit, total = "trajectories", given.n
    else:
        steps = agree(comm, lambda: steps_of(network, names, given.step, given.difference))
        total = given.n * len(steps)
    with (
        devices(options.device, options.threads, comm) as backend,
        failing_together(comm),
        Progress(total, comm.rank, quiet=given.quiet, description=network.name, unit=unit) as bar,
    ):
        done = 0

        def report(more: int) -> None:
            nonlocal done
            done += more * comm.size
            bar.update(min(done, total), 0)

        if given.method == LIKELIHOOD_RATIO:
            found = likelihood_ratios(network, names, recorded, options, backend, comm, report)
        else:
            found = finite_differences(
                network, steps, recorded, options, given.method, backend, comm, report
            )
        bar.update(total, 0)
    if comm.rank == 0:
        warn_of_few(found, unit)
    return found


def checked_options(  # noqa: PLR0913 - what `sensitivity` and `expectation` take
    network: Network,
    parameters: Sequence[str] | None,
    outputs: Sequence[str] | str | None,
    *,
    times: npt.ArrayLike | None,
    n: int,
    seed: int | None,
    device: Device,
    settings: Mapping[str, float] | None,
    max_steps: int,
    what: str,
    comm: Communicator,
) -> tuple[Network, Options, tuple[str, ...], tuple[str, ...]]:
    """The network with its settings, options, parameters and outputs.

    Raises
    ------
    ModelError, ConfigError
        As of `tauslab.sensitivity`.
    """
    require_counts_alone(network, what)
    values = one_number_each("set", settings, "all pairs begin alike")
    network = with_settings(network, values)
    network.validate()
    if not network.reactions:
        raise ModelError(f"{network.name} has no reactions: nothing changes")
    when = network.t_end if times is None else times
    if when is None:
        missing = said(opt("t"), "times=")
        raise ConfigError(f"{missing} is missing: when derivatives are taken, in model units")
    options = Options(
        times=sample_times(when), n=n,
        seed=agreed_seed(seed, lambda: None, comm), max_steps=max_steps,
        **device_settings(device),
    )  # fmt: skip
    recorded = chosen_outputs(network, [outputs] if isinstance(outputs, str) else outputs)
    with_outputs(network, recorded)  # refuses names, here on all ranks alike
    return network, options, chosen_names(network, parameters), recorded

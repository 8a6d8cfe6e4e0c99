"""A job of any estimator: checks, device, progress, result."""

from __future__ import annotations

import numpy as np

from tauslab.analysis.counts_alone import require_counts_only
from tauslab.analysis.sensitivity.certainty import warn_of_few, warn_of_jumps
from tauslab.analysis.sensitivity.estimators import differences, likelihood_ratios
from tauslab.analysis.sensitivity.keywords import DerivativeKeywords, SensitivityKeywords
from tauslab.analysis.sensitivity.result import LIKELIHOOD_RATIO, METHODS, SensitivityResult
from tauslab.analysis.sensitivity.steps import (
    DEFAULT_STEP,
    Step,
    chosen_names,
    chosen_outputs,
    steps_of,
    with_outputs,
)
from tauslab.base.errors import ConfigError, ModelError, one_of
from tauslab.base.option_names import opt, said
from tauslab.decomposition.ranks.job import agreed_seed, devices, failing_together
from tauslab.decomposition.ranks.mpi import Communicator
from tauslab.decomposition.ranks.progress import Progress
from tauslab.decomposition.ranks.together import agree
from tauslab.model.network.network import Network
from tauslab.options.ensemble import Options
from tauslab.options.places import device_settings
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
    one_of("method", given.method, METHODS)
    network, options, names, recorded = checked_options(network, given, "a sensitivity", comm)
    unit, steps = "pairs", tuple[Step, ...]()
    if given.method == LIKELIHOOD_RATIO:
        if given.step != DEFAULT_STEP or given.difference != "centred":
            raise ConfigError(
                f"{opt('step')} and {opt('difference')} need {opt('method', 'coupled')}"
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
            collected = likelihood_ratios(network, names, recorded, options, backend, comm, report)
        else:
            collected = differences(
                network, steps, recorded, options, backend, comm, report=report
            ).under(0)
        bar.update(total, 0)
    parameters = network.parameter_values()
    sides = steps or tuple(Step(n, *[parameters[n]] * 3) for n in names)
    assert options.seed is not None
    result = SensitivityResult(
        model=network.name, method=given.method, seed=options.seed, n=options.n,
        time=options.times, parameters=names, outputs=recorded,
        values=np.array([side.value for side in sides]),
        low=np.array([side.low for side in sides]), high=np.array([side.high for side in sides]),
        **vars(collected),
    )  # fmt: skip
    if comm.rank == 0:
        warn_of_few(result, unit)
    return result


def checked_options(
    network: Network, given: DerivativeKeywords, what: str, comm: Communicator
) -> tuple[Network, Options, tuple[str, ...], tuple[str, ...]]:
    """The network with its settings, options, parameters and outputs.

    Raises
    ------
    ModelError, ConfigError
        As of `tauslab.sensitivity`.
    """
    check_values(given)
    instead = f"run it with two values of a parameter ({opt('sweep')}) and compare the means"
    require_counts_only(network, what, instead)
    values = one_number_each("set", given.set, "all pairs begin alike")
    network = with_settings(network, values)
    network.validate()
    if not network.reactions:
        raise ModelError(f"{network.name} has no reactions: nothing changes")
    when = network.t_end if given.times is None else given.times
    if when is None:
        missing = said(opt("t"), "times=")
        raise ConfigError(f"{missing} is missing: the times of derivatives")
    options = Options(
        times=sample_times(when), n=given.n, max_steps=given.max_steps,
        seed=agreed_seed(given.seed, lambda: None, comm), **device_settings(given.device),
    )  # fmt: skip
    outputs = [given.outputs] if isinstance(given.outputs, str) else given.outputs
    recorded = chosen_outputs(network, outputs)
    with_outputs(network, recorded)  # refuses names, on all ranks alike
    names = chosen_names(network, names_of("parameters", given.parameters))
    warn_of_jumps(network, names)
    return network, options, names, recorded

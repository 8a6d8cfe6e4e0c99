"""``--executor dask``: an ensemble on Dask workers, with the numbers that ranks would give.

The client makes the task, cuts it and writes; workers only run launches. So files, digests,
statistics and resume are those of any other run. The client needs neither a GPU nor a compiler.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable
from dataclasses import replace

from tauslab._version import __version__
from tauslab.base.errors import ConfigError
from tauslab.base.option_names import opt
from tauslab.decomposition.ranks.mpi import Communicator
from tauslab.model.network.network import Network
from tauslab.options.ensemble import Options
from tauslab.runner.dask import worker as dask_worker
from tauslab.runner.dask.cluster import Workers, open_workers
from tauslab.runner.dask.lanes import DaskLanes, call
from tauslab.runner.dask.worker import Job, PilotPlan
from tauslab.runner.ensemble.choices.method_choice import with_choice
from tauslab.runner.ensemble.choices.pilots import with_pilot
from tauslab.runner.ensemble.choices.solver_choice import with_chosen_solver
from tauslab.runner.ensemble.from_file import require_output, with_stored_choices
from tauslab.runner.ensemble.ode_task import OdeTask
from tauslab.runner.ensemble.run import prepare_task, run_task
from tauslab.runner.ensemble.task import NetworkTask, Task, with_thinning
from tauslab.store.format.layout import Layout
from tauslab.store.locks import written_by_us
from tauslab.store.results.result import Result


def run_on_workers(
    network: Network, options: Options, comm: Communicator, stop: Callable[[], bool] = lambda: False
) -> Result:
    """Run an ensemble on Dask workers; arguments and errors as for `run_network`."""
    if options.append is not None or options.until is not None:
        raise ConfigError(
            f"{opt('executor', 'dask')} excludes {opt('append')} and {opt('until')}: leave it out"
        )
    if comm.size > 1:
        raise ConfigError(
            f"{opt('executor', 'dask')} has its own workers, but mpirun or srun started "
            f"{comm.size} ranks: start one process"
        )
    with written_by_us(options.output, comm):
        return _run_on_workers(network, options, stop)


def _run_on_workers(network: Network, options: Options, stop: Callable[[], bool]) -> Result:
    comm = Communicator()
    require_output(options, comm)
    options = with_stored_choices(options, comm)
    task = prepare_task(network, options)
    with open_workers(options, stop) as workers:
        task, plan = _planned(task, workers)
        name = secrets.token_hex(8)
        job = Job(name, __version__, _for_workers(task), plan)
        # A task, unlike data that are scattered, is done again if the only worker with it dies.
        future = workers.client.submit(dask_worker.keep, job, key=f"tauslab-job-{name}")

        def open_lanes(layout: Layout, blocks: int) -> DaskLanes:
            return DaskLanes(workers, future, name, layout, blocks)

        try:
            return run_task(task, comm, open_lanes, stop)
        finally:
            with contextlib.suppress(Exception):  # the result is there; workers may be gone
                workers.client.run(dask_worker.close_station, name)


def _planned(task: Task, workers: Workers) -> tuple[Task, PilotPlan]:
    """The task with method and selector, and what else pilots on one worker decided for all."""
    plan = call(workers, dask_worker.plan, _for_workers(task), __version__)
    if isinstance(task, NetworkTask):
        if plan.choice is not None:
            task = with_choice(task, plan.choice, announce=True)
        return with_pilot(with_thinning(task), plan.pilot, announce=True), plan
    if isinstance(task, OdeTask) and plan.choice is not None:
        task = with_chosen_solver(task, plan.choice, announce=True)
    return task, plan


def _for_workers(task: Task) -> Task:
    """The task without what only the client can use."""
    options = replace(task.options, dask=None, given=None, output=None, resume=False)
    return replace(task, options=options)

"""A run of an ensemble by the MPI ranks, or by the workers of ``--executor dask``."""

from __future__ import annotations

from collections.abc import Callable

from tauslab.decomposition.ranks.mpi import Communicator
from tauslab.model.network.network import Network
from tauslab.options.ensemble import Options
from tauslab.runner.ensemble.entry import run_network
from tauslab.store.results.result import Result


def run_job(
    network: Network, options: Options, comm: Communicator, stop: Callable[[], bool] = lambda: False
) -> Result:
    """Run an ensemble as its executor says; arguments and errors as for `run_network`."""
    if options.dask is None:
        return run_network(network, options, comm, stop)
    from tauslab.runner.dask.executor import run_on_workers

    return run_on_workers(network, options, comm, stop)

"""Entry of an ensemble on MPI ranks: all trajectories at once, or in portions."""

from __future__ import annotations

from collections.abc import Callable

from tauslab.decomposition.ranks.mpi import Communicator
from tauslab.model.network.network import Network
from tauslab.options.ensemble import Options
from tauslab.runner.ensemble.from_file import require_output
from tauslab.runner.ensemble.run import opened, run_portion
from tauslab.store.locks import written_by_us
from tauslab.store.results.result import Result


def run_network(
    network: Network, options: Options, comm: Communicator, stop: Callable[[], bool] = lambda: False
) -> Result:
    """Run an ensemble on all ranks of `comm`; every rank gets the result. Collective.

    Parameters
    ----------
    stop
        Asked between launches; True ends the run early with its blocks on disk.

    Raises
    ------
    TauslabError
        Bad input (on every rank alike), a device that is missing, a file that cannot be written.
    StoppedEarly
        The run was stopped on request; ``--resume`` completes it.
    """
    with written_by_us(options.output, comm):
        if options.grows or options.until is not None:
            from tauslab.runner.ensemble.growth import grow

            return grow(network, options, comm, stop)
        require_output(options, comm)
        if options.extend is not None:
            from tauslab.runner.ensemble.extending import extended

            return extended(network, options, comm, stop)
        with opened(network, options, comm) as setup:
            return run_portion(setup, setup.task, comm, stop)

"""Workers of Dask: started by the run, started through SLURM, or reached at an address."""

from __future__ import annotations

import contextlib
import logging
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tauslab.base.errors import ConfigError, ExecutorError, StoppedEarly, first_line_of
from tauslab.base.host import allowed_cores
from tauslab.base.option_names import opt
from tauslab.kernels.backends import choose_backend, device_count
from tauslab.kernels.ensemble.launch import LAUNCHES_IN_FLIGHT
from tauslab.options.dask import DaskOptions, sbatch_lines, tls_options
from tauslab.options.ensemble import Options

PATIENCE = 60.0  # seconds without any worker after which a run gives up, but not in a queue
_LOOK_SECONDS = 1.0
# With ":0" Dask would print 127.0.0.1 and listen on every interface of the machine.
_DASHBOARD = "127.0.0.1:0"
_CONNECT_SECONDS = 10.0
_STOP_SECONDS = 20.0  # in which workers may end what they have in hand when a run is stopped


class Workers:
    """The workers that a client reaches; their number may change at any time.

    Parameters
    ----------
    client
        Of the scheduler.
    most
        Of workers that are scaled by the work there is: as many as there may be; else 0.
    queued
        Whether workers wait in a queue for as long as that takes.
    """

    def __init__(
        self, client: Any, stop: Callable[[], bool], *, most: int = 0, queued: bool = False
    ) -> None:
        self.client, self._stop, self._most, self._queued = client, stop, most, queued
        self.where = str(client.scheduler.address)
        self._workers: dict[str, int] = {}
        self._looked = self._seen = time.monotonic()
        self._stopping: float | None = None
        self.bad: set[str] = set()
        self._poll()

    @property
    def threads(self) -> dict[str, int]:
        """Threads of each worker that may be asked, by its address."""
        return {k: v for k, v in self._workers.items() if k not in self.bad}

    @property
    def wanted(self) -> int:
        """Number of workers to keep busy: those there are, or as many as work would bring."""
        return max(1, len(self.threads), self._most)

    def check(self) -> None:
        """Look at the workers, once a second at most.

        Raises
        ------
        ExecutorError
            There has been none for a while, or the scheduler is gone.
        StoppedEarly
            The run is to stop, and the workers did not end what they had in hand.
        """
        now = time.monotonic()
        if now - self._looked < _LOOK_SECONDS:
            return
        self._poll()
        if self.threads:
            self._seen = now
        elif not self._queued and now - self._seen > PATIENCE:
            raise ExecutorError(f"no Dask worker at {self.where} for {PATIENCE:g} s: start some")
        if self._stop():
            self._stopping = self._stopping or now
            if now - self._stopping > _STOP_SECONDS:
                raise StoppedEarly(
                    "stopped on request; Dask workers did not end what they had in hand: "
                    f"{opt('resume')} completes the file"
                )

    def wait_for_first(self) -> None:
        """Wait for the first worker; raises as `check` does, and at once on a request to stop."""
        reported = False
        while not self.threads:
            if self._stop():
                raise StoppedEarly("stopped on request before there was a Dask worker")
            if self._queued and not reported:
                print(f"waiting for Dask workers at {self.where}", file=sys.stderr, flush=True)
                reported = True
            time.sleep(_LOOK_SECONDS / 4)
            self.check()

    def _poll(self) -> None:
        try:
            result = self.client.scheduler_info(n_workers=-1).get("workers")
        except (OSError, TimeoutError):
            result = None
        if result is None:  # Dask has tried for a while to reach it again
            raise ExecutorError(
                f"the Dask scheduler at {self.where} has failed; an output file can be resumed"
            )
        self._workers = {address: int(facts["nthreads"]) for address, facts in result.items()}
        self._looked = time.monotonic()


@contextlib.contextmanager
def open_workers(options: Options, stop: Callable[[], bool]) -> Iterator[Workers]:
    """Reach or start the workers that the options ask for, with at least one there.

    Raises
    ------
    ConfigError
        There is no scheduler at the address, or workers cannot be started.
    ExecutorError
        There is no worker.
    """
    chosen = options.dask
    assert chosen is not None
    with contextlib.ExitStack() as stack:
        cluster: Any = None
        if chosen.starts_workers:
            start = _local if chosen.scheduler == "local" else _slurm
            cluster = stack.enter_context(start(chosen, options))
        client = _client(stack, chosen, cluster)
        fewest, most = chosen.workers or (0, 0)
        scaled = cluster is not None and most > fewest
        if scaled or chosen.scheduler == "slurm":
            # Also for a fixed number of jobs: one that ends too early is started again.
            cluster.adapt(minimum=fewest, maximum=most)
        queued = chosen.scheduler == "slurm"
        workers = Workers(client, stop, most=most if scaled else 0, queued=queued)
        if options.quiet is False and client.dashboard_link:
            print(f"dashboard: {client.dashboard_link}", file=sys.stderr, flush=True)
        workers.wait_for_first()
        yield workers


def _client(stack: contextlib.ExitStack, chosen: DaskOptions, cluster: Any) -> Any:
    """A client of a cluster, of an address or of a scheduler file; one that is given stays open."""
    from distributed import Client

    where = chosen.scheduler if cluster is None else cluster
    if isinstance(where, Client):
        return where
    by_file = isinstance(where, str) and where.endswith(".json")
    if by_file and not Path(where).is_file():
        raise ConfigError(f"{opt('scheduler', where)}: there is no such scheduler file")
    options = {"scheduler_file": where} if by_file else {"address": where}
    if chosen.tls is not None:
        options["security"] = _security(chosen)
    try:
        return stack.enter_context(
            Client(**options, timeout=_CONNECT_SECONDS, set_as_default=False)
        )
    # A TypeError is what Dask raises for an address in TLS without certificates.
    except (OSError, ValueError, TypeError, TimeoutError) as error:
        raise ConfigError(
            f"{opt('scheduler', where)}: no Dask scheduler answers there ({type(error).__name__}); "
            "give local, slurm, an address such as tcp://node1:8786, or a scheduler file; one "
            f"with tls:// needs the scheduler's certificates: {tls_options()}"
        ) from None


def _local(chosen: DaskOptions, options: Options) -> Any:
    """Workers on this machine: one per GPU, or one that has all cores."""
    from distributed import LocalCluster

    device = choose_backend(options.device)
    fewest, most = chosen.workers or (device_count(device),) * 2
    share = max(1, allowed_cores() // most)
    threads = options.threads or (share if most > 1 or device_count(device) == 1 else 0)
    try:
        return LocalCluster(
            n_workers=fewest,
            # Launches that overlap come from as many threads.
            threads_per_worker=threads or LAUNCHES_IN_FLIGHT,
            processes=True,
            dashboard_address=_DASHBOARD,
            **_encrypted(chosen),
            preload=["tauslab.runner.dask.worker"],
            silence_logs=logging.CRITICAL,
        )
    except RuntimeError as error:
        raise ConfigError(
            "Dask could not start its workers: a Python script that starts some must do so under "
            f"`if __name__ == '__main__':` ({first_line_of(error)})"
        ) from None


def _slurm(chosen: DaskOptions, options: Options) -> Any:
    """Workers that are jobs of SLURM; what a site needs comes from Dask's own settings too."""
    import dask
    from dask_jobqueue import SLURMCluster

    given = {
        "cores": options.threads or dask.config.get("jobqueue.slurm.cores") or LAUNCHES_IN_FLIGHT,
        "processes": dask.config.get("jobqueue.slurm.processes") or 1,
        "memory": dask.config.get("jobqueue.slurm.memory") or "8GB",
        "job_extra_directives": [
            *(dask.config.get("jobqueue.slurm.job-extra-directives") or []),
            *sbatch_lines(chosen.directives),
        ],
        "scheduler_options": {"dashboard_address": _DASHBOARD},
        **_encrypted(chosen),
    }
    return SLURMCluster(**given)


def _encrypted(chosen: DaskOptions) -> dict[str, Any]:
    """Arguments that let a new cluster use TLS, where there are certificates."""
    return {} if chosen.tls is None else {"security": _security(chosen), "protocol": "tls://"}


def _security(chosen: DaskOptions) -> Any:
    """Certificates of the scheduler, the workers and the client: the same three files.

    Raises
    ------
    ConfigError
        A file is not what it should be.
    """
    from distributed.security import Security

    assert chosen.tls is not None
    authority, certificate, key = map(str, chosen.tls)
    files = {
        f"tls_{role}_{kind}": file
        for role in ("scheduler", "worker", "client")
        for kind, file in (("cert", certificate), ("key", key))
    }
    security = Security(tls_ca_file=authority, require_encryption=True, **files)
    try:
        security.get_connection_args("client")
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise ConfigError(
            f"{tls_options()}: {authority}, {certificate} and {key} are no certificates and key in "
            f"PEM that fit each other ({first_line_of(error)})"
        ) from None
    return security

"""The Python interface: read a model, run it, open a result."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from tauslab.kernels.ensemble.launch import MAX_STEPS
from tauslab.model.errors import ConfigError, NoValidTrajectory
from tauslab.model.lattice.lattice import Lattice
from tauslab.model.network.network import Network
from tauslab.model.readers import read as readers
from tauslab.runner.api.executor import run_job
from tauslab.runner.api.lattice import run_on_lattice
from tauslab.runner.api.model_reading import read_together
from tauslab.runner.ensemble.from_file import times_to_append
from tauslab.runner.ensemble.ode_task import integration
from tauslab.runner.options.dask import dask_options
from tauslab.runner.options.ensemble import (
    DEFAULT_EPSILON,
    DEFAULT_METHOD,
    NO_LEAPS,
    PYTHON_COMMAND,
    Options,
    Record,
    sample_times,
)
from tauslab.runner.options.python_values import known, names_of, numbers, points_of, whole
from tauslab.runner.options.sampling import Sampling
from tauslab.runner.output.targets import require_no_input
from tauslab.runner.ranks.all_ranks import ranks, ranks_for
from tauslab.runner.results.lattice.result import LatticeResult
from tauslab.runner.results.result import Result
from tauslab.runner.results.validity import warning_of

__all__ = ["open", "ranks", "ranks_for", "read", "run", "run_ensemble", "run_on_lattice"]

FloatArray = npt.NDArray[np.float64]
Values = float | Sequence[float] | FloatArray


def read(path: str | os.PathLike[str]) -> Any:
    """Read a `Network` or `Lattice`: SBML, BioNetGen ``.net``, ``.bngl``, TOML, ``.lm``, our files.

    Returns
    -------
    A `Network`; a `Lattice` where the file holds one: TOML with a table ``[lattice]``, ``.lm``, a
    model that `Lattice.write` wrote, the result of ``tauslab rdme``.

    Raises
    ------
    ModelError
        The file cannot be read or is malformed; file and element are named.
    """
    return readers.read(Path(path))


def open(  # noqa: A001 - tauslab.open, as h5py and gzip do
    path: str | os.PathLike[str],
) -> Any:
    """Open a result file; nothing is read before it is asked for.

    Returns
    -------
    A `Result`; a `LatticeResult` where the file is that of a lattice run, a `DynamicNetwork` where
    it is one that ``tauslab dbn`` made.

    Raises
    ------
    InputFileError
        The file is missing, not ours, or a part of it is gone.
    """
    from tauslab.runner.api.kinds import kind_at  # which knows how to draw each kind

    return kind_at(path).open(path)


@overload
def run(model: Lattice, **options: Any) -> LatticeResult: ...


@overload
def run(model: Network, **options: Any) -> Result: ...


@overload
def run(model: str | os.PathLike[str], **options: Any) -> Any: ...


def run(
    model: Network | Lattice | str | os.PathLike[str], **options: Any
) -> Result | LatticeResult:
    """Run a model, or a model file: as `run_ensemble` a network, as `run_on_lattice` a lattice.

    Both have their own options, told by ``help(tauslab.runner.api.api.run_ensemble)`` and
    ``help(tauslab.runner.api.api.run_on_lattice)``, and in docs/reference/running.md.

    Parameters
    ----------
    model
        A `Network` or `Lattice`, or the path of a file that `tauslab.read` reads.
    options
        Of a network among others ``n``, ``t_end`` with ``points`` or ``times``, ``method``,
        ``seed``, ``set``, ``sweep``, ``record``, ``output``; of a lattice ``t_end``,
        ``count_every``, ``frame_every``, ``replicas``, ``seed``, ``output``.

    Returns
    -------
    A `Result`, or a `LatticeResult`.

    Raises
    ------
    ModelError, ConfigError
        The model or an option is not allowed; one sentence says what is.

    Examples
    --------
    >>> import tauslab as ts
    >>> net = ts.Network("decay")
    >>> net.add_species("X", 100)
    >>> net.add_reaction("X ->", rate=1.0)
    >>> result = ts.run(net, n=500, times=[0, 1, 2], seed=1, device="cpu")
    >>> result.counts("X").shape
    (500, 3)
    >>> float(result.mean("X")[0])
    100.0
    """
    if isinstance(model, str | os.PathLike):
        model = read_together(ranks_for(options.get("executor", "mpi")), Path(model))
    if isinstance(model, Lattice):
        return run_on_lattice(model, **known(options, run_on_lattice, "run for a lattice"))
    return run_ensemble(model, **known(options, run_ensemble, "run"))


def run_ensemble(  # noqa: PLR0913 - the options of the command line, by keyword
    model: Network | str | os.PathLike[str],
    *,
    n: int = 1000,
    times: Sequence[float] | FloatArray | None = None,
    t_end: float | None = None,
    points: int | None = None,
    method: str | None = None,
    epsilon: float = DEFAULT_EPSILON,
    post_leap_check: bool = False,
    seed: int | None = None,
    set: Mapping[str, Values] | None = None,  # noqa: A002 - the option is called --set
    sweep: Mapping[str, str | Sequence[float] | FloatArray] | None = None,
    table: Mapping[str, Sequence[float] | FloatArray] | str | os.PathLike[str] | None = None,
    design: tuple[str, int] | str | None = None,
    species: Sequence[str] | str | None = None,
    record: str | Sequence[str] | None = None,
    selector: str | None = None,
    team: int = 0,
    presimulation: int | None = None,
    max_steps: int = MAX_STEPS,
    ode_solver: str | None = None,
    ode_layout: str | None = None,
    ode_warps: int | None = None,
    ode_memory_warps: str | None = None,
    ode_balance: str | None = None,
    substeps: int | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    precision: str | None = None,
    sample: Sequence[str] | str = (),
    device: str = "auto",
    threads: int = 0,
    block: int | None = None,
    executor: str = "mpi",
    scheduler: Any = None,
    workers: int | str | None = None,
    sbatch: str = "",
    dask_tls: Sequence[str | os.PathLike[str]] | None = None,
    output: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    resume: bool = False,
    append: int | None = None,
    until: str | None = None,
    writer: str = "auto",
    mpi_hints: Mapping[str, str] | None = None,
    compress: int = 0,
    quiet: bool = True,
) -> Result:
    """Simulate an ensemble of trajectories; under ``mpirun`` on all ranks together.

    Parameters
    ----------
    model
        A network, or a model file.
    n
        Number of trajectories; with a sweep, at each of its points.
    times
        Sample times ``[time]`` in the model's unit; or `t_end` and `points` (101 by default) from
        0 to `t_end`.
    method
        ``ssa``, exact, is the default; ``tau``, tau-leaping with step control: approximate, and
        faster where many molecules react often; ``auto`` leaps only where that clearly pays and
        where a pilot finds its error small: `Result.method` is what it chose, and
        `Result.approximate` says what is approximate; ``ode``, ordinary differential equations,
        whose amounts are real numbers.
    epsilon
        Of ``tau``: bound on the expected relative change of every propensity in a leap.
    post_leap_check
        Of ``tau``: check every leap after it was made, and shorten those in which a species
        changed by more than `epsilon` allows. More accurate, and slower.
    seed
        64 bits: the same seed gives the same bits on any device and any number of ranks. Drawn
        and stored in the result by default.
    set
        Values of parameters and initial amounts (molecules) of species by name: a number for all
        trajectories, or an array ``[n]`` with one for each.
    sweep
        Values of parameters and initial amounts by name; the points are all combinations, the
        first name the slowest. Also as text: ``lin:LO:HI:N``, ``log:LO:HI:N``, ``list:a,b,c``.
    table
        Points one by one: a column of values for each name, or a CSV or Parquet file of them.
    design
        ``("sobol", N)`` or ``("lhs", N)``: N points in the ranges that `sweep` gives, each
        ``(LO, HI)``, ``"lin:LO:HI"`` or ``"log:LO:HI"``; which points, the seed decides.
    species
        Names to record; all by default.
    record
        Any of ``trajectories``, ``statistics``, ``final``, ``histogram:SPECIES:LO:HI:BINS`` and
        ``summary:KIND:SPECIES[:...]`` (a number per trajectory, such as
        ``summary:first-passage:X:100``), of ``ode`` also ``sampled``, what `sample` drew; as a list
        or separated by commas. By default trajectories while they stay below 1 GiB, else statistics
        and final.
    selector
        Of ``ssa``: ``linear``, ``tree``, ``pdm``, ``cr`` or ``rssa``, how the next reaction is
        found; all draw from the same law. By default the network decides, or its pilot: see
        docs/large-networks.md.
    team
        Of large networks: threads that run one trajectory, 1, 8, 32 or 128; changes no result.
    presimulation
        Of large networks: events of the pilot that orders reactions and species by how often they
        fire and change, and may choose the selector; 0 for none. By default by network and number
        of trajectories.
    max_steps
        Steps (events, for ``tau`` also leaps) after which a trajectory is given up (status
        ``step_limit``).
    ode_solver, substeps, rtol, atol, precision
        Of ``ode``: ``rk4`` with `substeps` steps from sample to sample, ``dopri5`` or
        ``rosenbrock`` (for stiff equations), whose steps keep errors within `rtol` and `atol`, or
        ``auto`` (the default), which chooses one of these by a pilot that counts steps; ``double``
        or ``single`` precision. See docs/ode.md.
    ode_layout, ode_warps, ode_memory_warps, ode_balance
        How ``rk4`` uses a GPU, which changes no result: see docs/ode.md.
    sample
        Of ``ode``: what is drawn for every trajectory, such as ``"k1=uniform(0.1,2)"``.
    device
        ``auto``, ``cpu`` or ``cuda``.
    threads
        CPU threads per rank; 0 for all that the rank may use.
    block
        Trajectories in a storage block, the unit of writing and resuming.
    executor
        ``mpi``: the ranks of this launch, or this process alone; ``dask``: workers of Dask.
    scheduler
        Of ``dask``: ``local`` (default) starts workers on this machine, ``slurm`` as SLURM jobs;
        or the address or file of a scheduler, or a `distributed.Client`.
    workers
        Of ``local`` and ``slurm``: how many, or fewest and most, ``"1:16"``.
    sbatch
        Of ``slurm``: options for the workers' jobs, such as ``"--partition=gpu --gpus=1"``.
    dask_tls
        Of ``dask``: files of the certificate authority, of a certificate and of its key, for
        messages in TLS.
    output
        Result file (HDF5); without one the result stays in memory, on every rank.
    overwrite, resume
        Replace a file that is there; complete one that a run left unfinished.
    append
        Add so many trajectories, at each point, to the finished result in `output`, as one run with
        all of them would have given it. `n` is not used; times, species, points of a sweep and
        options of the method that are not given are those of the file.
    until
        Add trajectories until a 95 % confidence interval is narrow enough, `n` at most:
        ``"mean(X) rel 0.01"``, ``"P(X>300 at 10) ci 0.001"``, see docs/convergence.md.
    writer, mpi_hints
        How several ranks write a file: ``mpio`` (together, with these hints to MPI-IO), ``parts``,
        or ``auto``; see docs/clusters.md.
    compress
        Level of gzip for the samples in a file, 1 to 9; 0, the default, for none.
    quiet
        Show no progress.

    Returns
    -------
    The result; for a file, opened for reading. A warning tells where no trajectory, or none of a
    point, reached its last sample time; `Result.status` says how each ended.

    Raises
    ------
    ModelError, ConfigError
        The model or an option is not allowed; one sentence says what is.
    DeviceError, DeviceFailed, KernelCompileError, OutputError
        The machine lacks something, or failed.

    Examples
    --------
    >>> import tauslab as ts
    >>> net = ts.Network("decay")
    >>> net.add_species("X", 100)
    >>> net.add_parameter("k", 1.0)
    >>> net.add_reaction("X ->", rate="k")
    >>> swept = ts.run(net, n=200, times=[0, 1], sweep={"k": [0.5, 2.0]}, seed=1, device="cpu")
    >>> swept.mean("X").shape  # [point, time]
    (2, 2)
    """
    network = model if isinstance(model, Network) else readers.read_network(Path(model))
    if epsilon != DEFAULT_EPSILON and method in (None, "ssa", "ode") and not (resume or append):
        raise ConfigError(NO_LEAPS)
    if not resume and append is None:
        read = [model, table, network.source_path]
        require_no_input(
            None if output is None else Path(output),
            [path for path in read if isinstance(path, str | os.PathLike)],
        )
    equations = integration(
        method or DEFAULT_METHOD, solver=ode_solver, substeps=substeps, rtol=rtol, atol=atol,
        precision=precision, layout=ode_layout, warps=ode_warps, memory_warps=ode_memory_warps,
        balance=ode_balance,
    )  # fmt: skip
    stored = times_to_append(None if output is None else Path(output), append, times, t_end, points)
    options = Options(
        times=sample_times(
            times if stored is None else stored, t_end, whole(points), model_t_end=network.t_end
        ),
        n=whole(n),
        seed=seed,
        method=method or DEFAULT_METHOD,
        method_left_open=method is None,
        set={name: numbers(name, values) for name, values in dict(set or {}).items()},
        sweep=points_of(sweep, table, design),
        species=names_of(species),
        record=None if record is None else Record.parse(names_of(record) or ()),
        epsilon=epsilon,
        post_leap_check=post_leap_check,
        selector=selector,
        team=team,
        presimulation=presimulation,
        max_steps=whole(max_steps),
        integration=equations,
        sample=Sampling.parse([sample] if isinstance(sample, str) else sample),
        device=device,
        threads=threads,
        block=whole(block),
        dask=dask_options(executor, scheduler, workers, sbatch, dask_tls),
        output=None if output is None else Path(output),
        overwrite=overwrite,
        resume=resume,
        append=whole(append),
        until=until,
        writer=writer,
        hints=dict(mpi_hints or {}),
        compress=compress,
        quiet=quiet,
        command=PYTHON_COMMAND,
    )
    comm = ranks_for(executor)
    result = run_job(network, options, comm)
    try:
        found = warning_of(result)
    except NoValidTrajectory as error:
        found = str(error)
    if found and comm.rank == 0:
        warnings.warn(found, stacklevel=3)
    return result

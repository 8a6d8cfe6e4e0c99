"""The Python interface: read a model, run it, open a result."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tauslab.kernels.ssa import MAX_STEPS
from tauslab.model import readers
from tauslab.model.network import Network
from tauslab.runner.job import DEFAULT_EPSILON, Options, Record, sample_times
from tauslab.runner.mpi import Communicator, world
from tauslab.runner.output.reader import open_result
from tauslab.runner.result import Result
from tauslab.runner.run import run_network
from tauslab.runner.sweep import Design, Sweep, choose_points, parse_design

FloatArray = npt.NDArray[np.float64]
Values = float | Sequence[float] | FloatArray


def read(path: str | os.PathLike[str]) -> Network:
    """Read a model: SBML, BioNetGen ``.net``, native TOML, or a result file of ours.

    Raises
    ------
    ModelError
        The file cannot be read or is malformed; file and element are named.
    """
    return readers.read(Path(path))


def open(path: str | os.PathLike[str]) -> Result:  # noqa: A001 - tauslab.open, as h5py and gzip do
    """Open a result file; nothing is read before it is asked for.

    Raises
    ------
    InputFileError
        The file is missing, not ours, or a part of it is gone.
    """
    return open_result(path)


@cache
def ranks() -> Communicator:
    """All ranks of this launch; MPI starts at the first call, if a launcher started us."""
    return world()


def run(  # noqa: PLR0913 - the options of the command line, by keyword
    model: Network | str | os.PathLike[str],
    *,
    n: int = 1000,
    times: Sequence[float] | FloatArray | None = None,
    t_end: float | None = None,
    points: int | None = None,
    method: str = "auto",
    epsilon: float = DEFAULT_EPSILON,
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
    device: str = "auto",
    threads: int = 0,
    block: int | None = None,
    output: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    resume: bool = False,
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
        ``ssa``, exact; ``tau``, tau-leaping with step control: approximate, and faster where many
        molecules react often; ``auto`` leaps only where that clearly pays, judged by a pilot that
        counts events and leaps: `Result.method` is what it chose.
    epsilon
        Of ``tau``: bound on the expected relative change of every propensity in a leap.
    seed
        64 bits: the same seed gives the same bits on any device and any number of ranks. Drawn
        and stored in the result by default.
    set
        Values of parameters and initial amounts (molecules) of species: a number for all
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
        ``summary:first-passage:X:100``), as a list or separated by commas. By default
        trajectories while they stay below 1 GiB, else statistics and final.
    selector
        Of ``ssa``: ``linear``, ``tree`` or ``pdm``, how the next reaction is found; all draw from
        the same law. By default the network decides, see docs/large-networks.md.
    team
        Of large networks: threads that run one trajectory, 1, 32 or 128; changes no result.
    presimulation
        Of large networks: events of the pilot that orders species by how often they change; 0 for
        none. By default by network and number of trajectories.
    max_steps
        Steps (events, for ``tau`` also leaps) after which a trajectory is given up (status
        ``step_limit``).
    device
        ``auto``, ``cpu`` or ``cuda``.
    threads
        CPU threads per rank; 0 for all that the rank may use.
    block
        Trajectories in a storage block, the unit of writing and resuming.
    output
        Result file (HDF5); without one the result stays in memory, on every rank.
    overwrite, resume
        Replace a file that is there; complete one that a run left unfinished.
    quiet
        Show no progress.

    Returns
    -------
    The result; for a file, opened for reading.

    Raises
    ------
    ModelError, ConfigError
        The model or an option is not allowed; one sentence says what is.
    DeviceError, KernelCompileError, OutputError
        The machine lacks something.

    Examples
    --------
    >>> net = Network("decay")
    >>> net.add_species("X", 100)
    >>> net.add_reaction("X ->", rate=1.0)
    >>> result = run(net, n=500, times=[0, 1, 2], seed=1, device="cpu")
    >>> result.counts("X").shape
    (500, 3)
    """
    network = model if isinstance(model, Network) else read(model)
    options = Options(
        times=sample_times(times, t_end, points, model_t_end=network.t_end),
        n=n,
        seed=seed,
        method=method,
        set={k: v if isinstance(v, float | int) else np.asarray(v) for k, v in (set or {}).items()},
        sweep=_points(sweep, table, design),
        species=_names(species),
        record=None if record is None else Record.parse(record),
        epsilon=epsilon,
        selector=selector,
        team=team,
        presimulation=presimulation,
        max_steps=max_steps,
        device=device,
        threads=threads,
        block=block,
        output=None if output is None else Path(output),
        overwrite=overwrite,
        resume=resume,
        quiet=quiet,
        command="tauslab.run",
    )
    return run_network(network, options, ranks())


def _points(
    sweep: Mapping[str, str | Sequence[float] | FloatArray] | None,
    table: Mapping[str, Sequence[float] | FloatArray] | str | os.PathLike[str] | None,
    design: tuple[str, int] | str | None,
) -> Sweep | Design | None:
    columns = Path(table) if isinstance(table, str | os.PathLike) else table
    return choose_points(
        sweep, columns, parse_design(design) if isinstance(design, str) else design
    )


def _names(species: Sequence[str] | str | None) -> tuple[str, ...] | None:
    if species is None:
        return None
    return tuple(species.split(",")) if isinstance(species, str) else tuple(species)

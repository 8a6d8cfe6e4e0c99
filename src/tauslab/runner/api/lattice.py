"""The Python interface to lattices: what `tauslab.run` does with one."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tauslab.model.lattice.diagnosis.time_step import MAX_HOP
from tauslab.model.lattice.lattice import Lattice
from tauslab.runner.lattice.run import run_lattice
from tauslab.runner.options.lattice import Hook, LatticeOptions
from tauslab.runner.ranks.all_ranks import ranks
from tauslab.runner.results.lattice.result import LatticeResult


def run_on_lattice(  # noqa: PLR0913 - the options of the command line, by keyword
    model: Lattice,
    *,
    t_end: float | None = None,
    count_every: int | None = None,
    frame_every: int = 0,
    replicas: int = 1,
    max_hop: float = MAX_HOP,
    seed: int | None = None,
    set: Mapping[str, float] | None = None,  # noqa: A002 - the option is called --set
    hooks: Sequence[tuple[int, Hook]] = (),
    slabs: int | None = None,
    halo: str = "auto",
    halo_depth: int = 0,
    rebalance_every: float | None = None,
    checkpoint_every: float = 10.0,
    checkpoint_steps: int = 0,
    share_gpu: bool = False,
    device: str = "auto",
    threads: int = 0,
    output: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    resume: bool = False,
    quiet: bool = True,
    stop: Callable[[], bool] | None = None,
) -> LatticeResult:
    """Simulate particles that hop and react on a lattice; under ``mpirun`` on all ranks together.

    Parameters
    ----------
    model
        A lattice; `tauslab.run` also takes its file.
    t_end
        Seconds of model time; by default the model's own.
    count_every, frame_every
        Steps between counts (about a thousand counts by default) and between frames, which hold
        every particle (none by default).
    replicas
        Independent runs: one after another, or side by side on several ranks.
    max_hop
        Largest hop probability to one side (1/6), below 1/2: a longer step is divided into passes.
    seed
        64 bits: the same seed gives the same bits on any device. Drawn and stored in the result by
        default.
    set
        Values of parameters by name.
    hooks
        Pairs ``(steps, function)``: the function is called with a `LatticeView` every so many
        steps, between two of them; on every rank.
    slabs
        Ranks that share each lattice, a slab of planes each; by default as the sizes suggest.
    halo, halo_depth
        How edge planes travel between ranks: ``auto``, ``self`` (one rank), ``peer``, ``shared``,
        ``host``, ``mpi``; and how many at a time (0: by size and transport). Changes no result.
    rebalance_every
        Seconds between new cuts into slabs, made where their times differ; 0: never. By default
        with checkpoints.
    checkpoint_every, checkpoint_steps
        Minutes, and steps (0: none), between checkpoints; frames are checkpoints too.
    share_gpu
        Allow ranks to share a GPU.
    device, threads, output, overwrite, resume, quiet
        As in `run_ensemble`. Without `output` the result lies in a temporary file.
    stop
        Asked twice a second; True, on any rank, ends the run with a checkpoint and `StoppedEarly`,
        and ``resume=True`` goes on; without `output` nothing is left.

    Returns
    -------
    The result, opened for reading.

    Raises
    ------
    ModelError, ConfigError
        The model or an option is not allowed; one sentence says what is.
    DecompositionError
        The lattice cannot be cut over the ranks as asked.
    DeviceError, DeviceFailed, KernelCompileError, OutputError
        The machine lacks something, or failed.

    Examples
    --------
    >>> import tauslab as ts
    >>> cube = ts.Lattice("cube", shape=(8, 8, 8), spacing=32e-9, boundary="periodic", t_end=0.001)
    >>> cube.add_species("A")
    >>> cube.add_diffusion("A", 1e-12)
    >>> cube.place("A", count=100)
    >>> int(ts.run(cube, seed=1, device="cpu").counts("A")[-1])
    100
    """
    options = LatticeOptions(
        t_end=t_end,
        count_every=count_every,
        frame_every=frame_every,
        replicas=replicas,
        max_hop=max_hop,
        seed=seed,
        set=dict(set or {}),
        hooks=tuple(hooks),
        slabs=slabs,
        halo=halo,
        halo_depth=halo_depth,
        rebalance_every=rebalance_every,
        checkpoint_every=checkpoint_every,
        checkpoint_steps=checkpoint_steps,
        share_gpu=share_gpu,
        device=device,
        threads=threads,
        output=None if output is None else Path(output),
        overwrite=overwrite,
        resume=resume,
        quiet=quiet,
        command="tauslab.run",
    )
    return run_lattice(model, options, ranks(), stop or (lambda: False))

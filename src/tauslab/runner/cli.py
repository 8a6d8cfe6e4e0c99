"""The command line: parses arguments and hands each sub-command to one function."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from tauslab.kernels.backends import backend_names
from tauslab.kernels.ode import LAYOUTS, MEMORY_WARPS, SOLVERS
from tauslab.kernels.ode_codegen import PRECISIONS
from tauslab.kernels.ode_counting import COUNTINGS
from tauslab.kernels.ode_placement import BALANCES
from tauslab.kernels.selectors import SELECTORS
from tauslab.model.errors import ConfigError, TauslabError
from tauslab.runner import commands
from tauslab.runner.api import ranks
from tauslab.runner.dask_options import EXECUTORS
from tauslab.runner.dbn_job import SPACINGS
from tauslab.runner.job import METHODS, WRITERS
from tauslab.runner.lattice_job import HALOS

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

    Commands = argparse._SubParsersAction[Any]  # noqa: SLF001 - its only name

_RECORD = "trajectories,statistics,final,histogram:SPECIES:LO:HI:BINS,summary:KIND:SPECIES[:...]"


def main(argv: list[str] | None = None) -> int:
    """Run a sub-command.

    Returns
    -------
    0 done, 1 failure, 2 bad input, 75 stopped early on request and resumable.
    """
    try:
        arguments = _parser().parse_args(argv)
        arguments.process(arguments)
    except TauslabError as error:
        if _speaks():
            print(f"tauslab: {error}", file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:  # the reader of our output, such as head, had enough
        sys.stderr.close()
        return 0
    return 0


def _speaks() -> bool:
    """Whether this rank tells the error: those that reach `main` are the same on all ranks."""
    try:
        return ranks().rank == 0
    except TauslabError:  # the ranks did not find each other: each is alone
        return True


class _Parser(argparse.ArgumentParser):
    """Tells help once, whatever the number of ranks, and what is wrong as all bad input is told."""

    def error(self, message: str) -> NoReturn:
        """Raise it: one sentence, on one rank."""
        raise ConfigError(f"{message}; {self.prog} --help tells what there is")

    def _print_message(self, message: str, file: SupportsWrite[str] | None = None) -> None:
        if _speaks():
            super()._print_message(message, file)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="tauslab",
        description="Stochastic chemistry on many GPUs: the same seed, the same bits, anywhere.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=commands.version_line())
    subparsers = parser.add_subparsers(required=True, metavar="COMMAND")
    for add in (
        _run, _rdme, _dbn, _info, _plot, _export, _digest, _merge, _check, _doctor, _bench, _slurm,
    ):  # fmt: skip
        add(subparsers)
    return parser


def _command(subparsers: Commands, name: str, text: str) -> argparse.ArgumentParser:
    added: argparse.ArgumentParser = subparsers.add_parser(
        name, help=text, description=text[0].upper() + text[1:] + ".", allow_abbrev=False
    )
    added.set_defaults(process=getattr(commands, f"process_{name}"))
    return added


def _run(subparsers: Commands) -> None:
    run = _command(subparsers, "run", "simulate an ensemble of trajectories")
    run.add_argument("model", type=Path, help=".xml, .sbml, .net, .toml, or a result file (.h5)")
    run.add_argument("-n", type=int, help="trajectories (1000), at each point")
    run.add_argument(
        "--method",
        choices=METHODS,
        help="ssa: exact; tau: leaping; auto (default): tau where it pays; ode: equations",
    )
    run.add_argument("--epsilon", type=float, metavar="E", help="error of a leap (0.03)")
    run.add_argument(
        "--post-leap-check",
        action="store_true",
        default=None,
        help="shorten leaps that changed too much",
    )
    _integration(run)
    run.add_argument("--t-end", type=float, metavar="T", help="last sample time")
    run.add_argument("--points", type=int, metavar="K", help="sample times from 0 to T (101)")
    run.add_argument("--times", type=Path, metavar="FILE", help="sample times, one a line")
    run.add_argument("--seed", type=int, metavar="S", help="64 bits; drawn and stored by default")
    run.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="value of a parameter, or initial amount of a species",
    )
    run.add_argument(
        "--sweep",
        action="append",
        default=[],
        metavar="NAME=FORM",
        help="values to combine: lin:LO:HI:N, log:LO:HI:N, list:a,b,c; a range with --design",
    )
    run.add_argument("--design", metavar="KIND:N", help="N points in the ranges: sobol:N, lhs:N")
    run.add_argument("--table", type=Path, metavar="FILE", help="a point per row, CSV or Parquet")
    run.add_argument("--species", metavar="A,B", help="record these only")
    run.add_argument("--record", metavar="WHAT", help=f"any of {_RECORD}")
    run.add_argument("--selector", choices=SELECTORS, help="how ssa finds the next reaction")
    run.add_argument("--team", type=int, metavar="N", help="threads a trajectory: 1, 8, 32 or 128")
    run.add_argument("--presimulation", type=int, metavar="N", help="events that order species")
    run.add_argument("--max-steps", type=int, metavar="N", help="events at most")
    run.add_argument("--device", choices=("auto", *sorted(backend_names())), default="auto")
    run.add_argument("--threads", type=int, default=0, metavar="N", help="CPU threads per rank")
    run.add_argument("--block", type=int, metavar="N", help="trajectories in a storage block")
    _add_dask(run)
    run.add_argument("-o", "--output", type=Path, metavar="OUT.h5", help="the model's stem + .h5")
    run.add_argument("--overwrite", action="store_true", help="replace an existing file")
    run.add_argument("--resume", action="store_true", help="complete an unfinished file")
    run.add_argument(
        "--append", type=int, metavar="N", help="add N trajectories to a finished file"
    )
    run.add_argument(
        "--until", metavar="WHAT", help="'mean(X) rel 0.01', 'P(X>300 at 10) ci 0.001'; at most -n"
    )
    run.add_argument("--max-time", metavar="H:M:S", help="stop in order by then, for --resume")
    run.add_argument("--writer", choices=WRITERS, default="auto", help="of several ranks")
    run.add_argument(
        "--mpi-hint", action="append", default=[], metavar="NAME=VALUE", help="of mpio, to MPI-IO"
    )
    run.add_argument("--compress", type=int, default=0, metavar="1-9", help="gzip level (none)")
    run.add_argument("--quiet", action="store_true", help="no progress and no summary")


def _add_dask(run: argparse.ArgumentParser) -> None:
    run.add_argument(
        "--executor", choices=EXECUTORS, default="mpi", help="the ranks of this launch, or Dask"
    )
    run.add_argument(
        "--scheduler", metavar="WHERE", help="of dask: local, slurm, an address or a .json file"
    )
    run.add_argument(
        "--workers", metavar="N|A:B", help="of dask: how many to start, or fewest and most"
    )
    run.add_argument(
        "--sbatch", metavar="OPTIONS", default="", help="of slurm: for the jobs of Dask workers"
    )


def _integration(run: argparse.ArgumentParser) -> None:
    """Options of ``ode``."""
    run.add_argument("--ode-solver", choices=SOLVERS, help="dopri5, or rk4 with --substeps")
    run.add_argument("--substeps", type=int, metavar="R", help="rk4 steps between samples")
    run.add_argument("--rtol", type=float, metavar="E", help="relative error of a step (1e-6)")
    run.add_argument("--atol", type=float, metavar="E", help="absolute error of a step (1e-9)")
    run.add_argument("--ode-layout", choices=LAYOUTS, help="how rk4 uses a GPU (auto)")
    run.add_argument("--ode-warps", type=int, metavar="C", help="of layout warps (chosen)")
    run.add_argument(
        "--ode-memory-warps", choices=MEMORY_WARPS, help="warps that only write samples (auto)"
    )
    run.add_argument(
        "--ode-balance", choices=BALANCES, help="of layout warps: equations by cost, or as many"
    )
    run.add_argument("--precision", choices=sorted(PRECISIONS), help="of ode: double or single")
    run.add_argument(
        "--sample",
        action="append",
        default=[],
        metavar="NAME=FORM",
        help="drawn for each trajectory of ode: uniform(LO,HI), loguniform(LO,HI), "
        "normal(MEAN,SD), lognormal(MEDIAN,SIGMA), table(FILE)",
    )


def _rdme(subparsers: Commands) -> None:
    rdme = _command(subparsers, "rdme", "simulate particles on a lattice")
    rdme.add_argument("model", type=Path, help=".toml or .lm with a lattice, a model or result .h5")
    rdme.add_argument("--t-end", type=float, metavar="T", help="seconds of model time")
    rdme.add_argument("--count-every", type=int, metavar="N", help="steps between counts")
    rdme.add_argument("--frame-every", type=int, metavar="N", help="steps between frames (none)")
    rdme.add_argument("--replicas", type=int, metavar="R", help="independent runs (1)")
    rdme.add_argument("--slabs", type=int, metavar="N", help="ranks that share each lattice")
    rdme.add_argument("--halo", choices=HALOS, default="auto", help="how planes travel (auto)")
    rdme.add_argument("--halo-depth", type=int, default=0, metavar="K",
                      help="planes at a time (by size and transport)")  # fmt: skip
    rdme.add_argument(
        "--rebalance-every", type=float, metavar="S", help="seconds between new cuts; 0: never"
    )
    rdme.add_argument(
        "--checkpoint-every", type=float, default=10.0, metavar="M", help="minutes (10)"
    )
    rdme.add_argument("--checkpoint-steps", type=int, default=0, metavar="N", help="and steps")
    rdme.add_argument("--share-gpu", action="store_true", help="let ranks share a GPU")
    rdme.add_argument("--max-hop", type=float, metavar="Q", help="hop probability at most (1/6)")
    rdme.add_argument("--seed", type=int, metavar="S", help="64 bits; drawn and stored by default")
    rdme.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="value of a parameter"
    )
    rdme.add_argument("--device", choices=("auto", *sorted(backend_names())), default="auto")
    rdme.add_argument("--threads", type=int, default=0, metavar="N", help="CPU threads")
    rdme.add_argument("-o", "--output", type=Path, metavar="OUT.h5", help="the model's stem + .h5")
    rdme.add_argument("--overwrite", action="store_true", help="replace an existing file")
    rdme.add_argument("--resume", action="store_true", help="complete an unfinished file")
    rdme.add_argument("--max-time", metavar="H:M:S", help="stop in order by then, for --resume")
    rdme.add_argument("--quiet", action="store_true", help="no progress and no summary")


def _dbn(subparsers: Commands) -> None:
    dbn = _command(subparsers, "dbn", "make a dynamic Bayesian network from an ODE ensemble")
    dbn.add_argument("model", type=Path, help=".xml, .sbml, .net, .toml, or a result file (.h5)")
    dbn.add_argument("--unknown", metavar="A,B", help="parameters, or initial amounts of species")
    for option, form, text in (
        ("--range", "NAME=LO:HI", "where an unknown is drawn; what is cut into intervals"),
        ("--intervals", "[NAME=]K", "intervals of all nodes (5), or of one"),
        ("--edges", "NAME=a,b,c", "intervals of a node"),
        ("--set", "NAME=VALUE", "value of a parameter, or initial amount of a species"),
    ):
        dbn.add_argument(option, action="append", default=[], metavar=form, help=text)
    dbn.add_argument("--samples", metavar="N", help="trajectories (1e5)")
    dbn.add_argument("--t-end", type=float, metavar="T", help="last time point")
    dbn.add_argument("--points", type=int, metavar="K", help="time points from 0 to T (101)")
    dbn.add_argument("--times", type=Path, metavar="FILE", help="time points, one a line")
    _integration(dbn)
    dbn.add_argument("--spacing", choices=SPACINGS, default="equal", help="of intervals")
    dbn.add_argument(
        "--counting",
        choices=COUNTINGS,
        default="auto",
        help="on a GPU: in the blocks that integrate",
    )
    dbn.add_argument("--seed", type=int, metavar="S", help="64 bits; drawn and stored by default")
    dbn.add_argument("--device", choices=("auto", *sorted(backend_names())), default="auto")
    dbn.add_argument("--threads", type=int, default=0, metavar="N", help="CPU threads per rank")
    dbn.add_argument(
        "--block", type=int, metavar="N", help="trajectories that a rank takes at once"
    )
    dbn.add_argument(
        "-o", "--output", type=Path, metavar="OUT.h5", help="the model's stem + .dbn.h5"
    )
    dbn.add_argument("--overwrite", action="store_true", help="replace an existing file")
    dbn.add_argument("--resume", action="store_true", help="go on with a stopped build")
    dbn.add_argument("--quiet", action="store_true", help="no progress and no summary")


def _info(subparsers: Commands) -> None:
    info = _command(subparsers, "info", "say what a result file holds")
    info.add_argument("file", type=Path)
    info.add_argument("--json", action="store_true")


def _plot(subparsers: Commands) -> None:
    plot = _command(subparsers, "plot", "draw a result file (needs the plot extra)")
    plot.add_argument("file", type=Path)
    of_a_lattice = ("counts", "kymograph", "slice")
    kinds = ("auto", "trajectories", "mean", "histogram", "heatmap", "modes", *of_a_lattice)
    plot.add_argument("--kind", choices=kinds, default="auto")
    plot.add_argument("--species", metavar="A,B")
    plot.add_argument("--summary", metavar="NAME", help="a recorded summary, over what was swept")
    plot.add_argument(
        "--t", type=float, metavar="T", help="sample time of a histogram or a slice, or of a sweep"
    )
    plot.add_argument("--axis", choices=("z", "y", "x"), help="of a kymograph; across a slice")
    plot.add_argument("--replica", type=int, default=0, metavar="R", help="of a lattice file (0)")
    plot.add_argument("-o", "--output", type=Path, help="PNG or SVG; the file's stem + .png")
    plot.add_argument("--overwrite", action="store_true")


def _export(subparsers: Commands) -> None:
    export = _command(subparsers, "export", "write a lattice file or a network for other programs")
    export.add_argument("file", type=Path)
    export.add_argument("--species", metavar="A,B")
    export.add_argument("--replica", type=int, default=0, metavar="R", help="which one (0)")
    export.add_argument("--steps", metavar="A:B", help="time points of a network that is written")
    export.add_argument(
        "-o", "--output", type=Path, help=".vtkhdf (ParaView) or .npy (napari); .bif"
    )
    export.add_argument("--overwrite", action="store_true")


def _digest(subparsers: Commands) -> None:
    digest = _command(subparsers, "digest", "SHA-256 of a result, the same on every machine")
    digest.add_argument("file", type=Path)
    digest.add_argument("--species", metavar="A,B")
    digest.add_argument("--json", action="store_true")


def _merge(subparsers: Commands) -> None:
    merge = _command(subparsers, "merge", "turn a result in parts into one file")
    merge.add_argument("file", type=Path)
    merge.add_argument("--compress", type=int, default=0, metavar="1-9", help="gzip level (none)")


def _check(subparsers: Commands) -> None:
    check = _command(subparsers, "check", "say what a model holds and which methods can run it")
    check.add_argument("model", type=Path)
    check.add_argument("--max-hop", type=float, metavar="Q", help="of a lattice, as for rdme (1/6)")
    check.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="of a lattice, as for rdme"
    )
    check.add_argument("--json", action="store_true")


def _doctor(subparsers: Commands) -> None:
    doctor = _command(subparsers, "doctor", "say what this machine offers, and each rank's device")
    doctor.add_argument("--folder", type=Path, metavar="DIR", help="for results (this one)")
    doctor.add_argument("--json", action="store_true")


def _slurm(subparsers: Commands) -> None:
    slurm = _command(subparsers, "slurm", "write a batch script for SLURM")
    for name, text in (
        ("nodes", "nodes (1)"),
        ("gpus-per-node", "GPUs, and ranks, of a node (0)"),
        ("tasks-per-node", "ranks of a node (one per GPU)"),
        ("cpus-per-task", "cores of a rank (8)"),
        ("array", "jobs that share the rows of --table"),
    ):
        slurm.add_argument(f"--{name}", type=int, metavar="N", help=text)
    slurm.add_argument("--time", metavar="LIMIT", help="of a job (04:00:00)")
    slurm.add_argument(
        "--requeue",
        action="store_true",
        default=None,
        help="stop before the limit, go back into the queue, and go on there",
    )
    slurm.add_argument("--mpi", metavar="TYPE", help="of srun: pmix (default), pmi2")
    slurm.add_argument(
        "--sbatch", metavar="OPTIONS", default="", help="more, such as '--partition=gpu'"
    )
    slurm.add_argument("-o", "--output", type=Path, metavar="FILE", help="instead of printing it")
    slurm.add_argument("--overwrite", action="store_true")
    slurm.add_argument("command", nargs="*", metavar="-- run MODEL ...", help="what to run")


def _bench(subparsers: Commands) -> None:
    bench = _command(subparsers, "bench", "measure the speed of this machine on known models")
    bench.add_argument("--case", action="append", metavar="NAME", help="one or more cases (all)")
    bench.add_argument("--device", choices=("auto", *sorted(backend_names())), default="auto")
    bench.add_argument("--threads", type=int, default=0, metavar="N", help="CPU threads per rank")
    bench.add_argument(
        "--scale", type=float, default=1.0, help="fraction of each case's trajectories"
    )
    bench.add_argument("--repeat", type=int, default=3, metavar="N", help="timed runs (3), median")
    bench.add_argument("--json", action="store_true")

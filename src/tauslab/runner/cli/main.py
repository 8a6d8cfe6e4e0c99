"""The command line: parses arguments and hands each sub-command to one function."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tauslab.kernels.backends import backend_names
from tauslab.kernels.exact.selectors import SELECTORS
from tauslab.kernels.ode.codegen import PRECISIONS
from tauslab.kernels.ode.counting import COUNTINGS
from tauslab.kernels.ode.engine import LAYOUTS, MEMORY_WARPS, SOLVERS
from tauslab.kernels.ode.placement import BALANCES
from tauslab.model.errors import TauslabError
from tauslab.runner.api.api import ranks
from tauslab.runner.cli import commands
from tauslab.runner.cli.help import EPILOG, Parser, examples, speaks
from tauslab.runner.cli.slurm import process_slurm
from tauslab.runner.cli.streams import SafeStream, discard, printable, safe_streams
from tauslab.runner.cli.tools import (
    code_alone,
    reading_result,
    require_safe_output,
    require_text,
    shortened,
)
from tauslab.runner.options.dask import EXECUTORS
from tauslab.runner.options.dbn import SPACINGS
from tauslab.runner.options.ensemble import METHODS, WRITERS
from tauslab.runner.options.lattice import HALOS
from tauslab.runner.options.texts import count
from tauslab.runner.results.tables import WHAT

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[Any]  # noqa: SLF001 - its only name

_DEVICES, _DEVICE = ("auto", *sorted(backend_names())), "auto: a GPU where there is one"
BAD_INPUT = 2
_RECORD = (
    "trajectories,statistics,final,histogram:SPECIES:LO:HI:BINS,summary:KIND:SPECIES[:...]; "
    "sampled: what --sample drew"
)


def main(argv: list[str] | None = None) -> int:
    """Run a sub-command.

    Returns
    -------
    0 done, 1 failure, 2 bad input, 75 stopped early on request and resumable, 130 interrupted
    before there was anything to resume.
    """
    with safe_streams() as out:
        return _main(argv, out)


def _main(argv: list[str] | None, out: SafeStream) -> int:
    try:
        require_text(sys.argv[1:] if argv is None else argv)
        arguments = _parser().parse_args(argv)
        out.forgiving = hasattr(arguments, "resume")  # its answer is a file
        require_safe_output(arguments)
        with reading_result(arguments):
            arguments.process(arguments)
        sys.stdout.flush()
    except TauslabError as error:
        if speaks():
            told = printable(shortened(str(error)), one_line=error.exit_code == BAD_INPUT)
            print(f"tauslab: {told}", file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:  # the reader of our output, such as head, had enough
        discard(sys.stdout)
        return 0
    except (KeyboardInterrupt, OSError) as error:
        code = code_alone(error)
        if code is None or ranks().size > 1:  # the other ranks end when this one fails
            raise
        return code
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="tauslab",
        description="Stochastic chemistry on many GPUs: the same seed, the same bits, anywhere.",
        allow_abbrev=False, epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--version", action="version", version=commands.version_line())
    subparsers = parser.add_subparsers(required=True, metavar="COMMAND")
    for add in (
        _run, _rdme, _dbn, _info, _plot, _export, _digest, _merge, _check, _doctor, _bench, _slurm,
    ):  # fmt: skip
        add(subparsers)
    return parser


def _command(subparsers: Commands, name: str, text: str) -> argparse.ArgumentParser:
    added: argparse.ArgumentParser = subparsers.add_parser(
        name, help=text, description=text[0].upper() + text[1:] + ".", allow_abbrev=False,
        epilog=examples(name), formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    added.set_defaults(process=getattr(commands, f"process_{name}"))
    return added


def _run(subparsers: Commands) -> None:
    run = _command(subparsers, "run", "simulate an ensemble of trajectories")
    run.add_argument("model", type=Path, help=".xml, .net, .bngl, .toml, or a result (.h5)")
    run.add_argument("-n", type=count, help="trajectories at each point (1000)")
    run.add_argument(
        "--method",
        choices=METHODS,
        help="ssa (default): exact; tau: leaping; auto: tau where it pays and errs little; ode",
    )
    run.add_argument("--epsilon", type=float, metavar="E", help="error of a leap (0.03)")
    run.add_argument(
        "--post-leap-check",
        action="store_true",
        default=None,
        help="shorten leaps that changed too much",
    )
    _integration(run)
    run.add_argument("--t-end", type=float, metavar="T", help="last sample time, in model units")
    run.add_argument("--points", type=count, metavar="K", help="sample times from 0 to T (101)")
    run.add_argument("--times", type=Path, metavar="FILE", help="sample times, one a line")
    run.add_argument("--seed", type=int, metavar="S", help="64 bits; drawn and stored by default")
    _values(run)
    run.add_argument("--species", metavar="A,B", help="record these only")
    run.add_argument("--record", metavar="WHAT", help=f"any of {_RECORD}")
    run.add_argument("--selector", choices=SELECTORS, help="how ssa finds the next reaction")
    run.add_argument("--team", type=int, metavar="N", help="threads a trajectory: 1, 8, 32 or 128")
    run.add_argument("--presimulation", type=count, metavar="N", help="events of a pilot")
    run.add_argument("--max-steps", type=count, metavar="N", help="events of a trajectory at most")
    run.add_argument("--device", choices=_DEVICES, default="auto", help=_DEVICE)
    run.add_argument("--threads", type=int, default=0, metavar="N", help="CPU threads per rank")
    run.add_argument("--block", type=int, metavar="N", help="trajectories in a storage block")
    _add_dask(run)
    run.add_argument("-o", "--output", type=Path, metavar="OUT.h5", help="(MODEL's stem + .h5)")
    run.add_argument("--overwrite", action="store_true", help="replace an existing file")
    run.add_argument("--resume", action="store_true", help="complete an unfinished file")
    run.add_argument(
        "--append", type=count, metavar="N", help="add N trajectories to a finished file"
    )
    run.add_argument(
        "--until", metavar="WHAT", help="'mean(X) rel 0.01', 'P(X>300 at 10) ci 0.001'; at most -n"
    )
    run.add_argument("--max-time", metavar="H:M:S", help="stop after so long, for --resume")
    run.add_argument("--writer", choices=WRITERS, default="auto", help="how ranks write (auto)")
    run.add_argument(
        "--mpi-hint", action="append", default=[], metavar="NAME=VALUE", help="of mpio: for MPI-IO"
    )
    run.add_argument("--compress", type=int, default=0, metavar="1-9", help="gzip level (none)")
    run.add_argument("--quiet", action="store_true", help="no progress and no summary")


def _values(run: argparse.ArgumentParser) -> None:
    """Values of parameters and initial amounts: one of each, or the points of a sweep."""
    run.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="value of a parameter or initial amount; @FILE: of many, one a line",
    )
    _add_molecules(run)
    run.add_argument(
        "--sweep",
        action="append",
        default=[],
        metavar="NAME=FORM",
        help="values to combine: lin:LO:HI:N, log:LO:HI:N, list:a,b,c; a range with --design",
    )
    run.add_argument("--design", metavar="KIND:N", help="N points in the ranges: sobol:N, lhs:N")
    run.add_argument("--table", type=Path, metavar="FILE", help="a point per row, CSV or Parquet")


def _add_molecules(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--molecules",
        action="store_true",
        help="of SBML whose amounts are moles: count molecules",
    )


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
    for name, text in (
        ("ca", "of dask: PEM file of the authority, for connections in TLS"),
        ("cert", "PEM file of the certificate that it has signed"),
        ("key", "PEM file of the certificate's key"),
    ):
        run.add_argument(f"--dask-tls-{name}", type=Path, metavar="FILE", help=text)


def _integration(run: argparse.ArgumentParser) -> None:
    """Options of ``ode``."""
    run.add_argument(
        "--ode-solver", choices=SOLVERS, help="auto; rk4 where --substeps are given; of dbn dopri5"
    )
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
    rdme.add_argument(
        "--count-every", type=count, metavar="N", help="steps between counts (a 1000th)"
    )
    rdme.add_argument("--frame-every", type=count, metavar="N", help="steps between frames (none)")
    rdme.add_argument("--replicas", type=int, metavar="R", help="independent runs (1)")
    rdme.add_argument("--slabs", type=int, metavar="N", help="ranks that share each lattice")
    rdme.add_argument("--halo", choices=HALOS, default="auto", help="how planes travel (auto)")
    rdme.add_argument("--halo-depth", type=int, default=0, metavar="K",
                      help="planes at a time (by size and transport)")  # fmt: skip
    rdme.add_argument(
        "--rebalance-every", type=float, metavar="S", help="seconds between new cuts; 0: never"
    )
    rdme.add_argument(
        "--checkpoint-every",
        type=float,
        default=10.0,
        metavar="M",
        help="minutes between checkpoints (10)",
    )
    rdme.add_argument("--checkpoint-steps", type=count, default=0, metavar="N", help="steps (none)")
    rdme.add_argument("--share-gpu", action="store_true", help="let ranks share a GPU")
    rdme.add_argument("--max-hop", type=float, metavar="Q", help="hop probability at most (1/6)")
    rdme.add_argument("--seed", type=int, metavar="S", help="64 bits; drawn and stored by default")
    rdme.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="value of a parameter"
    )
    rdme.add_argument("--device", choices=_DEVICES, default="auto", help=_DEVICE)
    rdme.add_argument("--threads", type=int, default=0, metavar="N", help="CPU threads")
    rdme.add_argument("-o", "--output", type=Path, metavar="OUT.h5", help="(MODEL's stem + .h5)")
    rdme.add_argument("--overwrite", action="store_true", help="replace an existing file")
    rdme.add_argument("--resume", action="store_true", help="complete an unfinished file")
    rdme.add_argument("--max-time", metavar="H:M:S", help="stop after so long, for --resume")
    rdme.add_argument("--quiet", action="store_true", help="no progress and no summary")


def _dbn(subparsers: Commands) -> None:
    dbn = _command(subparsers, "dbn", "make a dynamic Bayesian network from an ODE ensemble")
    dbn.add_argument("model", type=Path, help=".xml, .net, .bngl, .toml, or a result (.h5)")
    dbn.add_argument("--unknown", metavar="A,B", help="parameters, or initial amounts of species")
    for option, form, text in (
        ("--range", "NAME=LO:HI", "where an unknown is drawn; what is cut into intervals"),
        ("--intervals", "[NAME=]K", "intervals of all nodes (5), or of one"),
        ("--edges", "NAME=a,b,c", "intervals of a node"),
        ("--set", "NAME=VALUE", "value of a parameter or initial amount; @FILE: of many"),
    ):
        dbn.add_argument(option, action="append", default=[], metavar=form, help=text)
    dbn.add_argument("--samples", metavar="N", help="trajectories (1e5)")
    dbn.add_argument("--t-end", type=float, metavar="T", help="last time point")
    dbn.add_argument("--points", type=count, metavar="K", help="time points from 0 to T (101)")
    dbn.add_argument("--times", type=Path, metavar="FILE", help="time points, one a line")
    _integration(dbn)
    dbn.add_argument("--spacing", choices=SPACINGS, default="equal", help="of intervals (equal)")
    dbn.add_argument(
        "--counting",
        choices=COUNTINGS,
        default="auto",
        help="on a GPU: in the blocks that integrate",
    )
    dbn.add_argument("--seed", type=int, metavar="S", help="64 bits; drawn and stored by default")
    dbn.add_argument("--device", choices=_DEVICES, default="auto", help=_DEVICE)
    dbn.add_argument("--threads", type=int, default=0, metavar="N", help="CPU threads per rank")
    dbn.add_argument(
        "--block", type=int, metavar="N", help="trajectories that a rank takes at once"
    )
    dbn.add_argument("-o", "--output", type=Path, metavar="OUT.h5", help="(MODEL's stem + .dbn.h5)")
    dbn.add_argument("--overwrite", action="store_true", help="replace an existing file")
    dbn.add_argument("--resume", action="store_true", help="go on with a stopped build")
    dbn.add_argument("--quiet", action="store_true", help="no progress and no summary")


def _info(subparsers: Commands) -> None:
    info = _command(subparsers, "info", "say what a result file holds")
    info.add_argument("file", type=Path, help="a result (.h5)")
    info.add_argument("--json", action="store_true", help="for programs")


def _plot(subparsers: Commands) -> None:
    plot = _command(subparsers, "plot", "draw a result file (needs the plot extra)")
    plot.add_argument("file", type=Path, help="a result (.h5)")
    of_a_lattice = ("counts", "kymograph", "slice")
    kinds = ("auto", "trajectories", "mean", "histogram", "heatmap", "modes", *of_a_lattice)
    plot.add_argument("--kind", choices=kinds, default="auto", help="auto: what suits the data")
    plot.add_argument("--species", metavar="A,B", help="these (the first 4 that change)")
    plot.add_argument("--summary", metavar="NAME", help="a recorded summary, over what was swept")
    plot.add_argument(
        "--t", type=float, metavar="T", help="sample time of a histogram or a slice, or of a sweep"
    )
    plot.add_argument("--axis", choices=("z", "y", "x"), help="of a kymograph; across a slice")
    plot.add_argument("--replica", type=int, default=0, metavar="R", help="of a lattice file (0)")
    plot.add_argument("-o", "--output", type=Path, help="PNG or SVG; the file's stem + .png")
    plot.add_argument("--overwrite", action="store_true", help="replace an existing file")


def _export(subparsers: Commands) -> None:
    export = _command(
        subparsers, "export", "write a result for other programs: tables, frames, networks"
    )
    export.add_argument("file", type=Path, help="a result (.h5)")
    export.add_argument("--species", metavar="A,B", help="these only")
    export.add_argument(
        "--what",
        choices=WHAT,
        help="the table of trajectories (if they were recorded), mean and sd, last values, ...",
    )
    export.add_argument("--replica", type=int, default=0, metavar="R", help="which one (0)")
    export.add_argument("--steps", metavar="A:B", help="time points of a network that is written")
    export.add_argument(
        "-o",
        "--output",
        type=Path,
        help=".csv, .tsv; of a lattice also .vtkhdf (ParaView) or .npy (napari); .bif of a network",
    )
    export.add_argument("--overwrite", action="store_true", help="replace an existing file")


def _digest(subparsers: Commands) -> None:
    digest = _command(subparsers, "digest", "SHA-256 of a result, the same on every machine")
    digest.add_argument("file", type=Path, help="a result (.h5)")
    digest.add_argument("--species", metavar="A,B", help="these only")
    digest.add_argument("--json", action="store_true", help="for programs")


def _merge(subparsers: Commands) -> None:
    merge = _command(subparsers, "merge", "turn a result in parts into one file")
    merge.add_argument("file", type=Path, help="a result (.h5)")
    merge.add_argument("--compress", type=int, default=0, metavar="1-9", help="gzip level (none)")


def _check(subparsers: Commands) -> None:
    check = _command(subparsers, "check", "say what a model holds and which methods can run it")
    check.add_argument("model", type=Path, help="as for run and rdme")
    check.add_argument("--max-hop", type=float, metavar="Q", help="of a lattice, as for rdme (1/6)")
    check.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="of a lattice, as for rdme"
    )
    _add_molecules(check)
    check.add_argument("--json", action="store_true", help="for programs")


def _doctor(subparsers: Commands) -> None:
    doctor = _command(subparsers, "doctor", "say what this machine offers, and each rank's device")
    doctor.add_argument("--folder", type=Path, metavar="DIR", help="for results (this one)")
    doctor.add_argument("--json", action="store_true", help="for programs")


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
    slurm.add_argument("--overwrite", action="store_true", help="replace an existing file")
    slurm.add_argument("command", nargs="*", metavar="-- run MODEL ...", help="what to run")
    slurm.set_defaults(process=_write_batch_script)


def _write_batch_script(arguments: argparse.Namespace) -> None:
    """``tauslab slurm``; a misspelt option is refused here, not when the job starts."""
    if arguments.command[:1] in (["run"], ["rdme"]):
        _parser().parse_args(arguments.command)
    process_slurm(arguments)


def _bench(subparsers: Commands) -> None:
    bench = _command(subparsers, "bench", "measure the speed of this machine on known models")
    bench.add_argument("--case", action="append", metavar="NAME", help="one or more cases (all)")
    bench.add_argument("--device", choices=_DEVICES, default="auto", help=_DEVICE)
    bench.add_argument("--threads", type=int, default=0, metavar="N", help="CPU threads per rank")
    bench.add_argument(
        "--scale", type=float, default=1.0, help="fraction of each case's trajectories"
    )
    bench.add_argument("--repeat", type=int, default=3, metavar="N", help="timed runs (3), median")
    bench.add_argument("--json", action="store_true", help="for programs")

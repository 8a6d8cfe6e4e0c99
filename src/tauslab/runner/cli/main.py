"""The command line: parses arguments and hands each sub-command to one function."""

from __future__ import annotations

import argparse
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tauslab.model.errors import TauslabError
from tauslab.runner.api.api import ranks
from tauslab.runner.api.kinds import MOVIE
from tauslab.runner.cli import commands
from tauslab.runner.cli.help import EPILOG, SHELLS, Parser, completion_script, examples, speaks
from tauslab.runner.cli.options import add_option, add_options
from tauslab.runner.cli.particles.keywords import FilterFlags, RareFlags
from tauslab.runner.cli.slurm import process_slurm
from tauslab.runner.cli.streams import SafeStream, discard, printable, safe_streams
from tauslab.runner.cli.tools import (
    code_alone,
    reading_result,
    require_safe_output,
    require_text,
    shortened,
)
from tauslab.runner.options.dbn_keywords import DbnKeywords
from tauslab.runner.options.keywords import (
    AnswerFlags,
    CrossCheckFlag,
    LatticeKeywords,
    MoleculesFlag,
    NetworkKeywords,
    TimeLimitFlag,
)
from tauslab.runner.options.methods import ODE, SSA, TauLeaping
from tauslab.runner.options.places import CPU, GPU, Dask, ExecutorFlags, Output, OverwriteFlag
from tauslab.runner.options.values.definition import on_command_line
from tauslab.runner.options.values.spelling import command_spelling
from tauslab.runner.rare.keywords import KillChoices, WeightedKeywords
from tauslab.runner.results.tables import WHAT

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[Any]  # noqa: SLF001 - its only name

BAD_INPUT = 2
# Of whose options the arguments of a command are made.
RUN = (
    NetworkKeywords, MoleculesFlag, SSA, TauLeaping, ODE, CPU, ExecutorFlags, Dask, Output,
    AnswerFlags, CrossCheckFlag, TimeLimitFlag,
)  # fmt: skip
RDME = (LatticeKeywords, CPU, GPU, OverwriteFlag, TimeLimitFlag)
DBN = (DbnKeywords, ODE, CPU, OverwriteFlag)
RARE = (RareFlags, WeightedKeywords, KillChoices, CPU, OverwriteFlag)
FILTER = (FilterFlags, CPU, OverwriteFlag)


def main(argv: list[str] | None = None) -> int:
    """Run a sub-command.

    Returns
    -------
    0 done, 1 failure, 2 bad input, 75 stopped early on request and resumable, 130 interrupted
    before there was anything to resume.
    """
    with safe_streams() as out, command_spelling():
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
        _run, _rdme, _dbn, _rare, _filter, _info, _plot, _report, _export, _digest, _merge, _check,
        _doctor, _bench, _slurm, _completion, _help,
    ):  # fmt: skip
        add(subparsers)
    return parser


def _command(subparsers: Commands, name: str, text: str) -> argparse.ArgumentParser:
    added: argparse.ArgumentParser = subparsers.add_parser(
        name, help=text, description=text[0].upper() + text[1:] + ".", allow_abbrev=False,
        epilog=examples(name), formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    added.set_defaults(process=getattr(commands, f"process_{name}", None))
    return added


def _run(subparsers: Commands) -> None:
    run = _command(subparsers, "run", "simulate an ensemble of trajectories")
    add_options(
        run, ".xml, .ant, .net, .bngl, .toml, .omex, a result (.h5), - for standard input", *RUN
    )


def _rdme(subparsers: Commands) -> None:
    rdme = _command(subparsers, "rdme", "simulate particles on a lattice")
    add_options(rdme, ".toml or .lm with a lattice, a model or result .h5", *RDME)


def _dbn(subparsers: Commands) -> None:
    dbn = _command(subparsers, "dbn", "make a dynamic Bayesian network from an ODE ensemble")
    add_options(dbn, ".xml, .net, .bngl, .toml, or a result (.h5)", *DBN)


def _rare(subparsers: Commands) -> None:
    rare = _command(
        subparsers, "rare", "find the probability, or the rate, of reaching a target seldom reached"
    )
    add_options(rare, ".xml, .ant, .net, .bngl, .toml, - for standard input", *RARE)
    rare.set_defaults(process=_find_rare_events)


def _find_rare_events(arguments: argparse.Namespace) -> None:
    from tauslab.runner.cli.particles.rare import process_rare  # what it needs is seldom needed

    process_rare(arguments)


def _filter(subparsers: Commands) -> None:
    filters = _command(
        subparsers, "filter", "find the likelihood of a time course, and the states behind it"
    )
    add_options(filters, ".xml, .ant, .net, .bngl, .toml, - for standard input", *FILTER)
    filters.add_argument("table", type=Path, metavar="DATA.csv", help="columns, one of them time")
    filters.set_defaults(process=_filter_course)


def _filter_course(arguments: argparse.Namespace) -> None:
    from tauslab.runner.cli.particles.filter import process_filter  # as above

    process_filter(arguments)


def _info(subparsers: Commands) -> None:
    info = _command(subparsers, "info", "say what a result file holds")
    info.add_argument("file", type=Path, help="a result (.h5)")
    info.add_argument("--json", action="store_true", help="for programs")


def _plot(subparsers: Commands) -> None:
    plot = _command(subparsers, "plot", "draw a result file (needs the plot extra)")
    plot.add_argument("file", type=Path, help="a result (.h5)")
    of_a_lattice = ("counts", "kymograph", "slice", MOVIE)
    kinds = ("auto", "trajectories", "mean", "histogram", "heatmap", "modes", *of_a_lattice)
    plot.add_argument("--kind", choices=kinds, default="auto", help="auto: what suits the data")
    plot.add_argument("--species", metavar="A,B", help="these (the first 4 that change)")
    plot.add_argument("--summary", metavar="NAME", help="a recorded summary, over what was swept")
    plot.add_argument(
        "--t", type=float, metavar="T", help="sample time of a histogram or a slice, or of a sweep"
    )
    plot.add_argument("--axis", choices=("z", "y", "x"), help="of a kymograph; across a slice")
    plot.add_argument("--replica", type=int, default=0, metavar="R", help="of a lattice file (0)")
    plot.add_argument(
        "-o",
        "--output",
        type=Path,
        help=".png (the default), .svg or .pdf; a movie is .gif or .mp4",
    )
    plot.add_argument("--overwrite", action="store_true", help="replace an existing file")


def _report(subparsers: Commands) -> None:
    report = _command(subparsers, "report", "write a page of HTML about a result, with pictures")
    report.add_argument("file", type=Path, help="a result (.h5)")
    report.add_argument("-o", "--output", type=Path, help=".html; the file's stem + .html")
    report.add_argument("--overwrite", action="store_true", help="replace an existing file")


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
        help=".csv, .tsv, - to print; of a lattice .vtkhdf (ParaView) or .npy (napari); .bif",
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
    check.add_argument("model", type=Path, help="as for run and rdme; - for standard input")
    check.add_argument("--max-hop", type=float, metavar="Q", help="of a lattice, as for rdme (1/6)")
    check.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="of a lattice, as for rdme"
    )
    for option in on_command_line(MoleculesFlag):
        add_option(check, option)
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
    slurm.add_argument("--mpi", metavar="TYPE", help="of srun: pmix, pmi2 (by mpi4py's MPI)")
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


def _completion(subparsers: Commands) -> None:
    completion = _command(subparsers, "completion", "print a script that completes commands")
    completion.add_argument("shell", choices=SHELLS, help="the shell that it is for")
    completion.set_defaults(process=lambda given: print(completion_script(_parser(), given.shell)))


def _help(subparsers: Commands) -> None:
    told = _command(subparsers, "help", "tell what there is, or the options of a command")
    told.add_argument("about", nargs="?", metavar="COMMAND", help="one of the commands")
    told.set_defaults(process=_tell_help)


def _tell_help(arguments: argparse.Namespace) -> None:
    """``tauslab help run`` is ``tauslab run --help``; of a word that is no command it says so."""
    with suppress(SystemExit):
        _parser().parse_args([*([arguments.about] if arguments.about else []), "--help"])


def _bench(subparsers: Commands) -> None:
    bench = _command(subparsers, "bench", "measure the speed of this machine on known models")
    bench.add_argument("--case", action="append", metavar="NAME", help="one or more cases (all)")
    device = next(one for one in on_command_line(NetworkKeywords) if one.flags == ("--device",))
    for option in (device, *on_command_line(CPU)):
        add_option(bench, option)
    bench.add_argument(
        "--scale", type=float, default=1.0, help="fraction of each case's trajectories"
    )
    bench.add_argument("--repeat", type=int, default=3, metavar="N", help="timed runs (3), median")
    bench.add_argument("--json", action="store_true", help="for programs")

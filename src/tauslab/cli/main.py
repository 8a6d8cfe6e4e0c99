"""The command line: parses arguments and hands each sub-command to one function.

A command that is given imports what it needs, the others nothing.
"""

from __future__ import annotations

import argparse
import gc
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tauslab._version import __version__
from tauslab.base.errors import ConfigError, StoppedAtOnce, TauslabError
from tauslab.base.option_names import command_line
from tauslab.cli.help import EPILOG, SHELLS, Parser, completion_script, examples, speaks
from tauslab.cli.streams import SafeStream, discard, printable, safe_streams
from tauslab.cli.tools import (
    code_alone,
    reading_result,
    require_safe_output,
    require_text,
    shortened,
)
from tauslab.decomposition.ranks.launcher import under_launcher

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

BAD_INPUT = 2
# Words of a command that computes on no GPU of this process.
_ELSEWHERE = frozenset(("cpu", "--device=cpu", "dask", "--executor=dask", "-h", "--help"))


def main(argv: list[str] | None = None) -> int:
    """Run a sub-command.

    Returns
    -------
    0 done, 1 failure, 2 bad input, 75 stopped early on request and resumable, 130 interrupted
    before there was anything to resume.
    """
    try:
        with safe_streams() as out, command_line():
            return _main(argv, out)
    finally:
        if argv is None:
            gc.freeze()  # the process ends, and nobody needs to look for garbage once more


def _main(argv: list[str] | None, out: SafeStream) -> int:
    try:
        words = sys.argv[1:] if argv is None else argv
        require_text(words)
        if argv is None:
            _begin_context(words)
        arguments = _parsed(words, alone=argv is None)
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
    except StoppedAtOnce as stopped:
        print(f"tauslab: {stopped}", file=sys.stderr)
        return stopped.exit_code
    except BrokenPipeError:  # the reader of our output, such as head, had enough
        discard(sys.stdout)
        return 0
    except (KeyboardInterrupt, OSError) as error:
        code = code_alone(error)
        if code is None or _has_company():  # the other ranks end when this one fails
            raise
        return code
    return 0


def _has_company() -> bool:
    """Whether this is one of several ranks."""
    if not under_launcher():
        return False
    from tauslab.decomposition.ranks.all_ranks import ranks

    return ranks().size > 1


def _begin_context(words: Sequence[str]) -> None:
    """Start what takes long before a GPU can be opened, before the modules of a run are imported.

    Of several ranks each has to find its GPU first, and does it when it knows the others.
    """
    if words[:1] not in (["run"], ["rdme"]) or under_launcher() or not _ELSEWHERE.isdisjoint(words):
        return
    from tauslab.kernels.cuda_context import begin_context

    begin_context(lambda _: 0)


def _parsed(words: Sequence[str], *, alone: bool) -> argparse.Namespace:
    """What a command line asks for.

    A process that is `alone` with it ends with it, and keeps its modules until then: the garbage
    collector leaves them out, for it would go through them again and again.
    """
    if not words:
        raise ConfigError(f"give a command: {', '.join(_COMMANDS)}; tauslab --help tells more")
    if alone:
        gc.disable()
    try:
        return _parser(words).parse_args(words)
    finally:
        if alone:
            gc.freeze()
            gc.enable()


def _parser(words: Sequence[str] | None = None) -> argparse.ArgumentParser:
    """The parser; with the words of a command line, options of the commands among them alone."""
    parser = Parser(
        prog="tauslab",
        description="Stochastic chemistry on many GPUs: the same seed, the same bits, anywhere.",
        allow_abbrev=False, epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--version", action="version", version=f"tauslab {__version__}")
    subparsers = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, (text, add_arguments) in _COMMANDS.items():
        added = subparsers.add_parser(
            name, help=text, description=text[0].upper() + text[1:] + ".", allow_abbrev=False,
            epilog=examples(name), formatter_class=argparse.RawDescriptionHelpFormatter,
        )  # fmt: skip
        if words is None or name in words:
            add_arguments(added)
    return parser


# --- what several commands take


def _takes_a_result(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, help="a result (.h5)")


def _answers_programs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="for programs")


def _may_overwrite(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--overwrite", action="store_true", help="replace an existing file")


# --- the commands


def _run(run: argparse.ArgumentParser) -> None:
    from tauslab.cli.commands.run import OPTIONS, process_run
    from tauslab.cli.options import add_options

    run.set_defaults(process=process_run)
    add_options(
        run, ".xml, .ant, .net, .bngl, .toml, .omex, a result (.h5), - for standard input", *OPTIONS
    )


def _rdme(rdme: argparse.ArgumentParser) -> None:
    from tauslab.cli.commands.lattice import OPTIONS, process_rdme
    from tauslab.cli.options import add_options

    rdme.set_defaults(process=process_rdme)
    add_options(rdme, ".toml or .lm with a lattice, a model or result .h5", *OPTIONS)


def _dbn(dbn: argparse.ArgumentParser) -> None:
    from tauslab.cli.commands.dbn import OPTIONS, process_dbn
    from tauslab.cli.options import add_options

    dbn.set_defaults(process=process_dbn)
    add_options(dbn, ".xml, .ant, .net, .bngl, .toml, or a result (.h5)", *OPTIONS)


def _rare(rare: argparse.ArgumentParser) -> None:
    from tauslab.cli.options import add_options
    from tauslab.cli.particles.rare import OPTIONS, process_rare

    rare.set_defaults(process=process_rare)
    add_options(rare, ".xml, .ant, .net, .bngl, .toml, .lm, - for standard input", *OPTIONS)


def _filter(filters: argparse.ArgumentParser) -> None:
    from tauslab.cli.options import add_options
    from tauslab.cli.particles.filter import OPTIONS, process_filter

    filters.set_defaults(process=process_filter)
    add_options(filters, ".xml, .ant, .net, .bngl, .toml, - for standard input", *OPTIONS)
    filters.add_argument("table", type=Path, metavar="DATA.csv", help="columns, one of them time")


def _petab(petab: argparse.ArgumentParser) -> None:
    from tauslab.cli.commands.petab import process_petab
    from tauslab.options.values.texts import count

    petab.set_defaults(process=process_petab)
    petab.add_argument("problem", type=Path, metavar="PROBLEM.yaml", help="of PEtab, Version 1")
    petab.add_argument(
        "--parameters", type=Path, metavar="FILE",
        help="a row of values for each vector, .tsv or .csv (the nominal ones)",
    )  # fmt: skip
    petab.add_argument(
        "--device", choices=("auto", "cpu", "cuda"), default="auto", help="where it runs (auto)"
    )
    petab.add_argument(
        "-o", "--output", type=Path, metavar="FILE.tsv",
        help="the simulation table; of several vectors a row for each",
    )  # fmt: skip
    petab.add_argument(
        "--particles", type=count, metavar="N",
        help="also the likelihood of the model by chance, by a filter of N particles",
    )  # fmt: skip
    petab.add_argument("--seed", type=int, help="of these particles (one by chance)")
    petab.add_argument(
        "--molecules", action="store_true", help="particles: convert amounts to molecules"
    )
    petab.add_argument(
        "--amounts", type=float, metavar="N",
        help="particles: count N of each unit of the model's amounts; 1 reads them as counts",
    )  # fmt: skip
    _may_overwrite(petab)
    _answers_programs(petab)


def _sensitivity(derived: argparse.ArgumentParser) -> None:
    from tauslab.cli.options import add_options
    from tauslab.cli.particles.sensitivity import OPTIONS, process_sensitivity

    derived.set_defaults(process=process_sensitivity)
    add_options(derived, ".xml, .ant, .net, .bngl, .toml, - for standard input", *OPTIONS)


def _population(grown: argparse.ArgumentParser) -> None:
    from tauslab.cli.options import add_options
    from tauslab.cli.particles.population import OPTIONS, process_population

    grown.set_defaults(process=process_population)
    add_options(grown, ".xml, .ant, .toml, - for standard input", *OPTIONS)


def _info(info: argparse.ArgumentParser) -> None:
    from tauslab.cli.commands.results import process_info

    info.set_defaults(process=process_info)
    _takes_a_result(info)
    _answers_programs(info)


def _plot(plot: argparse.ArgumentParser) -> None:
    from tauslab.api.kinds.kind import MOVIE
    from tauslab.cli.commands.results import process_plot

    plot.set_defaults(process=process_plot)
    _takes_a_result(plot)
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
    plot.add_argument("--point", type=int, metavar="P", help="of a sweep of a lattice (all)")
    plot.add_argument(
        "-o",
        "--output",
        type=Path,
        help=".png (the default), .svg or .pdf; a movie is .gif or .mp4",
    )
    _may_overwrite(plot)


def _report(report: argparse.ArgumentParser) -> None:
    from tauslab.cli.commands.results import process_report

    report.set_defaults(process=process_report)
    _takes_a_result(report)
    report.add_argument("-o", "--output", type=Path, help=".html; the file's stem + .html")
    _may_overwrite(report)


def _export(export: argparse.ArgumentParser) -> None:
    from tauslab.cli.commands.results import process_export
    from tauslab.store.results.tables import WHAT, WHAT_OF_CELLS

    export.set_defaults(process=process_export)
    _takes_a_result(export)
    export.add_argument("--species", metavar="A,B", help="these only")
    export.add_argument(
        "--what",
        choices=(*WHAT, *WHAT_OF_CELLS),
        help="the table of trajectories (if they were recorded), mean and sd, last values, ...",
    )
    export.add_argument("--replica", type=int, default=0, metavar="R", help="which one (0)")
    export.add_argument("--point", type=int, metavar="P", help="of a sweep of a lattice (all)")
    export.add_argument("--steps", metavar="A:B", help="time points of a network that is written")
    export.add_argument(
        "-o",
        "--output",
        type=Path,
        help=".csv, .tsv, - to print; of a lattice .vtkhdf (ParaView) or .npy (napari); .bif",
    )
    _may_overwrite(export)


def _digest(digest: argparse.ArgumentParser) -> None:
    from tauslab.cli.commands.results import process_digest

    digest.set_defaults(process=process_digest)
    _takes_a_result(digest)
    digest.add_argument("--species", metavar="A,B", help="these only")
    _answers_programs(digest)


def _merge(merge: argparse.ArgumentParser) -> None:
    from tauslab.cli.commands.results import process_merge

    merge.set_defaults(process=process_merge)
    _takes_a_result(merge)
    merge.add_argument("--compress", type=int, default=0, metavar="1-9", help="gzip level (none)")


def _check(check: argparse.ArgumentParser) -> None:
    from tauslab.cli.commands.check import process_check
    from tauslab.cli.options import add_option
    from tauslab.options.keywords import MoleculesFlag
    from tauslab.options.values.definition import on_command_line

    check.set_defaults(process=process_check)
    check.add_argument("model", type=Path, help="as for run and rdme; - for standard input")
    check.add_argument("--max-hop", type=float, metavar="Q", help="of a lattice, as for rdme (1/6)")
    check.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="of a lattice, as for rdme"
    )
    for option in on_command_line(MoleculesFlag):
        add_option(check, option)
    _answers_programs(check)


def _doctor(doctor: argparse.ArgumentParser) -> None:
    from tauslab.cli.commands.machine import process_doctor

    doctor.set_defaults(process=process_doctor)
    doctor.add_argument("--folder", type=Path, metavar="DIR", help="for results (this one)")
    _answers_programs(doctor)


def _slurm(slurm: argparse.ArgumentParser) -> None:
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
    _may_overwrite(slurm)
    slurm.add_argument("command", nargs="*", metavar="-- run MODEL ...", help="what to run")
    slurm.set_defaults(process=_write_batch_script)


def _write_batch_script(arguments: argparse.Namespace) -> None:
    """``tauslab slurm``; a misspelt option is refused here, not when the job starts."""
    from tauslab.cli.slurm import process_slurm

    if arguments.command[:1] in (["run"], ["rdme"]):
        _parser(arguments.command).parse_args(arguments.command)
    process_slurm(arguments)


def _completion(completion: argparse.ArgumentParser) -> None:
    completion.add_argument("shell", choices=SHELLS, help="the shell that it is for")
    completion.set_defaults(process=lambda given: print(completion_script(_parser(), given.shell)))


def _help(told: argparse.ArgumentParser) -> None:
    told.add_argument("about", nargs="?", metavar="COMMAND", help="one of the commands")
    told.set_defaults(process=_tell_help)


def _tell_help(arguments: argparse.Namespace) -> None:
    """``tauslab help run`` is ``tauslab run --help``; of a word that is no command it says so."""
    words = [arguments.about] if arguments.about else []
    with suppress(SystemExit):
        _parser(words).parse_args([*words, "--help"])


def _bench(bench: argparse.ArgumentParser) -> None:
    from tauslab.cli.commands.machine import process_bench
    from tauslab.cli.options import add_option
    from tauslab.options.keywords import NetworkKeywords
    from tauslab.options.places import CPU
    from tauslab.options.values.definition import on_command_line

    bench.set_defaults(process=process_bench)
    bench.add_argument("--case", action="append", metavar="NAME", help="one or more cases (all)")
    device = next(one for one in on_command_line(NetworkKeywords) if one.flags == ("--device",))
    for option in (device, *on_command_line(CPU)):
        add_option(bench, option)
    bench.add_argument(
        "--scale", type=float, default=1.0, help="fraction of each case's trajectories"
    )
    bench.add_argument("--repeat", type=int, default=3, metavar="N", help="timed runs (3), median")
    _answers_programs(bench)


_COMMANDS: Mapping[str, tuple[str, Callable[[argparse.ArgumentParser], None]]] = {
    "run": ("simulate an ensemble of trajectories", _run),
    "rdme": ("simulate particles on a lattice", _rdme),
    "dbn": ("make a dynamic Bayesian network from an ODE ensemble", _dbn),
    "rare": ("find the probability, or the rate, of reaching a target seldom reached", _rare),
    "filter": ("find the likelihood of a time course, and the states behind it", _filter),
    "petab": ("find the objective of a PEtab problem", _petab),
    "sensitivity": ("find how means change with parameters, with errors", _sensitivity),
    "population": ("simulate cells that grow and divide", _population),
    "info": ("say what a result file holds", _info),
    "plot": ("draw a result file (needs the plot extra)", _plot),
    "report": ("write a page of HTML about a result, with pictures", _report),
    "export": ("write a result for other programs: tables, frames, networks", _export),
    "digest": ("SHA-256 of a result, the same on every machine", _digest),
    "merge": ("turn a result in parts into one file", _merge),
    "check": ("say what a model holds and which methods can run it", _check),
    "doctor": ("say what this machine offers, and each rank's device", _doctor),
    "bench": ("measure the speed of this machine on known models", _bench),
    "slurm": ("write a batch script for SLURM", _slurm),
    "completion": ("print a script that completes commands", _completion),
    "help": ("tell what there is, or the options of a command", _help),
}

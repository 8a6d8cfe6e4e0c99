"""The commands: what each is for, which function does it, and what it takes."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tauslab.api.kinds.kind import MOVIE
from tauslab.cli.help import SHELLS

if TYPE_CHECKING:
    from tauslab.options.values.definition import Definition

Argument = tuple[tuple[str, ...], dict[str, Any]]  # as `argparse` takes it


def _takes(*flags: str, **given: Any) -> Argument:
    return flags, given


def _writes(text: str, **given: Any) -> Argument:
    return ("-o", "--output"), {"type": Path, "help": text, **given}


@dataclass(frozen=True)
class Command:
    """A command.

    Parameters
    ----------
    help
        What it is for.
    process
        ``module:function`` below `tauslab.cli`, imported when the command is given.
    arguments
        What it takes; a function gives what needs an import.
    model
        What the model may be of a command that takes one, and the options of the classes
        ``OPTIONS`` of the module.
    """

    help: str
    process: str
    arguments: Iterable[Argument] | Callable[[], Iterable[Argument | Definition]] = ()
    model: str = ""

    def add_to(self, parser: argparse.ArgumentParser) -> None:
        """Have a parser take what the command takes."""
        from tauslab.cli.options import add_option, add_options

        module, _, function = self.process.partition(":")
        home = import_module(f"tauslab.cli.{module}")
        parser.set_defaults(process=getattr(home, function))
        if self.model:
            add_options(parser, self.model, *home.OPTIONS)
        for one in self.arguments() if callable(self.arguments) else self.arguments:
            if isinstance(one, tuple):
                parser.add_argument(*one[0], **one[1])
            else:
                add_option(parser, one)


_RESULT = _takes("file", type=Path, help="a result (.h5)")
_RESULTS = _takes("files", type=Path, nargs="+", metavar="FILE", help="results (.h5)")
_JSON = _takes("--json", action="store_true", help="print JSON")
_OVERWRITE = _takes("--overwrite", action="store_true", help="replace an existing file")
_POINT = _takes("--point", type=int, metavar="P", help="point of a lattice sweep (all)")
_SPECIES = _takes("--species", metavar="A,B", help="only these species")
_KINDS = ("auto", "trajectories", "mean", "histogram", "heatmap", "modes", "counts", "kymograph",
          "slice", MOVIE)  # fmt: skip
_PICTURES = (
    _RESULT,
    _takes("--kind", choices=_KINDS, default="auto", help="kind of picture (auto: depends on the "
    "data)"),
    _takes("--species", metavar="A,B", help="species to draw (the first 4 that change)"),
    _takes("--summary", metavar="NAME", help="draw a recorded summary over the swept values"),
    _takes("--t", type=float, metavar="T",
           help="sample time of a histogram, a slice or a sweep (the last)"),
    _takes("--axis", choices=("z", "y", "x"),
           help="axis of a kymograph (longest), or across a slice (shortest)"),
    _takes("--replica", type=int, metavar="R", help="replica of a lattice (0)"),
    _POINT,
    _writes("picture: .png (default), .svg or .pdf; movie: .gif or .mp4"),
    _OVERWRITE,
)  # fmt: skip
_TABLES = (
    _RESULT,
    _SPECIES,
    _takes("--what", metavar="TABLE", help="trajectories, statistics, final, summaries; of a "
           "lattice counts or counts_by_site_type; or a table of an analysis (the first recorded)"),
    _takes("--replica", type=int, metavar="R",
           help="replica of a lattice (tables: all; frames: 0)"),
    _POINT,
    _takes("--steps", metavar="A:B", help="time points of a Bayesian network (all)"),
    _writes(".csv, .tsv, .parquet, - to print; .vtkhdf (ParaView) or .npy of a lattice; .bif of a "
            "Bayesian network"),
    _OVERWRITE,
)  # fmt: skip


def _of_petab() -> Iterable[Argument]:
    from tauslab.options.values.texts import count

    return (
        _takes("problem", type=Path, metavar="PROBLEM.yaml", help="PEtab problem, Version 1"),
        _takes("--parameters", type=Path, metavar="FILE",
               help="table with a row per vector, .tsv or .csv (the nominal values)"),
        _takes("--device", choices=("auto", "cpu", "cuda"), default="auto",
               help="device (auto)"),
        _writes("simulation table; for several vectors, a row per vector", metavar="FILE.tsv"),
        _takes("--particles", type=count, metavar="N",
               help="also estimate the stochastic likelihood, with N particles"),
        _takes("--seed", type=int, help="seed of --particles (drawn by default)"),
        _takes("--molecules", action="store_true",
               help="with --particles: convert amounts to molecules"),
        _takes("--amounts", type=float, metavar="N", help="with --particles: molecules per "
               "unit of the model's amounts"),
        _OVERWRITE,
        _JSON,
    )  # fmt: skip


def _of_check() -> Iterable[Argument | Definition]:
    from tauslab.options.keywords import MoleculesFlag
    from tauslab.options.values.definition import on_command_line

    return (
        _takes("model", type=Path, help="a model file, as for run and rdme; - for standard input"),
        _takes("--max-hop", type=float, metavar="Q", help="lattice: maximum hop probability (1/6)"),
        _takes("--set", action="append", default=[], metavar="NAME=VALUE",
               help="value of a parameter of a lattice, or initial number of particles"),
        _takes("--method", metavar="METHOD", help="exit with code 2 if this method cannot run the "
        "model"),
        *on_command_line(MoleculesFlag),
        _JSON,
    )  # fmt: skip


def _of_slurm() -> Iterable[Argument | Definition]:
    from tauslab.cli.slurm import BatchJob
    from tauslab.options.values.definition import on_command_line

    return (
        *on_command_line(BatchJob),
        _writes("file to write (printed by default)", metavar="FILE"),
        _OVERWRITE,
        _takes("command", nargs="*", metavar="-- run MODEL ...", help="the command to run"),
    )


def _of_precompile() -> Iterable[Argument]:
    from tauslab.options.values.texts import count

    return (
        _takes("--arch", type=count, metavar="N",
               help="compute capability of the GPU, if it is in another machine (H200: 90)"),
        _takes("--ranks", type=count, default=1, metavar="N", help="ranks of the run (1)"),
        _takes("command", nargs=argparse.REMAINDER, metavar="MODEL ...",
               help="the run to compile for: MODEL and options of run or rdme"),
    )  # fmt: skip


def _of_bench() -> Iterable[Argument | Definition]:
    from tauslab.options.keywords import NetworkKeywords
    from tauslab.options.places import CPU
    from tauslab.options.values.definition import on_command_line

    return (
        _takes("--case", action="append", metavar="NAME", help="measure only this case (all)"),
        *(one for one in on_command_line(NetworkKeywords) if one.flags == ("--device",)),
        *on_command_line(CPU),
        _takes("--scale", type=float, default=1.0, help="fraction of each case's trajectories (1)"),
        _takes("--repeat", type=int, default=3, metavar="N", help="timed runs (3); median printed"),
        _JSON,
    )


COMMANDS: Mapping[str, Command] = {
    "run": Command(
        "simulate an ensemble of trajectories", "commands.run:process_run",
        model=".xml, .ant, .net, .bngl, .psc, .toml, .omex, a result (.h5), - for standard input",
    ),
    "rdme": Command(
        "simulate particles on a lattice", "commands.lattice:process_rdme",
        model=".toml or .lm with a lattice, a model or result .h5",
    ),
    "dbn": Command(
        "build a dynamic Bayesian network from an ODE ensemble", "commands.dbn:process_dbn",
        model=".xml, .ant, .net, .bngl, .psc, .toml, or a result (.h5)",
    ),
    "rare": Command(
        "estimate probabilities and rates of rare events",
        "particles.rare:process_rare",
        model=".xml, .ant, .net, .bngl, .psc, .toml, .lm, - for standard input",
    ),
    "filter": Command(
        "estimate the likelihood and the states of a time course",
        "particles.filter:process_filter",
        (_takes("table", type=Path, metavar="DATA.csv", help="data, with a column named time"),),
        model=".xml, .ant, .net, .bngl, .psc, .toml, - for standard input",
    ),
    "petab": Command(
        "compute the objective of a PEtab problem", "commands.petab:process_petab", _of_petab
    ),
    "sensitivity": Command(
        "estimate derivatives of means with respect to parameters",
        "particles.sensitivity:process_sensitivity",
        model=".xml, .ant, .net, .bngl, .psc, .toml, - for standard input",
    ),
    "population": Command(
        "simulate cells that grow and divide", "particles.population:process_population",
        model=".xml, .ant, .psc, .toml, - for standard input",
    ),
    "info": Command(
        "describe a result file", "commands.results:process_info", (_RESULT, _JSON)
    ),
    "plot": Command(
        "draw a result file", "commands.results:process_plot", _PICTURES
    ),
    "export": Command(
        "convert a result: tables, frames, networks",
        "commands.results:process_export", _TABLES,
    ),
    "digest": Command(
        "print a SHA-256 of a result, the same on every machine", "commands.results:process_digest",
        (_RESULTS, _SPECIES, _JSON),
    ),
    "merge": Command(
        "merge the parts of a result, or the files of a job array, into one file",
        "commands.results:process_merge",
        (_RESULTS, _writes("file that joins points or replicas of several files"), _OVERWRITE,
         _takes("--incomplete", action="store_true",
                help="join files even if others of their array are missing"),
         _takes("--compress", type=int, default=0, metavar="1-9",
                         help="gzip level (none)")),
    ),
    "check": Command(
        "describe a model and list the methods that can run it", "commands.check:process_check",
        _of_check,
    ),
    "doctor": Command(
        "report this machine's compilers, devices and MPI", "commands.machine:process_doctor",
        (_takes("--folder", type=Path, metavar="DIR", help="folder whose write speed is measured "
        "(the current one)"), _JSON),
    ),
    "bench": Command(
        "measure the speed of this machine with test models", "commands.machine:process_bench",
        _of_bench,
    ),
    "slurm": Command("write a batch script for SLURM", "main:write_batch_script", _of_slurm),
    "precompile": Command(
        "compile the kernels of a run in advance", "main:precompile", _of_precompile
    ),
    "example": Command(
        "list examples, or print one", "commands.example:process_example",
        (_takes("name", nargs="?", metavar="NAME", help="an example, such as telegraph"),),
    ),
    "completion": Command(
        "print a shell completion script", "main:print_completion",
        (_takes("shell", choices=SHELLS, help="the shell"),),
    ),
    "help": Command(
        "list the commands, or the options of a command", "main:print_help",
        (_takes("about", nargs="?", metavar="COMMAND", help="a command"),),
    ),
}  # fmt: skip

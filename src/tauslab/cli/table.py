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
_JSON = _takes("--json", action="store_true", help="for programs")
_OVERWRITE = _takes("--overwrite", action="store_true", help="replace an existing file")
_POINT = _takes("--point", type=int, metavar="P", help="of a sweep of a lattice (all)")
_SPECIES = _takes("--species", metavar="A,B", help="these only")
_KINDS = ("auto", "trajectories", "mean", "histogram", "heatmap", "modes", "counts", "kymograph",
          "slice", MOVIE)  # fmt: skip
_PICTURES = (
    _RESULT,
    _takes("--kind", choices=_KINDS, default="auto", help="auto: what suits the data"),
    _takes("--species", metavar="A,B", help="these (the first 4 that change)"),
    _takes("--summary", metavar="NAME", help="a recorded summary, over what was swept"),
    _takes("--t", type=float, metavar="T",
           help="sample time of a histogram or a slice, or of a sweep"),
    _takes("--axis", choices=("z", "y", "x"), help="of a kymograph; across a slice"),
    _takes("--replica", type=int, default=0, metavar="R", help="of a lattice file (0)"),
    _POINT,
    _writes(".png (the default), .svg or .pdf; a movie is .gif or .mp4"),
    _OVERWRITE,
)  # fmt: skip


def _of_petab() -> Iterable[Argument]:
    from tauslab.options.values.texts import count

    return (
        _takes("problem", type=Path, metavar="PROBLEM.yaml", help="of PEtab, Version 1"),
        _takes("--parameters", type=Path, metavar="FILE",
               help="a row of values for each vector, .tsv or .csv (the nominal ones)"),
        _takes("--device", choices=("auto", "cpu", "cuda"), default="auto",
               help="where it runs (auto)"),
        _writes("the simulation table; of several vectors a row for each", metavar="FILE.tsv"),
        _takes("--particles", type=count, metavar="N",
               help="also the likelihood of the model by chance, by a filter of N particles"),
        _takes("--seed", type=int, help="of these particles (one by chance)"),
        _takes("--molecules", action="store_true",
               help="particles: convert amounts to molecules"),
        _takes("--amounts", type=float, metavar="N", help="particles: count N of each unit of the "
               "model's amounts; 1 reads them as counts"),
        _OVERWRITE,
        _JSON,
    )  # fmt: skip


def _of_export() -> Iterable[Argument]:
    from tauslab.store.results.tables import WHAT, WHAT_OF_CELLS

    return (
        _RESULT,
        _SPECIES,
        _takes("--what", choices=(*WHAT, *WHAT_OF_CELLS), help="the table of trajectories (if they "
               "were recorded), mean and sd, last values, ..."),
        _takes("--replica", type=int, default=0, metavar="R", help="which one (0)"),
        _POINT,
        _takes("--steps", metavar="A:B", help="time points of a network that is written"),
        _writes(".csv, .tsv, - to print; of a lattice .vtkhdf (ParaView) or .npy (napari); .bif"),
        _OVERWRITE,
    )  # fmt: skip


def _of_check() -> Iterable[Argument | Definition]:
    from tauslab.options.keywords import MoleculesFlag
    from tauslab.options.values.definition import on_command_line

    return (
        _takes("model", type=Path, help="as for run and rdme; - for standard input"),
        _takes("--max-hop", type=float, metavar="Q", help="of a lattice, as for rdme (1/6)"),
        _takes("--set", action="append", default=[], metavar="NAME=VALUE",
               help="of a lattice, as for rdme"),
        *on_command_line(MoleculesFlag),
        _JSON,
    )  # fmt: skip


def _of_slurm() -> Iterable[Argument | Definition]:
    from tauslab.cli.slurm import BatchJob
    from tauslab.options.values.definition import on_command_line

    return (
        *on_command_line(BatchJob),
        _writes("instead of printing it", metavar="FILE"),
        _OVERWRITE,
        _takes("command", nargs="*", metavar="-- run MODEL ...", help="what to run"),
    )


def _of_bench() -> Iterable[Argument | Definition]:
    from tauslab.options.keywords import NetworkKeywords
    from tauslab.options.places import CPU
    from tauslab.options.values.definition import on_command_line

    return (
        _takes("--case", action="append", metavar="NAME", help="one or more cases (all)"),
        *(one for one in on_command_line(NetworkKeywords) if one.flags == ("--device",)),
        *on_command_line(CPU),
        _takes("--scale", type=float, default=1.0, help="fraction of each case's trajectories"),
        _takes("--repeat", type=int, default=3, metavar="N", help="timed runs (3), median"),
        _JSON,
    )


COMMANDS: Mapping[str, Command] = {
    "run": Command(
        "simulate an ensemble of trajectories", "commands.run:process_run",
        model=".xml, .ant, .net, .bngl, .toml, .omex, a result (.h5), - for standard input",
    ),
    "rdme": Command(
        "simulate particles on a lattice", "commands.lattice:process_rdme",
        model=".toml or .lm with a lattice, a model or result .h5",
    ),
    "dbn": Command(
        "make a dynamic Bayesian network from an ODE ensemble", "commands.dbn:process_dbn",
        model=".xml, .ant, .net, .bngl, .toml, or a result (.h5)",
    ),
    "rare": Command(
        "find the probability, or the rate, of reaching a target seldom reached",
        "particles.rare:process_rare",
        model=".xml, .ant, .net, .bngl, .toml, .lm, - for standard input",
    ),
    "filter": Command(
        "find the likelihood of a time course, and the states behind it",
        "particles.filter:process_filter",
        (_takes("table", type=Path, metavar="DATA.csv", help="columns, one of them time"),),
        model=".xml, .ant, .net, .bngl, .toml, - for standard input",
    ),
    "petab": Command(
        "find the objective of a PEtab problem", "commands.petab:process_petab", _of_petab
    ),
    "sensitivity": Command(
        "find how means change with parameters, with errors",
        "particles.sensitivity:process_sensitivity",
        model=".xml, .ant, .net, .bngl, .toml, - for standard input",
    ),
    "population": Command(
        "simulate cells that grow and divide", "particles.population:process_population",
        model=".xml, .ant, .toml, - for standard input",
    ),
    "info": Command(
        "say what a result file holds", "commands.results:process_info", (_RESULT, _JSON)
    ),
    "plot": Command(
        "draw a result file", "commands.results:process_plot", _PICTURES
    ),
    "report": Command(
        "write a page of HTML about a result, with pictures", "commands.results:process_report",
        (_RESULT, _writes(".html; the file's stem + .html"), _OVERWRITE),
    ),
    "export": Command(
        "write a result for other programs: tables, frames, networks",
        "commands.results:process_export", _of_export,
    ),
    "digest": Command(
        "SHA-256 of a result, the same on every machine", "commands.results:process_digest",
        (_RESULT, _SPECIES, _JSON),
    ),
    "merge": Command(
        "turn a result in parts into one file", "commands.results:process_merge",
        (_RESULT, _takes("--compress", type=int, default=0, metavar="1-9",
                         help="gzip level (none)")),
    ),
    "check": Command(
        "say what a model holds and which methods can run it", "commands.check:process_check",
        _of_check,
    ),
    "doctor": Command(
        "say what this machine offers, and each rank's device", "commands.machine:process_doctor",
        (_takes("--folder", type=Path, metavar="DIR", help="for results (this one)"), _JSON),
    ),
    "bench": Command(
        "measure the speed of this machine on known models", "commands.machine:process_bench",
        _of_bench,
    ),
    "slurm": Command("write a batch script for SLURM", "main:write_batch_script", _of_slurm),
    "completion": Command(
        "print a script that completes commands", "main:print_completion",
        (_takes("shell", choices=SHELLS, help="the shell that it is for"),),
    ),
    "help": Command(
        "tell what there is, or the options of a command", "main:tell_help",
        (_takes("about", nargs="?", metavar="COMMAND", help="one of the commands"),),
    ),
}  # fmt: skip

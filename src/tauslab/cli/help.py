"""Help texts of the command line, and messages for wrong words."""

from __future__ import annotations

import argparse
import difflib
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from tauslab.base.errors import ConfigError, TauslabError, meant_word
from tauslab.base.files.extras import installing
from tauslab.base.files.opening import at_home
from tauslab.base.unknown import nearest
from tauslab.decomposition.ranks.launcher import launched_rank, under_launcher
from tauslab.model.names import one_line

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

EPILOG = """\
tauslab help COMMAND lists the options of a command, with examples.
exit codes: 0 success, 1 failure, 2 bad input, 75 stopped early and can be resumed"""

EXAMPLES: Mapping[str, str] = {
    "run": """\
  tauslab run model.xml --t-end 100 --points 201 -n 1e4 --seed 1 -o out.h5
  tauslab run model.net --t-end 100 --set k1=0.5 --set A=200 --species A,B
  tauslab run model.toml --t-end 100 --sweep k1=log:0.1:10:20 --record statistics
  tauslab run model.xml --t-end 100 --record statistics,histogram:A:0:500:50
  tauslab run model.xml --t-end 100 --method ode --sample "k1=lognormal(0,0.3)"
  tauslab run out.h5 -n 1e5 -o more.h5     # the same job again, larger
  mpirun -n 8 tauslab run model.xml --t-end 100 -n 1e8 --record statistics
  cat model.xml | tauslab run - --t-end 100 --json""",
    "rdme": """\
  tauslab rdme cell.toml --t-end 10 --count-every 100 --frame-every 10000 -o cell.h5
  tauslab rdme cell.lm --t-end 10 --replicas 4
  mpirun -n 4 tauslab rdme cell.toml --t-end 10 --slabs 4""",
    "dbn": """\
  tauslab dbn model.xml --unknown k1,k2 --range k1=0.1:2 --samples 3e6 --t-end 10""",
    "rare": """\
  tauslab rare model.xml --target "X >= 48" --t-end 10 --seed 1
  tauslab rare model.xml --target "X >= 48" --t-end 10 --runs 50 --walkers 200 -o rare.h5
  tauslab rare model.xml --target "X >= 48" --t-end 100 --steady
  tauslab rare model.xml --target "X >= 48 && Y == 0" --coordinate "X - Y" --t-end 10 --json""",
    "filter": """\
  tauslab filter model.xml data.csv --observe "X=normal(10)" -n 1e4 --seed 1
  tauslab filter model.xml data.csv --observe "gfp=X:poisson(0.3)" --initial "X=poisson(50)"
  mpirun -n 4 tauslab filter model.xml data.csv --observe "X=normal(10)" -n 1e6 --json""",
    "petab": """\
  tauslab petab problem.yaml -o simulations.tsv
  tauslab petab problem.yaml --parameters vectors.tsv --json""",
    "sensitivity": """\
  tauslab sensitivity model.xml --t 10 --seed 1
  tauslab sensitivity model.xml --parameters k1,k2,A --outputs "X,Y,X > 10" --t 1,5,10
  tauslab sensitivity model.xml --t 10 --step k1=1e-3 --step k2=0.1 -o s.h5
  mpirun -n 4 tauslab sensitivity model.xml --t 10 -n 1e6 --json""",
    "population": """\
  tauslab population cell.toml --division divide --t 2,4,8 --cells 1e4 --seed 1 -o cells.h5
  tauslab population cell.toml --division divide --t 8 --partition X=even --json
  tauslab export cells.h5 --what divisions -o divisions.csv""",
    "plot": """\
  tauslab plot out.h5 --species A,B
  tauslab plot out.h5 --species A --kind histogram --t 10 -o a.png
  tauslab plot cell.h5 --kind kymograph --species minDm
  tauslab plot cell.h5 --kind movie -o cell.gif""",
    "export": """\
  tauslab export out.h5 -o out.csv                          # a row per trajectory and time
  tauslab export out.h5 --what statistics --species A,B -o mean.tsv
  tauslab export out.h5 --what statistics -o - | head       # to standard output
  tauslab export cell.h5 -o cell.csv                        # particles over time
  tauslab export cell.h5 -o cell.vtkhdf                     # frames for ParaView
  tauslab export network.h5 --steps 0:5 -o network.bif""",
    "check": """\
  tauslab check model.xml
  tauslab check cell.toml --set D=1e-12
  tauslab check model.xml --json""",
    "example": """\
  tauslab example telegraph > telegraph.toml""",
    "completion": """\
  tauslab completion bash > ~/.local/share/bash-completion/completions/tauslab
  tauslab completion zsh > ~/.zfunc/_tauslab      # a folder of $fpath""",
    "slurm": """\
  tauslab slurm --nodes 4 --gpus-per-node 8 -o job.sbatch -- run model.xml -n 1e8 --t-end 10""",
}


def examples(command: str) -> str | None:
    """Examples, which follow the options of a command."""
    return f"examples:\n{EXAMPLES[command]}" if command in EXAMPLES else None


_CALLED_COMMANDS: Mapping[str, str] = dict.fromkeys(
    ("devices", "gpus", "environment", "env", "version"), "doctor"
) | {"validate": "check", "simulate": "run", "lattice": "rdme", "show": "info", "join": "merge"}

# Seconds: many launchers end all ranks as soon as one has left, and the first has to speak.
_AFTER = 1.0


def speaks() -> bool:
    """Return whether this rank prints an error: one that reaches the end is that of all ranks."""
    if not under_launcher():
        return True
    from tauslab.decomposition.ranks.all_ranks import ranks

    try:
        return ranks().rank == 0
    except TauslabError as error:  # the ranks did not find each other
        if error.raised_by == 1 or launched_rank() == 0:
            return True
        time.sleep(_AFTER)
        return False


def _keyword(flag: str) -> str:
    return flag.lstrip("-").replace("-", "_")


def _number(text: str) -> float:
    """A number."""
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no number, such as 10 or 1e-3") from None


def _whole_number(text: str) -> int:
    """A whole number with all its digits: the last one of a seed counts."""
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number, such as 12") from None


def _path(text: str) -> Path:
    """A file; ``Path("")`` would be the folder in which the command runs."""
    if not text:
        raise argparse.ArgumentTypeError("it is empty: the name of a file is expected")
    return at_home(text)


class Parser(argparse.ArgumentParser):
    """Prints help once, whatever the number of ranks, and wrong words as any bad input."""

    def __init__(self, *args: Any, **given: Any) -> None:
        """Reword two messages: of a text that is no number, and of an empty name of a file."""
        super().__init__(*args, **given)
        self.register("type", Path, _path)
        self.register("type", float, _number)
        self.register("type", int, _whole_number)
        self.register("action", None, _Once)
        self.register("action", "store", _Once)

    def error(self, message: str) -> NoReturn:
        """Raise it: one sentence, on one rank."""
        raise ConfigError(f"{message}; {self.prog} --help lists the options")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Refuse what is not known in the words of the command that it was given to."""
        self.given: dict[str, object] = {}  # values of flags so far, by destination
        result, left = super().parse_known_args(args, namespace)
        if left:
            known = [name for action in self._actions for name in action.option_strings]
            near = nearest(_keyword(left[0].partition("=")[0]), list(map(_keyword, known)))
            flags = {_keyword(name): name for name in known}
            meant = f" (is {flags[near[0]]} meant?)" if near else ""
            others = [a.metavar for a in self._actions if str(a.metavar).startswith("-- ")]
            if others and not near:
                meant = f": arguments of the command go after {others[0]}"
            self.error(f"unrecognized arguments: {' '.join(left)}{meant}")
        return result, left

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Say which word may be meant, and of a model that `run` is missing."""
        words = [] if action.choices is None else [str(word) for word in action.choices]
        if not words or value in action.choices:  # type: ignore[operator]
            return
        given = str(value)
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - its only name
            from tauslab.formats.read import READERS

            if Path(given).suffix.lower() in READERS:
                verb = "info" if given.lower().endswith(".h5") else "run"
                self.error(f"{given} is no command: is tauslab {verb} {given} meant?")
            if given in ("resume", "append", "extend"):
                self.error(f"{given} is no command: tauslab run FILE --{given} does it")
            near = difflib.get_close_matches(given, words, n=1)
            near = [_CALLED_COMMANDS[given]] if given in _CALLED_COMMANDS else near
            self.error(
                f"there is no command {given!r}"
                + (f": is {near[0]} meant?" if near else f"; commands: {', '.join(words)}")
            )
        near_word = meant_word(given, words)
        meant = f"; is {near_word} meant?" if near_word else ""
        shown = ", ".join(map(repr, words))
        raise argparse.ArgumentError(
            action, f"invalid choice: {given!r} (choose from {shown}{meant})"
        )

    def _print_message(self, message: str, file: SupportsWrite[str] | None = None) -> None:
        if speaks():
            super()._print_message(message, file)


class _Once(argparse._StoreAction):  # noqa: SLF001 - its only name
    """Stores a value, and warns of a flag that is given twice: the last is taken."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,
    ) -> None:
        """Store it."""
        given = getattr(parser, "given", {})
        if self.dest in given and given[self.dest] != values and speaks():
            first, last = (one_line(str(value)) for value in (given[self.dest], values))
            print(
                f"tauslab: warning: {option_string} is given twice, as {first} and as {last}: "
                "the last is taken",
                file=sys.stderr,
            )
        given[self.dest] = values
        setattr(namespace, self.dest, values)


SHELLS = ("bash", "zsh", "tcsh")


def completion_script(parser: argparse.ArgumentParser, shell: str) -> str:
    """The script for a shell, made by shtab of the parser.

    Raises
    ------
    ConfigError
        shtab is not installed.
    """
    try:
        import shtab
    except ImportError:
        raise ConfigError(f"completion needs shtab: {installing('shtab')}") from None
    _name_files(parser, shtab.FILE)
    script: str = shtab.complete(parser, shell=shell)
    return script


def _name_files(parser: argparse.ArgumentParser, files: object) -> None:
    """Have arguments that are paths completed as such."""
    for action in parser._actions:  # noqa: SLF001 - argparse has no other way to them
        if action.type is Path:
            action.complete = files  # type: ignore[attr-defined]
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - its only name
            for command in action.choices.values():
                _name_files(command, files)

"""The page of docs/reference that tells the command line, from its parser."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping

from tauslab.cli import help as cli_help
from tauslab.cli import main as cli
from tauslab.options.values.definition import GROUPS

_INTRO = """\
`tauslab COMMAND --help` tells the same. What stands in brackets is the default. Exit codes: 0 done,
1 failure, 2 bad input, 75 stopped early and can be resumed, 130 interrupted before there was
anything to resume.

Under `mpirun` or `srun` a command runs on all ranks. In Python, `run` and `rdme` are
[`tauslab.run`]({run}): its keywords are the options, with `_` for `-`; options of a method, a device,
an output file and of Dask are fields of the objects `tauslab.SSA`, `tauslab.TauLeaping`,
`tauslab.Auto`, `tauslab.ODE`, `tauslab.CPU`, `tauslab.GPU`, `tauslab.Output` and `tauslab.Dask`.
`--molecules` is [`tauslab.in_molecules`]({molecules}), `dbn` is
[`tauslab.dbn.build`]({build}). `--max-time` has no counterpart."""
_PAGES = {
    "run": ("tau-leaping", "ode", "sweeps", "summaries", "large-networks", "convergence",
            "clusters", "dask"),
    "rdme": ("lattices", "rdme", "halo"),
    "dbn": ("dbn", "ode"),
    "rare": ("rare-events",),
    "filter": ("particles",),
    "petab": ("petab",),
    "sensitivity": ("sensitivities",),
    "population": ("populations",),
    "info": ("file-format",),
    "plot": ("summaries",),
    "report": ("tables", "file-format"),
    "export": ("tables", "lattices", "dbn"),
    "digest": ("file-format",),
    "merge": ("clusters",),
    "check": ("sbml", "model-toml", "lattices"),
    "doctor": ("clusters",),
    "slurm": ("slurm",),
    "bench": ("benchmarks/README",),
    "completion": ("tutorial",),
    "help": ("index",),
}  # fmt: skip


def page(places: Mapping[str, str]) -> str:
    """All commands, in the order of the help."""
    called = {"run": "run", "molecules": "in_molecules", "build": "dbn.build"}
    found = {key: places[f"tauslab.{name}"] for key, name in called.items()}
    parts = ["# Command line", _INTRO.format(**found)]
    for name, parser in _commands():
        more = ", ".join(f"[{stem}.md](../{stem}.md)" for stem in _PAGES[name])
        parts += [f"## tauslab {name}", f"{parser.description} More: {more}", _table(parser)]
        if name in cli_help.EXAMPLES:
            lines = [line.removeprefix("  ") for line in cli_help.EXAMPLES[name].splitlines()]
            parts.append("\n".join(["```", *lines, "```"]))
    return "\n\n".join(parts) + "\n"


def _commands() -> Iterator[tuple[str, argparse.ArgumentParser]]:
    # argparse has no other way to ask.
    for action in cli._parser()._actions:  # noqa: SLF001
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            yield from action.choices.items()


def _table(parser: argparse.ArgumentParser) -> str:
    """The options, under the headings of their groups."""
    lines = ["| argument or option | meaning |", "|---|---|"]
    for group in parser._action_groups:  # noqa: SLF001
        own = [a for a in group._group_actions if a.dest != "help"]  # noqa: SLF001
        if own and group.title in GROUPS:
            lines.append(f"| **{group.title}** | |")
        lines += [f"| {_spelt(action)} | {_told(action)} |" for action in own]
    return "\n".join(lines)


def _spelt(action: argparse.Action) -> str:
    """The option with its values, as a user types it."""
    values = action.metavar or ("|".join(map(str, action.choices)) if action.choices else "")
    if not action.option_strings:
        return f"`{action.metavar or action.dest.upper()}`"
    values = f" {values or action.dest.upper()}" if action.nargs != 0 else ""
    return f"`{', '.join(action.option_strings)}{values}`".replace("|", "\\|")


def _told(action: argparse.Action) -> str:
    told = (action.help or "").replace("|", "\\|")
    again = isinstance(action, argparse._AppendAction)  # noqa: SLF001
    return f"{told}{'; may be repeated' if again else ''}"

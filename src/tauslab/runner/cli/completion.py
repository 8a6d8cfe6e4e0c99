"""``tauslab completion``: a script that lets a shell complete commands, options and files."""

from __future__ import annotations

import argparse
from pathlib import Path

from tauslab.model.errors import ConfigError
from tauslab.model.files.extras import installing

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
        raise ConfigError(f"completion needs shtab: {installing('completion')}") from None
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

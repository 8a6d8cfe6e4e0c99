"""``tauslab example``: the files of the folder ``examples``, which the package holds too."""

from __future__ import annotations

import argparse
from pathlib import Path

from tauslab.base.errors import ConfigError
from tauslab.model.network.counts import meant

_PACKAGE = Path(__file__).resolve().parents[2]


def example_files() -> dict[str, Path]:
    """Examples by name: models first, then programs and their data."""
    folders = (_PACKAGE / "examples", _PACKAGE.parents[1] / "examples")  # installed, in a checkout
    folder = next((one for one in folders if one.is_dir()), None)
    files = [] if folder is None else [one for one in folder.glob("*.*") if one.name != "README.md"]
    order = {".toml": 0, ".xml": 1, ".py": 2}
    return {one.name: one for one in sorted(files, key=lambda f: (order.get(f.suffix, 3), f.name))}


def process_example(arguments: argparse.Namespace) -> None:
    """``tauslab example``: list them, or print one."""
    files = example_files()
    if arguments.name is None:
        widest = max(map(len, files), default=0)
        for name, path in files.items():
            print(f"{name:{widest}}  {_about(path)}".rstrip())
        return
    names = {path.stem: path for path in reversed(files.values())} | files  # models by their stem
    if arguments.name not in names:
        raise ConfigError(
            f"{arguments.name!r} is not an example{meant(arguments.name, names)}; tauslab example "
            "lists them"
        )
    print(names[arguments.name].read_text(encoding="utf-8"), end="")


def _about(path: Path) -> str:
    """The first line of a TOML model or of a program, its title; empty for other files."""
    with path.open(encoding="utf-8") as file:
        first = file.readline().strip()
    return first.lstrip('#"').strip() if first.startswith(("#", '"')) else ""

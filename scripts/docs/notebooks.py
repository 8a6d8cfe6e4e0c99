"""Notebooks of docs/notebooks: runs the percent scripts and writes pages with what they print and draw.

A notebook is a Python file with cells, as jupytext has them (``# %%``, ``# %% [markdown]``), so it
opens in Jupyter and in editors. ``python scripts/docs/notebooks.py`` runs all of them and writes a
page NAME.md and pictures beside each.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import io
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "notebooks"
_CELL = re.compile(r"(?m)^# %%(.*)$")
_DPI = 80


@dataclass
class Cell:
    """A cell: text of a page, or code with what it printed and the pictures it drew."""

    source: str
    markdown: bool
    printed: str = ""
    pictures: list[bytes] = field(default_factory=list)


def cells(text: str) -> Iterator[Cell]:
    """The cells of a percent script."""
    pieces = _CELL.split(text)[1:]
    for head, body in zip(pieces[::2], pieces[1::2], strict=True):
        if "[markdown]" in head:
            lines = (re.sub(r"^# ?", "", line) for line in body.strip().splitlines())
            yield Cell("\n".join(lines), markdown=True)
        else:
            yield Cell(body.strip(), markdown=False)


def executed(path: Path, change: Callable[[str], str] = str) -> list[Cell]:
    """Run a notebook in one namespace; `change` may make its numbers smaller.

    Raises
    ------
    Exception
        What a cell raises; a notebook's asserts are its checks.
    """
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    module = ModuleType("__main__")  # a name that classes and functions of a cell may have
    names: dict[str, Any] = module.__dict__
    found = list(cells(path.read_text(encoding="utf-8")))
    for cell in found:
        if cell.markdown:
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            _run(change(cell.source), f"{path.name}", names)
        cell.printed = printed.getvalue()
        cell.pictures = [_png(plt.figure(number)) for number in plt.get_fignums()]
        figure = names.get("figure")
        if not cell.pictures and figure is not None and "figure = " in cell.source:
            cell.pictures = [_png(figure)]
        plt.close("all")
    return found


def _run(source: str, name: str, names: dict[str, Any]) -> None:
    """Execute a cell; the value of an expression at its end is printed, as Jupyter shows it."""
    tree = ast.parse(source, name)
    last = tree.body[-1] if tree.body else None
    shown = isinstance(last, ast.Expr)
    body = ast.Module(tree.body[:-1] if shown else tree.body, [])
    exec(compile(body, name, "exec"), names)  # noqa: S102 - that is what a notebook is
    if shown and isinstance(last, ast.Expr):
        value = eval(compile(ast.Expression(last.value), name, "eval"), names)  # noqa: S307
        if value is not None:
            print(repr(value))


def _png(figure: Any) -> bytes:
    data = io.BytesIO()
    figure.savefig(data, format="png", dpi=_DPI, bbox_inches="tight", metadata={"Software": None})
    return data.getvalue()


def page(name: str, found: list[Cell]) -> tuple[str, dict[str, bytes]]:
    """The Markdown of an executed notebook, and its pictures by name."""
    parts: list[str] = []
    pictures: dict[str, bytes] = {}
    for cell in found:
        if cell.markdown:
            parts.append(cell.source)
            continue
        parts.append(f"```py\n{cell.source}\n```")
        if cell.printed.strip():
            parts.append(f"```text\n{cell.printed.rstrip()}\n```")
        for data in cell.pictures:
            picture = f"{name}-{len(pictures) + 1}.png"
            pictures[picture] = data
            parts.append(f"![{name}, drawn by the cell above]({picture})")
    parts.append(f"[The notebook]({name}.py)")
    return "\n\n".join(parts) + "\n", pictures


def main() -> None:
    """Run the notebooks that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="without .py; all by default")
    os.environ["TAUSLAB_ROOT"] = str(ROOT)
    for name in parser.parse_args().names or sorted(path.stem for path in FOLDER.glob("*.py")):
        text, pictures = page(name, executed(FOLDER / f"{name}.py"))
        (FOLDER / f"{name}.md").write_text(text, encoding="utf-8")
        for picture, data in pictures.items():
            (FOLDER / picture).write_bytes(data)
        print(name)


if __name__ == "__main__":
    main()

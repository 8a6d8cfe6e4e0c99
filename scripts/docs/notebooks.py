"""Notebooks of docs/notebooks: runs the percent scripts and writes them as .ipynb, with outputs.

A source is a Python file with cells, as jupytext has them (``# %%``, ``# %% [markdown]``).
``python scripts/docs/notebooks.py`` runs all of them and writes NAME.ipynb beside each.
"""

from __future__ import annotations

import argparse
import ast
import base64
import contextlib
import io
import json
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
    result = list(cells(path.read_text(encoding="utf-8")))
    for cell in result:
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
    return result


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


def notebook(found: list[Cell]) -> str:
    """The JSON (nbformat 4.5) of an executed notebook."""
    counted, made = 0, []
    for k, cell in enumerate(found):
        entry: dict[str, Any] = {
            "cell_type": "markdown" if cell.markdown else "code",
            "id": f"cell-{k}",
            "metadata": {},
            "source": cell.source.splitlines(keepends=True),
        }
        if not cell.markdown:
            counted += 1
            entry |= {"execution_count": counted, "outputs": list(_outputs(cell))}
        made.append(entry)
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    whole = {
        "cells": made,
        "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


def _outputs(cell: Cell) -> Iterator[dict[str, Any]]:
    if cell.printed.strip():
        lines = cell.printed.splitlines(keepends=True)
        yield {"name": "stdout", "output_type": "stream", "text": lines}
    for picture in cell.pictures:
        data = {"image/png": base64.b64encode(picture).decode()}
        yield {"data": data, "metadata": {}, "output_type": "display_data"}


def without_pictures(text: str) -> list[dict[str, Any]]:
    """The cells of a notebook; pictures, which depend on the version of matplotlib, are empty."""
    cells: list[dict[str, Any]] = json.loads(text)["cells"]
    for cell in cells:
        for output in cell.get("outputs", ()):
            if "data" in output:
                output["data"] = {"image/png": ""}
    return cells


def main() -> None:
    """Run the notebooks that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="without .py; all by default")
    os.environ["TAUSLAB_ROOT"] = str(ROOT)
    for name in parser.parse_args().names or sorted(path.stem for path in FOLDER.glob("*.py")):
        text = notebook(executed(FOLDER / f"{name}.py"))
        (FOLDER / f"{name}.ipynb").write_text(text, encoding="utf-8")
        print(name)


if __name__ == "__main__":
    main()

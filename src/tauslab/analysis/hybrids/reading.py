"""Hybrids in TOML: ``[hybrid]``, ``[[parts]]``, ``[[links]]`` and ``[divide]``."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tauslab.analysis.hybrids.hybrid import Hybrid
from tauslab.base.errors import ModelError, TauslabError
from tauslab.options.methods import method_with

_LINKS = {
    "drive": ("target", "formula"), "share": ("first", "second"), "bill": ("events", "pools"),
    "credit": ("events", "pools"), "set_rate": ("pattern", "formula"),
}  # fmt: skip


def read_hybrid(path: Path) -> Hybrid:
    """Read a hybrid; models of parts are files beside it.

    Raises
    ------
    ModelError
        The file is malformed; it and the table are named.
    """
    try:
        content = tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"{path}: cannot be read: {error}") from None
    if unknown := content.keys() - {"hybrid", "parts", "links", "divide"}:
        raise ModelError(f"{path}: there is no table {min(unknown)!r} of a hybrid")
    what = "[hybrid]"
    try:
        made = Hybrid(**{"name": path.stem, **content.get("hybrid", {})})
        for number, one in enumerate(content.get("parts", []), 1):
            what = f"part {one.get('name', number)}"
            _add_part(made, one, path.parent)
        for number, one in enumerate(content.get("links", []), 1):
            what = f"link {number}"
            _add_link(made, one)
        if "divide" in content:
            what = "[divide]"
            made.divide(**content["divide"])
    except (TauslabError, TypeError, KeyError, AttributeError) as error:
        raise ModelError(f"{path}: {what}: {error}") from None
    return made


def _add_part(hybrid: Hybrid, table: Mapping[str, Any], folder: Path) -> None:
    given = dict(table)
    settings = given.pop("settings", {})
    if settings:
        given["method"] = method_with(given.get("method", "ssa"), settings)
    model = given.pop("model", None)
    if not isinstance(model, str):
        raise ModelError("model = is the file of a network or a lattice")
    hybrid.add_part(given.pop("name"), folder / model, **given)


def _add_link(hybrid: Hybrid, table: Mapping[str, Any]) -> None:
    given = dict(table)
    kind = given.pop("kind", None)
    if kind not in _LINKS:
        raise ModelError(f"kind = {kind!r} is none of {', '.join(_LINKS)}")
    ends = [given.pop(name) for name in _LINKS[kind]]
    getattr(hybrid, kind)(*ends, **given)

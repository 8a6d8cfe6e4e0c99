"""Pieces of HTML for notebooks, with every text escaped; lists of lines."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence

_CELL = "padding: 2px 12px 2px 0; text-align: left; vertical-align: top"


def escape(text: object) -> str:
    """A text as HTML shows it, whatever is in it."""
    return html.escape(str(text), quote=True)


def table(header: Sequence[str], rows: Sequence[Sequence[object]], *, more: int = 0) -> str:
    """A table with a line for each row, and one that says how many more there are."""
    if not rows:
        return ""
    head = "".join(f'<th style="{_CELL}">{escape(name)}</th>' for name in header)
    body = "".join(
        "<tr>" + "".join(f'<td style="{_CELL}">{escape(cell)}</td>' for cell in row) + "</tr>"
        for row in rows
    )
    if more > 0:
        body += f'<tr><td style="{_CELL}" colspan="{len(header)}">and {more:,} more</td></tr>'
    return (
        f'<table class="tauslab rows"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
    )


def definitions(facts: Mapping[str, object]) -> str:
    """Facts by name, a line for each; what is empty is left out."""
    rows = "".join(
        f'<tr><th style="{_CELL}">{escape(name)}</th><td style="{_CELL}">{escape(value)}</td></tr>'
        for name, value in facts.items()
        if value not in ("", None)
    )
    return f'<table class="tauslab facts"><tbody>{rows}</tbody></table>'


def folded(title: str, inner: str) -> str:
    """A part that a click opens; nothing where there is nothing in it."""
    return f"<details><summary>{escape(title)}</summary>{inner}</details>" if inner else ""


def card(title: str, facts: Mapping[str, object], parts: Sequence[str] = ()) -> str:
    """The card of an object in a notebook: its name, facts, and parts that are HTML already."""
    return f"<div><b>{escape(title)}</b>{definitions(facts)}{''.join(parts)}</div>"


class Listing(str):
    """A text that is shown as it is, not as a quoted one."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self)}</pre>"

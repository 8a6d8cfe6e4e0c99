"""Numpy-style docstrings as Markdown, with links to what they name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

_NAMED = ("Parameters", "Attributes", "Raises")
_HEADING = re.compile(r"(?m)^(Parameters|Attributes|Returns|Raises|Examples)\n-{3,}\n")
# Names in backquotes, and pages of docs/ that stand in a sentence. Until both are linked, blocks of
# code stand between tildes.
_REFERENCE = re.compile(r"(?<![\[`])`([A-Za-z_][\w.]*)`(?!`)")
_PAGE = re.compile(r"(?<![\w/\[])`{0,2}docs/([\w-]+)\.md`{0,2}")


def anchor(title: str) -> str:
    """What GitHub and mkdocs make of a heading."""
    return re.sub(r"[^\w\s-]", "", title).strip().lower().replace(" ", "-")


def markdown(docstring: str, places: Mapping[str, str], page: str, own: str) -> str:
    """A docstring; `places` says where names stand, `page` and `own` where the text itself does."""
    first, *rest = _HEADING.split(docstring)
    parts = [_body(first)]
    for name, text in zip(rest[::2], rest[1::2], strict=True):
        parts.append(f"**{name}**")
        parts.append("\n".join(_items(text)) if name in _NAMED else _body(text))
    return linked("\n\n".join(part for part in parts if part), places, page, own)


def linked(text: str, places: Mapping[str, str], page: str, own: str) -> str:
    """The same text with links, outside of blocks of code."""

    def name(match: re.Match[str]) -> str:
        place = places.get(match[1])
        if place is None or own in {match[1], match[1].removeprefix("tauslab.")}:
            return match[0]
        return f"[{match[0]}]({place.removeprefix(f'{page}.md')})"

    pieces = re.split(r"(?ms)(^~~~\w+$.*?^~~~$)", text)
    return "".join(
        piece.replace("~~~", "```")
        if piece.startswith("~~~")
        else _PAGE.sub(r"[\1.md](../\1.md)", _REFERENCE.sub(name, piece.replace("``", "`")))
        for piece in pieces
    )


def _body(text: str) -> str:
    """Paragraphs as they are; examples and what is indented as blocks of code."""
    parts = []
    for paragraph in re.split(r"\n{2,}", text.strip("\n")):
        if paragraph.startswith(">>> "):
            parts.append(f"~~~pycon\n{paragraph}\n~~~")
        elif paragraph.strip() != "::" and paragraph.strip():
            parts.append(
                f"~~~text\n{paragraph}\n~~~" if paragraph.startswith("    ") else paragraph
            )
    return "\n\n".join(parts)


def _items(text: str) -> Iterator[str]:
    """A line for each name of a section, with what is said of it."""
    for item in re.split(r"\n(?=\S)", text.strip("\n")):
        names, *told = item.split("\n")
        code = ", ".join(f"`{name.strip()}`" for name in names.split(","))
        said = " ".join(line.strip() for line in told)
        yield f"- **{code}**{f': {said}' if said else ''}"

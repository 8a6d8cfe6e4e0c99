"""Write docs/reference from the docstrings of the public names and from the parser's options.

The pages are not committed: mkdocs makes them before it builds the site (`site_hooks.py`), and
``python scripts/docs/reference.py`` does the same for whoever reads docs/ without a site.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import is_dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import reference_commands
import reference_text
from reference_pages import HIDDEN, PAGES, Entry, Page

import tauslab

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "reference"
_WIDTH = 96


def written() -> dict[str, str]:
    """Text of every page by file name."""
    places: dict[str, str] = {}
    for page in PAGES:
        for name, place in _places(page):
            places.setdefault(name, place)
    pages = {f"{page.stem}.md": _page(page, places) for page in PAGES}
    return pages | {"command-line.md": reference_commands.page(places)}


def _places(page: Page) -> Iterator[tuple[str, str]]:
    """Names by which docstrings call what a page documents, and where it stands."""
    for entry in page.entries:
        names = {entry.title, entry.call, f"tauslab.{entry.object.__name__}"}
        if entry.object.__name__[0].isupper() or entry.title != entry.call:
            names.add(entry.object.__name__)  # another name could be that of an argument
        yield from ((name, _place(page, entry.title)) for name in names)
        for name, member in _members(entry.object) if inspect.isclass(entry.object) else ():
            title = f"{entry.object.__name__}.{name}"
            place = _place(page, title if callable(member) else entry.title)
            yield from ((called, place) for called in (title, f"tauslab.{title}"))


def _place(page: Page, title: str) -> str:
    return f"{page.stem}.md#{reference_text.anchor(title)}"


def _page(page: Page, places: dict[str, str]) -> str:
    def markdown(docstring: str, own: str) -> str:
        return reference_text.markdown(docstring, places, page.stem, own)

    parts = [f"# {page.title}", markdown(page.intro, "")]
    for entry in page.entries:
        parts += [f"## {entry.title}"]
        if inspect.isclass(entry.object):
            parts += _class(entry, markdown)
        else:
            told = markdown(_doc(entry.object), entry.title)
            parts += [_signature(entry.call, entry.object), told]
    return "\n\n".join(part for part in parts if part) + "\n"


def _class(entry: Entry, markdown: Callable[[str, str], str]) -> list[str]:
    made, docstring, parts = entry.object, _doc(entry.object), []
    if entry.made_by_user:
        parts.append(_block(entry.signature) if entry.signature else _signature(entry.call, made))
    elif is_dataclass(made):
        docstring = docstring.replace("Parameters\n----------\n", "Attributes\n----------\n")
    parts.append(markdown(docstring, entry.title))
    if issubclass(made, tauslab.TauslabError) and made is not tauslab.TauslabError:
        above = " and ".join(f"`{base.__name__}`" for base in made.__bases__)
        parts.append(f"Is a {above}; exit code {made.exit_code}.")
    values = [m for m in _members(made) if not callable(m[1])]
    if values:
        parts.append("\n".join(_value(name, value, markdown) for name, value in values))
    for name, member in _members(made):
        if callable(member):
            title = f"{made.__name__}.{name}"
            parts += [f"### {title}", _signature(name, member), markdown(_doc(member), title)]
    return parts


def _value(name: str, value: Any, markdown: Callable[[str, str], str]) -> str:
    """A line for a property or a field."""
    told = markdown(_doc(value), name).replace("\n\n", "\n").replace("\n", "\n  ")
    return f"- **`{name}`**{f': {told}' if told else ''}"


def _members(made: type) -> Iterator[tuple[str, Any]]:
    """Public properties and methods, those of bases in tauslab first."""
    found: dict[str, Any] = {}
    for base in reversed(made.__mro__):
        if not base.__module__.startswith("tauslab"):
            continue
        found |= dict(vars(base))
    for name, member in found.items():
        hidden = name.startswith("_") and name != "__call__"
        if hidden or name in HIDDEN.get(made.__name__, ()):
            continue
        if isinstance(member, classmethod | staticmethod):
            member = member.__func__  # noqa: PLW2901 - what it wraps has the docstring
        if isinstance(member, property | cached_property) or inspect.isfunction(member):
            yield name, member


def _doc(thing: Any) -> str:
    return inspect.getdoc(thing) or ""


def _signature(call: str, function: Any) -> str:
    """A block with the call: each parameter in a line of its own where one line is too long."""
    found = inspect.signature(function)
    parameters = [p for p in found.parameters.values() if _is_given(p)]
    texts = [_parameter(p) for p in parameters]
    stars = [k for k, p in enumerate(parameters) if p.kind is p.KEYWORD_ONLY]
    if stars and not any(p.kind is p.VAR_POSITIONAL for p in parameters):
        texts.insert(stars[0], "*")
    returned = found.return_annotation
    end = (
        "" if returned in {found.empty, "None"} or inspect.isclass(function) else f" -> {returned}"
    )
    line = f"{call}({', '.join(texts)}){end}"
    if len(line) > _WIDTH:
        line = "\n    ".join([f"{call}(", *(f"{text}," for text in texts)]) + f"\n){end}"
    return _block(line)


def _block(code: str) -> str:
    return f"```python\n{code}\n```"


def _is_given(parameter: inspect.Parameter) -> bool:
    """Whether users give it: what a dataclass makes for itself is filled by its methods."""
    return parameter.name != "self" and repr(parameter.default) != "<factory>"


def _parameter(parameter: inspect.Parameter) -> str:
    star = "*" * (parameter.kind is parameter.VAR_POSITIONAL)
    star = "**" if parameter.kind is parameter.VAR_KEYWORD else star
    empty, default = parameter.empty, parameter.default
    kind = "" if parameter.annotation is empty else f": {parameter.annotation}"
    if default is empty:
        return f"{star}{parameter.name}{kind}"
    told = f'"{default}"' if isinstance(default, str) else repr(default)
    return f"{star}{parameter.name}{kind} = {told}"


def write() -> list[Path]:
    """Write what is out of date and remove pages of what is no more; gives the files it changed."""
    texts = {FOLDER / name: text for name, text in written().items()}
    stale = [path for path, text in texts.items() if not _holds(path, text)]
    FOLDER.mkdir(exist_ok=True)
    for path in stale:
        path.write_text(texts[path], encoding="utf-8")
    old = sorted(set(FOLDER.glob("*.md")) - texts.keys())
    for path in old:
        path.unlink()
    return [*stale, *old]


def _holds(path: Path, text: str) -> bool:
    return path.is_file() and path.read_text(encoding="utf-8") == text


if __name__ == "__main__":
    for changed in write():
        print(changed.relative_to(ROOT))

"""Write docs/reference from the docstrings of the public names and from the parser's options.

The pages are not committed: mkdocs makes them before it builds the site (`site_hooks.py`), and
``python scripts/docs/reference.py`` does the same for whoever reads docs/ without a site.
"""

from __future__ import annotations

import argparse
import inspect
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import is_dataclass
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any

from reference_pages import FILE_ONLY, HIDDEN, HOMES, PAGES, Entry, Page

import tauslab
from tauslab.cli import main as cli
from tauslab.options.values.definition import GROUPS
from tauslab.store.results.array_result import ArrayResult

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
    return said_once(pages) | {"command-line.md": _commands_page(places)}


_ITEM = re.compile(r"- \*\*(`.*?`)\*\*: (.*)")
_LONG = 40  # characters of a description that is worth a link instead
_AS_THERE = re.compile(r"- \*\*(`.*?`)\*\*: As (?:for|of) (\[`[^`]*`\]\(\S*\))\.")


def said_once(pages: Mapping[str, str]) -> dict[str, str]:
    """Replace what is said of a parameter by a link where another entry has said the same.

    Parameters that are as those of one other entry share a line.
    """
    first: dict[tuple[str, str], tuple[str, str, str]] = {}

    def once(line: str, page: str, title: str) -> str:
        item = _ITEM.fullmatch(line)
        if item is None or len(item[2]) < _LONG or _AS_THERE.fullmatch(line):
            return line
        home, stem, heading = first.setdefault((item[1], _bare(item[2])), (title, page, title))
        if (stem, heading) == (page, title):
            return line
        place = f"{'' if stem == page else stem}#{anchor(heading)}"
        return f"- **{item[1]}**: As for [`{re.split('[ ,]', home)[0]}`]({place})."

    def shortened(page: str, text: str) -> str:
        title, lines = "", []
        for line in text.split("\n"):
            title = line.lstrip("# ") if re.match(r"##+ ", line) else title
            lines.append(once(line, page, title))
        together = _together("\n".join(lines))
        sections = re.split(r"(?m)^(?=##+ )", together)
        return "".join(_with_short_call(one) for one in sections).strip("\n") + "\n"

    return {page: shortened(page, text) for page, text in pages.items()}


def _bare(text: str) -> str:
    """The text without addresses of links, which differ between pages."""
    return re.sub(r"\]\([^)]*\)", "]", text)


def _together(text: str) -> str:
    """Join lines of one list that say the same: as for another entry."""
    lines: list[str] = []
    for listed, group in groupby(text.split("\n"), lambda line: line.startswith("- **`")):
        names: dict[str, list[str]] = {}
        for line in group:
            match = _AS_THERE.fullmatch(line) if listed else None
            if match is None:
                lines.append(line)
            else:
                names.setdefault(match[2], []).append(match[1])
        lines += [f"- **{', '.join(some)}**: As for {home}." for home, some in names.items()]
    return "\n".join(lines)


_AS_ELSEWHERE = re.compile(r"(?m)^- \*\*(`[\w`, ]+`)\*\*: As (?:for|of) ")
_TYPED = re.compile(r"(?m)^    (\w+): .* = (\S+,)$")


def _with_short_call(section: str) -> str:
    """A section without the types of parameters that another entry describes."""
    names = {name for line in _AS_ELSEWHERE.findall(section) for name in re.findall(r"\w+", line)}

    def short(match: re.Match[str]) -> str:
        return f"    {match[1]}={match[2]}" if match[1] in names else match[0]

    call = re.search(r"(?ms)^```python\n.*?^```$", section)
    if call is None:
        return section
    return section[: call.start()] + _TYPED.sub(short, call[0]) + section[call.end() :]


def _places(page: Page) -> Iterator[tuple[str, str]]:
    """Names by which docstrings call what a page documents, and where it stands."""
    for entry in page.entries:
        names = {entry.title, entry.call, f"tauslab.{entry.object.__name__}"}
        if entry.object.__name__[0].isupper() or entry.title != entry.call:
            names.add(entry.object.__name__)  # another name could be that of an argument
        yield from ((name, _place(page, entry.title)) for name in names)
        if not inspect.isclass(entry.object):
            continue
        own, elsewhere = _split(entry.object)
        for name, member in own:
            title = _titled(entry.object, name)
            place = _place(page, title if callable(member) else entry.title)
            yield from ((called, place) for called in (title, f"tauslab.{title}"))
        for home, members in elsewhere.items():
            there = next(p for p in PAGES if home in {e.object.__name__ for e in p.entries})
            for name in members:
                title = f"{entry.object.__name__}.{name}"
                yield from (
                    (c, _place(there, f"{home}.{name}")) for c in (title, f"tauslab.{title}")
                )


def _titled(made: type, name: str) -> str:
    """Heading of a member: two underscores would be Markdown's."""
    return f"{made.__name__}, called" if name == "__call__" else f"{made.__name__}.{name}"


def _place(page: Page, title: str) -> str:
    return f"{page.stem}.md#{anchor(title)}"


def _page(page: Page, places: dict[str, str]) -> str:
    def shown(docstring: str, own: str) -> str:
        return markdown(docstring, places, page.stem, own)

    parts = [f"# {page.title}", shown(page.intro, "")]
    for entry in page.entries:
        parts += [f"## {entry.title}"]
        if inspect.isclass(entry.object):
            parts += _class(entry, shown)
        elif entry.parameters:
            parts += [_signature(entry.call, entry.object), shown(_doc(entry.object), entry.title)]
        else:
            parts += [shown(_without_parameters(_doc(entry.object)), entry.title)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _class(entry: Entry, shown: Callable[[str, str], str]) -> list[str]:
    made, docstring, parts = entry.object, _doc(entry.object), []
    if entry.made_by_user:
        parts.append(_block(entry.signature) if entry.signature else _signature(entry.call, made))
    elif is_dataclass(made):
        docstring = docstring.replace("Parameters\n----------\n", "Attributes\n----------\n")
    parts.append(shown(docstring, entry.title))
    if issubclass(made, tauslab.TauslabError) and made is not tauslab.TauslabError:
        above = " and ".join(f"`{base.__name__}`" for base in made.__bases__)
        parts.append(f"Is a {above}; exit code {made.exit_code}.")
    own, elsewhere = _split(made)
    message = _attributes(docstring)
    values = [
        (name, member) for name, member in own if not callable(member) and name not in message
    ]
    if values:
        parts.append("\n".join(_value(name, value, shown) for name, value in values))
    for home, names in elsewhere.items():
        listed = ", ".join(f"`{name}`" for name in names)
        parts.append(shown(f"As for `{home}`: {listed}.", entry.title))
    for name, member in own:
        if callable(member):
            title = _titled(made, name)
            parts += [f"### {title}", _signature(name, member), shown(_doc(member), title)]
    return parts


def _attributes(docstring: str) -> set[str]:
    """Names that a docstring describes as attributes."""
    result = re.search(r"(?ms)^Attributes\n-+\n(.*?)(?=^\w+\n-+\n|\Z)", docstring)
    lines = re.findall(r"(?m)^\w[\w, ]*$", result[1]) if result else []
    return {name for line in lines for name in line.split(", ")}


def _split(made: type) -> tuple[list[tuple[str, Any]], dict[str, list[str]]]:
    """Members that stand with the class, and names of others by the class that they stand with."""
    homes = {home: dict(_members(home)) for home in HOMES if not issubclass(home, made)}
    own, elsewhere = [], dict[str, list[str]]()
    for name, member in _members(made):
        home = next((h for h, has in homes.items() if has.get(name) is member), None)
        if home is None:
            own.append((name, member))
        else:
            elsewhere.setdefault(home.__name__, []).append(name)
    return own, elsewhere


def _value(name: str, value: Any, shown: Callable[[str, str], str]) -> str:
    """A line for a property or a field."""
    reported = " ".join(shown(_doc(value), name).split())
    reported = reported.replace("Return whether", "Whether")
    return f"- **`{name}`**{f': {reported}' if reported else ''}"


def _members(made: type) -> Iterator[tuple[str, Any]]:
    """Public properties and methods, those of bases in tauslab first."""
    result: dict[str, Any] = {}
    for base in reversed(made.__mro__):
        if not base.__module__.startswith("tauslab"):
            continue
        result |= dict(vars(base))
    for name, member in result.items():
        hidden = name.startswith("_") and name != "__call__"
        if hidden or name in HIDDEN.get(made.__name__, ()):
            continue
        if issubclass(made, ArrayResult) and name in FILE_ONLY:
            continue
        if isinstance(member, classmethod | staticmethod):
            member = member.__func__  # noqa: PLW2901 - what it wraps has the docstring
        if isinstance(member, property | cached_property) or inspect.isfunction(member):
            yield name, member


def _without_parameters(docstring: str) -> str:
    """The docstring of a function whose parameters other entries have."""
    return re.sub(r"(?ms)^Parameters\n-+\n.*?(?=^\w+\n-+\n)", "", docstring)


def _doc(thing: Any) -> str:
    """The docstring without its examples, which the guides have."""
    return re.sub(r"(?ms)^Examples\n-+\n.*?(?=^\w+\n-+\n|\Z)", "", inspect.getdoc(thing) or "")


def _signature(call: str, function: Any) -> str:
    """A block with the call: each parameter in a line of its own where one line is too long."""
    result = inspect.signature(function)
    parameters = [p for p in result.parameters.values() if _is_given(p)]
    texts = [_parameter(p) for p in parameters]
    stars = [k for k, p in enumerate(parameters) if p.kind is p.KEYWORD_ONLY]
    if stars and not any(p.kind is p.VAR_POSITIONAL for p in parameters):
        texts.insert(stars[0], "*")
    returned = result.return_annotation
    end = (
        "" if returned in {result.empty, "None"} or inspect.isclass(function) else f" -> {returned}"
    )
    line = f"{call}({', '.join(texts)}){end}"
    if len(line) > _WIDTH:
        line = "\n    ".join([f"{call}(", *(f"{text}," for text in texts)]) + f"\n){end}"
    line = re.sub(r"str \| os\.PathLike\[str\]|\bName\b", "Path", line)
    return _block(line.replace("| Change", "| Callable"))


def _block(code: str) -> str:
    return f"```python\n{code}\n```"


def _is_given(parameter: inspect.Parameter) -> bool:
    """Return whether users give it: methods of a dataclass fill the other fields."""
    return parameter.name != "self" and repr(parameter.default) != "<factory>"


def _parameter(parameter: inspect.Parameter) -> str:
    star = "*" * (parameter.kind is parameter.VAR_POSITIONAL)
    star = "**" if parameter.kind is parameter.VAR_KEYWORD else star
    empty, default = parameter.empty, parameter.default
    annotation = getattr(parameter.annotation, "__forward_arg__", parameter.annotation)
    shown = '"' + default + '"' if isinstance(default, str) else repr(default)
    if annotation in {empty, type(default).__name__}:  # the default shows the type
        return f"{star}{parameter.name}" + f"={shown}" * (default is not empty)
    if default is empty:
        return f"{star}{parameter.name}: {annotation}"
    if default is None:
        annotation = str(annotation).removesuffix(" | None")
    return f"{star}{parameter.name}: {annotation} = {shown}"


# ---------------------------------------------------------------- the command line

_INTRO = """\
`tauslab COMMAND --help` prints these options with examples. Defaults are in parentheses.
[Clusters](../clusters.md#exit-codes) lists exit codes.

Under `mpirun` or `srun` a command runs on all ranks. In Python, `run` and `rdme` are
[`tauslab.run`]({run}), whose keywords are the options with `_` for `-`. Options of a method, a
device, the output file and Dask are fields of `tauslab.SSA`, `tauslab.TauLeaping`,
`tauslab.Auto`, `tauslab.ODE`, `tauslab.Partitioned`, `tauslab.Langevin`, `tauslab.CPU`,
`tauslab.GPU`, `tauslab.Output` and `tauslab.Dask`. `--molecules` is
[`tauslab.in_molecules`]({molecules}), and `dbn` is [`tauslab.dbn.build`]({build}).
`--max-time` and `--protocol` have no keyword."""
_COMMAND_PAGES = {
    "run": ("run", "sweeps", "tau-leaping", "partitioned", "ode", "hybrids", "large-networks", "clusters"),
    "rdme": ("lattices", "rdme"),
    "dbn": ("dbn", "ode"),
    "rare": ("rare-events",),
    "filter": ("inference",),
    "petab": ("petab",),
    "sensitivity": ("sensitivities",),
    "population": ("populations",),
    "info": ("file-format",),
    "plot": ("results",),
    "export": ("results", "lattices", "dbn"),
    "digest": ("concepts",),
    "merge": ("clusters",),
    "check": ("sbml", "model-toml", "lattices"),
    "doctor": ("clusters",),
    "precompile": ("clusters",),
    "slurm": ("clusters",),
    "bench": ("speed",),
    "completion": ("install",),
    "example": ("run", "tutorial"),
    "help": ("index",),
}  # fmt: skip


_FEW = 2  # so many options that two commands have alike stand with both


def _commands_page(places: Mapping[str, str]) -> str:
    """List all commands, in the order of the help."""
    called = {"run": "run", "molecules": "in_molecules", "build": "dbn.build"}
    result = {key: places[f"tauslab.{name}"] for key, name in called.items()}
    parts = ["# Command line", _INTRO.format(**result)]
    homes: dict[str, str] = {}
    for name, parser in _commands():
        more = ", ".join(f"[{stem}.md](../{stem}.md)" for stem in _COMMAND_PAGES[name])
        parts += [f"## tauslab {name}", f"{parser.description} More: {more}"]
        parts.append(_shorter(_table(parser), homes, name))
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
        lines += [f"| {_spelt(action)} | {_meaning(action)} |" for action in own]
    return "\n".join(lines)


def _shorter(table: str, homes: dict[str, str], name: str) -> str:
    """The table of a command without the options that another command has alike.

    `homes` has the rows of earlier tables, and the command of each.
    """
    rows = table.split("\n")
    options = [row for row in rows if row.startswith("| `-")]
    alike = Counter(homes[row] for row in options if row in homes)
    left_out = {row: homes[row] for row in options if alike[homes.get(row, "")] > _FEW}
    homes |= {row: name for row in options if row not in homes}
    kept = [row for row in rows if row not in left_out]
    kept = [
        row
        for row, after in zip(kept, [*kept[1:], "| **"], strict=True)
        if not (row.startswith("| **") and after.startswith("| **"))  # a group without options
    ]
    notes = [
        f"As for [tauslab {home}](#tauslab-{home}): "
        + ", ".join(
            f"`{re.split('[` ,]', row[3:])[0]}`" for row in left_out if left_out[row] == home
        )
        + "."
        for home in dict.fromkeys(left_out.values())
    ]
    return "\n\n".join(["\n".join(kept), *notes])


def _spelt(action: argparse.Action) -> str:
    """The option with its values, as a user types it."""
    values = action.metavar or ("|".join(map(str, action.choices)) if action.choices else "")
    if not action.option_strings:
        return f"`{action.metavar or action.dest.upper()}`"
    values = f" {values or action.dest.upper()}" if action.nargs != 0 else ""
    return f"`{', '.join(action.option_strings)}{values}`".replace("|", "\\|")


def _meaning(action: argparse.Action) -> str:
    reported = (action.help or "").replace("|", "\\|")
    again = isinstance(action, argparse._AppendAction) and "repeated" not in reported  # noqa: SLF001
    return f"{reported}{'; may be repeated' if again else ''}"


# ---------------------------------------------------------------- docstrings

_NAMED = ("Parameters", "Attributes")
_HEADING = re.compile(r"(?m)^(Parameters|Attributes|Returns|Raises|Examples)\n-{3,}\n")
# Names in backquotes, and pages of docs/ that stand in a sentence. Until both are linked, blocks of
# code stand between tildes.
_REFERENCE = re.compile(r"(?<![\[`])`([A-Za-z_][\w.]*)`(?!`)")
_PAGE = re.compile(r"(?<![\w/\[])`{0,2}docs/([\w-]+)\.md`{0,2}")


def anchor(title: str) -> str:
    """Anchor that GitHub and mkdocs make of a heading."""
    return re.sub(r"[^\w\s-]", "", title).strip().lower().replace(" ", "-")


def markdown(docstring: str, places: Mapping[str, str], page: str, own: str) -> str:
    """A docstring; `places` says where names stand, `page` and `own` where the text itself does."""
    first, *rest = _HEADING.split(docstring)
    parts = [_body(first)]
    for name, text in zip(rest[::2], rest[1::2], strict=True):
        if name == "Raises":  # `help` names them, and a message says what was wrong
            continue
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
        names, *reported = item.split("\n")
        code = ", ".join(f"`{name.strip()}`" for name in names.split(","))
        message = " ".join(line.strip() for line in reported)
        yield f"- **{code}**{f': {message}' if message else ''}"


# ---------------------------------------------------------------- files


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

"""Hooks of mkdocs: makes docs/reference; what pages link to outside of docs/ is under repository/."""

from __future__ import annotations

import html as html_text
import posixpath
import re
from pathlib import Path
from typing import Any

import reference  # beside this file: mkdocs looks there
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
# From the bracket on, since a link's text may be code.
_LINK = re.compile(r"(\]\()([^()\s#:]+)(#[^()\s]*)?(?=\))")
_CODE = re.compile(r"(?ms)(^ *```.*?^ *```$|`[^`\n]+`)")
_OUTSIDE = "repository"
_WHOLE = 32  # characters in a line of a narrow screen
# As pymdownx.arithmatex writes them with `generic`.
_FORMULA = re.compile(r'(?s)<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>')


def on_pre_build(**_: Any) -> None:
    """Write the pages of the reference, before mkdocs looks for pages."""
    reference.write()


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the files outside of docs/ that pages link to, and those that these link to."""
    left = [ROOT / config.docs_dir / file.src_uri for file in files.documentation_pages()]
    while left:
        page = left.pop()
        for target in _targets(page):
            place = _place(target)
            if files.get_file_from_path(place) is None and (ROOT / target).is_file():
                path = str(ROOT / target)
                files.append(File.generated(config, place, abs_src_path=path))
                left += [ROOT / target] if target.endswith(".md") else []
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Point links at where the files are in the site."""
    source = _source(page.file.src_uri)

    def moved(match: re.Match[str]) -> str:
        place = _place(posixpath.normpath(posixpath.join(posixpath.dirname(source), match[2])))
        link = posixpath.relpath(place, posixpath.dirname(page.file.src_uri) or ".")
        return f"{match[1]}{link}{match[3] or ''}"

    pieces = _CODE.split(markdown)  # every second one is code
    pieces[::2] = [_LINK.sub(moved, piece) for piece in pieces[::2]]
    return "".join(pieces)


def on_page_content(html: str, **_: Any) -> str:
    """Draw formulas, and code in the text."""
    return re.sub(r"<code>([^<]*)</code>", _code, _FORMULA.sub(_drawn, html))


def _code(found: re.Match[str]) -> str:
    """Code without the backslash that GitHub wants before a bar in a table; short code is not cut."""
    text = found[1].replace("\\|", "|")
    return f'<code class="whole">{text}</code>' if len(text) <= _WHOLE else f"<code>{text}</code>"


def _drawn(found: re.Match[str]) -> str:
    """MathML of a formula, which a browser draws without a script and without a network."""
    from latex2mathml.converter import convert

    block = found[1] == "div"
    made: str = convert(html_text.unescape(found[2]), display="block" if block else "inline")
    return f'<div class="formula">{made}</div>' if block else made


def _targets(page: Path) -> set[str]:
    """Paths from the root of all that a page links to."""
    folder = page.parent.relative_to(ROOT).as_posix()
    links = _LINK.findall(_CODE.sub("``", page.read_text(encoding="utf-8")))
    return {posixpath.normpath(posixpath.join(folder, link)) for _, link, _ in links}


def _place(path: str) -> str:
    """Place of a file of the repository in the site."""
    return path.removeprefix("docs/") if path.startswith("docs/") else f"{_OUTSIDE}/{path}"


def _source(uri: str) -> str:
    """Source of a page of the site in the repository."""
    inside = uri.startswith(f"{_OUTSIDE}/")
    return uri.removeprefix(f"{_OUTSIDE}/") if inside else f"docs/{uri}"

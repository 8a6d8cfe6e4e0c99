"""Text of SBML files, and what libsbml says of it: encodings, XML, lists, annotations, errors."""

from __future__ import annotations

import importlib
import math
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from xml.parsers import expat

import numpy as np

from tauslab.base.errors import ConfigError, ModelError
from tauslab.base.interrupts import ends_at_once

_ENCODING = re.compile(rb"""\A\s*<\?xml[^>]*encoding\s*=\s*["']([A-Za-z0-9._-]+)""")
OWN = "urn:tauslab:sbml"  # namespace of annotations that `tauslab.formats.sbml.writer` writes
_MODEL = re.compile(r"<(?:\w+:)?model[\s>]")
_CHUNK = 20_000  # more than libsbml reads at a time
_DEEPEST_ELEMENT = 2000  # libsbml reads XML by recursion: near 6000 it has taken all of the stack
_COMPRESSED = {  # by the bytes that such files begin with
    b"\x1f\x8b": "gzip",
    b"PK\x03\x04": "zip",
    b"BZh": "bzip2",
    b"\xfd7zXZ\x00": "xz",
}
_WIDEST = 20_000  # children of an element of math: libsbml works by recursion or by their square
_LONGEST = 4 << 20  # characters of a text, comment or attribute: expat's time is their square
_LONG_TOKENS = (("<!--", "-->"), ("<![CDATA[", "]]>"), ("<?", "?>"))
_NO_ENCODINGS = ("idna", "punycode", "undefined", "unicode-escape", "raw-unicode-escape")
_WIDE = ("apply", "piecewise")
# libsbml's errors in what no simulation reads: identifiers of metadata, names of units,
# annotations, SBO terms, notes. (A name of a unit of amounts is read: `document` looks at it.)
_HARMLESS = {
    *(10307, 10308, 10309, 10311, 10313),
    *range(10401, 10405),
    *range(10701, 10720),
    *range(10801, 10806),
}

_PICTURES = ("layout", "render")  # packages that say how a model looks
# libsbml counts these errors in them, which no error's package tells, among those of the core.
_UNKNOWN_ELEMENT, _NO_SCHEMA = 10102, 10103
_OF_PICTURES = re.compile(
    rf"(?:Package |The L3 package ')(?:{'|'.join(_PICTURES)})|listOfLayouts cannot be empty"
)
# Numbers of attributes that may be no normal doubles.
_RULE = re.compile(r"^.*? Reference: L\dV\d Section [\w.]+ (?=.)")  # and then what is wrong
_TINY = re.compile(r"""(?<==["'])[-+]?(?:\d+\.?\d*|\.\d+)[eE]-\d{3,5}(?=["'])""")
_UNDECLARED = 21121  # a rate law names a species that its reaction does not list


def each(items: Any) -> Iterator[Any]:
    """Elements of one of libsbml's lists."""
    return (items.get(i) for i in range(items.size()))


def shorten(names: list[str]) -> str:
    """Names for a message, at most six of them."""
    return ", ".join(names[:6]) + (f", ... ({len(names)} in all)" if len(names) > 6 else "")


def read_text(path: Path) -> str:
    """Text of an XML file in the encoding it declares (UTF-8 if it declares none)."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror}") from None
    for begin, packer in _COMPRESSED.items():
        if data.startswith(begin):
            raise ModelError(f"{path}: is compressed with {packer}; unpack it first")
    declared = _ENCODING.match(data)
    encoding = declared[1].decode("ascii") if declared else "utf-8-sig"
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        encoding = "utf-16"
    if encoding.lower().replace("_", "-") in _NO_ENCODINGS:  # Python's own, of no text in a file
        raise ModelError(f"{path}: {encoding!r} is no encoding of a text file")
    try:
        text = data.decode("utf-8-sig" if encoding.lower() == "utf-8" else encoding)
    except (UnicodeError, LookupError) as error:
        raise ModelError(f"{path}: is not text in the encoding {encoding}: {error}") from None
    if not text.strip():
        raise ModelError(f"{path}: is empty")
    return text


def import_libsbml() -> Any:
    """Return the libsbml module.

    Raises
    ------
    ConfigError
        It is not installed.
    """
    # The two share a table of types. If libsedml comes second, libsbml misreads all formulas.
    if "libsbml" not in sys.modules:
        with suppress(ImportError):
            importlib.import_module("libsedml")
    try:
        return importlib.import_module("libsbml")
    except ImportError:
        raise ConfigError(
            "reading SBML needs python-libsbml, which is not installed: pip install python-libsbml"
        ) from None


def parsed(libsbml: Any, text: str) -> Any:
    """Document of a text, by libsbml.

    From version 2.6 on expat waits for more text within a long token, a comment for instance, and
    libsbml 5.21 does not tell it that there is none: the document is then empty, without an error.
    No token waits that has more space behind it than text before. It refuses numbers that are no
    normal doubles, 4.9E-324: the least normal one stands for them.
    """
    text = _TINY.sub(_normal, text)
    with ends_at_once():
        document = libsbml.readSBMLFromString(text)
        if document.getModel() is None and document.getNumErrors() == 0 and _MODEL.search(text):
            document = libsbml.readSBMLFromString(text + "\n" * (2 * len(text) + _CHUNK))
    return document


def _normal(match: re.Match[str]) -> str:
    """A number of an attribute, as one that libsbml reads."""
    value = float(match[0])
    least = math.copysign(sys.float_info.min, value) if value else value
    return repr(least) if abs(value) < sys.float_info.min else match[0]


def own_annotation(element: Any) -> dict[str, str]:
    """Read our own annotation of an element of libsbml, by attribute."""
    if not element.isSetAnnotation() or OWN not in (text := element.getAnnotationString()):
        return {}
    result: dict[str, str] = {}
    parser = expat.ParserCreate("UTF-8", "}")

    def start(name: str, attributes: dict[str, str]) -> None:
        if name == f"{OWN}}}tauslab":
            result.update(attributes)

    parser.StartElementHandler = start
    parser.Parse(text, True)
    return result


def scan(text: str, label: str) -> int:
    """Go through XML without recursion; returns the most children that an element of math has.

    Whatever library is to read a file, of SBML, SED-ML or an archive, this comes first.

    Raises
    ------
    ModelError
        Elements are nested too deep or mathematics is too wide for libsbml and libsedml, a text is
        too long, a document type is declared (its entities can make a small file endless, or read
        others), or the text is no XML.
    """
    if (longest := _longest_token(text)) > _LONGEST:
        raise ModelError(
            f"{label}: has a text, comment or attribute of {longest} characters; {_LONGEST} is the "
            "limit"
        )
    children: list[int] = []
    most = 0
    parser = expat.ParserCreate("UTF-8")

    def start(*_: object) -> None:
        if len(children) >= _DEEPEST_ELEMENT:
            raise ModelError(
                f"{label}, line {parser.CurrentLineNumber}: elements are nested more than "
                f"{_DEEPEST_ELEMENT} deep, which is the limit"
            )
        if children:
            children[-1] += 1
        children.append(0)

    def end(name: str) -> None:
        nonlocal most
        count = children.pop()
        if name.rpartition(":")[2] in _WIDE:
            most = max(most, count)
            if most > _WIDEST:
                raise ModelError(
                    f"{label}, line {parser.CurrentLineNumber}: a formula has {most} terms; "
                    f"{_WIDEST} is the limit"
                )

    def declares(*_: object) -> None:
        raise ModelError(
            f"{label}, line {parser.CurrentLineNumber}: declares a document type, which models and "
            "experiments do not have"
        )

    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.StartDoctypeDeclHandler = declares
    try:
        parser.Parse(text, True)
    except expat.ExpatError as error:
        reason = expat.errors.messages[error.code]
        raise ModelError(
            f"{label}, line {error.lineno}: is not well-formed XML: {reason}"
        ) from None
    except UnicodeEncodeError:
        raise ModelError(f"{label}: holds half of a surrogate pair, which is no text") from None
    return most


def _longest_token(text: str) -> int:
    """Bytes of the longest part that is read as one, at least."""
    data = np.frombuffer(text.encode("utf-8", "surrogatepass"), np.uint8)
    begins = np.concatenate([[0], np.flatnonzero(data == ord("<")), [len(data)]])
    longest = int(np.diff(begins).max())
    for begin, end in _LONG_TOKENS:
        at = text.find(begin)
        while at >= 0:
            stop = text.find(end, at)
            stop = len(text) if stop < 0 else stop
            longest = max(longest, stop - at)
            at = text.find(begin, stop)
    return longest


def raise_first_error(document: Any, label: str) -> list[Any]:
    """Raise the first error that matters; returns those that do not."""
    errors = errors_of(document)
    if any(error.getErrorId() == _UNDECLARED for error in errors) and _all_declared(document):
        errors = [error for error in errors if error.getErrorId() != _UNDECLARED]
    result = [error for error in errors if error.isFatal() or not _is_harmless(error)]
    if result:
        if len(result) > 1 and "subsequent errors are from this attempt" in result[0].getMessage():
            del result[0]  # a heading of libsbml's
        more = f" (and {len(result) - 1} more)" if len(result) > 1 else ""
        raise ModelError(f"{label}, {message_of(result[0])}{more}")
    return errors


def _is_harmless(error: Any) -> bool:
    """Return whether no simulation reads the element that the error is of."""
    if error.getErrorId() in (_UNKNOWN_ELEMENT, _NO_SCHEMA):
        return _OF_PICTURES.search(error.getMessage()) is not None
    return error.getErrorId() in _HARMLESS or error.getPackage() in _PICTURES


def _all_declared(document: Any) -> bool:
    """Return whether each kinetic law names only species that its reaction lists.

    libsbml takes the text of a csymbol, such as ``t`` of the time, for the name of a species.
    """
    model = document.getModel()
    species = {one.getId() for one in each(model.getListOfSpecies())}
    for reaction in each(model.getListOfReactions()):
        law = reaction.getKineticLaw()
        if law is None or not law.isSetMath():
            continue
        sides = (reaction.getListOfReactants(), reaction.getListOfProducts())
        known = {one.getSpecies() for side in sides for one in each(side)}
        known |= {one.getSpecies() for one in each(reaction.getListOfModifiers())}
        known |= {one.getId() for one in each(law.getListOfParameters())}
        known |= {one.getId() for one in each(law.getListOfLocalParameters())}
        if not _named_in(law.getMath()) & species <= known:
            return False
    return True


def _named_in(math: Any) -> set[str]:
    """Names that stand in ``<ci>``."""
    result, waiting = set[str](), [math]
    while waiting:
        node = waiting.pop()
        if node.isName() and not node.getDefinitionURLString():
            result.add(node.getName())
        waiting += [node.getChild(i) for i in range(node.getNumChildren())]
    return result


def first_error(document: Any) -> str:
    """The first of libsbml's errors, with its line; empty if there is none."""
    return next((message_of(error) for error in errors_of(document)), "")


def errors_of(document: Any) -> list[Any]:
    """Errors of the document, without warnings."""
    result = [document.getError(i) for i in range(document.getNumErrors())]
    return [error for error in result if error.isError() or error.isFatal()]


def message_of(error: Any) -> str:
    """An error with its line: what is wrong, without the rule of the standard that forbids it."""
    message = " ".join(error.getMessage().split()) or error.getShortMessage()
    message = _RULE.sub("", message) or message
    return f"line {error.getLine()}: {message}"

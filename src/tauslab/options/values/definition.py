"""Options: a default, and what the command line, Python and the pages say of each.

An option is a field of a frozen dataclass, made by `option`.  The parser of the command line, the
keywords of `tauslab.run`, their documentation and the messages of errors all read its `Definition`,
so that an option is added in one place.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields
from functools import cache
from typing import Any, TypeVar

import numpy as np

from tauslab.base.errors import ConfigError
from tauslab.base.option_names import Spelling, know, known
from tauslab.base.unknown import checks_keywords

T = TypeVar("T")

GROUPS = ("model", "sampling", "method", "output", "cluster", "expert")
Attribute = str | int | float

_KEY = "tauslab"
_DEFAULT: Any = object()


@dataclass(frozen=True, kw_only=True)
class Stored:
    """An option as an attribute of the root of a result file.

    An option that a new version brings is `Stored()`: a file holds it where it has not its default,
    and a file without it, as all of earlier versions are, has the default.

    Parameters
    ----------
    name
        Of the attribute; by default the option's on the command line.
    always
        Whether the attribute is written whatever the value; a file without one says nothing.
    absent
        The value that is not written; by default the option's default.
    read
        Makes the value of what the file holds; by default the option's `Definition.type`.
    follows
        Another option, by the name of its field: this one is taken from a file only where that is
        as in the file.
    apart
        Whether the file's layout holds it and compares it, not `attributes_of`.
    decides
        Whether a run with another value is another run, which ``--resume`` refuses.
    """

    name: str = ""
    always: bool = False
    absent: Any = _DEFAULT
    read: Callable[[Any], Any] | None = None
    follows: str = ""
    separate: bool = False
    decides: bool = True


@dataclass(frozen=True, kw_only=True)
class Definition:
    """The definition of an option beside its name, type and default.

    Parameters
    ----------
    help
        Half a line for ``--help``; empty for an option that Python alone has.
    doc
        What the documentation of the keyword says; `help` where it is empty.
    flags
        How it is spelt on the command line; none for an option that Python alone has.
    group
        Which group of ``--help`` it stands in: one of `GROUPS`.
    unit
        Unit of its value, where it has one.
    metavar, choices, type, action
        As `argparse` has them.
    stored
        How a result file holds it; None for an option that it does not hold. A run that completes a
        file, adds to it or has it as its model takes the value from there, where nobody gives one.
    read
        Makes of the parser's value the one that Python takes.
    check
        Refuses, by the name of its field, a value that is not allowed: a `ConfigError`.
    elsewhere
        Of an option of a method: why other methods refuse it, with ``{ssa}`` for "method ssa" and
        ``{method}`` for the one that refuses; empty where they pass over it.
    command_default
        What the parser gives where the command says nothing; None for a stored option.
    python
        Whether Python has it too.
    in_python
        Where Python has no keyword of that name: makes what it has, of the value or None.
    """

    help: str = ""
    doc: str = ""
    flags: tuple[str, ...] = ()
    group: str = "expert"
    unit: str = ""
    metavar: str | None = None
    choices: tuple[str, ...] = ()
    type: Callable[[str], Any] | None = None
    action: str | None = None
    stored: Stored | None = None
    read: Callable[[Any], Any] | None = None
    check: Callable[[str, Any], None] | None = None
    elsewhere: str = ""
    command_default: Any = None
    python: bool = True
    in_python: Callable[[object], str] | None = None


def option(  # noqa: PLR0913 - the fields of `Definition`
    default: T,
    help: str = "",  # noqa: A002 - as argparse calls it
    *,
    flag: str | Sequence[str] = (),
    doc: str = "",
    group: str = "expert",
    unit: str = "",
    metavar: str | None = None,
    choices: Sequence[str] = (),
    type: Callable[[str], Any] | None = None,  # noqa: A002 - as argparse calls it
    action: str | None = None,
    stored: Stored | None = None,
    read: Callable[[Any], Any] | None = None,
    check: Callable[[str, Any], None] | None = None,
    elsewhere: str = "",
    command_default: Any = ...,
    python: bool = True,
    in_python: Callable[[object], str] | None = None,
) -> T:
    """A field of a dataclass that is an option; the arguments are those of `Definition`."""
    if command_default is ...:
        command_default = [] if action == "append" else None if stored else default
    defined = Definition(
        help=help, doc=doc, flags=(flag,) if isinstance(flag, str) else tuple(flag), group=group,
        unit=unit, metavar=metavar, choices=tuple(choices), type=type, action=action,
        stored=stored, read=read, check=check, elsewhere=elsewhere, command_default=command_default,
        python=python, in_python=in_python,
    )  # fmt: skip
    made: T = field(default=default, metadata={_KEY: defined})
    return made


def definitions(*classes: type) -> Iterator[tuple[Field[Any], Definition]]:
    """The options of dataclasses, in their order."""
    for one in classes:
        yield from _options_of(one)


def _definitions_of(one: type) -> tuple[tuple[Field[Any], Definition], ...]:
    return tuple((f, f.metadata[_KEY]) for f in fields(one) if _KEY in f.metadata)


_options_of: Callable[[type], tuple[tuple[Field[Any], Definition], ...]]
_options_of = cache(_definitions_of)  # every call of a run asks a hundred times


def on_command_line(*classes: type) -> list[Definition]:
    """Options with a flag, each once, in the order of their groups."""
    result = {one.flags: one for _, one in definitions(*classes) if one.flags}
    return sorted(result.values(), key=lambda one: GROUPS.index(one.group))


def check_values(settings: object) -> None:
    """Refuse a value that the definition of its option does not allow; defaults are allowed.

    A whole number of NumPy becomes one of Python, which mixes with others whatever its type.
    """
    for result, one in _options_of(type(settings)):
        value = getattr(settings, result.name)
        if value is result.default:
            continue
        if one.action == "store_true" and not isinstance(value, bool | np.bool_ | None):
            raise ConfigError(f"{result.name}={value!r} is not allowed: True or False")
        if one.check is not None:
            one.check(result.name, value)
        if isinstance(value, np.ndarray) and value.ndim == 0:
            value = value[()]
        if isinstance(value, np.integer):
            object.__setattr__(settings, result.name, int(value))


def destination(defined: Definition) -> str:
    """The name of an option among the arguments that the parser gives."""
    longest = next((f for f in defined.flags if f.startswith("--")), defined.flags[0])
    return longest.lstrip("-").replace("-", "_")


def parameters_section(*classes: type) -> str:
    """The options as the part "Parameters" of a docstring, without its heading."""
    lines = []
    for result, defined in definitions(*classes):
        if not defined.python:
            continue
        message = defined.doc or defined.help
        message += f" [{defined.unit}]" if defined.unit else ""
        wrapped = textwrap.wrap(
            message, 92, initial_indent="    ", subsequent_indent="    ", break_on_hyphens=False
        )
        lines += [result.name, *wrapped]
    return "\n".join(lines)


def with_options(docstring: str, *classes: type) -> str:
    """A docstring in which the line ``{options}`` becomes the options of `classes`.

    As many such lines as classes become the options of one class each.
    """
    text = inspect.cleandoc(docstring)
    if text.count("{options}") == len(classes):
        for one in classes:
            text = text.replace("{options}", parameters_section(one), 1)
        return text
    return text.replace("{options}", parameters_section(*classes))


def declared(made: type[T]) -> type[T]:
    """Name the options of a dataclass in its docstring and in messages; above ``@dataclass``.

    Where several classes have an option of one name, messages spell it as one does that Python has.
    """
    for result, one in definitions(made):
        if one.flags and (one.python or result.name not in known()):
            know(result.name, Spelling(one.flags[0], one.action == "store_true", one.in_python))
    if "{options}" in (made.__doc__ or ""):
        made.__doc__ = with_options(str(made.__doc__), made)
    made.__init__ = checks_keywords(made.__init__)  # type: ignore[method-assign]
    return made


_SECTIONS = """

Parameters
----------
{options}

Raises
------
ConfigError
    A value outside what is allowed, or choices that do not go together.
"""


def settings(made: type[T]) -> type[T]:
    """Declare a class of settings that users make: its docstring gets its options and errors."""
    text, examples, code = inspect.cleandoc(made.__doc__ or "").partition("\n\nExamples\n")
    made.__doc__ = text + _SECTIONS + (examples and f"\nExamples\n{code}")
    return declared(made)


# ---------------------------------------------------------------- in a result file


def attributes_of(settings: object) -> dict[str, Attribute]:
    """Attributes of the root of a file that hold the options of an object.

    A value of None is left out: nobody gave one, and nobody chose one.
    """
    result: dict[str, Attribute] = {}
    for one, defined, stored in _stored_options(type(settings)):
        value = getattr(settings, one.name)
        written = stored.always or value != _absent(one, stored)
        if written and value is not None and not stored.separate:
            result[_name(defined, stored)] = int(value) if isinstance(value, bool) else value
    return result


def attribute_names(*classes: type) -> tuple[str, ...]:
    """Attributes that hold the options of `classes`, each once: with others, it is another run."""
    deciding = (
        _name(defined, stored)
        for _, defined, stored in _stored(*classes)
        if stored.decides and not stored.separate
    )
    return tuple(dict.fromkeys(deciding))


def values_in(attributes: Mapping[str, Any], *classes: type) -> dict[str, Any]:
    """Values, by the names of the fields of `classes`, that a file with these attributes has.

    An option that the file says nothing of is left out.
    """
    result: dict[str, Any] = {}
    for one, defined, stored in _stored(*classes):
        name = _name(defined, stored)
        if name in attributes:
            result[one.name] = _reader(defined, stored)(attributes[name])
        elif not stored.always and not stored.separate:
            result[one.name] = _absent(one, stored)
    return result


def taken(
    attributes: Mapping[str, Any], given: Mapping[str, Any], *classes: type
) -> dict[str, Any]:
    """Values of a file for the options of `classes` that are not `given`, by field.

    An option that follows another is taken where that one is as in the file.
    """
    held = values_in(attributes, *classes)
    followed = {one.name: stored.follows for one, _, stored in _stored(*classes)}

    def other(name: str) -> bool:
        return name in given and given[name] != held.get(name)

    return {n: v for n, v in held.items() if n not in given and not other(followed[n])}


def _stored(*classes: type) -> Iterator[tuple[Field[Any], Definition, Stored]]:
    for one in classes:
        yield from _stored_options(one)


def _stored_of(one: type) -> tuple[tuple[Field[Any], Definition, Stored], ...]:
    return tuple((f, d, d.stored) for f, d in _options_of(one) if d.stored is not None)


_stored_options: Callable[[type], tuple[tuple[Field[Any], Definition, Stored], ...]]
_stored_options = cache(_stored_of)


def _name(one: Definition, stored: Stored) -> str:
    return stored.name or destination(one)


def _absent(one: Field[Any], stored: Stored) -> Any:
    return one.default if stored.absent is Stored.absent else stored.absent


def _reader(one: Definition, stored: Stored) -> Any:
    if stored.read is not None:
        return stored.read
    return _flag if one.action == "store_true" else one.type or str


def _flag(value: Any) -> bool:
    return bool(int(value))

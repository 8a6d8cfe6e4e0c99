"""Lines of a .bngl file that BioNetGen may be given.

BioNetGen is a Perl program: it evaluates the arguments of actions and options as Perl, and parts of
its blocks by regular expressions.  So the file that it gets is written anew: of blocks the lines
that consist of what patterns and expressions are made of, of options those that are known, with
plain values.  Lines keep their numbers, so that BioNetGen's messages name lines of the user's file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from tauslab.base.errors import ModelError
from tauslab.model.expressions.expression import Expression, Number
from tauslab.model.expressions.infix import Builder, parse

# Block -> characters that its lines may have beside letters, digits, spaces and those of numbers.
_OF_EXPRESSIONS = "()+-*/^<>=!~&|,.:"
_OF_PATTERNS = "(){}.,~!?+-*@%:$<>=/^&|"
BLOCKS: Mapping[str, str] = {
    "parameters": _OF_EXPRESSIONS, "functions": _OF_EXPRESSIONS, "compartments": _OF_EXPRESSIONS,
    "molecule types": _OF_PATTERNS, "population types": _OF_PATTERNS,
    "population maps": _OF_PATTERNS, "species": _OF_PATTERNS, "seed species": _OF_PATTERNS,
    "observables": _OF_PATTERNS, "energy patterns": _OF_PATTERNS, "reaction rules": _OF_PATTERNS,
    "reactions": _OF_PATTERNS, "groups": _OF_PATTERNS,
}  # fmt: skip
# Functions of BioNetGen's expressions (its Perl module Expression), in any of its 2.x versions.
_FUNCTIONS = (
    "_pi", "_e", "time", "t", "exp", "ln", "log10", "log2", "abs", "int", "floor", "ceil", "rint",
    "sqrt", "cos", "sin", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh",
    "atanh", "if", "min", "max", "sum", "avg", "sign", "mratio", "Sat", "MM", "Hill", "Arrhenius",
)  # fmt: skip
_NO_FILE = "the function tfun reads no file: write its table as tfun([0,5,10],[0,20,0],time)"
_REFUSED = {
    "TFUN": _NO_FILE,
    "tfun": _NO_FILE,
    "FunctionProduct": "the rate law FunctionProduct is not supported",
}
_INDEX = r"\s*(?:\d+\s+)?(?:\w+\s*:\s+)?"
_PARAMETER = re.compile(_INDEX + r"[A-Za-z_]\w*\s*(?:=(?!=))?(.*)\Z", re.ASCII)
_FUNCTION = re.compile(
    _INDEX + r"([A-Za-z_]\w*)\s*(?:\(([\w\s,]*)\))?\s*(?:=(?!=))?(.*)\Z", re.ASCII
)
_OBSERVABLE = re.compile(_INDEX + r"(?:Molecules|Species|Counter)\s+([A-Za-z_]\w*)", re.ASCII)
_GROUP = re.compile(_INDEX + r"([A-Za-z_]\w*)", re.ASCII)
_WORD = re.compile(r"[A-Za-z_]\w*", re.ASCII)


@dataclass(frozen=True)
class Line:
    """A line as BioNetGen sees it: without comments, with continued lines (backslash) joined.

    `first` and `last` are the numbers of the lines of the file that it is made of, from 1.
    """

    first: int
    last: int
    text: str

    @property
    def words(self) -> list[str]:
        """Its words."""
        return self.text.split()


def is_edge(line: Line) -> bool:
    """Return whether the line begins or ends a block or the model."""
    return line.words[0] in ("begin", "end")


def lines_of(text: str, between: str = "") -> Iterator[Line]:
    """Lines that are not empty; `between` stands where one goes on in the next."""
    lines, at = text.splitlines(), 0
    while at < len(lines):
        first, line = at, lines[at].partition("#")[0]
        while line.rstrip().endswith("\\"):
            line = line.rstrip()[:-1] + between
            if at + 1 == len(lines):
                break
            at += 1
            line += lines[at].partition("#")[0]
        at += 1
        if line.strip():
            yield Line(first + 1, at, line.rstrip())


class Names:
    """Functions and observables of a file, which its expressions may call."""

    def __init__(self, blocks: Iterable[tuple[str, Line]]) -> None:
        patterns = {"functions": _FUNCTION, "observables": _OBSERVABLE, "groups": _GROUP}
        result = [
            match[1]
            for block, line in blocks
            if block in patterns and (match := patterns[block].match(line.text))
        ]
        # Only that it is a call matters, not its meaning.
        self.functions: dict[str, Builder] = dict.fromkeys((*_FUNCTIONS, *result), _any)


def _any(_: list[Expression]) -> Expression:
    return Number(0.0)


def checked(block: str, line: Line, names: Names) -> str:
    """The line of a block, if BioNetGen may be given it.

    Raises
    ------
    ModelError
        It has a character, an expression or a function that does not belong in the block.
    """
    text = " ".join(re.split(r"[ \t\r\f\v]", line.text))
    try:
        _check_characters(block, text)
        _check_brackets(text)
        if block == "parameters":
            _check_expression(_PARAMETER, text, names)
        elif block == "functions":
            _check_expression(_FUNCTION, text, names)
    except ModelError as error:
        raise ModelError(f"line {line.first}, in the block {block}: {error}") from None
    return text


def require_known(text: str) -> None:
    """Refuse unknown functions and rate laws of BioNetGen.

    Raises
    ------
    ModelError
        Says which, and what to write.
    """
    for word in _WORD.findall(text):
        if word in _REFUSED:
            raise ModelError(_REFUSED[word])


def _check_characters(block: str, text: str) -> None:
    require_known(text)
    for character in text:
        if character.isascii() and (character.isalnum() or character in " _"):
            continue
        if character not in BLOCKS[block]:
            raise ModelError(f"the character {character!r} does not belong there")


def _check_brackets(text: str) -> None:
    """BioNetGen looks for the end of an argument without end."""
    depth = 0
    for character in text:
        depth += (character == "(") - (character == ")")
        if depth < 0:
            break
    if depth:
        raise ModelError("its brackets do not match")


def _check_expression(pattern: re.Pattern[str], text: str, names: Names) -> None:
    match = pattern.match(text)
    if match is None or not match[match.lastindex or 0].strip():
        raise ModelError(f"cannot read {text.strip()!r}: a name and an expression belong there")
    expression = match[match.lastindex or 0]
    parse(expression.replace("~", "!"), names.functions)  # BioNetGen's ~= is !=, its ~ is !


# ------------------------------------------------------------------------------ options

_NUMBER = re.compile(r"[+-]?(?:0|[1-9]\d*|(?:\d+\.\d*|\.\d+))(?:[eE][+-]?\d+)?\Z", re.ASCII)
_TEXT = re.compile(r"""(?:"([\w .+-]*)"|'([\w .+-]*)')\Z""", re.ASCII)
_MODEL_NAME = re.compile(r"[A-Za-z_][\w.-]{0,99}\Z", re.ASCII)
_MODES = ("CountUnique", "CountAll")
_OPTION_VALUES: Mapping[str, tuple[str, ...]] = {
    "SpeciesLabel": ("Auto", "HNauty", "Quasi"),
    "MoleculesObservables": _MODES,
    "SpeciesObservables": _MODES,
    "energyBNG": (),
    "NumberPerQuantityUnit": (),
}
_UNITS = re.compile(r"[A-Za-z]+Units\Z")


def plain_value(text: str) -> str | None:
    """Return the value of a number or of a quoted text of letters, digits, spaces, ``_ . + -``."""
    text = text.strip()
    if _NUMBER.match(text):
        return text
    match = _TEXT.match(text)
    return None if match is None else match[1] if match[1] is not None else match[2]


def _plain_values(arguments: str) -> list[str]:
    values = [plain_value(part) for part in arguments.split(",")]
    if None in values:
        wrong = arguments.split(",")[values.index(None)].strip()
        raise ModelError(f"{wrong!r} is not a number or a plain text in quotes")
    return [value for value in values if value is not None]


def _set_option(values: list[str]) -> str:
    if not values or len(values) % 2:
        raise ModelError("names and values in turn belong there")
    for name, value in zip(values[::2], values[1::2], strict=True):
        if name not in _OPTION_VALUES and not _UNITS.match(name):
            known = ", ".join(_OPTION_VALUES)
            raise ModelError(f"{name!r} is none of {known} and no name of units")
        allowed = _OPTION_VALUES.get(name, ())
        if allowed and value not in allowed:
            raise ModelError(f"{name} is one of {', '.join(allowed)}, not {value!r}")
        if name == "NumberPerQuantityUnit" and not _NUMBER.match(value):
            raise ModelError(f"{name} is a number, not {value!r}")
    quoted = (value if _NUMBER.match(value) else f'"{value}"' for value in values)
    return f"setOption({','.join(quoted)})"


def _substance_units(values: list[str]) -> str:
    if len(values) != 1 or not re.match(r"(?i)(?:conc|num)[a-z]*\Z", values[0]):
        raise ModelError("'Number' or 'Concentration' belongs there")
    return f'substanceUnits("{values[0]}")'


def _version(values: list[str]) -> str:
    if len(values) != 1 or not re.match(r"\d+\.\d+\.\d+[+-]?\s*\w*\Z", values[0], re.ASCII):
        raise ModelError("a version such as '2.5.0+' belongs there")
    return f'version("{values[0]}")'


def _model_name(values: list[str]) -> str:
    if len(values) != 1 or not _MODEL_NAME.match(values[0]):
        raise ModelError("a name of letters, digits, '_', '.' and '-' belongs there")
    return ""  # BioNetGen would name its output after it


OPTIONS: Mapping[str, Callable[[list[str]], str]] = {
    "setOption": _set_option,
    "substanceUnits": _substance_units,
    "version": _version,
    "setModelName": _model_name,
}


def option(name: str, arguments: str) -> tuple[str, list[str]]:
    """Return the words for BioNetGen of an option of the file, and the option's values.

    Raises
    ------
    ModelError
        It is not known, or its values are not plain.
    """
    try:
        values = _plain_values(arguments)
        return OPTIONS[name](values), values
    except ModelError as error:
        raise ModelError(f"{name}: {error}") from None


# ------------------------------------------------------------- what bounds the network

_COUNT = re.compile(r"\d{1,15}\Z", re.ASCII)
_KEY = re.compile(r"""\s*(\w+|"\w+"|'\w+')\s*=>\s*""", re.ASCII)
_IGNORED = ("continue", "overwrite", "prefix", "print_iter", "suffix", "TextReaction",
            "TextSpecies", "verbose", "write")  # fmt: skip
_BOUNDS = ("max_iter", "max_agg", "max_stoich", "check_iso")
_VALUE = re.compile(r"""\s*("[^"]*"|'[^']*'|\{[^{}]*\}|\[[^\[\]]*\]|[^,{}\[\]"']*)\s*(?:,|\Z)""")


def bounds(arguments: str) -> str:
    """Arguments of ``generate_network`` that bound a network, as words for BioNetGen.

    Raises
    ------
    ModelError
        An argument is not known, or has no plain value.
    """
    inner = arguments.strip()
    if inner.startswith("{") and inner.endswith("}"):
        inner = inner[1:-1]
    try:
        kept = [
            f"{key}=>{_bound(key, value)}" for key, value in pairs(inner) if key not in _IGNORED
        ]
    except ModelError as error:
        raise ModelError(f"generate_network: {error}") from None
    return f"generate_network({{{','.join([*kept, 'overwrite=>1'])}}})"


def pairs(text: str) -> Iterator[tuple[str, str]]:
    """Keys and texts of values of ``key=>value, ...``."""
    while text.strip(" \t,"):
        key = _KEY.match(text)
        value = _VALUE.match(text, key.end()) if key else None
        if key is None or value is None:
            raise ModelError(f"cannot read {text.strip()!r}: 'name=>value' belongs there")
        yield key[1].strip("\"'"), value[1].strip()
        text = text[value.end() :]


def _bound(key: str, value: str) -> str:
    if key not in _BOUNDS:
        raise ModelError(f"{key!r} is none of {', '.join((*_BOUNDS, *_IGNORED))}")
    if key == "max_stoich":
        if not (value.startswith("{") and value.endswith("}")):
            raise ModelError(f"max_stoich is {{name=>number, ...}}, not {value!r}")
        return f"{{{','.join(f'{name}=>{_count(name, n)}' for name, n in pairs(value[1:-1]))}}}"
    return _count(key, value)


def _count(key: str, value: str) -> str:
    plain = plain_value(value)
    if not _WORD.fullmatch(key):
        raise ModelError(f"{key!r} is no name")
    if plain is not None and (_COUNT.match(plain) or _NUMBER.match(plain)):
        number = float(plain)
        if 0 <= number < 1e15 and number == int(number):
            return str(int(number))
    raise ModelError(f"{key} is a number from 0 to 1e15, not {value!r}")

"""BioNetGen's ``tfun``, a function given by a table, written with ``if``.

``tfun([x0,x1,...],[y0,y1,...],index)`` interpolates linearly, or with ``method=>"step"`` keeps the
value of the last point; outside of the table it keeps the first or last value.
"""

from __future__ import annotations

import math
import re
from itertools import pairwise

from tauslab.base.errors import ModelError

_TABLE = re.compile(r"\btfun\s*\(\s*\[([^\]]*)\]\s*,\s*\[([^\]]*)\]\s*,", re.IGNORECASE)
_METHOD = re.compile(r"""method\s*=>\s*["'](linear|step)["']\s*\Z""")
_MOST = 1000  # points


def without_tables(text: str) -> str:
    """The text of a model in which tables of numbers are nested ``if``; lines keep their numbers.

    Raises
    ------
    ModelError
        A table that is not numbers, does not increase, or has more than 1,000 points.
    """
    return "\n".join(map(_line, enumerate(text.split("\n"), start=1)))


def _line(numbered: tuple[int, str]) -> str:
    number, line = numbered
    code, mark, remark = line.partition("#")
    try:
        while match := _TABLE.search(code):
            index, end = _last_argument(code, match.end())
            code = code[: match.start()] + _written(match[1], match[2], index) + code[end:]
    except ModelError as error:
        raise ModelError(f"line {number}: tfun: {error}") from None
    return code + mark + remark


def _last_argument(code: str, start: int) -> tuple[str, int]:
    """The text up to the bracket that closes the call, and the place after that bracket."""
    depth = 1
    for at in range(start, len(code)):
        depth += {"(": 1, ")": -1}.get(code[at], 0)
        if depth == 0:
            return code[start:at].strip(), at + 1
    raise ModelError("a bracket is not closed")


def _first_argument(code: str) -> tuple[str, str, str]:
    """The text before the first comma that stands in no bracket, the comma, and what follows."""
    depth = 0
    for at, one in enumerate(code):
        depth += {"(": 1, ")": -1}.get(one, 0)
        if one == "," and depth == 0:
            return code[:at], one, code[at + 1 :]
    return code, "", ""


def _written(x: str, y: str, index: str) -> str:
    xs, ys = _numbers(x), _numbers(y)
    if not 2 <= len(xs) <= _MOST or len(xs) != len(ys):
        raise ModelError(f"{len(xs)} points and {len(ys)} values; 2 to {_MOST} of both are allowed")
    if any(a >= b for a, b in pairwise(xs)):
        raise ModelError("the points do not increase")
    index, comma, rest = _first_argument(index)
    method = _METHOD.match(rest.strip()) if comma else None
    if comma and method is None:
        raise ModelError('after the index only method=>"linear" or method=>"step" is allowed')
    index = index.strip()
    stepwise = method is not None and method[1] == "step"
    pieces = [_number(ys[0])]
    for k in range(len(xs) - 1):
        slope = 0.0 if stepwise else (ys[k + 1] - ys[k]) / (xs[k + 1] - xs[k])
        line = f"+({_number(slope)})*({index}-({_number(xs[k])}))" if slope else ""
        pieces.append(f"{_number(ys[k])}{line}")
    return f"({_chosen([*pieces, _number(ys[-1])], xs, index)})"


def _chosen(pieces: list[str], xs: list[float], index: str) -> str:
    """The piece that holds at the index, by halving: ``pieces[k]`` holds below ``xs[k]``."""
    if len(pieces) == 1:
        return pieces[0]
    half = len(pieces) // 2
    below = _chosen(pieces[:half], xs[: half - 1], index)
    above = _chosen(pieces[half:], xs[half:], index)
    return f"if({index}<{_number(xs[half - 1])},{below},{above})"


def _numbers(text: str) -> list[float]:
    try:
        result = [float(one) for one in text.split(",")]
    except ValueError:
        raise ModelError("points and values must be numbers") from None
    if not all(map(math.isfinite, result)):
        raise ModelError("points and values must be finite")
    return result


def _number(value: float) -> str:
    return f"({value!r})" if value < 0 else repr(value)

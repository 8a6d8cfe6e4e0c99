"""Texts of others, such as names in a file, as a terminal may be given them."""

from __future__ import annotations

import re

# Control characters but for tabulators and ends of lines, and those that turn the order of letters.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def printable(text: str, *, one_line: bool = False) -> str:
    r"""A text in which control characters are escapes; with `one_line`, ends of lines are, too.

    >>> printable("a\x1b[2Jb"), printable("a\nb", one_line=True)
    ('a\\x1b[2Jb', 'a\\nb')
    """
    escaped = _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)
    return escaped.replace("\n", "\\n") if one_line else escaped

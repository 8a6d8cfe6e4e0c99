"""Files of a like name: what may be meant by one that is not there."""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Container
from pathlib import Path

_MOST_LISTED = 1000  # files of a folder that are looked at
_ALIKE = 0.7


def beside(path: Path, suffixes: Container[str]) -> str:
    """The end of a message about a file that is not there: one beside it of a like name, or ''."""
    try:
        found = list(itertools.islice(path.parent.iterdir(), _MOST_LISTED))
    except OSError:
        return ""
    names = sorted(one.name for one in found if one.suffix.lower() in suffixes)
    near = [name for name in names if Path(name).stem == path.stem]
    near += difflib.get_close_matches(path.name, names, n=1, cutoff=_ALIKE)
    return f"; is {path.with_name(near[0])} meant?" if near else ""

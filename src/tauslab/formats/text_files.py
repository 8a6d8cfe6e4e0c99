"""Write a model as text."""

from __future__ import annotations

from pathlib import Path

from tauslab.base.errors import ConfigError
from tauslab.base.files.drafts import write_whole
from tauslab.base.files.opening import at_home


def write_text(text: str, path: str | Path | None, suffixes: tuple[str, ...]) -> str:
    """Write a text if there is a path, which must end in one of `suffixes`; returns the text.

    Raises
    ------
    ConfigError
        It ends otherwise.
    OutputError
        The file cannot be written.
    """
    if path is not None:
        path = at_home(path)
        if path.suffix.lower() not in suffixes:
            raise ConfigError(f"{path}: this is written as {' or '.join(suffixes)}")
        write_whole(path, text)
    return text

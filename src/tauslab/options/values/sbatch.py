"""Options of SLURM's ``sbatch``, as users give them and as a script holds them."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from tauslab.base.errors import ConfigError
from tauslab.base.option_names import assigned, said


def sbatch_words(text: str) -> tuple[str, ...]:
    """Options of ``sbatch`` in one text, as a shell would part it.

    Raises
    ------
    ConfigError
        A quotation that does not end, or words that are no options.
    """
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise ConfigError(f"{assigned('sbatch')}{text!r}: {str(error).lower()}") from None
    sbatch_lines(words)
    return words


def sbatch_lines(words: Sequence[str]) -> list[str]:
    """What stands after ``#SBATCH``, an option to a line, quoted as sbatch reads it.

    >>> sbatch_lines(["-p", "gpu", "--comment=two words"])
    ['-p gpu', "'--comment=two words'"]

    Raises
    ------
    ConfigError
        A word has characters that end a line or that nobody sees, or is no option's.
    """
    lines: list[str] = []
    for word in words:
        if not word.isprintable():
            raise ConfigError(
                f"{assigned('sbatch')}{word!r}: only printable characters are allowed"
            )
        if word.startswith("-") and word.strip("-"):
            lines.append(_quoted(word))
        elif lines and word and " " not in lines[-1]:
            lines[-1] += f" {_quoted(word)}"
        else:
            raise ConfigError(
                f"{assigned('sbatch')}{word!r} is not an option of sbatch: write "
                + said(
                    '--sbatch="--partition=gpu --account=x"', 'sbatch="--partition=gpu --account=x"'
                )
            )
    return lines


def _quoted(word: str) -> str:
    """As a shell's word; sbatch does not know the shell's way to write an apostrophe."""
    if "'" not in word:
        return shlex.quote(word)
    if set(word) & set('"\\'):
        raise ConfigError(
            f"{assigned('sbatch')}{word!r}: only one kind of quotation mark is "
            "possible, and no backslash"
        )
    return f'"{word}"'

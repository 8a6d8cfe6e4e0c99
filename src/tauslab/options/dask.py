"""Choices of ``--executor dask``, checked, and options of SLURM's ``sbatch`` in one text."""

from __future__ import annotations

import importlib.util
import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tauslab.base.errors import ConfigError, one_of
from tauslab.base.files.extras import installing
from tauslab.base.option_names import assigned, opt, said

EXECUTORS = ("mpi", "dask")
_MOST_WORKERS = 65536


@dataclass(frozen=True)
class DaskOptions:
    """The Dask workers of a run.

    Parameters
    ----------
    scheduler
        ``local`` starts workers on this machine, ``slurm`` as SLURM jobs; else the address of a
        scheduler that runs (``tcp://host:8786``), the name of its scheduler file (``.json``), or
        in Python a `distributed.Client`.
    workers
        Fewest and most workers to start; between them Dask scales by the work there is. None: one
        per GPU of this machine.
    directives
        Options of ``sbatch`` for each worker's job, such as ``--partition=gpu``.
    tls
        Files in PEM for encrypted connections of which both ends are known: the certificate of the
        authority, the certificate that it has signed, and its key. None: without TLS.

    Raises
    ------
    ConfigError
        A package is missing, or the choices do not go together.
    """

    scheduler: Any = "local"
    workers: tuple[int, int] | None = None
    directives: tuple[str, ...] = ()
    tls: tuple[Path, Path, Path] | None = None

    def __post_init__(self) -> None:
        """Check that the packages are there and that the choices go together."""
        _require(
            "distributed",
            f"{opt('executor', 'dask')} needs dask and distributed",
            "dask",
            "distributed",
        )
        if self.scheduler == "slurm":
            _require(
                "dask_jobqueue", f"{opt('scheduler', 'slurm')} needs dask-jobqueue", "dask-jobqueue"
            )
            if self.workers is None:
                raise ConfigError(
                    f"{opt('scheduler', 'slurm')} needs {opt('workers')}, for example "
                    f"{assigned('workers')}1:16"
                )
        elif self.directives:
            raise ConfigError(f"{opt('sbatch')} is for {opt('scheduler', 'slurm')} only")
        for path in self.tls or ():
            if not path.is_file():
                raise ConfigError(f"{tls_options()}: {path}: there is no such file")
        plain = isinstance(self.scheduler, str) and self.scheduler.startswith(("tcp://", "ws://"))
        if self.tls is not None and plain:
            raise ConfigError(
                f"{opt('scheduler', self.scheduler)}: with certificates its address begins with "
                "tls://"
            )
        if self.workers is not None and not self.starts_workers:
            raise ConfigError(
                f"{opt('workers')} is for {opt('scheduler', 'local')} and slurm: a scheduler that "
                "runs has its own"
            )

    @property
    def starts_workers(self) -> bool:
        """Return whether the run starts workers, and ends them when it is done."""
        return isinstance(self.scheduler, str) and self.scheduler in ("local", "slurm")


def dask_options(
    executor: str,
    scheduler: Any,
    workers: int | str | None,
    sbatch: str = "",
    tls: Sequence[str | os.PathLike[str] | None] | None = None,
) -> DaskOptions | None:
    """Settings from the options of ``tauslab run``; None for the executor ``mpi``.

    `tls` are the files of ``--dask-tls-ca``, ``--dask-tls-cert`` and ``--dask-tls-key``.

    Raises
    ------
    ConfigError
        An option that is not known or goes with ``--executor dask`` only; a package is missing.
    """
    one_of("executor", executor, EXECUTORS)
    if executor == "mpi":
        given = {"scheduler": scheduler, "workers": workers, "sbatch": sbatch or None}
        named = {opt(name): value for name, value in given.items()}
        named[tls_options()] = None if tls is None or not any(tls) else tls
        for option, value in named.items():
            if value is not None:
                raise ConfigError(f"{option} goes with {opt('executor', 'dask')} only")
        return None
    return DaskOptions(
        "local" if scheduler is None else scheduler,
        _range(workers),
        sbatch_words(sbatch),
        _certificates(tls),
    )


def tls_options() -> str:
    """The options of certificates, as a message names them: three flags, or one keyword."""
    return ", ".join(dict.fromkeys(map(opt, ("dask_tls_ca", "dask_tls_cert", "dask_tls_key"))))


def _certificates(
    tls: Sequence[str | os.PathLike[str] | None] | None,
) -> tuple[Path, Path, Path] | None:
    """All three files, or none."""
    several = tls if isinstance(tls, tuple | list) else [tls]
    given = [Path(path) for path in several if isinstance(path, str | os.PathLike)]
    if all(path is None for path in several):
        return None
    if len(given) != 3:
        raise ConfigError(f"TLS needs three files: {tls_options()}")
    return given[0], given[1], given[2]


def _range(workers: int | str | None) -> tuple[int, int] | None:
    """Fewest and most: ``4`` or ``1:16``."""
    if workers is None:
        return None
    low, _, high = str(workers).partition(":")
    try:
        fewest, most = int(low), int(high or low)
    except ValueError:
        fewest, most = -1, -1
    if not 1 <= fewest <= most <= _MOST_WORKERS:
        raise ConfigError(
            f"{opt('workers', workers)} is not allowed: a number such as 4, or minimum and "
            "maximum such as 1:16"
        )
    return fewest, most


def _require(module: str, sentence: str, *packages: str) -> None:
    if importlib.util.find_spec(module) is None:
        raise ConfigError(f"{sentence}: {installing(*packages)}")


def sbatch_words(text: str) -> tuple[str, ...]:
    """Options of ``sbatch`` in one text, as a shell would part it.

    Raises
    ------
    ConfigError
        A quotation that does not end, or words that are no options.
    """
    if not isinstance(text, str):
        raise ConfigError(f"{opt('sbatch')}: a text is expected, not {text!r:.60}")
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise ConfigError(f"{assigned('sbatch')}{text!r}: {str(error).lower()}") from None
    sbatch_lines(words)
    return words


def sbatch_lines(words: Sequence[str]) -> list[str]:
    """Return the texts after ``#SBATCH``, an option to a line, quoted as sbatch reads it.

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
    """Quote a word for a shell; sbatch does not know the shell's way to write an apostrophe."""
    if "'" not in word:
        return shlex.quote(word)
    if set(word) & set('"\\'):
        raise ConfigError(
            f"{assigned('sbatch')}{word!r}: only one kind of quotation mark is "
            "possible, and no backslash"
        )
    return f'"{word}"'

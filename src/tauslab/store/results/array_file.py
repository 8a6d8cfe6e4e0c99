"""The new file of a result: its place is checked before anything is computed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tauslab.base.errors import ConfigError, OutputError
from tauslab.base.host import in_bytes
from tauslab.base.option_names import opt
from tauslab.decomposition.ranks.mpi import Communicator
from tauslab.decomposition.ranks.on_root import on_root
from tauslab.options.values.result_name import require_result_name
from tauslab.store.hdf5.disk import Disk
from tauslab.store.locks import written_by_us
from tauslab.store.targets import require_place

_LEAST_ROOM = 1 << 18  # bytes; a full disk is found before all is computed, not after


def require_new_file(path: Path, *, overwrite: bool) -> None:
    """Refuse, before anything is computed, a place where no file can be made, and a file.

    Raises
    ------
    ConfigError
        The name is that of a table or a picture, no file can be made there, or one is there.
    OutputError
        The disk is full.
    """
    require_result_name(path)
    require_place(path)
    if path.exists() and not overwrite:
        raise ConfigError(f"{path} exists: give {opt('overwrite')} or another {opt('output')}")
    free = Disk().free_bytes(path.parent)
    if free < _LEAST_ROOM:
        raise OutputError(
            f"{path} cannot be written: {in_bytes(free)} are free there; free some space or choose "
            f"another {opt('output')}"
        )


@contextmanager
def writing_result(
    path: str | os.PathLike[str] | None, comm: Communicator, *, overwrite: bool = False
) -> Iterator[Callable[[Callable[[Path], object]], None]]:
    """Be the only one that writes a new result, until the end of a `with` statement. Collective.

    Gives a function that lets rank 0 write the file; it does nothing where `path` is None. What
    another program puts there meanwhile is kept, too.

    Raises
    ------
    ConfigError
        As `require_new_file` and `written_by_us`.
    """
    where = None if path is None else Path(path)

    def on_file(action: Callable[[Path], object]) -> None:
        if where is not None:
            on_root(comm, lambda: bool(action(where)))

    with written_by_us(where, comm):
        on_file(lambda new: require_new_file(new, overwrite=overwrite))

        def write(save: Callable[[Path], object]) -> None:
            on_file(lambda new: require_new_file(new, overwrite=overwrite))
            on_file(save)

        yield write

"""``tauslab merge``: one file in place of a view of parts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tauslab.base.errors import ConfigError, InputFileError
from tauslab.base.files.text import plain
from tauslab.decomposition.ranks.mpi import Communicator
from tauslab.options.record import Record
from tauslab.store.format.layout import Layout
from tauslab.store.format.statistics import stored_accumulators
from tauslab.store.hdf5.disk import Disk
from tauslab.store.locks import written_by_us
from tauslab.store.results.open import open_result
from tauslab.store.results.result import Result
from tauslab.store.writers.join import ResultPiece, join_files

# Root attributes that a new file gets anew.
_OF_A_FILE = ("format", "format_version", "tauslab_version", "created", "n", "block", "record",
              "storage", "run", "sweep", "grid")  # fmt: skip


def merge(path: Path, compress: int = 0) -> str:
    """Turn a finished result that is a view of parts into one file; says what was done.

    Every block is compared with its checksum as it is copied.

    Raises
    ------
    ConfigError
        A level of gzip outside 0 to 9, or any of a result that is one file already.
    InputFileError
        The result is unfinished, or a block is not what was written.
    """
    require_compress(compress)
    if not path.is_file():
        raise InputFileError(f"{path}: there is no such file")
    with written_by_us(path, Communicator()), open_result(path) as result:
        if not result.complete:
            raise InputFileError(f"{path} is unfinished: --resume completes it")
        run = str(result.attributes["run"])
        if result.attributes["storage"] == "plain" and compress:
            raise ConfigError(
                f"{path} is one file already, and --compress is for parts that are joined: "
                "tauslab run has --compress too"
            )
        if result.attributes["storage"] == "plain":
            return f"{path} is one file already: files of an array are joined with -o FILE"
        layout = layout_of_result(result)
        piece = ResultPiece(result.data, result.n, path, "virtual")
        totals = stored_accumulators(layout, result.data)
        join_files(path, layout, [piece], totals, run, Disk(), compress, whole=True)
    return f"{path} is one file now"


def require_compress(compress: int) -> None:
    """Refuse a level of gzip outside 0 to 9 by a `ConfigError`."""
    if not 0 <= compress <= 9:
        raise ConfigError(f"--compress {compress} is not allowed: a whole number from 0 to 9")


def layout_of_result(result: Result) -> Layout:
    """The layout that a finished result was written with."""
    data, attributes = result.data, result.attributes
    record = Record.parse(str(attributes["record"]))
    grid = attributes.get("grid")
    return Layout(
        n=result.n,
        times=result.times,
        species=tuple(result.species),
        observables=tuple(result.observables),
        trajectories=record.trajectories,
        final=record.final,
        statistics=record.statistics,
        histograms=record.histograms,
        summaries=(
            *(spec.name for spec in record.summaries),
            *_drawn(attributes, record),
            *result.states,
        ),
        amounts=result.continuous,
        amount_unit=str(attributes.get("amount_unit", "molecules")),
        time_unit=str(attributes.get("time_unit", "")),
        format_version=int(attributes["format_version"]),
        block=int(attributes["block"]),
        attributes={k: v for k, v in attributes.items() if k not in _OF_A_FILE},
        model_name=str(plain(data["model/source"].attrs["name"])),
        model_source=_text(data["model/source"]),
        model_canonical=_text(data["model/canonical"]),
        sweep=result.points if result.swept else None,
        grid=None if grid is None else tuple(map(int, str(grid).split(","))),
    )


def _drawn(attributes: Any, record: Record) -> tuple[str, ...]:
    texts = str(attributes["sample"]).split("; ") if record.sampled else []
    return tuple(f"sampled:{n.strip()}" for t in texts for n in t.partition("=")[0].split(","))


def _text(dataset: Any) -> str:
    return bytes(dataset[()]).decode()

"""``tauslab merge``: one file of the parts of a result, or of the files of an array."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tauslab.base.errors import ConfigError, InputFileError
from tauslab.base.files.text import plain
from tauslab.decomposition.ranks.mpi import Communicator
from tauslab.formats.toml.network import read_toml_text
from tauslab.model.network.canonical import canonical_text
from tauslab.options.record import Record
from tauslab.options.sweep import OF_ALL_POINTS, POINTS_HELD, Share, grid_of, points_sha256, span_of
from tauslab.store.format.layout import Layout, RowArray
from tauslab.store.format.schema import root_attributes
from tauslab.store.format.statistics import stored_accumulators
from tauslab.store.hdf5.disk import Disk
from tauslab.store.locks import written_by_us
from tauslab.store.results.open import open_result
from tauslab.store.results.result import Result
from tauslab.store.writers.join import ResultPiece, join_files, joined_contents
from tauslab.store.writers.merge import publish_rows

NOTHING_TO_MERGE = "nothing to merge (files of the tasks of an array are merged with -o FILE)"
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
            return f"{path} is complete in one file: {NOTHING_TO_MERGE}"
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
        grid=grid_of(attributes.get("grid")),
    )


def _drawn(attributes: Any, record: Record) -> tuple[str, ...]:
    texts = str(attributes["sample"]).split("; ") if record.sampled else []
    return tuple(f"sampled:{n.strip()}" for t in texts for n in t.partition("=")[0].split(","))


def _text(dataset: Any) -> str:
    return bytes(dataset[()]).decode()


_COPY_BYTES = 32 << 20
# Attributes that may differ between tasks: those of its points, and those that change no result.
_OWN = {"sweep", "grid", "block", "attributes", "model_name", "model_source", "model_canonical"}
_OWN_ATTRIBUTES = (
    "first_point", "model_sha256", "command", "note", "method_choice", *OF_ALL_POINTS,
)  # fmt: skip


def merge_points(
    paths: Sequence[Path], output: Path, compress: int = 0, *, incomplete: bool = False
) -> str:
    """Put the points of several results, in the order of their numbers, into one new file.

    The new file has the digest of one run of all these points. Every block is compared with its
    checksum as it is copied; the files that are read stay. With `incomplete` some
    points of the array may be missing.

    Raises
    ------
    ConfigError
        A level of gzip outside 0 to 9.
    InputFileError
        A result is unfinished or damaged, has no points, or is of another run than the first;
        points are missing, or are in two files.
    """
    require_compress(compress)
    with ExitStack() as stack:
        opened = [stack.enter_context(open_result(path)) for path in paths]
        results = sorted(opened, key=_first_point)
        layouts = [_points_layout(result) for result in results]
        _require_parts_of_one_run(results, layouts, incomplete=incomplete)
        ends = [_first_point(one) + own.points for one, own in zip(results, layouts, strict=True)]
        whole = _whole(layouts, _share(results), ends[-1], incomplete=incomplete)
        whole = _with_gaps(whole, [_first_point(one) for one in results], ends)
        pieces = [ResultPiece(result.data, result.n, result.path) for result in results]
        sums = [stored_accumulators(own, r.data) for own, r in zip(layouts, results, strict=True)]
        totals = {name: np.concatenate([each[name] for each in sums]) for name in sums[0]}
        publish_rows(
            output,
            whole,
            _rows(layouts, pieces),
            joined_contents(whole, pieces, totals),
            root_attributes(whole, "plain", secrets.token_hex(8)),
            Disk(),
            compress,
        )
        known = any(Share.of_file(result.attributes) for result in results)
    share = Share.of_file(whole.attributes)
    some = "" if share is None else f" of {share.points}"
    made = f"{output} holds {whole.points}{some} points from {len(paths)} files"
    return made if known else f"{made}{of_unknown('points')}"


def of_unknown(what: str) -> str:
    """End of the message on files that do not state the size of their array."""
    return f", made without --task: missing {what} at the end cannot be detected"


def require_all(begin: int, end: int, number: int, what: str, *, incomplete: bool) -> None:
    """Refuse files that lack the first or the last of the `number` points or replicas of an array.

    Parameters
    ----------
    begin, end
        Number of the first one in the files, and of the last one plus 1.
    incomplete
        Whether some may be missing.

    Raises
    ------
    InputFileError
        Some are missing, and `incomplete` is false; or the files hold more than the array has.
    """
    if end > number:
        raise InputFileError(
            f"the files hold {what} {end - 1} of an array of {number}: give files of one array"
        )
    missing = [
        span_of(what, first, last + 1 - first)
        for first, last in ((0, begin - 1), (end, number - 1))
        if first <= last
    ]
    if missing and not incomplete:
        raise InputFileError(
            f"{' and '.join(missing)} of {number} {'is' if begin + number - end == 1 else 'are'} "
            "missing: give the files of all tasks, or --incomplete to join the others"
        )


def _first_point(result: Result) -> int:
    return int(result.attributes.get("first_point", 0))


def _points_layout(result: Result) -> Layout:
    if not result.complete:
        raise InputFileError(f"{result.path} is unfinished: --resume completes it")
    if not result.swept:
        raise InputFileError(
            f"{result.path} has no points: only files with points of a sweep are joined; "
            "tauslab run --append adds trajectories to a file"
        )
    if POINTS_HELD in result.attributes:
        raise InputFileError(
            f"{result.path} lacks points in the middle: merge the files of the tasks instead"
        )
    return layout_of_result(result)


def _with_gaps(layout: Layout, begins: Sequence[int], ends: Sequence[int]) -> Layout:
    """The layout with the numbers of its points, if some between them are missing."""
    spans: list[list[int]] = []
    for begin, end in zip(begins, ends, strict=True):
        if spans and spans[-1][1] == begin:
            spans[-1][1] = end
        else:
            spans.append([begin, end])
    if len(spans) == 1:
        return layout
    held = ",".join(f"{begin}-{end - 1}" for begin, end in spans)
    return replace(layout, attributes={**layout.attributes, POINTS_HELD: held})


def _digest(hashed: str, layout: Layout) -> str:
    """``model_sha256`` of a sweep, as `runner.ensemble.task.identity` makes it."""
    digest = hashlib.sha256(hashed.encode() + b"sweep\0")
    for name, values in sorted((layout.sweep or {}).items()):
        digest.update(name.encode() + b"\0" + values.astype("<f8").tobytes())
    return digest.hexdigest()


def _hashed(layout: Layout) -> str:
    """The text of the model that its ``model_sha256`` covers, without limits or with them."""
    network = read_toml_text(layout.model_canonical, Path(layout.model_name))
    for text in (canonical_text(network, limits=False), layout.model_canonical):
        if _digest(text, layout) == layout.attributes["model_sha256"]:
            return text
    raise InputFileError(
        f"results of {layout.model_name} cannot be merged: values are drawn for each trajectory"
    )


def _require_parts_of_one_run(
    results: Sequence[Result], layouts: Sequence[Layout], *, incomplete: bool
) -> None:
    first, *others = map(_shared, layouts)
    for result, other in zip(results[1:], others, strict=True):
        for name in sorted(first.keys() | other.keys()):
            if first.get(name) != other.get(name):
                raise InputFileError(
                    f"{result.path} is of another run than {results[0].path}: their {name} differs"
                )
    for before, after, own in zip(results[:-1], results[1:], layouts[:-1], strict=True):
        end, begin = _first_point(before) + own.points, _first_point(after)
        if begin < end:
            both = span_of("point", begin, min(end, begin + after.n_points) - begin)
            raise InputFileError(
                f"{both} {'is' if both.startswith('point ') else 'are'} in {before.path} and in "
                f"{after.path}: give each file of the array once"
            )
        if begin > end and not incomplete:
            raise InputFileError(
                f"{before.path} ends before point {end} and {after.path} begins with point "
                f"{begin}: give all files of the array, or --incomplete to join the others"
            )


def _shared(layout: Layout) -> dict[str, Any]:
    """Comparable attributes that all tasks of an array share."""
    own = {one.name: getattr(layout, one.name) for one in fields(layout) if one.name not in _OWN}
    names = list(layout.sweep or ())
    own |= {"times": layout.times.tobytes(), "names of points": names}
    # The model has the values of the first point.
    lines = layout.model_canonical.splitlines()
    valued = tuple(f"{quoted} = " for name in names for quoted in (name, f'"{name}"'))
    own["model"] = [line for line in lines if not line.startswith(valued)]
    return own | {k: v for k, v in layout.attributes.items() if k not in _OWN_ATTRIBUTES}


def _share(results: Sequence[Result]) -> Share | None:
    """The array that the files belong to; None if no file states it."""
    known = [(r, s) for r in results if (s := Share.of_file(r.attributes)) is not None]
    for result, share in known[1:]:
        if (share.points, share.sha256) != (known[0][1].points, known[0][1].sha256):
            raise InputFileError(
                f"{result.path} is of another array than {known[0][0].path}: their tables of all "
                f"points differ ({share.points} and {known[0][1].points} points)"
            )
    return replace(known[0][1], first=_first_point(results[0])) if known else None


def _whole(layouts: Sequence[Layout], share: Share | None, end: int, *, incomplete: bool) -> Layout:
    """The layout of all; `end` is the number of the last point plus 1."""
    first = layouts[0]
    names = list(first.sweep or ())
    columns = [layout.sweep or {} for layout in layouts]
    sweep = {name: np.concatenate([each[name] for each in columns]) for name in names}
    whole = replace(first, sweep=sweep, grid=None)
    digest = _digest(_hashed(first), whole)
    attributes = {k: v for k, v in first.attributes.items() if k not in OF_ALL_POINTS}
    attributes["model_sha256"] = digest
    if share is not None:
        require_all(share.first, end, share.points, "point", incomplete=incomplete)
        if whole.points < share.points:
            attributes |= share.attributes()
        elif points_sha256(sweep) != share.sha256:
            raise InputFileError("the points of the files differ from the table of the array")
        else:
            whole = replace(whole, grid=share.grid)
    return replace(whole, attributes=attributes)


def _rows(
    layouts: Sequence[Layout], pieces: Sequence[ResultPiece]
) -> Iterator[tuple[RowArray, int, npt.NDArray[Any]]]:
    """Every row of every array, in order: the array, the flat number of the first, the rows."""
    n = layouts[0].n
    for array in layouts[0].row_arrays():
        step, start = max(1, _COPY_BYTES // max(1, array.row_bytes * n)), 0
        for layout, piece in zip(layouts, pieces, strict=True):
            for point in range(0, layout.points, step):
                own = np.asarray(piece.data[array.name][point : point + step], array.dtype)
                yield array, start, own.reshape(-1, *array.inner)
                start += len(own) * n

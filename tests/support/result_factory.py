"""Small results with known samples, as files (by h5py, no writer of ours) and in memory."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from tauslab.base.files.seals import seal
from tauslab.base.files.text import put_attributes, put_text

Arrays = dict[str, Any]
_ROWS = ("counts", "amounts", "observables", "final", "status")

SPECIES = ("X", "Y")
TIMES = np.array([0.0, 0.5, 1.0, 2.0])
BLOCK = 16
_DIMENSIONS = {
    "counts": ("trajectory", "time", "species"),
    "observables": ("trajectory", "time", "observable"),
    "final": ("trajectory", "species"),
    "status": ("trajectory",),
    "statistics/n": ("time",),
    "statistics/mean": ("time", "species"),
    "statistics/sum": ("time", "species"),
    "statistics/sumsq_hi": ("time", "species"),
    "statistics/sumsq_lo": ("time", "species"),
}


def samples(n: int = 100, *, early_ends: bool = True, seed: int = 7) -> Arrays:
    """Counts ``[n, 4, 2]`` of X (bimodal) and Y (up to 2^31 - 1), their sum and half of X.

    With `early_ends`, trajectory 3 overflows after the second sample, and 5 before the first.
    """
    rng = np.random.default_rng(seed)
    counts = np.empty((n, len(TIMES), 2), np.int32)
    upper = rng.random(n) < 0.4
    counts[:, :, 0] = np.where(upper[:, None], 570, 85) + rng.integers(-40, 41, (n, len(TIMES)))
    counts[:, 0, 0] = 250
    counts[:, :, 1] = rng.integers(2**30, 2**31 - 1, (n, len(TIMES)))
    status = np.zeros(n, np.uint8)
    status[1] = 1
    observables = np.stack([counts.sum(2, dtype=np.float64), counts[:, :, 0] / 2], axis=-1)
    if early_ends:
        status[[3, 5]] = 2
        for row, end in ((3, 2), (5, 0)):
            counts[row, end:] = -1
            observables[row, end:] = np.nan
    return {
        "time": TIMES,
        "species": np.array(SPECIES, object),
        "observable": np.array(["total", "half"], object),
        "status": status,
        "counts": counts,
        "observables": observables,
        "final": counts[:, -1].copy(),
    }


def statistics(counts: np.ndarray[Any, Any]) -> Arrays:
    """Sums by Python integers, one sample at a time."""
    _, n_times, n_species = counts.shape
    arrays: Arrays = {"statistics/n": (counts[:, :, 0] >= 0).sum(0).astype(np.uint64)}
    total = np.zeros((n_times, n_species), np.int64)
    squares = np.zeros((2, n_times, n_species), np.uint64)
    for k in range(n_times):
        for s in range(n_species):
            values = [int(x) for x in counts[:, k, s] if x >= 0]
            total[k, s] = sum(values)
            square = sum(x * x for x in values)
            squares[:, k, s] = square >> 64, square & (2**64 - 1)
    arrays["statistics/sum"] = total
    arrays["statistics/sumsq_hi"], arrays["statistics/sumsq_lo"] = squares
    return arrays


def real_statistics(observables: np.ndarray[Any, Any]) -> Arrays:
    """Digits of the sums, cut by Python's integers: see docs/file-format.md."""
    group, (_, n_times, n_observables) = "statistics/observables", observables.shape
    names = {"n": "u8", "infinite": "u8", "exponent": "i8", "lowest": "i8"}
    shapes = dict.fromkeys(names, (n_times, n_observables))
    names |= {"sum": "i8", "sumsq": "u8"}
    shapes |= {"sum": (n_times, n_observables, 4), "sumsq": (n_times, n_observables, 7)}
    arrays: Arrays = {name: np.zeros(shape, names[name]) for name, shape in shapes.items()}
    for k, o in np.ndindex(n_times, n_observables):
        column = observables[:, k, o]
        values = [Fraction(y) for y in column if np.isfinite(y)]
        arrays["n"][k, o], arrays["infinite"][k, o] = len(values), np.isinf(column).sum()
        units = [int(v * 2**1074) for v in values]
        highest = max((abs(u) for u in units), default=0).bit_length()
        low = 23 * ((highest - 1) // 23 - 3) if highest else -92
        arrays["exponent"][k, o] = low - 1074
        bits = [(u & -u).bit_length() - 1 for u in units if u]
        arrays["lowest"][k, o] = min(bits, default=2098) - 1074
        for u in units:
            size = abs(u) << 100 >> low + 100
            square = u * u << 200 >> 2 * low + 23 + 200
            for b in range(4):
                arrays["sum"][k, o, b] += (1 if u > 0 else -1) * (size >> 23 * b & 0x7FFFFF)
            for b in range(7):
                arrays["sumsq"][k, o, b] += square >> 23 * b & 0x7FFFFF
    digits = {"sum": 23 * np.arange(4), "sumsq": 23 * np.arange(7)}
    return {f"{group}/{name}": values for name, values in arrays.items()} | {
        f"statistics/{name}_digit": values for name, values in digits.items()
    }


def histogram(counts: np.ndarray[Any, Any], edges: np.ndarray[Any, Any]) -> Arrays:
    """Histogram of X: a cell under, the bins, a cell over."""
    padded = np.concatenate([[-0.5], edges, [2.0**31]])
    cells = [
        [((x >= lo) & (x < hi)).sum() for lo, hi in pairwise(padded)] for x in counts[:, :, 0].T
    ]
    return {
        "statistics/histogram/X": np.array(cells, np.uint64),
        "statistics/histogram/X_edges": edges,
        "statistics/histogram/X.bin": np.concatenate([[-np.inf], edges]),
    }


def only(arrays: Arrays, *keep: str) -> Arrays:
    """The arrays that every result has, and those named."""
    basic = ("time", "species", "observable", "status")
    return {k: v for k, v in arrays.items() if k in (*basic, *keep)}


def species_only(arrays: Arrays, index: int) -> Arrays:
    """What a run with ``--species`` of one species would have recorded."""
    cut = {
        name: values[..., index : index + 1]
        for name, values in arrays.items()
        if _DIMENSIONS.get(name, ("",))[-1] == "species"
    }
    return arrays | cut | {"species": arrays["species"][index : index + 1]}


def attributes(n: int, block: int = BLOCK) -> dict[str, Any]:
    """Root attributes."""
    return {
        "format": "tauslab",
        "format_version": 2,
        "tauslab_version": "0.1.0",
        "method": "ssa",
        "seed": np.uint64(2**64 - 1),
        "model_sha256": "ab" * 32,
        "command": f"tauslab run schlogl.xml -n {n}",
        "created": "2026-11-21T06:00:00Z",
        "n": n,
        "block": block,
        "record": "",
        "storage": "plain",
        "run": "0123456789abcdef",
        "selector": "linear",
    }


def write(
    path: Path,
    arrays: Arrays,
    *,
    block: int = BLOCK,
    done: Sequence[int] | None = None,
    **changed: Any,
) -> Path:
    """Write a file; `done` lists the completed blocks of an unfinished one."""
    n = len(arrays["status"])
    blocks = -(-n // block)
    marks = np.zeros(blocks, np.uint8)
    marks[slice(None) if done is None else list(done)] = 1
    with h5py.File(path, "w", libver=("v110", "v110")) as file:
        put_attributes(file, attributes(n, block) | changed)
        file["trajectory"] = np.arange(n)
        for name, values in arrays.items():
            layout = {"chunks": (min(block, n), *values.shape[1:])} if name == "counts" else {}
            if values.dtype == object:
                put_text(file, name, values.tolist())
            else:
                file.create_dataset(name, data=values, **layout)
        for name in ("trajectory", "time", "species", "observable"):
            file[name].make_scale(name)
        for name, dimensions in _DIMENSIONS.items():
            for axis, dimension in enumerate(dimensions if name in file else ()):
                file[name].dims[axis].attach_scale(file[dimension])
        put_attributes(put_text(file, "model/source", "<sbml/>"), {"name": "schlogl.xml"})
        put_text(file, "model/canonical", "[species]")
        file["progress/blocks"] = marks
        file["progress/complete"] = np.uint8(done is None)
        file["progress/block_size"] = np.int64(block)
        file["profile/rank"] = np.arange(2)
        file["profile/device"] = np.array([b"cpu", b"cuda:0"], "S64")
        file["profile/compute"] = np.array([1.25, 0.5])
        file["profile/events"] = np.array([1_500_000, 0], np.uint64)
        reseal(file, block)
    return path


def reseal(file: h5py.File, block: int = BLOCK) -> None:
    """Checksums of what a file holds now, the blocks' by a loop of their own."""
    for name in ("progress/checksums", "progress/sealed", "progress/seals"):
        if name in file:
            del file[name]
    summaries = file.get("summary", ())
    rows = [name for name in _ROWS if name in file] + [f"summary/{name}" for name in summaries]
    flat = {name: file[name][()].reshape(-1, *file[name].shape[_lead(file) :]) for name in rows}
    sums = [
        [
            zlib.crc32(b.to_bytes(8, "little") + flat[name][b * block : (b + 1) * block].tobytes())
            for name in sorted(rows)
        ]
        for b in range(len(file["progress/blocks"]))
    ]
    file["progress/checksums"] = np.array(sums, np.uint32)
    opened = ("progress/blocks", "progress/complete", "progress/checksums")
    seal(file, {*rows, *opened})


def _lead(file: h5py.File) -> int:
    return len(file["status"].shape)

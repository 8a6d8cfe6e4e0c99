"""From accumulators to the datasets of /statistics, and from recorded samples to accumulators."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tauslab.base.arrays import FloatArray
from tauslab.kernels.ensemble.sums import POWERS, REALS, Power
from tauslab.kernels.fields import Field
from tauslab.options.record import HistogramSpec
from tauslab.store.format import windows
from tauslab.store.format.layout import SAMPLES, Accumulators, Layout, RealGroup
from tauslab.store.format.windows import add_reals, sum_rows

if TYPE_CHECKING:
    from tauslab.decomposition.ranks.mpi import Communicator

Words = npt.NDArray[np.uint64]

_HALF = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)
_GROUPS_AT_ONCE = 1 << 16  # of sums over groups, so that sums of counts do not wrap
_LARGEST = {field.name for field in REALS if field.merge == "max"}


def _same(words: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return words


def _bits_above(lowest: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Between the lowest bit's exponent and its distance from 2^1024; its own inverse."""
    return 1024 - lowest.astype(np.int64)


@dataclass(frozen=True)
class _StoredReal:
    """A dataset of real quantities: the accumulator that it holds, and how."""

    name: str
    accumulator: str
    dtype: str = "<u8"
    encode: Callable[[npt.NDArray[Any]], npt.NDArray[Any]] = _same
    decode: Callable[[npt.NDArray[Any]], npt.NDArray[Any]] = _same


_STORED_REALS = (
    _StoredReal("n", "obs_n"),
    _StoredReal("infinite", "obs_infinite"),
    _StoredReal("exponent", "obs_top", "<i8", windows.exponents, windows.tops),
    _StoredReal("lowest", "obs_low", "<i8", _bits_above, _bits_above),
    _StoredReal("sum", "obs_sum", "<i8"),
    _StoredReal("sumsq", "obs_sq"),
)
_REALS = {field.name: field for field in REALS}
_DERIVED = ("mean", "variance")

# Gives a dataset by its name under /statistics, and the axis of its quantities, from the end.
Get = Callable[[str, int], npt.NDArray[Any]]


def stored_fields(layout: Layout) -> Iterator[Field]:
    """Datasets of /statistics but those of histograms, by their names in it."""
    if not layout.statistics:
        return
    yield Field("n", ("time",))
    if not layout.amounts:
        for power in layout.powers:
            yield from power.fields(wide=layout.wide)
        yield from (Field(name, ("time", "species"), "<f8", "derived") for name in _DERIVED)
    for group in layout.real_groups:
        for each in _STORED_REALS:
            digits = _REALS[each.accumulator].axes[2:]
            yield Field(f"{group.name}/{each.name}", ("time", group.axis, *digits), each.dtype)
        axes = ("time", group.axis)
        yield from (Field(f"{group.name}/{n}", axes, "<f8", "derived") for n in _DERIVED)


def zero_accumulators(layout: Layout) -> Accumulators:
    """Accumulators that nothing was added to."""
    return {name: np.zeros(shape, np.uint64) for name, shape in layout.accumulator_shapes().items()}


def add_accumulators(total: Accumulators, more: Accumulators, where: slice = slice(None)) -> None:
    """Add `more` to `total` in place; in a sweep, at the points `where`.

    The order of such additions does not matter. Sums of counts are added modulo 2^64. Where `total`
    is for more than 2^32 trajectories and `more` is of a launch, which has fewer, words of 64
    bits are cut into halves that are added apart: halves of 2^31 launches fit.
    """
    if "sum_high" in total and "sum_high" not in more:
        more = _halves(more)
    if "obs_top" in more:
        more = _in_one_window(total, more, where)
    for name in more.keys() & total.keys():  # a file of an earlier version lacks some
        values, cells = more[name], total[name][where]
        (np.maximum if name in _LARGEST else np.add)(cells, values, out=cells)


def add_groups(total: Accumulators, groups: Accumulators) -> None:
    """Add sums of groups of trajectories, the first axis of `groups`, to `total` in place."""
    for start in range(0, len(next(iter(groups.values()), ())), _GROUPS_AT_ONCE):
        sums = {name: values[start : start + _GROUPS_AT_ONCE] for name, values in groups.items()}
        if "obs_top" in sums:
            sums = _raised(sums, sums["obs_top"].max(axis=0))
        both = {
            name: values.max(axis=0) if name in _LARGEST else values.sum(axis=0, dtype=np.uint64)
            for name, values in sums.items()
        }
        add_accumulators(total, both)


def sum_over_ranks(comm: Communicator, sums: Accumulators) -> Accumulators:
    """Sums of all ranks together, on every rank. Collective."""
    if "obs_top" in sums:
        sums = _raised(sums, comm.max_uint64(sums["obs_top"]))
    return {
        name: (comm.max_uint64 if name in _LARGEST else comm.sum_uint64)(values)
        for name, values in sorted(sums.items())
    }


def _halves(sums: Accumulators) -> Accumulators:
    """Sums of a launch in the words of a layout for more trajectories."""
    halves: Accumulators = {}
    for power in (power for power in POWERS if power.words[0] in sums):
        words = [sums[name] for name in power.words[:-1]]
        none = [np.zeros_like(words[0])]
        parts = zip(power.words, words + none, none + words, strict=True)
        halves |= {name: (own & _LOW) + (below >> _HALF) for name, own, below in parts}
    return {**sums, **halves}


def _in_one_window(total: Accumulators, more: Accumulators, where: slice) -> Accumulators:
    """`more`, after its windows and those of `total`, in place, were raised to the higher one."""
    own = {name: total[name][where] for name in ("obs_top", "obs_sum", "obs_sq")}
    top = np.maximum(own["obs_top"], more["obs_top"])
    if (top != own["obs_top"]).any():
        for name, values in _raised(own, top).items():
            own[name][...] = values
    return _raised(more, top) if (top != more["obs_top"]).any() else more


def _raised(sums: Accumulators, top: Words) -> Accumulators:
    """Sums with their windows at `top`, which is nowhere lower than theirs."""
    digits = windows.raised(sums["obs_sum"], sums["obs_sq"], sums["obs_top"], top)
    raised = np.broadcast_to(top, sums["obs_top"].shape)
    return sums | {"obs_top": raised, "obs_sum": digits[0], "obs_sq": digits[1]}


def statistics_contents(layout: Layout, totals: Accumulators) -> dict[str, npt.NDArray[Any]]:
    """Arrays of all datasets under /statistics, by their names.

    The derived mean and variance are correctly rounded quotients of exact integers; the variance
    divides by n - 1. They are NaN where n is 0, or below 2.
    """
    contents: dict[str, npt.NDArray[Any]] = {}
    if layout.statistics and layout.amounts:
        contents["n"] = totals["obs_n"].max(axis=-1)
    elif layout.statistics:
        contents |= _counts(layout, totals)
    for group in layout.real_groups if layout.statistics else ():
        contents |= _reals(layout, group, totals)
    for spec in layout.histograms:
        contents[f"histogram/{spec.species}"] = totals[f"histogram/{spec.species}"]
    return {f"statistics/{name}": values for name, values in contents.items()}


def cancelled(layout: Layout, totals: Accumulators) -> list[str]:
    """Real quantities whose mean may lack more than 2^-40 of itself somewhere."""
    n, top, lowest, sums, squares = (
        totals[f"obs_{name}"] for name in ("n", "top", "low", "sum", "sq")
    )
    lost = windows.loses(top, lowest)
    if not lost.any():
        return []
    mean, _ = windows.moments(n[lost], top[lost], sums[lost], squares[lost])
    rough = np.zeros_like(lost)
    rough[lost] = np.abs(mean) < np.ldexp(1.0, windows.exponents(top[lost]) + 40)
    somewhere = rough.reshape(-1, len(layout.reals)).any(axis=0)
    return [layout.reals[index] for index in np.flatnonzero(somewhere)]


def _counts(layout: Layout, totals: Accumulators) -> dict[str, npt.NDArray[Any]]:
    contents = {"n": totals["n"], **_packed_powers(layout.powers, totals)}
    mean, variance = _count_moments(totals["n"][..., None], contents)
    return contents | {"mean": mean, "variance": variance}


def _packed_powers(
    powers: Sequence[Power], totals: Accumulators
) -> dict[str, npt.NDArray[np.generic]]:
    """Datasets of sums of powers, by their names."""
    contents: dict[str, npt.NDArray[np.generic]] = {}
    for power in powers:
        words = _packed([totals[name] for name in power.words if name in totals])
        fields = power.fields(wide="sum_high" in totals)
        contents |= {f.name: word.view(f.dtype) for f, word in zip(fields, words, strict=True)}
    return contents


def count_moments(sums: Accumulators) -> tuple[FloatArray, FloatArray]:
    """Mean and unbiased variance ``[...]`` of a count; NaN where `n` is 0, or below 2."""
    return _count_moments(sums["n"], _packed_powers(POWERS[:2], sums))


def _count_moments(
    n: Words, stored: Mapping[str, npt.NDArray[Any]]
) -> tuple[FloatArray, FloatArray]:
    """Mean and variance of counts from the datasets of their sums.

    Where all numbers are below 2^53, doubles divide them as exactly as Python's integers do.
    """
    total, high, low = (stored[name].view(np.uint64) for name in ("sum", "sumsq_hi", "sumsq_lo"))
    total_high = stored["sum_hi"].view(np.uint64) if "sum_hi" in stored else np.zeros_like(total)
    n = np.broadcast_to(n, total.shape)
    mean, variance = np.full(total.shape, np.nan), np.full(total.shape, np.nan)
    # Products of 64 bits wrap, so the sizes are first estimated in doubles.
    near = n.astype(np.float64) * np.maximum(low.astype(np.float64), n)
    small = (high == 0) & (near < 2.0**53) & (total < np.uint64(2**53)) & (total_high == 0)
    rest = ~small
    some, two = small & (n > 0), small & (n > 1)
    mean[some] = total[some].astype(np.float64) / n[some]
    spread = n[two] * low[two] - total[two] * total[two]  # at most n * low
    variance[two] = spread.astype(np.float64) / (n[two] * (n[two] - np.uint64(1)))
    wide = total_high[rest], total[rest]  # counts are not negative, nor are their sums
    mean[rest], variance[rest] = _exact_moments(n[rest], wide, (high[rest], low[rest]))
    return mean, variance


def _reals(
    layout: Layout, group: RealGroup, all_totals: Accumulators
) -> dict[str, npt.NDArray[Any]]:
    where = (*[slice(None)] * len(layout.sum_lead), slice(None), group.where)
    sums = {name: np.ascontiguousarray(all_totals[name][where]) for name in _REALS}
    arrays = {e.name: e.encode(sums[e.accumulator]).view(e.dtype) for e in _STORED_REALS}
    arrays |= dict(zip(_DERIVED, moments_of_sums(sums), strict=True))
    return {f"{group.name}/{name}": values for name, values in arrays.items()}


def stored_accumulators(layout: Layout, data: Mapping[str, Any]) -> Accumulators:
    """The inverse of `statistics_contents`: the sums of a result as accumulators of `layout`.

    How a wide sum was cut into words does not matter: only what they add up to.
    """
    sums: Accumulators = {}

    def whole(name: str, axis: int = -1) -> npt.NDArray[Any]:
        del axis
        return np.asarray(data[f"statistics/{name}"][()])

    def joined(name: str, axis: int) -> npt.NDArray[Any]:
        parts = [whole(f"{group.name}/{name}") for group in layout.real_groups]
        return np.concatenate(parts, axis=axis)

    if layout.statistics and layout.counted:
        sums["n"] = whole("n").view(np.uint64)
        sums |= stored_powers(layout.powers, whole, wide="statistics/sum_hi" in data)
    if layout.statistics and layout.reals:
        sums |= stored_reals(joined)
    for spec in layout.histograms:
        name = f"histogram/{spec.species}"
        sums[name] = whole(name).view(np.uint64)
    return sums


def stored_powers(powers: Sequence[Power], get: Get, *, wide: bool) -> Accumulators:
    """Accumulators of sums of powers of counts, from their datasets."""
    sums: Accumulators = {}
    for power in powers:
        stored = [get(field.name, -1).view(np.uint64) for field in power.fields(wide=wide)]
        names = power.words if wide else power.words[:-1]
        sums |= dict(zip(names, _unpacked(stored, len(names)), strict=True))
    return sums


def stored_reals(get: Get) -> Accumulators:
    """Accumulators of sums of real quantities, from their datasets."""
    sums: Accumulators = {}
    for each in _STORED_REALS:
        axis = 1 - len(_REALS[each.accumulator].axes)  # digits are the last
        sums[each.accumulator] = each.decode(get(each.name, axis)).view(np.uint64)
    return sums


def _packed(words: Sequence[Words]) -> list[Words]:
    """The sum of ``words[k] * 2^(32 k)`` as words of 64 bits, the lowest first."""
    digits, carry = list[Words](), np.zeros_like(words[0])
    for word in words:
        whole = word + carry  # fits: a word is below 2^64 - 2^32
        digits.append(whole & _LOW)
        carry = whole >> _HALF
    digits += [carry, np.zeros_like(carry)]
    return [digits[k] | (digits[k + 1] << _HALF) for k in range(0, len(words) + 1, 2)]


def _unpacked(stored: Sequence[Words], count: int) -> list[Words]:
    """The inverse of `_packed`: `count` words, the last of which takes all that is left."""
    digits = [half for word in stored for half in (word & _LOW, word >> _HALF)]
    return [*digits[: count - 1], digits[count - 1] | (digits[count] << _HALF)]


def _exact_moments(
    n: Words, total: tuple[npt.NDArray[Any], Words], squares: tuple[Words, Words]
) -> tuple[FloatArray, FloatArray]:
    """Mean and variance ``[cell]`` from exact sums of 128 bits, each its high and low words."""

    def sums(cells: slice) -> tuple[windows.Integers, windows.Integers]:
        high, low, square_high, square_low = (
            part[cells].astype(object) for part in (*total, *squares)
        )
        return (high << 64) + low, (square_high << 64) + square_low

    return windows.divided(n, sums)


def accumulate(layout: Layout, arrays: dict[str, npt.NDArray[Any]], start: int = 0) -> Accumulators:
    """Accumulators of recorded samples, equal to the sums of a device.

    Parameters
    ----------
    arrays
        ``counts`` i32 ``[m, time, species]`` or ``amounts`` f64; ``observables`` f64
        ``[m, time, observable]`` where there are any.
    start
        Trajectory of the first row, which gives the points of a sweep.

    Returns
    -------
    Accumulators of the layout; in a sweep only of the points that the rows belong to.
    """
    rows = len(next(arrays[name] for name in SAMPLES if name in arrays))
    cuts = _point_cuts(layout, start, rows)
    counts = arrays.get("counts", np.zeros((rows, len(layout.times), 0), np.int32))
    sums: Accumulators = {}
    if layout.statistics:
        sums |= count_sums(counts, layout.powers, cuts)
        sums["n"] = sums["n"].max(axis=-1, initial=0)  # of all species alike; 0 without one
    if layout.statistics and layout.reals:
        reals = np.concatenate([arrays[group.name] for group in layout.real_groups], axis=-1)
        sums |= real_sums(reals, cuts)
    for spec in layout.histograms:
        column = counts[:, :, layout.species.index(spec.species)]
        sums[f"histogram/{spec.species}"] = _cells(column, spec, cuts)
    return sums if layout.per_sum else {name: values[0] for name, values in sums.items()}


def count_sums(
    counts: npt.NDArray[Any], powers: Sequence[Power], cuts: npt.NDArray[np.intp]
) -> Accumulators:
    """Accumulators ``[cut, ...]`` of counts ``[row, ...]``, over the rows from each cut on."""
    values = np.maximum(counts, 0).astype(np.uint64)
    sums = {"n": sum_rows(counts >= 0, cuts)}
    for power in powers:
        for name, limb in zip(power.words[:-1], _limbs(values, power), strict=True):
            sums[name] = sum_rows(limb, cuts)
    return sums


def _limbs(values: Words, power: Power) -> list[Words]:
    """A power of numbers below 2^31 as limbs of 32 bits, the lowest first."""
    limbs = [values]
    while len(limbs) < len(power.words) - 1:
        carry, product = np.zeros_like(values), list[Words]()
        for limb in limbs:
            whole = limb * values + carry  # below 2^63
            product.append(whole & _LOW)
            carry = whole >> _HALF
        limbs = [*product, carry]
    return limbs


def real_sums(values: FloatArray, cuts: npt.NDArray[np.intp]) -> Accumulators:
    """Accumulators ``[cut, ...]`` of real values ``[row, ...]``, over the rows from each cut on."""
    return {f"obs_{name}": part for name, part in add_reals(values, cuts).items()}


def moments_of_sums(sums: Accumulators) -> tuple[FloatArray, FloatArray]:
    """Mean and unbiased variance ``[...]`` of real quantities."""
    return windows.moments(*(sums[f"obs_{name}"] for name in ("n", "top", "sum", "sq")))


def _point_cuts(layout: Layout, start: int, rows: int) -> npt.NDArray[np.intp]:
    """Rows with which points begin, the first row included."""
    per = layout.per_sum
    if not per:
        return np.zeros(1, np.intp)
    begins = np.arange(start // per + 1, -(-(start + rows) // per)) * per - start
    return np.concatenate([[0], begins]).astype(np.intp)


def _cells(column: npt.NDArray[np.int32], spec: HistogramSpec, cuts: npt.NDArray[np.intp]) -> Words:
    """Cells ``[point, time, bins + 2]`` of counts ``[m, time]``."""
    cells = np.searchsorted(spec.edges, column, side="right")
    width, times, points = spec.bins + 2, column.shape[1], len(cuts)
    point = np.repeat(np.arange(points), np.diff(cuts, append=len(column)))
    index = (cells + (point[:, None] * times + np.arange(times)) * width)[column >= 0]
    counted = np.bincount(index, minlength=points * times * width).astype(np.uint64)
    return counted.reshape(points, times, width)

"""Diffusion of species in the sites to which their hops are confined: membranes of voxels.

Sites that touch by an edge or a corner alone are not joined by hops.  Where they are, a surface
that is oblique to the axes is a staircase, on which a walk is longer than on the surface: seen from
some sites' distance its diffusion coefficient D_eff is smaller than D.  It follows from the growth
of the mean square displacement of a particle that starts in any of the sites, computed without
drawing numbers.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from tauslab.base.arrays import BoolArray, FloatArray, IntArray
from tauslab.base.errors import ModelError
from tauslab.model.lattice.data import LatticeData
from tauslab.model.lattice.diagnosis.occupancy import connected_types
from tauslab.model.lattice.parts import MAX_HOP, Surface
from tauslab.model.lattice.values import LatticeValues
from tauslab.model.network.text import shortened

MOST_SITES, _MOST_CONFINED = 1 << 24, 1 << 19  # of a lattice and a part that are looked at
_MOST_WALKED = 1 << 17  # sites of a membrane whose D_eff is computed
_LEAST_WALKED = 200
_THIN = 0.1  # part of the sites that may lie inside, with six joined sites around
_NARROW = 0.4  # the same part in a plane, with four joined sites around: a curve of 1 to 3 sites
_WALK = 16.0  # D t / h^2 of a walk: by then it has seen the steps of the staircase
_POINTS = 256  # of the integrals that give Chebyshev's factors
_AROUND = 3  # sites to each side, which tell where a sheet lies
SLOW = 0.05  # part by which D_eff / D may be off
_THICKEST = 5  # sites across a sheet
_NO_EXTENT = 0.02  # squared cosine
_MOST_SHOWN = 4  # sites, species
_SLOW_HOP = 1e-3  # probability at which passes are as continuous time
_MOST_AT_START = 1 << 15  # sites of a membrane that a run looks at first, in 1 s
_MOST_KEPT = 4  # sheets that were looked at
Direction = tuple[int, int, int]
_AXES: tuple[Direction, ...] = ((1, 0, 0), (0, 1, 0), (0, 0, 1))
_DIRECTIONS: tuple[Direction, ...] = tuple(  # half of a site's 26 neighbours
    (z, y, x) for z, y, x in itertools.product((-1, 0, 1), repeat=3) if (z, y, x) > (0, 0, 0)
)


@dataclass(frozen=True)
class Confined:
    """Sites that some species do not leave.

    Attributes
    ----------
    species, site_types
        Names.
    sites, pieces, largest
        Number of sites, of the pieces that hops join, and the sites of the largest; the last two
        None where the sites are too many.
    touching
        Number of pieces if sites joined that touch by an edge or a corner; None as `pieces`.
    effective
        D_eff / D of each hop probability, the largest first; empty where the sites are no surface,
        or too many or too few.
    unestimated
        Why `pieces` or `effective` are missing, where it is for too many sites; else empty.
    axes
        D_eff / D of hops along z, y and x in continuous time, with `effective`; 1 along an axis
        to which the sheet is normal.
    """

    species: tuple[str, ...]
    site_types: tuple[str, ...]
    sites: int
    pieces: int | None = None
    largest: int | None = None
    touching: int | None = None
    effective: tuple[tuple[float, float], ...] = ()
    unestimated: str = ""
    axes: tuple[float, ...] = ()


def confined_sites(lattice: LatticeData, values: LatticeValues, hop: float) -> list[Confined]:
    """For species that hop in a part of the lattice only, what their sites are like.

    Parameters
    ----------
    hop
        The hop probability to one side of the fastest species.
    """
    return [
        _confined(lattice, values, types, columns, hop)
        for types, columns in _groups(values).items()
    ]


def _confined(
    lattice: LatticeData,
    values: LatticeValues,
    types: tuple[int, ...],
    columns: list[int],
    hop: float,
) -> Confined:
    """The sites of some types, in which the species of some columns stay."""
    number = int(values.sites_of[list(types)].sum())
    names = (
        tuple(lattice.species[i] for i in columns),
        tuple(lattice.type_names[i] for i in types),
        number,
    )
    if np.prod(lattice.shape, dtype=float) > MOST_SITES:
        return Confined(*names, unestimated=f"the lattice has more than {MOST_SITES} sites")
    if number > _MOST_CONFINED:
        return Confined(*names, unestimated=f"more than {_MOST_CONFINED} sites")
    sheet = _sheet(lattice, types)
    pieces = _sizes(sheet.labels)
    among = np.ix_(types, types, columns)
    alike = bool((values.diffusion[among] == values.diffusion[among][:1, :1]).all())
    reported = (
        alike
        and len(pieces) == sheet.touching
        and (
            sheet.thin or bool(values.on_surface is not None and values.on_surface[1][among].any())
        )
    )
    walk = sheet.walk if reported else None
    return Confined(
        *names,
        len(pieces),
        int(pieces.max()),
        sheet.touching,
        () if walk is None else tuple(_effective(walk, values, types[0], columns, hop)),
        f"more than {_MOST_WALKED} sites" if reported and number > _MOST_WALKED else "",
        () if walk is None else tuple(walk.ratio([axis]) for axis in range(3)),
    )


def _effective(
    walk: Walk, values: LatticeValues, kind: int, columns: list[int], hop: float
) -> Iterator[tuple[float, float]]:
    """Hop probabilities of species, and D_eff over the D that was given, each pair once."""
    given = values.diffusion[kind, kind, columns]
    ratios, faster = np.ones(len(columns)), np.zeros(len(columns))
    if values.on_surface is not None:
        ratios, faster = values.on_surface[:, kind, kind, columns]
    for d, ratio, more in sorted(set(zip(given, ratios, faster, strict=True)), reverse=True):
        wanted = hop * float(d) / float(values.diffusion.max())
        q = wanted / (1 + float(more) * wanted)
        effective = walk.ratio() / (1 - walk.quickening() * q)
        yield q, effective * q / (wanted * float(ratio))


def surface_warnings(
    lattice: LatticeData, values: LatticeValues, hop: float | None = None
) -> list[str]:
    """Sentences on membranes, as hops join their sites, that a run gives before it begins.

    Parameters
    ----------
    hop
        The hop probability to one side of the fastest species; by default so small that passes
        are as continuous time.
    """
    message = []
    for types, columns in _groups(values).items():
        number = int(values.sites_of[list(types)].sum())
        small = np.prod(lattice.shape, dtype=float) <= MOST_SITES and number <= _MOST_AT_START
        if not small or number < _LEAST_WALKED:
            continue
        one = _confined(lattice, values, types, columns, _SLOW_HOP if hop is None else hop)
        who, where = shortened(one.species, _MOST_SHOWN), " and ".join(one.site_types)
        assert one.pieces is not None
        assert one.touching is not None
        sheet = _sheet(lattice, types)
        if one.pieces > one.touching and not sheet.bulk:
            why = _unjoined(_mask(lattice, types), sheet.labels)
            message.append(f"{who} in {where}: {why}")
        far = [ratio for _, ratio in one.effective if abs(ratio - 1) > SLOW]
        if far:
            message.append(
                f"{who} in {where}: D_eff/D = {far[0]:.2g}, for hops along the axes are slower on "
                "a curved sheet of sites; add_diffusion(..., surface=...) takes that into account"
            )
    return message


def unevenness(axes: Sequence[float]) -> float:
    """Largest part by which diffusion along an axis differs from that along another."""
    return max(axes) / min(axes) - 1 if axes else 0.0


def _groups(values: LatticeValues) -> dict[tuple[int, ...], list[int]]:
    """Species by the types of site among which they hop, where these are not all."""
    there = np.flatnonzero(values.sites_of)
    result: dict[tuple[int, ...], list[int]] = {}
    groups: dict[bytes, list[list[int]]] = {}  # many species hop alike
    for species in range(values.diffusion.shape[2]):
        passes = values.diffusion[:, :, species] > 0
        if passes.tobytes() not in groups:
            groups[passes.tobytes()] = connected_types(passes)
        for group in groups[passes.tobytes()]:
            types = tuple(kind for kind in group if values.sites_of[kind])
            if types and len(types) < len(there) and passes[np.ix_(types, types)].any():
                result.setdefault(types, []).append(species)
    return result


# ---------------------------------------------------------------- pieces


def _bonds(
    mask: BoolArray, wraps: Sequence[bool], directions: tuple[Direction, ...]
) -> Iterator[tuple[IntArray, IntArray]]:
    """Numbers of the sites of a mask that lie side by side in each direction, in a box.

    Its axes wrap around or do not.
    """
    numbers = np.full(mask.shape, -1, np.int64)
    numbers[mask] = np.arange(int(mask.sum()))
    for direction in directions:
        other = np.roll(numbers, [-d for d in direction], (0, 1, 2))
        for axis, step in enumerate(direction):
            if step and not wraps[axis]:
                edge = [slice(None)] * 3
                edge[axis] = slice(-1, None) if step > 0 else slice(0, 1)
                other[tuple(edge)] = -1
        joined = (numbers >= 0) & (other >= 0)
        yield numbers[joined], other[joined]


def _wraps(lattice: LatticeData) -> list[bool]:
    return [lattice.boundary[f"{axis}-"].kind == "periodic" for axis in "zyx"]


def _labels(bonds: Iterator[tuple[IntArray, IntArray]], number: int) -> IntArray:
    """A number for each site, the same for all that bonds join."""
    pairs = [np.stack(pair) for pair in bonds]
    one, other = np.concatenate(pairs, axis=1)
    label: IntArray = np.arange(number)
    while True:
        low = np.minimum(label[one], label[other])
        before = label.copy()
        # The labels of both ends, and of those that carry the same, become the lower one.
        np.minimum.at(label, before[one], low)
        np.minimum.at(label, before[other], low)
        while (label[label] != label).any():
            label = label[label]
        if (label == before).all():
            return label


def _sizes(labels: IntArray) -> IntArray:
    return np.unique(labels, return_counts=True)[1]


# ---------------------------------------------------------------- surfaces


@dataclass(frozen=True)
class Sheet:
    """Geometry of the sites of some types.

    Attributes
    ----------
    labels
        Number of the piece of each site, as hops join them.
    touching
        Number of pieces if sites joined that touch by an edge or a corner.
    thin
        Whether few sites lie inside, and none is alone.
    bulk
        Whether many lie inside, as in a volume with obstacles, of a lattice of one or two
        dimensions too.
    """

    labels: IntArray
    touching: int
    thin: bool
    bulk: bool
    measure: Callable[[], Walk | None]

    @cached_property
    def walk(self) -> Walk | None:
        """Diffusion of particles on the sheets, the longest computation.

        None where sites are too many or too few, not joined, or a curve in a plane.
        """
        return self.measure()


class Walk(NamedTuple):
    """Diffusion on a sheet by hops along z, y and x.

    Attributes
    ----------
    along, passes
        D_eff / D along each axis times `extent`, of hops in continuous time and of passes of
        hops with the probability `MAX_HOP`.
    extent
        Mean squared cosine between the axis and the sheet; their sum is 2.
    thickness
        Sites across it, on average.
    """

    along: FloatArray
    passes: FloatArray
    extent: FloatArray
    thickness: float

    def ratio(self, axes: Sequence[int] = (0, 1, 2)) -> float:
        """D_eff / D of hops along some axes; 1 where the sheet has no extent along them.

        It is stored: rounded, it is the same on machines whose exp and cos differ in the last bit.
        """
        extent = float(self.extent[list(axes)].sum())
        return (
            round(float(self.along[list(axes)].sum()) / extent, 4) if extent > _NO_EXTENT else 1.0
        )

    def quickening(self, axes: Sequence[int] = (0, 1, 2)) -> float:
        """`Surface.quickening` of hops along some axes."""
        along, passes = (float(one[list(axes)].sum()) for one in (self.along, self.passes))
        return round((1 - along / passes) / MAX_HOP, 4) if passes > 0 else 0.0


Pair = tuple[str, str]


def surface_of(lattice: LatticeData, site_types: tuple[str, ...]) -> dict[Pair, Surface]:
    """Compute the diffusion on a sheet of sites by hops between each pair of its types.

    Hops between two types may be along some of the axes only, as where types take turns like the
    fields of a chequerboard; they are then corrected for these axes.

    Raises
    ------
    ModelError
        They are too many or too few, no sheet, or sites that touch are not joined by hops.
    """
    where = f"surface {' and '.join(site_types)}"
    types = tuple(lattice.type_number(name, where) for name in site_types)
    number = int(lattice.sites.per_plane.sum(axis=0)[list(types)].sum())
    most = f"{MOST_SITES} sites of a lattice and {_LEAST_WALKED} to {_MOST_WALKED} of a surface"
    few = _LEAST_WALKED <= number <= _MOST_WALKED
    if not few or np.prod(lattice.shape, dtype=float) > MOST_SITES:
        raise ModelError(f"{where} has {number} sites; D_eff is computed for up to {most}")
    sheet, mask = _sheet(lattice, types), _mask(lattice, types)
    walk = sheet.walk
    if walk is None and len(_sizes(sheet.labels)) == sheet.touching:
        raise ModelError(f"{where}: its {number} sites are a curve, or some are alone: no sheet")
    if walk is None:
        raise ModelError(f"{where}: {_unjoined(mask, sheet.labels)}")
    if walk.thickness > _THICKEST:
        raise ModelError(
            f"{where}: its {number} sites are {walk.thickness:.2g} sites thick on average; a sheet "
            f"has up to {_THICKEST}"
        )
    axes = _axes_between(lattice, types, mask)
    return {
        pair: Surface(site_types, number, walk.ratio(own), walk.quickening(own))
        for pair, own in axes.items()
    }


def measured_site_area(lattice: LatticeData, site_types: tuple[str, ...], where: str) -> float:
    """Square metres of a surface that belong to a site of it, on average, to four digits.

    The faces of its sites that look out of it, on both sides, each as seen along the surface's
    normal: of a sheet that is one plane of sites the square of the spacing.

    Raises
    ------
    ModelError
        There are too many sites.
    """
    types = tuple(lattice.type_number(name, where) for name in site_types)
    number = int(lattice.sites.per_plane.sum(axis=0)[list(types)].sum())
    if np.prod(lattice.shape, dtype=float) > MOST_SITES or number > _MOST_CONFINED:
        raise ModelError(f"{where}: so many sites are not measured; give area= in m^2")
    mask = _mask(lattice, types)
    outward = (_neighbours(mask, _wraps(lattice)) == np.arange(number)).sum(
        axis=1
    )  # faces [axis, site]
    seen = float((outward.T * np.abs(_normals(mask)[0])).sum()) / 2
    return float(f"{lattice.spacing * lattice.spacing * seen / number:.4g}")


def _axes_between(
    lattice: LatticeData, types: tuple[int, ...], mask: BoolArray
) -> dict[Pair, list[int]]:
    """Axes along which sites of two types lie side by side; all where they never do."""
    kinds = lattice.sites.planes(0, lattice.shape[0])[mask]
    axes: dict[tuple[int, int], list[int]] = {}
    for axis, (one, other) in enumerate(_bonds(mask, _wraps(lattice), _AXES)):
        for low, high in np.unique(np.stack([kinds[one], kinds[other]]), axis=1).T.tolist():
            for pair in {(low, high), (high, low)}:
                if axis not in axes.setdefault(pair, []):
                    axes[pair].append(axis)
    names = lattice.type_names
    return {
        (names[one], names[other]): axes.get((one, other), [0, 1, 2])
        for one in types
        for other in types
    }


def _mask(lattice: LatticeData, types: tuple[int, ...]) -> BoolArray:
    return np.isin(lattice.sites.planes(0, lattice.shape[0]), types)


_SEEN: dict[tuple[object, ...], Sheet] = {}  # by all that decides


def _sheet(lattice: LatticeData, types: tuple[int, ...]) -> Sheet:
    """Look at the sites of some types, once for the same sites."""
    key = (lattice.sites.sha256, lattice.shape, types, *_wraps(lattice))
    if key not in _SEEN:
        if len(_SEEN) >= _MOST_KEPT:
            _SEEN.clear()
        _SEEN[key] = _looked_at(lattice, types)
    return _SEEN[key]


def _looked_at(lattice: LatticeData, types: tuple[int, ...]) -> Sheet:
    mask = _mask(lattice, types)
    number = int(mask.sum())
    labels = _labels(_bonds(mask, _wraps(lattice), _AXES), number)
    touching = len(_sizes(_labels(_bonds(mask, _wraps(lattice), _DIRECTIONS), number)))
    neighbours = _neighbours(mask, _wraps(lattice))
    joined = (neighbours != np.arange(number)).sum(axis=(0, 1))
    inside = 2 * sum(size > 1 for size in lattice.shape)
    bulk = bool((joined == inside).mean() > _THIN)
    thin = bool((joined == 6).mean() <= _THIN and joined.all())
    whole = touching == len(_sizes(labels)) and bool(joined.all())
    walked = whole and _LEAST_WALKED <= number <= _MOST_WALKED

    def measure() -> Walk | None:
        return _walk_on(mask, _wraps(lattice)) if walked else None

    return Sheet(labels, touching, thin, bulk, measure)


def _walk_on(mask: BoolArray, wraps: Sequence[bool]) -> Walk | None:
    flat = _flat_across(mask)
    if flat is None:
        images, round_axes = _mirrored(mask, wraps)
        return _walk(_neighbours(images, round_axes), images)
    neighbours = _neighbours(mask, wraps)
    within = np.delete(neighbours, flat, axis=0) != np.arange(neighbours.shape[2])
    curve = (within.sum(axis=(0, 1)) == 4).mean() <= _NARROW
    return None if curve else _flat_walk(mask, flat)


def _mirrored(mask: BoolArray, wraps: Sequence[bool]) -> tuple[BoolArray, list[bool]]:
    """The mask with its images behind walls that it touches, which then take nothing of a walk."""
    round_axes = list(wraps)
    for axis in range(3):
        ends = np.take(mask, [0, -1], axis)
        if not round_axes[axis] and mask.shape[axis] > 1 and ends.any():
            mask = np.concatenate([mask, np.flip(mask, axis)], axis)
            round_axes[axis] = True
    return mask, round_axes


def _flat_across(mask: BoolArray) -> int | None:
    """The axis across which the sites are the same in a few planes; None of a bent sheet."""
    for axis in range(3):
        planes = np.moveaxis(mask, axis, 0)
        there = planes[planes.any(axis=(1, 2))]
        if len(there) <= _THICKEST and (there == there[0]).all():
            return axis
    return None


def _flat_walk(mask: BoolArray, axis: int) -> Walk:
    """A walk in a plane, in which nothing is slower; what its edges take away is no diffusion."""
    extent = np.ones(3)
    extent[axis] = 0.0
    planes = mask.any(axis=tuple(a for a in range(3) if a != axis))
    return Walk(extent, extent, extent, float(planes.sum()))


def _unjoined(mask: BoolArray, labels: IntArray) -> str:
    """Sites outside the largest piece, the first of them by their place."""
    kinds, sizes = np.unique(labels, return_counts=True)
    away = np.argwhere(mask)[labels != kinds[sizes.argmax()]]
    return (
        f"hops do not join its sites: {len(kinds)} pieces, the largest of {sizes.max()} sites; "
        f"{len(away)} sites are outside it, such as {away[:_MOST_SHOWN].tolist()} (z, y, x), and "
        "some touch others by an edge or a corner alone: choose a thicker region, such as "
        "geometry.membrane(mask, neighbours=26)"
    )


def _neighbours(mask: BoolArray, wraps: Sequence[bool]) -> IntArray:
    """Sites to which hops lead ``[axis, side, site]``, the site itself at a wall."""
    number = int(mask.sum())
    neighbours = np.tile(np.arange(number), (3, 2, 1))
    for axis, (one, other) in enumerate(_bonds(mask, wraps, _AXES)):
        neighbours[axis, 1, one], neighbours[axis, 0, other] = other, one
    return neighbours


def _walk(neighbours: IntArray, mask: BoolArray) -> Walk:
    """Measure how coordinates smooth out along the sheet.

    With the matrix L of hops, u_a = exp(-t L / 2) x_a of the coordinate x_a. The mean square
    displacement of a particle along a grows by 2 u_a L u_a / N: on a sphere of radius R this falls
    as exp(-2 D_eff t / R^2), so that twice the time tells what curvature takes from it. A pass of
    hops along the axes b in turn is exp(-q L) up to q^2 / 2 sum_b L_b^2, by which it is faster.
    """
    half, whole = _smoothed(neighbours, (_WALK / 2, _WALK))
    early, turns = _energies(neighbours, half)
    late, _ = _energies(neighbours, whole)
    straight = np.divide(early, late, where=late > 0, out=np.ones(3))
    along = early * straight / neighbours.shape[2]
    faster = np.divide(turns, 2 * early, where=early > 0, out=np.zeros(3))
    normals, spread = _normals(mask)
    thickness = math.sqrt(1 + 12 * spread)
    return Walk(along, along / (1 - faster * MAX_HOP), 1 - (normals**2).mean(axis=0), thickness)


def _energies(neighbours: IntArray, moved: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return for each smoothed coordinate u: u L u, and the sum over axes b of (L_b u)^2."""
    energy, turns = np.zeros(3), np.zeros(3)
    for axis, (below, above) in enumerate(neighbours):
        up, down = above != np.arange(above.size), below != np.arange(below.size)
        ahead, behind = moved[above] - moved, moved - moved[below]
        ahead[up, axis] += 1
        behind[down, axis] += 1
        energy += (ahead**2).sum(axis=0)
        turns += ((ahead - behind) ** 2).sum(axis=0)
    return energy, turns


def _smoothed(neighbours: IntArray, times: Sequence[float]) -> list[FloatArray]:
    """exp(-time L) x - x of the coordinates x ``[site, axis]``, by Chebyshev polynomials of L.

    A vector is (f, c): f is periodic where the lattice is, and c times the coordinate is added.
    """
    sides = neighbours.reshape(6, -1)
    own = np.arange(sides.shape[1])
    joined = sides != own
    most = float(joined.sum(axis=0).max())  # no eigenvalue of L is above twice this
    slope = (joined[0::2].astype(float) - joined[1::2]).T  # L x
    beside = np.empty((6, own.size, 3))

    def applied(f: FloatArray, c: float) -> tuple[FloatArray, float]:
        """(L / most - 1) of a vector."""
        for side, there in zip(sides, beside, strict=True):
            np.take(f, side, axis=0, out=there, mode="clip")  # which all are inside
        spread: FloatArray = 6 * f - np.add.reduce(beside)
        return (spread + c * slope) / most - f, -c

    factors = [_factors(time * most) for time in times]
    before, c = np.zeros((own.size, 3)), 1.0
    now, d = applied(before, c)
    totals: list[FloatArray] = [one[1] * now for one in factors]
    for term in range(2, max(map(len, factors))):
        ahead, e = applied(now, d)
        before, c, now, d = now, d, 2 * ahead - before, 2 * e - c
        for number, one in enumerate(factors):
            if term < len(one):
                totals[number] += one[term] * now
    return totals


def _factors(z: float) -> FloatArray:
    """Coefficients of the Chebyshev polynomials T_k(y) in exp(-z (1 + y))."""
    terms = int(6 + 2.5 * math.sqrt(2 * z))
    angles = np.pi * (np.arange(_POINTS) + 0.5) / _POINTS
    weights = np.exp(-z * (1 + np.cos(angles))) * 2 / _POINTS
    factors: FloatArray = np.cos(np.outer(np.arange(terms), angles)) @ weights
    return factors


def _normals(mask: BoolArray) -> tuple[FloatArray, float]:
    """Directions ``[site, axis]`` in which the sites around each have least variance; its mean."""
    at = np.argwhere(mask)
    low, high = at.min(axis=0), at.max(axis=0) + 1
    inner = np.pad(mask[tuple(map(slice, low, high))], _AROUND).astype(float)
    place = [np.arange(n, dtype=float) - n / 2 for n in inner.shape]
    ones = [p.reshape([-1 if a == b else 1 for b in range(3)]) for a, p in enumerate(place)]
    local = tuple((at - low + _AROUND).T)

    def around(values: FloatArray) -> FloatArray:
        """Sum over a cube around each site of the mask."""
        for axis in range(3):
            sums = np.cumsum(np.insert(values, 0, 0, axis=axis), axis=axis)
            wide = 2 * _AROUND + 1
            ahead, behind = [slice(None)] * 3, [slice(None)] * 3
            ahead[axis], behind[axis] = slice(wide, None), slice(None, -wide)
            values = np.zeros_like(values)
            inside = [slice(None)] * 3
            inside[axis] = slice(_AROUND, -_AROUND)
            values[tuple(inside)] = sums[tuple(ahead)] - sums[tuple(behind)]
        result: FloatArray = values[local]
        return result

    count = around(inner)
    mean = np.stack([around(inner * one) / count for one in ones])
    square = np.empty((len(at), 3, 3))
    for a, b in itertools.combinations_with_replacement(range(3), 2):
        square[:, a, b] = square[:, b, a] = (
            around(inner * ones[a] * ones[b]) / count - mean[a] * mean[b]
        )
    variances, directions = np.linalg.eigh(square)
    return directions[:, :, 0], float(variances[:, 0].mean())

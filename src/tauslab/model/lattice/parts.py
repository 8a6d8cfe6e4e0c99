"""The pieces of a lattice model as frozen records, with what each of them checks by itself."""

from __future__ import annotations

import math
from collections.abc import Collection, Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from tauslab.base.arrays import IntArray
from tauslab.base.errors import ModelError
from tauslab.model.expressions.expression import Expression, symbols
from tauslab.model.expressions.host_math import evaluate
from tauslab.model.names import AVOGADRO, IDENTIFIER, LONGEST_NAME

LITRES = 1000.0  # in a cubic metre
UM, UM2 = 1e6, 1e12  # micrometres in a metre, square ones in a square metre

FaceKind = Literal["periodic", "reflecting", "absorbing", "held"]
FACE_KINDS = ("periodic", "reflecting", "absorbing", "held")
FACES = ("z-", "z+", "y-", "y+", "x-", "x+")
ANY = "*"  # every species, or every site type
UNITS = {0: "M s^-1", 1: "s^-1", 2: "M^-1 s^-1"}  # of a macroscopic rate constant, by order
AREA_UNITS = {0: "um^-2 s^-1", 1: "um s^-1", 2: "um^2 s^-1"}  # the same on a surface

SLOTS = (8, 16, 32)
MOST_SPECIES, MOST_SITE_TYPES, MOST_SITES = 65_535, 255, 2**40
MOST_OF_A_PLANE = 2**31  # kernels number the sites of a plane by signed 32-bit numbers
SPACINGS = 1e-12, 10.0  # metres
MOST_RADIUS = 16  # of an object, in sites
MAX_HOP = 1 / 6  # probability at which a step of diffusion is Gaussian to fourth order
MOST_SUBSTEPS = 10_000_000  # passes of reactions in a step
VOLUMES = ("site", "lattice")  # volumes of a stochastic constant that are not site types

Value = float | str | Expression
Names = str | Sequence[str]
Positions = IntArray


class Surface(NamedTuple):
    """Sites that are a sheet, and how particles that hop along the axes diffuse on them.

    Attributes
    ----------
    site_types, sites
        Names, and the number of sites of all these types.
    ratio
        D_eff / D of hops in continuous time, on average over the sheet and the directions that
        hops of the rule have.
    quickening
        Passes of hops of the probability q to one side have D_eff / D = ratio / (1 - quickening q).
    """

    site_types: tuple[str, ...]
    sites: int
    ratio: float
    quickening: float


@dataclass(frozen=True)
class Diffusion:
    """Coefficient (m^2/s) of hops of a species from sites of one type to sites of another.

    Any of the three names may be `ANY`.  With a `surface` it is that on the surface, which hops
    have with a coefficient larger by 1 / `surface.ratio`.
    """

    species: str
    source: str
    target: str
    coefficient: Expression
    surface: Surface | None = None


@dataclass(frozen=True)
class SiteReaction:
    """A reaction of particles that share a site.

    `rate` is a macroscopic constant if `volume` is None, in the unit `UNITS` has for the order, or
    `AREA_UNITS` if there is a `site_area`, the surface of a site in m^2, of a surface that had so
    many `surface_sites`; else the stochastic constant (1/s) for a volume: ``site``, ``lattice``,
    all sites of a site type, or a number of cubic metres.  It happens in `site_types`, everywhere
    if that is empty.
    """

    name: str
    reactants: Mapping[str, int]
    products: Mapping[str, int]
    rate: Expression
    volume: str | float | None
    site_types: tuple[str, ...]
    site_area: float | None = None
    surface_sites: int = 0

    @property
    def unit(self) -> str:
        """Unit of a macroscopic `rate`."""
        return (UNITS if self.site_area is None else AREA_UNITS)[self.order]

    @property
    def order(self) -> int:
        """Number of particles that take part."""
        return sum(self.reactants.values())

    def site_rate(self, rate: float, site_volume: float, volume: float | None) -> float:
        """Stochastic constant for one site (1/s): propensity = constant x combinations.

        Parameters
        ----------
        rate
            Value of `rate`.
        site_volume
            Of one site, in cubic metres.
        volume
            For which `rate` is a stochastic constant, in cubic metres; None if it is macroscopic.

        Notes
        -----
        With v the site's volume in litres and N_A Avogadro's number, a macroscopic constant k
        gives k N_A v at order 0, k at order 1, k / (N_A v) for A + B and 2 k / (N_A v) for 2 A
        (Gillespie 1977).  A stochastic constant for volume V scales with v / V at order 0 and
        with V / v at order 2.  On a surface with the area s in a site of volume v, numbers per um^2
        are n / s: k s at order 0, k / s for A + B, 2 k / s for 2 A.  A particle of the volume that
        is in such a site meets the surface at k s / v.
        """
        if self.site_area is not None:
            area = self.site_area * UM2
            if self.order == 1:
                return rate * area / (site_volume * UM2 * UM)
            twice = 2 if len(self.reactants) == 1 else 1
            return rate * area if self.order == 0 else rate * twice / area
        if self.order == 1:
            return rate
        if volume is not None:
            return rate * (site_volume / volume if self.order == 0 else volume / site_volume)
        per_molar = AVOGADRO * LITRES * site_volume
        if self.order == 0:
            return rate * per_molar
        return rate * (2 if len(self.reactants) == 1 else 1) / per_molar


@dataclass(frozen=True)
class Placement:
    """Particles of a species at the start: spread over a site type, or at positions.

    Exactly one of `count`, `concentration` (mol/L, of the volume of the type's sites) and
    `positions` (``[particle, 3]``: z, y, x) is given; `site_type` is None with positions.
    """

    species: str
    site_type: str | None = None
    count: Expression | None = None
    concentration: Expression | None = None
    positions: Positions | None = field(default=None, compare=False)


@dataclass(frozen=True)
class SiteObject:
    """A rigid set of sites that goes with each particle of some species.

    Its sites, ``[z, y, x]`` from that of its particle, which is the first of them, have the site
    type `name` while it covers sites of type `within`. `factor` slows others there; 0 keeps them
    out. It moves every so many steps of the model, by default as often as its diffusion asks for.
    """

    name: str
    sites: tuple[tuple[int, int, int], ...]
    follows: tuple[str, ...]
    within: str
    factor: float
    every: int | None = None


@dataclass(frozen=True)
class Boundary:
    """The boundary behind a face of the lattice.

    Behind a face that absorbs or is held lies a plane of ghost sites of type `site_type` (the
    first type by default), which hold `concentrations` (mol/L) of each species.
    """

    kind: FaceKind
    concentrations: Mapping[str, Expression] = field(default_factory=dict)
    site_type: str | None = None


def as_face_kind(kind: str, where: str) -> FaceKind:
    """`kind` if it is one of `FACE_KINDS`; a `ModelError` otherwise."""
    if not isinstance(kind, str) or kind not in FACE_KINDS:
        raise ModelError(
            f"{where}: {kind!r} is not a boundary; boundaries: {', '.join(FACE_KINDS)}"
        )
    return cast("FaceKind", kind)


def require_parameters(
    tree: Expression, known: Collection[str], where: str, species: Container[str] = ()
) -> None:
    """Refuse an expression with a name that is not among `known`.

    Raises
    ------
    ModelError
        Names `where` and the name; of a species it says what takes the place of such a law.
    """
    unknown = sorted(name for name in symbols(tree) if name not in known)
    if not unknown:
        return
    listed = ", ".join(known) or "none"
    for name in unknown:
        if name in species:
            raise ModelError(
                f"{where}: {name!r} is a species, and a lattice takes mass action: this is an "
                "expression of parameters alone, a reaction's constant, which is multiplied by the "
                "numbers of its reactants in a site. Write a rate law such as Michaelis-Menten's "
                f"as its steps, E + S <-> ES and ES -> E + P; parameters: {listed}"
            )
    raise ModelError(f"{where}: {unknown[0]!r} is not a parameter; parameters: {listed}")


def number(
    tree: Expression, values: Mapping[str, float], where: str, species: Container[str] = ()
) -> float:
    """Value of an expression of parameters, which must be finite and 0 or more.

    Raises
    ------
    ModelError
        Names `where` and the value, or the name that is not a parameter.
    """
    require_parameters(tree, values, where, species)
    value = evaluate(tree, values)
    if not (math.isfinite(value) and value >= 0):
        raise ModelError(f"{where} is {value:g}; it must be finite and 0 or more")
    return value


def as_shape(shape: Sequence[int]) -> tuple[int, int, int]:
    """Sites along z, y and x, if they are three whole numbers from 1."""
    try:
        given = list(shape)
        whole = [int(size) for size in given]
    except (TypeError, ValueError, OverflowError):
        given, whole = [], []
    if len(whole) != 3 or min(whole) < 1 or whole != given:
        raise ModelError(
            f"shape = {short(shape)}: three whole numbers from 1 are expected, the numbers of "
            "sites along z, y and x, in this order"
        )
    if math.prod(whole) > MOST_SITES:
        raise ModelError(f"shape = {short(shape)}: a lattice has at most 2^40 sites")
    rim = 64  # tiles reach beyond a plane
    if whole[0] >= MOST_OF_A_PLANE or (whole[1] + rim) * (whole[2] + rim) >= MOST_OF_A_PLANE:
        raise ModelError(
            f"shape = {short(shape)}: a plane along y and x, and a column along z, have fewer than "
            "2^31 sites"
        )
    return whole[0], whole[1], whole[2]


def positive(value: float, what: str, unit: str) -> float:
    """`value` if it is finite and above 0; a `ModelError` that names `what` otherwise."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise ModelError(f"{what} = {short(value)}: a number ({unit}) is expected") from None
    if not (math.isfinite(number) and number > 0):
        raise ModelError(f"{what} = {number:g} {unit}: it must be finite and above 0")
    return number


def as_spacing(value: float) -> float:
    """Edge of a site, if it can be one."""
    spacing = positive(value, "spacing", "metres")
    least, most = SPACINGS
    if not least <= spacing <= most:
        raise ModelError(
            f"spacing = {spacing:g} m: a site's edge is {least:g} to {most:g} m, and spacing is in "
            "metres: 32 nm are 32e-9"
        )
    return spacing


def as_slots(value: int) -> int:
    """Particles that a site can hold, if it is one of `SLOTS`."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or value not in SLOTS:
        allowed = ", ".join(map(str, SLOTS))
        raise ModelError(f"slots = {short(value)}: a site holds {allowed} particles")
    return int(value)


def as_substeps(value: int | None) -> int | None:
    """Passes of reactions in a step, if they can be done."""
    if value is None:
        return None
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or not 1 <= value <= MOST_SUBSTEPS:
        raise ModelError(
            f"reaction_substeps = {short(value)}: it must be a whole number, 1 to {MOST_SUBSTEPS}"
        )
    return int(value)


def as_volume(value: str | float | None, where: str) -> str | float | None:
    """Volume of a stochastic constant: a name, or a number of m^3 that is finite and above 0."""
    if value is None or isinstance(value, str):
        return value
    return positive(value, where, "m^3")


def as_label(name: str, what: str) -> str:
    """A name that people read and files hold: any text of one line without control characters."""
    if not isinstance(name, str) or not name.isprintable() or len(name) > LONGEST_NAME:
        raise ModelError(
            f"{what} {short(name)} is not a name: text of up to {LONGEST_NAME} printable "
            "characters is allowed"
        )
    return name


def short(value: object, most: int = 80) -> str:
    """A value in a message, without its middle where it is long."""
    text = repr(value) if isinstance(value, str) else str(value)
    if not text.isprintable():
        text = ascii(text)[1:-1]
    return text if len(text) <= most else f"{text[: most // 2]} ... {text[-most // 4 :]}"


def check_name(name: str, what: str, taken: Container[str]) -> None:
    """Refuse a name that is malformed or already among `taken`."""
    if not isinstance(name, str) or not IDENTIFIER.match(name) or len(name) > LONGEST_NAME:
        raise ModelError(
            f"{what} {short(name)} is not a name: letters A-Z and a-z, digits and underscores, "
            "no digit first"
        )
    if name in taken:
        raise ModelError(f"{what} {name!r} is defined twice")


def as_names(names: Names) -> tuple[str, ...]:
    """One name or several, as several; a `ModelError` where one is no text."""
    try:
        several: tuple[str, ...] = (names,) if isinstance(names, str) else tuple(names)
    except TypeError:
        raise ModelError(f"{short(names)} is not a name: text is expected") from None
    for name in several:
        if not isinstance(name, str):
            raise ModelError(f"{short(name)} is not a name: text is expected")
    return several


def face_names(faces: Names) -> list[str]:
    """Faces by name; ``z``, ``y`` or ``x`` for both of an axis."""
    chosen: list[str] = []
    for name in as_names(faces):
        if not isinstance(name, str) or (name not in FACES and name not in ("z", "y", "x")):
            raise ModelError(f"{name!r} is not a face; faces: {', '.join(FACES)}, or z, y, x")
        chosen += [name] if name in FACES else [f"{name}-", f"{name}+"]
    return chosen


def as_offsets(sites: npt.ArrayLike, where: str) -> tuple[tuple[int, int, int], ...]:
    """Sites of an object from that of its particle, which comes first; or all within a radius."""
    given = np.asarray(sites)
    if given.ndim == 0 and given.dtype.kind in "iuf" and 0 <= given <= MOST_RADIUS:
        reach = int(given)
        ball = np.stack(np.meshgrid(*[np.arange(-reach, reach + 1)] * 3, indexing="ij"), axis=-1)
        given = ball.reshape(-1, 3)
        given = given[(given**2).sum(axis=1) <= float(np.asarray(sites)) ** 2]
    if given.ndim != 2 or given.shape[1] != 3 or given.dtype.kind not in "iu" or not len(given):
        raise ModelError(
            f"{where}: sites are whole numbers [n, 3] (z, y, x) from the site of its particle, or "
            f"a radius in sites, 0 to {MOST_RADIUS}"
        )
    result = dict.fromkeys([(0, 0, 0), *(tuple(map(int, one)) for one in given.tolist())])
    if len(result) != len(given):
        raise ModelError(f"{where}: its sites are different ones, of which one is 0, 0, 0")
    return tuple((z, y, x) for z, y, x in result)


def as_positions(positions: npt.ArrayLike, shape: tuple[int, int, int], where: str) -> IntArray:
    """Sites ``[particle, 3]`` of a lattice, checked."""
    try:
        array = np.asarray(positions)
    except ValueError:  # lists of unlike lengths
        array = np.asarray(None)
    if array.ndim == 0 and array.dtype == object:
        raise ModelError(
            f"{where}: positions are {short(positions)}; whole numbers [particle, 3] (z, y, x) "
            "are expected"
        )
    if array.ndim != 2 or array.shape[1] != 3 or array.dtype.kind not in "iu":
        raise ModelError(
            f"{where}: positions are {array.dtype} {list(array.shape)}; "
            "whole numbers [particle, 3] (z, y, x) are expected"
        )
    outside = ((array < 0) | (array >= np.array(shape))).any(axis=1)
    if outside.any():
        raise ModelError(
            f"{where}: position {array[outside][0].tolist()} is outside the lattice {list(shape)}"
        )
    return array.astype(np.int64)

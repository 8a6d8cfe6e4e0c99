"""Links of a hybrid, and expressions over quantities of its parts.

``part.quantity`` is a species, a rule or a parameter of a part; ``part.sum(P_*)`` a sum over names,
``part.volume(type)`` what a part says of its space, ``part.fired(name_*)`` reactions fired,
``avogadro`` the number of molecules of a mole.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import translate
from typing import Any

import numpy as np

from tauslab.base.arrays import FloatArray
from tauslab.base.errors import ConfigError, ModelError
from tauslab.model.expressions.array_math import evaluate_rows
from tauslab.model.expressions.expression import Expression, call, symbols
from tauslab.model.expressions.infix import as_expression
from tauslab.model.geometry.changing import Shape
from tauslab.model.names import AVOGADRO

_QUANTITY = re.compile(r"(?<![\w.])([A-Za-z_]\w*)\.([A-Za-z_]\w*)(?:\(([^()]*)\))?")
_ADDRESS = re.compile(r"\s*([A-Za-z_]\w*)\.([A-Za-z_*?\[][^\s()]*)\s*\Z")
_EVENTS = re.compile(r"\s*([A-Za-z_]\w*)\.fired\((.*)\)\s*\Z")
FUNCTIONS = ("sum", "volume")
OVER = ("mean", "start", "end")
FOLLOW = ("one", "lineage", "population")  # of cells that divide
OF_TIME = ("time", "age", "generation")  # of a cell, in a condition of its division
MOLECULES = {  # in a litre, or on a square metre, at one unit of concentration or density
    "M": AVOGADRO, "mM": AVOGADRO * 1e-3, "uM": AVOGADRO * 1e-6, "nM": AVOGADRO * 1e-9,
    "pM": AVOGADRO * 1e-12, "m^-2": 1.0, "um^-2": 1e12, "nm^-2": 1e18,
}  # fmt: skip


@dataclass(frozen=True)
class Quantity:
    """A quantity of a part; `inside` is what stands in the brackets of a function."""

    part: str
    name: str
    inside: str | None = None

    def __str__(self) -> str:
        """As written."""
        return f"{self.part}.{self.name}" + ("" if self.inside is None else f"({self.inside})")


@dataclass(frozen=True)
class Formula:
    """An expression over quantities of parts.

    Parameters
    ----------
    text
        As written.
    tree
        With a symbol in place of each quantity.
    quantities
        By symbol.
    numbers
        Values of other names in it, one for all cells or ``[cell]``.
    """

    text: str
    tree: Expression
    quantities: Mapping[str, Quantity]
    numbers: Mapping[str, float | FloatArray] = field(default_factory=dict)

    @classmethod
    def of(
        cls, given: float | str, numbers: Mapping[str, float | FloatArray] | None = None
    ) -> Formula:
        """Read a number or a text.

        Raises
        ------
        ConfigError
            It is no expression, or has a name that is neither ``part.quantity`` nor in `numbers`.
        """
        result: dict[str, Quantity] = {}

        def named(match: re.Match[str]) -> str:
            inside = None if match[3] is None else match[3].strip()
            if inside is not None and match[2] not in FUNCTIONS:
                raise ConfigError(
                    f"{given!r}: {match[0]} is not allowed: functions of a part are "
                    f"{', '.join(FUNCTIONS)}"
                )
            result[f"q{len(result)}__"] = Quantity(match[1], match[2], inside)
            return f"q{len(result) - 1}__"

        numbers = {"avogadro": AVOGADRO, **(numbers or {})}
        text = str(given)
        try:
            tree = as_expression(_QUANTITY.sub(named, text))
        except ModelError as error:
            raise ConfigError(f"{text!r}: {error}") from None
        if more := sorted(symbols(tree) - result.keys() - numbers.keys()):
            raise ConfigError(
                f"{text!r}: {more[0]!r} is no quantity of a part: write part.{more[0]}"
            )
        return cls(text, tree, result, numbers)

    def times(self, factor: float, text: str) -> Formula:
        """Return the formula times a number, which `text` describes."""
        return replace(self, tree=call("mul", factor, self.tree), text=f"{text} {self.text}")

    @property
    def parts(self) -> set[str]:
        """Names of the parts that it reads."""
        return {one.part for one in self.quantities.values()}

    def evaluate(self, n: int, value: Callable[[Quantity], FloatArray]) -> FloatArray:
        """Values f64 ``[n]``, of quantities ``[n]``."""

        def column(name: str) -> FloatArray:
            if name in self.numbers:
                number = np.asarray(self.numbers[name])
                return np.full(n, number[:n] if number.ndim else number)
            return value(self.quantities[name])

        return evaluate_rows(self.tree, n, column)


@dataclass(frozen=True)
class Drive:
    """A parameter of a part follows a formula; `over` says which value where several are known."""

    part: str
    name: str
    formula: Formula
    over: str = "mean"

    def __str__(self) -> str:
        """As `Hybrid.check` shows it."""
        return f"{self.part}.{self.name} = {self.formula.text}"


@dataclass(frozen=True)
class Share:
    """One pool that both parts change.

    `volume` is the number of molecules of `first` per unit of `second`; `unit`, if given, is that
    unit.
    """

    first: Quantity
    second: Quantity
    volume: Formula | None
    unit: str | None = None

    def __str__(self) -> str:
        """As `Hybrid.check` shows it."""
        more = "" if self.volume is None else f" x {self.volume.text}"
        return f"{self.first} = {self.second}{more}"


@dataclass(frozen=True)
class Bill:
    """Events of a part take units from pools, or with `sign` -1 give them.

    `amounts` has units ``[reaction]`` by pool.
    """

    part: str
    pattern: str
    reactions: tuple[str, ...]
    amounts: Mapping[Quantity, FloatArray]
    sign: int

    def __str__(self) -> str:
        """As `Hybrid.check` shows it."""
        pools = ", ".join(map(str, self.amounts))
        return (
            f"{self.part}.fired({self.pattern}) {'takes from' if self.sign > 0 else 'to'} {pools}"
        )


@dataclass(frozen=True)
class Shaping:
    """Site types of a part follow a shape, whose quantities follow formulas.

    `every` is the time between two shapes; `particles` and `reach` are those of
    `LatticeView.reshape`.
    """

    part: str
    shape: Shape
    formulas: Mapping[str, Formula]
    every: float
    particles: Mapping[str, str]
    reach: int

    def __str__(self) -> str:
        """As `Hybrid.check` shows it."""
        reported = ", ".join(f"{name} = {one.text}" for name, one in self.formulas.items())
        return f"{self.part}: {reported or 'no quantities'} every {self.every:g}"


@dataclass(frozen=True)
class Confinement:
    """A chain of beads stays inside of site types of a lattice, and genes at its beads.

    `genes` are species of the lattice, states of one gene, with their bead.
    """

    chain: str
    lattice: str
    site_types: tuple[str, ...]
    genes: tuple[tuple[tuple[str, ...], int], ...]

    def __str__(self) -> str:
        """As `Hybrid.check` shows it."""
        kinds = ", ".join(self.site_types)
        return f"{self.chain}: in {self.lattice}.{kinds}, {len(self.genes)} genes"


@dataclass(frozen=True)
class Dividing:
    """Cells divide where a formula is true.

    Parameters
    ----------
    every
        Time between two looks; None: when all parts are at the end of a step.
    axis, at
        Of the plane across lattices, in metres from the first face; None: the middle.
    fraction
        Part of the first daughter, where no lattice decides; `Fraction.parse` reads it.
    partition
        Words by ``part.pattern``.
    follow
        ``one``, ``lineage`` or ``population``.
    """

    when: Formula
    every: float | None
    axis: str
    at: float | None
    fraction: float | str | None
    partition: Mapping[str, str]
    follow: str

    def __str__(self) -> str:
        """As `Hybrid.check` shows it."""
        every = "" if self.every is None else f" every {self.every:g}"
        return f"{self.when.text}{every}, {self.follow}"


def address(text: str, what: str) -> Quantity:
    """A part and a name, or a pattern of names.

    Raises
    ------
    ConfigError
        It is not of the form ``part.name``.
    """
    result = _ADDRESS.match(text) if isinstance(text, str) else None
    if result is None:
        raise ConfigError(f"{what} is written part.name, and {text!r} is not")
    return Quantity(result[1], result[2])


def events(text: str) -> tuple[str, str]:
    """Part and pattern of ``part.fired(pattern)``.

    Raises
    ------
    ConfigError
        It has another form.
    """
    result = _EVENTS.match(text) if isinstance(text, str) else None
    if result is None:
        raise ConfigError(f"events are written part.fired(pattern), and {text!r} is not")
    return result[1], result[2].strip()


_SEVERAL = re.compile(r"[*?,\s]")  # in a pattern that may fit other names than itself


def matching(pattern: str, names: Iterable[str]) -> list[str]:
    """Names that fit one of the patterns, which commas separate; * and ? stand for characters.

    All other characters stand for themselves, such as the brackets of a reaction ``R[1]``.
    """
    if not _SEVERAL.search(pattern):
        return [name for name in names if name == pattern]
    plain = (one.strip().replace("[", "[[]") for one in pattern.split(","))
    fits = re.compile("|".join(map(translate, plain))).match
    return [name for name in names if fits(name)]


def rows_of(for_each: Any) -> list[dict[str, Any]]:
    """Rows of a table by column, of a mapping of columns or a `pandas.DataFrame`; one if None.

    Raises
    ------
    ConfigError
        Columns are of different lengths.
    """
    if for_each is None:
        return [{}]
    try:
        columns = {str(name): list(for_each[name]) for name in for_each}
    except TypeError:
        raise ConfigError(f"for_each= takes columns by name, and not {for_each!r:.80}") from None
    if len({len(column) for column in columns.values()}) > 1:
        raise ConfigError("for_each= has columns of different lengths")
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def filled(text: Any, row: Mapping[str, Any]) -> Any:
    """A text with the values of a row in its braces; anything else as it is.

    Raises
    ------
    ConfigError
        A name in braces is no column.
    """
    if not isinstance(text, str) or not row:
        return text
    try:
        return text.format_map(row)
    except (KeyError, ValueError, IndexError) as error:
        raise ConfigError(f"{text!r}: {error} is no column of for_each=") from None


def amounts_of(given: Any, reactions: Sequence[str], what: str) -> FloatArray:
    """Units f64 ``[reaction]``: a number or formula for all, an array, or a mapping by name.

    Raises
    ------
    ConfigError
        They are not finite, negative, or of another length.
    """
    if isinstance(given, str):
        given = float(Formula.of(given).evaluate(1, _none)[0])
    if isinstance(given, Mapping):
        missing = [name for name in reactions if name not in given]
        if missing:
            raise ConfigError(f"{what}: no amount for reaction {missing[0]}")
        given = [given[name] for name in reactions]
    try:
        result = np.broadcast_to(np.asarray(given, np.float64), (len(reactions),)).copy()
    except ValueError:
        raise ConfigError(
            f"{what}: amounts are a number, or one for each of {len(reactions)} reactions"
        ) from None
    if not (np.isfinite(result) & (result >= 0)).all():
        raise ConfigError(f"{what}: amounts are finite and 0 or more")
    return result


def _none(quantity: Quantity) -> FloatArray:
    raise ConfigError(f"an amount is a number, and has no quantity such as {quantity}")

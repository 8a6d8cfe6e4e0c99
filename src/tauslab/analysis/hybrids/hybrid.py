"""`tauslab.Hybrid`: parts that step together, and the links between them."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tauslab.analysis.hybrids.clock import Interval, ticks_of
from tauslab.analysis.hybrids.links import (
    FOLLOW,
    MOLECULES,
    OF_TIME,
    OVER,
    Bill,
    Confinement,
    Dividing,
    Drive,
    Formula,
    Quantity,
    Shaping,
    Share,
    address,
    amounts_of,
    events,
    filled,
    matching,
    rows_of,
)
from tauslab.analysis.hybrids.outlook import links_of
from tauslab.analysis.hybrids.parts import Change, PartModel, parameter_of_rate, rates_of
from tauslab.analysis.particles.daughters import Fraction
from tauslab.analysis.polymers.polymer import Polymer, chain_of
from tauslab.base.arrays import FloatArray
from tauslab.base.errors import ConfigError, one_of
from tauslab.base.unknown import checks_keywords
from tauslab.formats.read import read
from tauslab.kernels.lattice.reshaping import FOLLOWS, REACH, as_reach
from tauslab.model.geometry.changing import Shape
from tauslab.model.lattice.lattice import Lattice
from tauslab.model.names import check_name
from tauslab.model.network.counts import some
from tauslab.model.network.network import Network
from tauslab.options.methods import Method, MethodWord, method_of
from tauslab.options.places import Device
from tauslab.options.values.checks import by_name

_NAME = re.compile(r"[A-Za-z_]\w*\Z")  # of a part: links write part.quantity


class Hybrid:
    """Several models simulated together, each with its own method.

    A part is a network simulated by ``ssa``, ``tau`` or ``ode``, a lattice, a chain of beads, or a
    function. Links exchange quantities between parts. `tauslab.run` simulates a hybrid.

    Parameters
    ----------
    name
        Name of the hybrid.
    tick
        Time of which every interval is a whole multiple; by default the shortest `every`.
    seed
        64-bit seed of `tauslab.run` without a seed; drawn by default. Random numbers of a part do
        not depend on other parts.
    t_end
        End time of `tauslab.run` without `t_end`.

    Examples
    --------
    >>> import tauslab as ts
    >>> gene = ts.Network("gene")
    >>> gene.add_species("on", 0)
    >>> gene.add_species("off", 1)
    >>> gene.add_reaction("off -> on", rate=0.02)
    >>> gene.add_reaction("on -> off", rate=0.03)
    >>> rna = ts.Network("rna")
    >>> rna.add_species("M", 0)
    >>> rna.add_parameter("k", 0.0)
    >>> rna.add_rate("M", "k - 0.01 * M")
    >>> cell = ts.Hybrid("cell", seed=1)
    >>> cell.add_part("gene", gene, every=5.0)
    >>> cell.add_part("rna", rna, method="ode", every=5.0)
    >>> cell.drive("rna.k", "5 * gene.on")
    >>> result = ts.run(cell, t_end=100, n=10, device="cpu", pilot=0)
    >>> result.values("rna.M").shape
    (10, 21)
    """

    @checks_keywords
    def __init__(
        self, name: str = "hybrid", *, tick: float | None = None, seed: int | None = None,
        t_end: float | None = None,
    ) -> None:  # fmt: skip
        check_name(name, "the name of a hybrid")
        self.name, self.seed, self.t_end = name, seed, t_end
        self._tick = tick
        self.parts: dict[str, PartModel] = {}
        self._every: dict[str, tuple[float | None, float | None]] = {}
        self.record: dict[str, tuple[str, ...]] = {}
        self.drives: list[Drive] = []
        self.shares: list[Share] = []
        self.bills: list[Bill] = []
        self.rates: dict[str, dict[str, str]] = {}  # parameter by reaction, by part
        self.shapes: dict[str, Shaping] = {}  # by part
        self.confined: dict[str, Confinement] = {}  # by chain
        self.dividing: Dividing | None = None

    # ---------------------------------------------------------------- parts

    @checks_keywords
    def add_part(  # noqa: PLR0913 - keywords
        self,
        name: str,
        model: Network | Lattice | Polymer | str | os.PathLike[str] | Change,
        *,
        method: MethodWord | Method | None = None,
        every: float | None = None,
        sample: float | None = None,
        record: tuple[str, ...] | list[str] | None = None,
        values: Mapping[str, float | npt.ArrayLike] | None = None,
        set: Mapping[str, float | npt.ArrayLike] | None = None,  # noqa: A002 - as tauslab.run calls it
        max_steps: int | None = None,
        device: Device | None = None,
    ) -> None:
        """Add a part.

        Parameters
        ----------
        name
            Letters, digits and underscores. ``name.quantity`` refers to a quantity of the part.
        model
            A network or lattice, or its file; a `tauslab.Polymer`, of which each cell has a copy,
            with the quantity ``beads`` and the parameter ``copied``, the number of copied beads;
            or a function ``f(t, dt, values) -> changes`` of arrays ``[cell]`` by name, which
            depends only on its arguments.
        method
            ``ssa``, ``tau`` or ``ode``, or its settings; for networks.
        every
            Time between exchanges, by default the tick.
        sample
            Time between samples, by default `every`.
        record
            Names to record; by default all.
        values
            Initial quantities of a function: one value for all cells, or ``[cell]``.
        set, max_steps
            As for `tauslab.Ensemble`.
        device
            Device of this part; by default that of the run. For one cell, networks are faster on a
            CPU.

        Raises
        ------
        ConfigError
            The name is taken, or an argument is not allowed.
        """
        if not (isinstance(name, str) and _NAME.match(name)):
            raise ConfigError(f"the name of a part has letters, digits and underscores: {name!r}")
        if name in self.parts:
            raise ConfigError(f"part {name} is defined twice")
        if isinstance(model, str | os.PathLike):
            model = read(Path(model))
        options = {"method": method, "set": set, "max_steps": max_steps}
        if isinstance(model, Polymer):
            if any(one is not None for one in (*options.values(), values)):
                raise ConfigError(f"part {name} is a chain: it takes every=, sample= and device=")
        elif not isinstance(model, Network | Lattice):
            if not callable(model) or any(v is not None for v in (*options.values(), device)):
                raise ConfigError(
                    f"part {name} takes a network, a lattice, a polymer, or a function "
                    "without method=, set=, max_steps= and device="
                )
            options = {"values": dict(values or {})}
        elif values is not None:
            raise ConfigError(f"part {name}: values= is of functions: use set=")
        else:
            method_of(method)
            options["set"] = None if set is None else by_name("set", set)
        options = {key: value for key, value in options.items() if value is not None}
        made = PartModel(name, model, options, device)
        record = (record,) if isinstance(record, str) else record
        for one in record or ():
            if one not in made.quantities:
                known = some(dict.fromkeys(made.quantities))
                raise ConfigError(f"record=: part {name} has no quantity {one!r}; it has {known}")
        self.parts[name] = made
        self._every[name] = (every, sample)
        self.record[name] = tuple(record) if record is not None else made.quantities

    # ---------------------------------------------------------------- links

    @checks_keywords
    def drive(
        self, target: str, formula: float | str, *, over: str = "mean", for_each: Any = None
    ) -> None:
        """Set a parameter of a part to a formula of quantities of other parts.

        Parameters
        ----------
        target
            ``part.parameter``, or a quantity of a function.
        formula
            Formula with the syntax of rate laws: ``part.quantity`` is a species, rule or parameter,
            ``part.sum(P_*)`` a sum over names, ``part.volume(type)`` the volume in litres of the
            lattice sites of a type.
        over
            ``mean``: the formula uses averages over the part's interval; ``start`` or ``end``: the
            values at the start or end of this interval. Without effect, by ``strang``, between
            parts that influence each other (docs/hybrids.md).
        for_each
            Columns by name, or a `pandas.DataFrame`: one link per row, with names in braces
            replaced by the values of the row, as in ``"0.5 * space.P_{gene}"``.

        Raises
        ------
        ConfigError
            A name is unknown, or the formula is invalid.
        """
        one_of("over", over, OVER)
        for row in rows_of(for_each):
            to = address(filled(target, row), "the target of a drive")
            made = self._part(to.part, "drive")
            if not made.drivable(to.name):
                known = made.quantities if made.is_function else made.parameters
                raise ConfigError(
                    f"drive: {to} is no parameter; part {to.part} has {some(dict.fromkeys(known))}"
                )
            for reaction in self.rates.get(to.part, ()):
                self._require_one(made, reaction, {to.name})
            self._drive(Drive(to.part, to.name, self._formula(filled(formula, row)), over))

    @checks_keywords
    def share(
        self, first: str, second: str, *, volume: float | str = 1.0, unit: str | None = None,
        for_each: Any = None,
    ) -> None:  # fmt: skip
        """Make two species one pool that both parts change.

        Parameters
        ----------
        first, second
            ``part.species``. The initial amount of `first` is that of the pool.
        volume
            Amount of `first` that equals one unit of `second`, a number or a formula.
        unit
            Of `second`, while `first` is a number of molecules: a concentration (``M``, ``mM``,
            ``uM``, ``nM``, ``pM``), where `volume` is in litres, or a density (``m^-2``,
            ``um^-2``, ``nm^-2``), where `volume` is an area in square metres.
        for_each
            As for `drive`.

        Raises
        ------
        ConfigError
            A species is unknown or fixed, or a unit is.
        """
        if unit is not None:
            one_of("unit", unit, tuple(MOLECULES))
        for row in rows_of(for_each):
            ends = [address(filled(one, row), "what is shared") for one in (first, second)]
            for end in ends:
                self._require_pool(end, "share")
            scale = None if (volume, unit) == (1.0, None) else self._formula(filled(volume, row))
            if scale is not None and unit is not None:
                scale = scale.times(MOLECULES[unit], f"molecules at 1 {unit} in")
            share = Share(ends[0], ends[1], scale, unit)
            if any({*ends} == {one.first, one.second} for one in self.shares):
                raise ConfigError(
                    f"share: {ends[0]} and {ends[1]} already share a pool: leave this call out"
                )
            if scale is not None and self.parts[ends[1].part].whole(ends[1].name):
                raise ConfigError(
                    f"share {share}: volume= is units of the first for one of the second, and "
                    f"{ends[1]} is a count, which comes first"
                )
            if scale is not None and any(
                self._reads(one, ends[1]) for one in scale.quantities.values()
            ):
                raise ConfigError(f"share {share}: volume= reads {ends[1]}, which follows from it")
            self.shares.append(share)

    @checks_keywords
    def bill(self, events: str, pools: Mapping[str, Any], *, for_each: Any = None) -> None:
        """Subtract units from pools for each firing; an amount that a pool lacks is a debt.

        Parameters
        ----------
        events
            ``part.fired(name_*)``: a pattern of reaction names; commas separate several.
        pools
            Units per firing by ``part.species``: a number, one number per reaction, or a mapping by
            reaction.
        for_each
            As for `drive`.

        Raises
        ------
        ConfigError
            No reaction matches, or a pool is unknown.
        """
        self._add_bills(events, pools, for_each, 1)

    @checks_keywords
    def credit(self, events: str, pools: Mapping[str, Any], *, for_each: Any = None) -> None:
        """Add units to pools for each firing; arguments as for `bill`."""
        self._add_bills(events, pools, for_each, -1)

    @checks_keywords
    def set_rate(
        self, pattern: str, formula: float | str, *, over: str = "mean", for_each: Any = None
    ) -> None:
        """Set rate constants to a formula, in which ``k`` is the constant of the model.

        Parameters
        ----------
        pattern
            ``part.name_*``: a pattern of reaction names.
        formula, over, for_each
            As for `drive`.

        Raises
        ------
        ConfigError
            No reaction matches, or one has no rate constant.
        """
        one_of("over", over, OVER)
        for row in rows_of(for_each):
            to = address(filled(pattern, row), "the reactions of a rate")
            made = self._part(to.part, "set_rate")
            names = self._reactions(made, to.name)
            constants = rates_of(made, {name: parameter_of_rate(name) for name in names})
            driven = {one.name for one in self.drives if one.part == to.part}
            for name in names:
                own = {name: parameter_of_rate(name)}
                constant = constants.get(own[name])
                if constant is None:
                    raise ConfigError(f"set_rate: rates of part {to.part} cannot be set")
                self._require_one(made, name, driven)
                read = self._formula(filled(formula, row), {"k": constant})
                self._drive(Drive(to.part, own[name], read, over))
                self.rates.setdefault(to.part, {}).update(own)

    @checks_keywords
    def shape(
        self, part: str, shape: Shape, *, every: float, particles: Mapping[str, str] | None = None,
        reach: int = REACH,
    ) -> None:  # fmt: skip
        """Let the site types of a lattice follow a shape.

        At t = 0, and then at intervals of `every`, the shape is computed from the current
        quantities, and the lattice is reshaped.

        Parameters
        ----------
        part
            Name of a part that is a lattice.
        shape
            Of `tauslab.shapes`. Its formulas are written as for `drive`: lengths are metres,
            areas m^2, volumes m^3.
        every
            Time between two shapes, a whole multiple of the part's interval.
        particles, reach
            As of `LatticeView.reshape`.

        Raises
        ------
        ConfigError
            The part is no lattice of several site types, or has a shape; a formula is invalid.
        """
        made = self._part(part, "shape")
        if not isinstance(made.model, Lattice) or len(made.model.type_names) < 2:
            raise ConfigError(f"shape: part {part} is no lattice of several site types")
        if part in self.shapes:
            raise ConfigError(f"shape: part {part} follows two shapes")
        if not isinstance(shape, Shape):
            raise ConfigError(f"shape: {shape!r:.80} is none of tauslab.shapes")
        formulas = {name: self._formula(value) for name, value in shape.quantities.items()}
        own = dict(particles or {})
        if unknown := [name for name in own if name not in made.model.species]:
            raise ConfigError(f"shape: particles: {unknown[0]!r} is not a species of part {part}")
        for how in own.values():
            one_of("particles", how, FOLLOWS)
        self.shapes[part] = Shaping(part, shape, formulas, every, own, as_reach(reach))

    @checks_keywords
    def confine(
        self, chain: str, within: str, *,
        genes: Mapping[str | tuple[str, ...], int] | None = None,
    ) -> None:  # fmt: skip
        """Keep a chain of beads in sites of a lattice, and genes at its beads.

        A particle of each gene is at the site of its bead, or the nearest site inside. Cells can
        divide when all beads are copied.

        Parameters
        ----------
        chain
            Name of a part that is a chain.
        within
            ``part.type_*``: a lattice and its site types, including sites of objects.
        genes
            Bead by pinned species, or by several species that are states of one gene; the first is
            the initial state.

        Raises
        ------
        ConfigError
            A part, a site type, a species or a bead is unknown.
        """
        to = address(within, "the sites of a chain")
        made, home = self._part(chain, "confine"), self._part(to.part, "confine")
        if not isinstance(made.model, Polymer) or not isinstance(home.model, Lattice):
            raise ConfigError(f"confine: {chain} in {within}: a chain and a lattice are expected")
        if chain in self.confined:
            raise ConfigError(f"confine: chain {chain} is confined twice")
        types = [home.model.type_names[number] for number in home.require_volume(to.name)]
        types += [
            one.name for one in home.model.objects
            if one.within in types and one.name not in types
        ]  # fmt: skip
        given = {
            (key,) if isinstance(key, str) else tuple(key): at for key, at in (genes or {}).items()
        }
        beads = chain_of(made.model).beads
        others = [one.genes for one in self.confined.values() if one.lattice == to.part]
        seen = {name for genes_of in others for states, _ in genes_of for name in states}
        for states, bead in given.items():
            for name in states:
                if name not in home.model.pinned or name in seen:
                    raise ConfigError(
                        f"confine: genes: {name!r} is to be a species that lattice {to.part} pins, "
                        "of one gene"
                    )
                seen.add(name)
            if not (states and isinstance(bead, int | np.integer) and 0 <= bead < beads):
                raise ConfigError(f"confine: genes: {states} at bead {bead!r} of {beads}")
        self.confined[chain] = Confinement(chain, to.part, tuple(types), tuple(given.items()))

    @checks_keywords
    def divide(
        self, when: float | str, *, every: float | None = None,
        partition: Mapping[str, str] | None = None, fraction: float | str | None = None,
        axis: str = "z", at: float | None = None, follow: str = "lineage",
    ) -> None:  # fmt: skip
        """Let cells divide.

        A daughter gets the particles on its side of a plane, and a share of all other amounts.

        Parameters
        ----------
        when
            Condition with the syntax of `drive`; it may contain ``time``, ``age``, ``generation``.
        every
            Time between evaluations of `when`; by default the least common multiple of all
            intervals.
        partition
            How amounts are divided, by ``part.pattern`` (docs/whole-cells.md); if several patterns
            match, the last is used. Name shared species (`share`) in full, without a pattern.
        fraction
            Share of the first daughter, for cells without a lattice: a number, or
            ``"uniform(LO,HI)"`` (0.5).
        axis, at
            Axis perpendicular to the plane, and where on it in metres; by default the middle.
        follow
            ``lineage``: continue with a random daughter; ``one``: with the first, at smaller
            coordinates; ``population``: with both, where the second replaces a random cell.

        Raises
        ------
        ConfigError
            A formula or an argument is not allowed.
        """
        if self.dividing is not None:
            raise ConfigError(f"divide: hybrid {self.name} divides by two conditions")
        one_of("axis", axis, ("z", "y", "x"))
        one_of("follow", follow, FOLLOW)
        if fraction is not None:
            Fraction.parse(fraction)
        if at is not None and not (isinstance(at, int | float) and at > 0):
            raise ConfigError(f"divide: at= is a number of metres above 0, and not {at!r:.80}")
        formula = self._formula(when, dict.fromkeys(OF_TIME, 0.0))
        self.dividing = Dividing(
            formula, every, axis, at, fraction, dict(partition or {}), follow
        )  # fmt: skip

    # ---------------------------------------------------------------- looking

    @property
    def tick(self) -> float:
        """Unit of time of the intervals.

        Raises
        ------
        ConfigError
            Neither a tick nor an interval is given, or it is not positive.
        """
        given = [one for one, _ in self._every.values() if isinstance(one, int | float)]
        if self._tick is None and not given:
            raise ConfigError(f"hybrid {self.name} has no clock: give tick=, or every= of a part")
        result = float(min(given) if self._tick is None else self._tick)
        if not 0 < result < float("inf"):
            raise ConfigError(f"the tick of hybrid {self.name} is {result:g}: it must be above 0")
        return result

    def intervals(self, halvings: int = 0) -> dict[str, Interval]:
        """Return the half ticks between exchanges and between samples of each part.

        `halvings` halves the tick so many times; sample times stay.

        Raises
        ------
        ConfigError
            An interval is no whole multiple of the tick.
        """
        tick, result, linked = self.tick, {}, self.linked
        for name, (every, sample) in self._every.items():
            step = 1 if every is None else ticks_of(every, tick, f"part {name}: every=")
            look = step if sample is None else ticks_of(sample, tick, f"part {name}: sample=")
            if name not in linked:  # nothing is exchanged: it steps from sample to sample
                result[name] = Interval(2 * look << halvings, 2 * look << halvings)
                continue
            if look % step:
                raise ConfigError(
                    f"part {name}: sample= {sample:g} is not a whole multiple of its every="
                )
            result[name] = Interval(2 * step, 2 * look << halvings)
        return result

    def acting(self) -> list[tuple[str, str]]:
        """Return pairs of parts, the first of which influences the second."""
        pairs = [(p, one.part) for one in self.drives for p in one.formula.parts]
        for share in self.shares:
            pairs += [(share.first.part, share.second.part), (share.second.part, share.first.part)]
            ends = (share.first.part, share.second.part)
            pairs += [(p, to) for p in (share.volume.parts if share.volume else ()) for to in ends]
        for one in self.shapes.values():
            pairs += [
                (q.part, one.part) for f in one.formulas.values() for q in f.quantities.values()
            ]
        for own in self.confined.values():
            pairs += [(own.lattice, own.chain), (own.chain, own.lattice)]
        return pairs + [(one.part, pool.part) for one in self.bills for pool in one.amounts]

    def check(self) -> list[str]:
        """Describe each link: units, and the interval times the relative rate of change at t = 0.

        The product should be well below 1.
        """
        return links_of(self, self.intervals(), self.tick)

    def of_links(self, n: int) -> Hybrid:
        """Return a copy of the parts with links, with the values of the first `n` cells."""
        made, linked = copy(self), self.linked
        made.parts = {k: part.first_cells(n) for k, part in self.parts.items() if k in linked}
        made._tick = self.tick  # noqa: SLF001 - of its own kind
        made._every = {name: self._every[name] for name in made.parts}  # noqa: SLF001
        made.record = {name: self.record[name] for name in made.parts}
        return made

    def __repr__(self) -> str:
        """One line."""
        links = len(self.drives) + len(self.shares) + len(self.bills) + len(self.shapes)
        links += len(self.confined) + (self.dividing is not None)
        return f"<Hybrid {self.name}: {', '.join(self.parts) or 'no parts'}; {links} links>"

    # ---------------------------------------------------------------- inside

    @property
    def linked(self) -> set[str]:
        """Names of parts that have links: all, if cells divide."""
        if self.dividing is not None:
            return set(self.parts)
        bills = {pool.part for one in self.bills for pool in one.amounts}
        bills |= {one.part for one in self.bills}
        return (
            bills
            | {name for pair in self.acting() for name in pair}
            | {one.part for one in self.drives}
            | set(self.shapes)
        )

    def _part(self, name: str, what: str) -> PartModel:
        if name not in self.parts:
            raise ConfigError(f"{what}: there is no part {name!r}; parts: {some(self.parts)}")
        return self.parts[name]

    def _formula(
        self, given: float | str, numbers: Mapping[str, float | FloatArray] | None = None
    ) -> Formula:
        """A formula whose names are all of parts."""
        result = Formula.of(given, numbers)
        for one in result.quantities.values():
            made = self._part(one.part, repr(result.text))
            if one.name == "volume" and one.inside is not None:
                made.require_volume(one.inside)
            elif one.inside is not None:
                if not matching(one.inside, made.quantities):
                    raise ConfigError(f"{result.text!r}: no quantity of {one.part} fits {one}")
            else:
                made.require(one.name, repr(result.text))
        return result

    def _drive(self, one: Drive) -> None:
        if any((one.part, one.name) == (other.part, other.name) for other in self.drives):
            raise ConfigError(f"{one.part}.{one.name} follows two formulas")
        if one.part in one.formula.parts:
            raise ConfigError(
                f"{one}: a part that follows itself needs no link: write it into its model"
            )
        self.drives.append(one)

    def _reads(self, one: Quantity, other: Quantity) -> bool:
        """Return whether a term of a formula reads a quantity."""
        names = [one.name] if one.inside is None else matching(one.inside, [other.name])
        return one.part == other.part and other.name in names and one.name != "volume"

    @staticmethod
    def _require_one(made: PartModel, reaction: str, driven: set[str]) -> None:
        """Refuse a rate constant that is set, and also follows a drive of a parameter in it."""
        if both := sorted(driven & made.behind_rate(reaction)):
            raise ConfigError(
                f"the rate of {made.name}.{reaction} follows two formulas: its own, and that of "
                f"{made.name}.{both[0]}"
            )

    def _require_pool(self, end: Quantity, what: str) -> None:
        made = self._part(end.part, what)
        made.require(end.name, what)
        if not made.changeable(end.name):
            raise ConfigError(
                f"{what}: {end} is no species that reactions change: a parameter follows by drive"
            )

    def _reactions(self, made: PartModel, pattern: str) -> list[str]:
        result = matching(pattern, made.reactions)
        if not result:
            raise ConfigError(
                f"no reaction of part {made.name} fits {pattern!r}; it has "
                f"{some(dict.fromkeys(made.reactions)) or 'none'}"
            )
        return result

    def _add_bills(self, text: str, pools: Mapping[str, Any], for_each: Any, sign: int) -> None:
        for row in rows_of(for_each):
            part, pattern = events(filled(text, row))
            reactions = self._reactions(self._part(part, "bill"), pattern)
            amounts = {}
            if not isinstance(pools, Mapping):
                raise ConfigError(f"pools are units by part.species, and not {pools!r:.80}")
            for name, units in pools.items():
                pool = address(filled(name, row), "a pool")
                self._require_pool(pool, "bill")
                amounts[pool] = amounts_of(filled(units, row), reactions, f"{text} to {pool}")
            self.bills.append(Bill(part, pattern, tuple(reactions), amounts, sign))

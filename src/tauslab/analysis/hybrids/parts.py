"""Parts of a hybrid while it runs: an ensemble of particles, or a function of the user."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from tauslab.analysis.hybrids.links import Shaping, matching
from tauslab.analysis.particles.ensemble import Ensemble
from tauslab.analysis.particles.motions.lattice import region_names
from tauslab.analysis.particles.store import StoredParticles
from tauslab.analysis.polymers.polymer import Polymer, chain_of
from tauslab.base.arrays import BoolArray, FloatArray, IntArray
from tauslab.base.errors import ConfigError
from tauslab.kernels.lattice.halving import Halving
from tauslab.model.expressions.array_math import evaluate_rows
from tauslab.model.expressions.expression import Expression, Number, Symbol, call, symbols
from tauslab.model.expressions.mass_action import recognise
from tauslab.model.lattice.lattice import Lattice
from tauslab.model.network.counts import some
from tauslab.model.network.network import Network
from tauslab.model.network.parts import Reaction
from tauslab.options.methods import ODE, method_of
from tauslab.store.format.schema import STATUS_NAMES
from tauslab.store.state import State

Change: TypeAlias = Callable[[float, float, Mapping[str, FloatArray]], Mapping[str, Any]]

BEADS, COPIED = "beads", "copied"  # of chains: a quantity, and a parameter
_OF_CELLS = "set", "values"  # options whose values may differ between cells


@dataclass(frozen=True)
class PartModel:
    """The model and settings of a part.

    Parameters
    ----------
    model
        A network, a lattice, a chain of beads, or a function ``f(t, dt, values) -> changes``.
    options
        Keywords of `tauslab.Ensemble`; of a function ``values``, its quantities at the start.
    device
        None: that of the run.
    """

    name: str
    model: Network | Lattice | Polymer | Change
    options: Mapping[str, Any] = field(default_factory=dict)
    device: Any = None

    @property
    def real(self) -> bool:
        """Return whether its quantities are amounts, and no counts."""
        return self.is_function or isinstance(method_of(self.options.get("method")), ODE)

    @property
    def is_function(self) -> bool:
        """Return whether it is a function of the user."""
        return not isinstance(self.model, Network | Lattice | Polymer)

    @property
    def reactions(self) -> tuple[str, ...]:
        """Names of its reactions."""
        if not isinstance(self.model, Network | Lattice):
            return ()
        return tuple([one.name for one in self.model.reactions])

    @property
    def parameters(self) -> dict[str, float]:
        """Values of its parameters."""
        if isinstance(self.model, Polymer):
            return {COPIED: float(chain_of(self.model).copied)}
        return {} if self.is_function else self.model.parameter_values()  # type: ignore[union-attr]

    @property
    def computed(self) -> dict[str, Expression]:
        """Formulas of parameters that follow others."""
        if not isinstance(self.model, Network | Lattice):
            return {}
        given = self.options.get("set", {})
        trees = self.model.parameters
        return {name: one for name, one in trees.items() if name not in given and symbols(one)}

    def values_of(self, tree: Expression) -> FloatArray:
        """Values f64 ``[1 or cell]`` of a formula of parameters, as they were given."""
        given = self.options.get("set", {})
        n = max((np.size(value) for value in given.values()), default=1)

        def column(name: str) -> FloatArray:
            if name in given:
                return np.broadcast_to(np.asarray(given[name], np.float64), (n,))
            return evaluate_rows(self.model.parameters[name], n, column)  # type: ignore[union-attr]

        return evaluate_rows(tree, n, column)

    def behind_rate(self, reaction: str) -> set[str]:
        """Names of parameters on which the constant of a reaction depends."""
        assert isinstance(self.model, Network | Lattice)
        trees = self.model.parameters
        own: Any = next(one for one in self.model.reactions if one.name == reaction)
        waiting = set(symbols(own.rate if isinstance(self.model, Lattice) else own.law))
        result = set[str]()
        while waiting := {one for one in waiting - result if one in trees}:
            result |= waiting
            waiting = {other for one in waiting for other in symbols(trees[one])}
        return result

    @property
    def quantities(self) -> tuple[str, ...]:
        """Names of what changes, or is computed of it."""
        if isinstance(self.model, Network):
            rules = (name for name, rule in self.model.rules.items() if rule.recorded)
            return (*self.model.species, *rules)
        if isinstance(self.model, Lattice):
            return (*self.model.species, *region_names(self.model))
        if isinstance(self.model, Polymer):
            return (BEADS,)
        return tuple(self.options.get("values", {}))

    @property
    def of_cells(self) -> bool:
        """Return whether cells have values of their own."""
        given = (self.options.get(name, {}).values() for name in _OF_CELLS)
        return any(np.ndim(value) for values in given for value in values)

    def first_cells(self, n: int) -> PartModel:
        """The part with the values of the first n cells."""
        cut = {
            name: {k: np.asarray(v)[:n] if np.ndim(v) else v for k, v in self.options[name].items()}
            for name in _OF_CELLS
            if name in self.options
        }
        return replace(self, options={**self.options, **cut})

    def whole(self, name: str) -> bool:
        """Return whether a quantity is a count."""
        of_rates = isinstance(self.model, Network) and name in self.model.rates
        return not self.real and not of_rates

    @property
    def states(self) -> tuple[str, ...]:
        """Names of what a cell has, and its daughters get."""
        if isinstance(self.model, Network | Lattice):
            return tuple(self.model.species)
        return self.quantities if self.is_function else ()

    def changeable(self, name: str) -> bool:
        """Return whether a quantity is a state that others may change too."""
        if isinstance(self.model, Network):
            return name in self.model.species and not self.model.species[name].fixed
        if isinstance(self.model, Lattice):
            return name in self.model.species
        return self.is_function and name in self.quantities

    def has(self, name: str) -> bool:
        """Return whether a quantity has this name."""
        # Most are species, and a lattice has many other quantities.
        return self.changeable(name) or name in self.quantities

    def drivable(self, name: str) -> bool:
        """Return whether a name is a parameter, or a quantity of a function."""
        if isinstance(self.model, Network | Lattice):
            return name in self.model.parameters
        return name in (self.quantities if self.is_function else self.parameters)

    def require(self, name: str, what: str) -> None:
        """Refuse what the part does not have.

        Raises
        ------
        ConfigError
            It is neither a quantity nor a parameter.
        """
        if not self.has(name) and name not in self.parameters:
            known = some(dict.fromkeys([*self.quantities, *self.parameters]))
            raise ConfigError(f"{what}: part {self.name} has no {name!r}; it has {known}")

    def require_volume(self, inside: str) -> list[int]:
        """Numbers of site types of a lattice that fit a pattern.

        Raises
        ------
        ConfigError
            The part is no lattice, or has no such type of site.
        """
        model = self.model
        if not isinstance(model, Lattice):
            raise ConfigError(f"{self.name}.volume({inside}): {self.name} is no lattice")
        types = model.type_names
        chosen = matching(inside or "*", types)
        if not chosen:
            raise ConfigError(f"{self.name} has no site type {inside!r}; it has {', '.join(types)}")
        return [types.index(one) for one in chosen]


@dataclass(frozen=True)
class Watch:
    """Needs of links.

    Parameters
    ----------
    shared, followed
        Quantities that belong to pools, and those that other parts read.
    driven
        Parameters, or quantities of a function, that follow formulas.
    reactions
        Reactions whose firings are counted.
    rates
        Parameter by reaction whose rate constant follows a formula.
    """

    shared: tuple[str, ...] = ()
    followed: tuple[str, ...] = ()
    driven: tuple[str, ...] = ()
    reactions: tuple[str, ...] = ()
    rates: Mapping[str, str] = field(default_factory=dict)

    @property
    def read(self) -> tuple[str, ...]:
        """Quantities that are read after each step."""
        return (*self.shared, *self.followed)


@dataclass(frozen=True)
class Reading:
    """A part after a step.

    Attributes
    ----------
    values
        f64 ``[cell, quantity]`` of `Watch.read`; NaN of cells that have ended.
    integrals
        f64 ``[cell, quantity]`` over time since the start, of `Watch.followed`; None where only
        ends are known.
    fired
        f64 ``[cell, reaction]`` since the last reading, of `Watch.reactions`.
    """

    values: FloatArray
    integrals: FloatArray | None
    fired: FloatArray


class Part(ABC):
    """States of a part for n cells, all of which are at its own time."""

    def __init__(self, made: PartModel, n: int, watch: Watch) -> None:
        self.made, self.n, self.watch = made, n, watch

    @property
    @abstractmethod
    def alive(self) -> BoolArray:
        """Which cells have not ended, bool ``[cell]``."""

    def endings(self, cells: BoolArray) -> list[str]:
        """Statuses with which some `cells` bool ``[cell]`` ended, named as in docs/concepts.md."""
        del cells
        return ["nan"]

    @abstractmethod
    def values(self, names: tuple[str, ...]) -> FloatArray:
        """Values f64 ``[cell, name]``; NaN of cells that have ended. Collective."""

    @abstractmethod
    def read(self) -> Reading:
        """Look at what links need. Collective."""

    @abstractmethod
    def put(self, shared: FloatArray | None, driven: FloatArray | None) -> None:
        """Give `Watch.shared` and `Watch.driven` values ``[cell, name]``; None: as they are."""

    @abstractmethod
    def advance(self, t: float) -> None:
        """Move to time t."""

    @abstractmethod
    def stored(self) -> dict[str, Any]:
        """All that it goes on from, as arrays by name. Collective."""

    @abstractmethod
    def take_up(self, state: State) -> None:
        """Go on from what `stored` gave."""

    @property
    def model_step(self) -> float | None:
        """Seconds of a step of a lattice, of which it makes whole ones; None for others."""
        return None

    def volume(self, inside: str) -> FloatArray:
        """Volume ``[cell]`` of sites of a type, or of all, of a lattice, in litres."""
        raise ConfigError(f"{self.made.name}.volume({inside}): {self.made.name} is no lattice")

    @abstractmethod
    def give(self, rows: IntArray, names: tuple[str, ...], values: FloatArray) -> None:
        """Give some cells values ``[row, name]`` of states. Collective."""

    @abstractmethod
    def take(self, index: IntArray) -> None:
        """Make cell i a copy of cell ``index[i]``. Collective."""

    def halve(
        self, rows: IntArray, kept: IntArray, mothers: IntArray, how: Halving, step: int
    ) -> tuple[IntArray, FloatArray, IntArray]:
        """Let lattices become one of their daughters: see `LatticeMotion.halve`."""
        del rows, kept, mothers, how, step
        raise ConfigError(f"divide: {self.made.name} is no lattice")

    def inside(self, shaping: Shaping, values: FloatArray) -> tuple[int, ...]:
        """Numbers of the site types that a shape of values ``[quantity]`` has."""
        del shaping, values
        return ()

    def settle(self, rows: IntArray, step: int) -> None:  # noqa: B027 - of lattices alone
        """Let objects of lattices that divided find places. Collective."""

    def reshape(self, shaping: Shaping, values: FloatArray, which: BoolArray | None = None) -> None:
        """Give lattices, or those of some cells, the shape of values ``[cell, quantity]``."""
        del shaping, values, which
        raise ConfigError(f"shape of {self.made.name}: {self.made.name} is no lattice")

    @property
    def home(self) -> str | None:
        """Name of the lattice whose particles a step changes too."""
        return None

    def close(self) -> None:  # noqa: B027 - a function holds nothing
        """Release the device."""


class FunctionPart(Part):
    """A function of the user: quantities, to which its changes are added."""

    def __init__(self, made: PartModel, n: int, watch: Watch) -> None:
        super().__init__(made, n, watch)
        self._t = 0.0
        given = made.options.get("values", {})
        self._values = {name: _each(value, n) for name, value in given.items()}

    @property
    def alive(self) -> BoolArray:
        """Cells whose quantities are numbers."""
        finite = [np.isfinite(one) for one in self._values.values()]
        return np.asarray(np.logical_and.reduce(finite, axis=0), bool)

    def values(self, names: tuple[str, ...]) -> FloatArray:
        """As of `Part`."""
        result = np.empty((self.n, len(names)))
        for place, name in enumerate(names):
            result[:, place] = self._values[name]
        return result

    def read(self) -> Reading:
        """As of `Part`."""
        return Reading(self.values(self.watch.read), None, np.zeros((self.n, 0)))

    def put(self, shared: FloatArray | None, driven: FloatArray | None) -> None:
        """As of `Part`."""
        for names, table in ((self.watch.shared, shared), (self.watch.driven, driven)):
            if table is not None:
                self._values |= dict(zip(names, table.T.copy(), strict=True))

    def give(self, rows: IntArray, names: tuple[str, ...], values: FloatArray) -> None:
        """As of `Part`."""
        for place, name in enumerate(names):
            self._values[name] = self._values[name].copy()
            self._values[name][rows] = values[:, place]

    def take(self, index: IntArray) -> None:
        """As of `Part`."""
        self._values = {name: one[index] for name, one in self._values.items()}

    def advance(self, t: float) -> None:
        """Add the changes of the function from its time to `t`.

        Raises
        ------
        ConfigError
            It changes what it does not have, or not to one number a cell.
        """
        assert callable(self.made.model)
        copies = {name: value.copy() for name, value in self._values.items()}
        changes = self.made.model(self._t, t - self._t, copies)
        if not isinstance(changes, Mapping):
            raise ConfigError(
                f"the function of part {self.made.name} must return changes by name, and returns "
                f"{changes!r:.80}"
            )
        for name, change in changes.items():
            if name not in self._values or not _is_column(change, self.n):
                raise ConfigError(
                    f"the function of part {self.made.name} must change its own quantities by one "
                    f"number a cell, of {self.n} cells, and gives {name!r}: {change!r:.80}"
                )
            self._values[name] = self._values[name] + np.asarray(change)
        self._t = t

    def stored(self) -> dict[str, Any]:
        """As of `Part`."""
        return {"time": np.array(self._t), **{f"values/{k}": v for k, v in self._values.items()}}

    def take_up(self, state: State) -> None:
        """As of `Part`."""
        self._t = state.real("time")
        own = state.below("values")
        self._values = {k: own.take(k, np.float64, self.n, nan=True) for k in self._values}


class EnsemblePart(Part):
    """Particles of a network, moved by ``ssa``, ``tau`` or ``ode``, or lattices.

    Of equations integrals and counters are quantities of the network itself: the integral of x has
    the rate x, and a counted reaction makes one more of its counter.
    """

    def __init__(
        self, made: PartModel, n: int, watch: Watch, *, seed: int, device: Any, comm: Any
    ) -> None:
        super().__init__(made, n, watch)
        model = made.model
        assert isinstance(model, Network | Lattice)
        options = dict(made.options)
        if isinstance(model, Network):
            model = _watched(model, watch, real=made.real)
            if watch.reactions and not made.real:
                options["count_reactions"] = watch.reactions
        else:
            model = _with_rates(model, watch.rates)
        parameters = dict(options.pop("set", None) or {})
        known = {**made.parameters, **rates_of(made, watch.rates)}
        for name in watch.driven:  # a column from the start, so that one kernel serves all
            parameters[name] = _each(parameters.get(name, known[name]), n)
        self.particles = Ensemble(
            model, n, seed=seed, device=device, set=parameters, comm=comm, **options
        )
        if watch.shared:
            self.particles.expect(watch.shared)
        self._real, self._nothing = made.real, np.zeros((n, 0))
        self._counted = np.zeros((n, len(watch.reactions)))
        self._reads = watch.read
        if made.real:
            self._reads += tuple(f"integral__{name}" for name in watch.followed)
            self._reads += tuple(f"fired__{name}" for name in watch.reactions)
        columns = {name: i for i, name in enumerate(self.particles.reaction_names)}
        fired = [] if made.real else [columns[one] for one in watch.reactions]
        self._columns = np.array(fired, np.int64)

    @property
    def grid(self) -> Lattice:
        """The lattice."""
        assert isinstance(self.made.model, Lattice)
        return self.made.model

    @property
    def alive(self) -> BoolArray:
        """As of `Part`."""
        return self.particles.alive

    def endings(self, cells: BoolArray) -> list[str]:
        """As of `Part`."""
        return [STATUS_NAMES[kind] for kind in np.unique(self.particles.status[cells]).tolist()]

    @property
    def model_step(self) -> float | None:
        """As of `Part`."""
        return self.particles.model_step

    def values(self, names: tuple[str, ...]) -> FloatArray:
        """As of `Part`."""
        return self.particles.values(names) if names else self._nothing

    def put(self, shared: FloatArray | None, driven: FloatArray | None) -> None:
        """As of `Part`."""
        names = () if shared is None else self.watch.shared
        parameters = () if driven is None else self.watch.driven
        if names or parameters:
            self.particles.put(
                names, self._nothing if shared is None else shared,
                parameters, self._nothing if driven is None else driven,
            )  # fmt: skip

    def give(self, rows: IntArray, names: tuple[str, ...], values: FloatArray) -> None:
        """As of `Part`."""
        table = np.nan_to_num(self.values(names))
        table[rows] = values
        self.particles.put(names, table, (), self._nothing)

    def take(self, index: IntArray) -> None:
        """As of `Part`."""
        self.particles.take(index)
        self._counted = self._counted[index]

    def halve(
        self, rows: IntArray, kept: IntArray, mothers: IntArray, how: Halving, step: int
    ) -> tuple[IntArray, FloatArray, IntArray]:
        """As of `Part`."""
        return self.particles.halve(rows.tolist(), kept.tolist(), mothers.tolist(), how, step)

    def inside(self, shaping: Shaping, values: FloatArray) -> tuple[int, ...]:
        """As of `Part`."""
        assert isinstance(self.made.model, Lattice)
        types = self.made.model.type_names
        numbers = dict(zip(shaping.formulas, values.tolist(), strict=True))
        return tuple(types.index(one) for one in shaping.shape(self.made.model, **numbers))

    def settle(self, rows: IntArray, step: int) -> None:
        """As of `Part`."""
        if isinstance(self.made.model, Lattice) and self.made.model.objects:
            self.particles.settle_objects(rows.tolist(), step)

    def advance(self, t: float) -> None:
        """As of `Part`."""
        self.particles.advance(t)

    def volume(self, inside: str) -> FloatArray:
        """As of `Part`."""
        assert isinstance(self.made.model, Lattice)
        sites = self.particles.sites_of_types()[:, self.made.require_volume(inside)]
        return np.asarray(sites.sum(axis=1) * (self.made.model.site_volume * 1e3), np.float64)

    def reshape(self, shaping: Shaping, values: FloatArray, which: BoolArray | None = None) -> None:
        """As of `Part`."""
        assert isinstance(self.made.model, Lattice)
        given: list[Any] = [None] * self.n
        own = self.particles.own
        for cell in range(own.start, own.stop):
            if which is not None and not which[cell]:
                continue
            numbers = dict(zip(shaping.formulas, values[cell].tolist(), strict=True))
            given[cell] = shaping.shape(self.made.model, **numbers)
        self.particles.reshape(given, particles=shaping.particles, reach=shaping.reach)

    def read(self) -> Reading:
        """As of `Part`."""
        table = self.values(self._reads)
        first, followed = len(self.watch.read), len(self.watch.followed)
        fired = self._nothing
        if not self._real:
            if self.watch.reactions:
                fired = np.maximum(np.take(self.particles.fired(), self._columns, axis=1), 0.0)
            return Reading(table, None, fired)
        if self.watch.reactions:
            now = np.nan_to_num(table[:, first + followed :])
            fired, self._counted = np.maximum(now - self._counted, 0.0), now
        return Reading(table[:, :first], table[:, first : first + followed], fired)

    def stored(self) -> dict[str, Any]:
        """As of `Part`."""
        kept = self.particles.stored()
        return {
            "counted": self._counted,
            "status": kept.status, "log_weights": kept.log_weights, "time": np.array(kept.time),
            "round": np.array(kept.round), "resamplings": np.array(kept.resamplings),
            **{f"rows/{name}": row for name, row in kept.rows.items()},
            **{f"state/{name}": array for name, array in kept.state.items()},
        }  # fmt: skip

    def take_up(self, state: State) -> None:
        """As of `Part`."""
        now = self.particles.stored()
        rows = state.below("rows")
        kept = StoredParticles(
            state=state.below("state"), status=state.take("status", np.uint8, self.n),
            log_weights=state.take("log_weights", np.float64, self.n),
            rows={k: rows[k] if rows[k].ndim else float(rows[k]) for k in rows},
            initial=now.initial, time=state.real("time", 0.0), round=state.whole("round"),
            resamplings=state.whole("resamplings"), seed=now.seed, method=now.method,
            settings=now.settings, max_steps=now.max_steps, counted=now.counted,
        )  # fmt: skip
        self.particles.go_on(state.path, kept)
        self._counted = state.take("counted", np.float64, self.n, len(self.watch.reactions))

    def close(self) -> None:
        """As of `Part`."""
        self.particles.close()


def _watched(network: Network, watch: Watch, *, real: bool) -> Network:
    """A copy of a network with what links need beside it."""
    own = replace(
        network, species=dict(network.species), parameters=dict(network.parameters),
        reactions=list(network.reactions), rates=dict(network.rates),
        features=list(network.features),
    )  # fmt: skip
    own.parameters |= dict.fromkeys(watch.rates.values(), Number(0.0))  # columns stand there
    own.reactions = [
        _with_rate(own, one, watch.rates[one.name]) if one.name in watch.rates else one
        for one in own.reactions
    ]
    counters = {name: f"fired__{name}" for name in watch.reactions if real}
    for name in counters.values():
        own.add_species(name)
    own.reactions = [
        replace(one, products={**one.products, counters[one.name]: 1})
        if one.name in counters
        else one
        for one in own.reactions
    ]
    for name in watch.followed if real else ():
        own.add_species(f"integral__{name}")
        own.add_rate(f"integral__{name}", name)
    return own


def parameter_of_rate(reaction: str) -> str:
    """Name of the parameter that holds the rate of a reaction which follows a formula."""
    return f"rate__{reaction}"


def rates_of(made: PartModel, rates: Mapping[str, str]) -> dict[str, FloatArray]:
    """Rate constants ``[1 or cell]`` of a part by the parameters that hold them."""
    model = made.model
    if isinstance(model, Network):
        own = {one.name: one for one in model.reactions}
        return {to: rate_constant(made, model, own[name]) for name, to in rates.items()}
    if isinstance(model, Lattice):
        constants = {one.name: one.rate for one in model.reactions}
        return {to: made.values_of(constants[name]) for name, to in rates.items()}
    return {}


def rate_constant(made: PartModel, network: Network, reaction: Reaction) -> FloatArray:
    """Constant ``[1 or cell]`` of a reaction with a rate.

    Raises
    ------
    ConfigError
        Its law is no mass action.
    """
    result = recognise(reaction.law, network.species)
    if result is None:
        raise ConfigError(
            f"reaction {reaction.name} of {network.name} has no rate constant: drive a parameter "
            "of its rate law"
        )
    combinations = math.prod(math.factorial(order) for order in result.orders.values())
    return combinations * made.values_of(result.constant)


def _with_rate(network: Network, reaction: Reaction, parameter: str) -> Reaction:
    """The reaction with a parameter in place of the number of its constant."""
    result = recognise(reaction.law, network.species)
    assert result is not None
    law: Expression = Symbol(parameter)
    limit: Expression = Symbol(parameter)
    for name, order in result.orders.items():
        for j in range(order):
            law = call("mul", law, call("sub", Symbol(name), float(j)) if j else Symbol(name))
            limit = call("mul", limit, Symbol(name))
        if order > 1:
            law = call("div", law, float(math.factorial(order)))
            limit = call("div", limit, float(math.factorial(order)))
    return replace(reaction, law=law, limit=None if reaction.limit is None else limit)


def _with_rates(lattice: Lattice, rates: Mapping[str, str]) -> Lattice:
    """A copy of a lattice with parameters in place of rates of some reactions."""
    own = copy(lattice)
    own.parameters = dict(lattice.parameters)
    own.reactions = []
    for one in lattice.reactions:
        if one.name in rates:
            own.parameters[rates[one.name]] = Number(0.0)  # a column stands in its place
        rate = Symbol(rates[one.name]) if one.name in rates else one.rate
        own.reactions.append(replace(one, rate=rate))
    return own


def _is_column(value: Any, n: int) -> bool:
    """Return whether it is a number, or one for each of n cells."""
    try:
        result = np.asarray(value)
    except ValueError:  # lists of different lengths
        return False
    return result.shape in ((), (n,)) and result.dtype.kind in "biuf"


def _each(value: Any, n: int) -> FloatArray:
    """One value for all cells, or one of each, as ``[cell]``."""
    if np.shape(value) == (1,):
        value = value[0]
    if not _is_column(value, n):
        raise ConfigError(f"give one value or one per cell ({n}), not {value!r:.80}")
    return np.broadcast_to(np.asarray(value, np.float64), (n,)).copy()

"""`tauslab.Ensemble`: particles of a model that live on the device."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain, compress
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from tauslab.analysis.particles import weights as particle_weights
from tauslab.analysis.particles.motions.amounts import OdeMotion
from tauslab.analysis.particles.motions.lattice import LatticeMotion
from tauslab.analysis.particles.motions.motion import Motion
from tauslab.analysis.particles.motions.network import NetworkMotion, require_method
from tauslab.analysis.particles.shares import Copies, Shares
from tauslab.analysis.particles.store import StoredParticles, read_stored, write_stored
from tauslab.analysis.particles.sums import fixed_sum
from tauslab.base.arrays import Array, BoolArray, FloatArray, IntArray
from tauslab.base.copies import Origin
from tauslab.base.errors import ConfigError, InputFileError, ModelError, one_of
from tauslab.base.option_names import opt, said, warn
from tauslab.base.unknown import checks_keywords
from tauslab.decomposition.ranks.all_ranks import Comm, ranks_of, require_same
from tauslab.decomposition.ranks.job import agreed_seed, open_backend
from tauslab.decomposition.ranks.on_root import on_root
from tauslab.kernels.backends import Backend
from tauslab.kernels.lattice.halving import Halving
from tauslab.kernels.lattice.reshaping import REACH
from tauslab.model.lattice.lattice import Lattice
from tauslab.model.network.counts import meant, some
from tauslab.model.network.network import Network
from tauslab.model.portable import portable_log
from tauslab.options.ensemble import MOST_TRAJECTORIES, Options
from tauslab.options.methods import (
    ODE,
    SSA,
    Method,
    MethodWord,
    given_in,
    method_of,
    method_with,
)
from tauslab.options.places import Device, device_settings
from tauslab.options.python_values import numbers, numbers_by_name, whole
from tauslab.options.values.checks import seed_of, within
from tauslab.options.values.initial_counts import (
    InitialCount,
    initial_distributions,
    require_one_of_two,
)
from tauslab.runner.ensemble.breaks import BreaksAhead
from tauslab.runner.ensemble.initial import require_followed
from tauslab.store.format.schema import STATUS_NAMES, STATUS_VALUES
from tauslab.store.state import State

_ENDED = 2  # this status and all above are ends


class Ensemble:
    """n trajectories (particles) of a network or a lattice, to advance, weight and resample.

    The same calls give the same bits on any device and number of ranks; with ``ode``, devices agree
    within the tolerance. Under ``mpirun`` all ranks make the same calls, and each holds its share
    of the particles, or of a single lattice a slab of planes.

    Parameters
    ----------
    model
        A network (for ``ode`` without delays), or a lattice; each particle is then a whole
        lattice.
    n
        Number of particles; at most 65,536 for lattices.
    seed
        64 bits; drawn if not given.
    device
        As of `tauslab.run`.
    set
        Values of parameters and initial amounts by name: a number, or an array ``[n]``. Diffusion
        coefficients of lattices must be numbers.
    initial
        Probability distributions of initial counts by species, drawn for each particle: see
        `tauslab.cme`.
    method
        ``ssa``, the default, ``tau`` or ``ode``; or their settings. Not for lattices.
    max_steps
        Maximum number of steps of a particle in one advance; not for lattices.
    count_reactions
        Names of reactions whose firings `fired` counts, or True for all. Lattices count all
        reactions, ``ode`` counts none.
    comm
        As of `tauslab.run`.

    Attributes
    ----------
    time
        Time of all particles.
    round
        Advances so far.
    reaction_names
        Names of the columns of `fired`.
    seed, species, n, status
        As given or drawn; names of the columns of `counts`; number of particles; u8 ``[n]``:
        particles of status 0 and 1 continue, others have ended (2 overflow, 3 step_limit, 4 nan, 5
        event_queue, 6 event_cascade, 8 delay_queue).

    Raises
    ------
    ModelError, ConfigError
        The model or an argument is not allowed.
    DeviceError
        The device lacks memory for n particles.

    Examples
    --------
    >>> import numpy as np
    >>> import tauslab as ts
    >>> net = ts.Network("decay")
    >>> net.add_species("X", 100)
    >>> net.add_reaction("X ->", rate=1.0)
    >>> particles = ts.Ensemble(net, 1000, seed=1, device="cpu")
    >>> particles.advance(1.0)
    >>> ancestors = particles.resample(particles.counts[:, 0] > 36)
    >>> bool((particles.counts > 36).all()), particles.time
    (True, 1.0)
    """

    @checks_keywords
    def __init__(  # noqa: PLR0913 - keywords
        self,
        model: Network | Lattice,
        n: int,
        *,
        seed: int | None = None,
        device: Device = "auto",
        set: Mapping[str, float | npt.ArrayLike] | None = None,  # noqa: A002 - as tauslab.run calls it
        initial: Mapping[str, InitialCount] | None = None,
        method: MethodWord | Method | None = None,
        max_steps: int | None = None,
        count_reactions: bool | Sequence[str] = False,
        comm: Comm = "world",
    ) -> None:
        if not isinstance(model, Network | Lattice):
            raise ConfigError(f"an ensemble takes a network or a lattice, not {model!r:.80}")
        within("n", whole(n), 1, MOST_TRAJECTORIES)
        self._model = model
        self._comm = ranks_of(
            comm, "ts.Ensemble", model=model, n=n, seed=seed, set=set,
            initial=initial, method=method, max_steps=max_steps, count_reactions=count_reactions,
        )  # fmt: skip
        rows = numbers_by_name("set", set)
        self._require_names(rows, "set")
        if isinstance(model, Network):
            require_followed(model, rows, rows)
        self.seed = agreed_seed(seed, lambda: None, self._comm)
        steps = {} if max_steps is None else {"max_steps": whole(max_steps)}
        self._options = Options(
            times=np.zeros(1), n=whole(n), seed=self.seed, set=rows,
            method=method_of(method), **device_settings(device), **steps,
        )  # fmt: skip
        if isinstance(model, Lattice) and (self._options.method != SSA() or steps):
            raise ConfigError(
                "method and max_steps are of networks: a lattice is moved by its steps"
            )
        self._ahead = BreaksAhead(model) if isinstance(model, Network) else None
        self._initial = initial_distributions(initial, model, rows)
        self._counted = self._counted_reactions(given=count_reactions)
        self.time, self.round, self._resampled = 0.0, 0, 0
        self._given_rows: dict[str, Any] = {}
        self._late: dict[tuple[str, ...], FloatArray] = {}  # newer values of some, by `put`
        self._are_states: dict[tuple[tuple[str, ...], bool], BoolArray] = {}  # of names of `put`
        self._columns: dict[tuple[str, ...], Any] = {}  # of names, for these names of quantities
        self._origin = Origin(repeats=seed is not None)
        self._logs = np.zeros(0)
        self.status = np.zeros(0, np.uint8)
        self._backend = open_backend(self._options.device, self._options.threads, self._comm)
        try:
            self._motion = self._opened(rows)
            self._group, self._number = self._options.n, 0  # see `in_groups`
            self._begin(rows)
        except BaseException:
            self._backend.close()
            raise

    def _opened(self, rows: Mapping[str, Any]) -> Motion:
        """Make the motion of particles of this model by this method."""
        model, options = self._model, self._options
        if isinstance(model, Lattice):
            return LatticeMotion(model, options.n, rows, self._backend, self._comm)
        require_method(options)
        if isinstance(options.method, ODE):
            return OdeMotion(model, options, rows, self._backend, self._comm)
        return NetworkMotion(
            model, options, rows, self._backend, self._comm, self._initial, self._counted
        )

    def _counted_reactions(self, *, given: bool | Sequence[str]) -> tuple[str, ...]:
        """Names of reactions whose firings are counted."""
        names = {reaction.name: None for reaction in self._model.reactions}
        if given is False and isinstance(self._model, Network):
            return ()
        if isinstance(self._options.method, ODE):
            raise ConfigError("count_reactions is for ssa, tau and lattices: in ode nothing fires")
        if isinstance(given, bool):
            return tuple(names)
        if not isinstance(given, Iterable):
            raise ConfigError(
                f"count_reactions={given!r} is not allowed: True, False or names of reactions"
            )
        chosen = (given,) if isinstance(given, str) else tuple(dict.fromkeys(given))
        for name in chosen:
            if name not in names:
                raise ConfigError(
                    f"count_reactions: {name!r} is not a reaction of {self._model.name}; it has "
                    f"{some(names)}{meant(name, names).replace(':', ';', 1)}"
                )
        return chosen

    # ---------------------------------------------------------------- looking

    @property
    def species(self) -> tuple[str, ...]:
        """Names of the columns of `counts`.

        A species that nothing changes is an observable instead if its amount is not an integer.
        """
        return self._motion.species

    @property
    def _observables(self) -> tuple[str, ...]:
        return self._motion.observables

    @property
    def n(self) -> int:
        """Number of particles."""
        return self._motion.n

    @property
    def counts(self) -> Any:
        """A copy of the counts, int32 ``[particle, species]``; -1 if a particle has ended.

        With ``ode`` f64 amounts, NaN if a particle has ended.
        """
        counts = self.joined(self._motion.own_counts())
        counts[~self.alive] = self._motion.missing
        return counts

    @property
    def reaction_names(self) -> tuple[str, ...]:
        """Names of the columns of `fired`: in the order of `count_reactions`, or of the model."""
        return self._counted

    def fired(self) -> IntArray:
        """Firings of each reaction since the last call, or since the start.

        A particle overflows if a reaction of a network fires more than 2,147,483,647 times in one
        advance. A delayed reaction counts when it starts.

        Returns
        -------
        int64 ``[particle, reaction]``, in the order of `reaction_names`; -1 where a particle has
        ended.

        Raises
        ------
        ConfigError
            The ensemble does not count reactions.
        """
        if not self._counted and len(self._model.reactions):
            raise ConfigError(
                "firings are not counted: make the ensemble with count_reactions=True, or with the "
                "names of reactions"
            )
        result: IntArray = self.joined(self._motion.own_fired())
        names = self._motion.reaction_names
        if self._counted != names:
            places = {name: place for place, name in enumerate(names)}
            result = result[:, [places[name] for name in self._counted]]
        result[~self.alive] = -1
        return result

    @property
    def device_counts(self) -> Any:
        """Counts in the memory of the device, without a copy: a NumPy array, or CuPy's with DLPack.

        Read only. The row of a particle that has ended is a copy of another particle. Under
        ``mpirun`` these are the particles of this rank, `own`.
        """
        return self._motion.device_counts()

    @property
    def observables(self) -> dict[str, FloatArray]:
        """Current values of recorded rules ``[particle]`` by name; NaN where a particle has ended.

        On lattices with several site types, counts by type, such as ``A_in_membrane``.
        """
        if not self._observables:
            return {}
        table = self.joined(self._motion.observe_own(self.time))
        table[~self.alive] = np.nan
        return {name: table[:, i] for i, name in enumerate(self._observables)}

    @property
    def own(self) -> slice:
        """The particles that this rank holds; all without ``mpirun``."""
        return self._motion.shares.own

    @property
    def given(self) -> Mapping[str, Any]:
        """Values of parameters that were given: one for all, or of each particle as it is now."""
        return dict(self._rows)

    @property
    def shares(self) -> Shares:
        """Which particles each rank holds."""
        return self._motion.shares

    @property
    def status(self) -> Array:
        """How each particle is, u8 ``[n]``."""
        return self._status

    @status.setter
    def status(self, status: Array) -> None:
        self._status, self._any_status = status, _any(status)
        self._none_ended = not self._any_status or bool(status.max() < _ENDED)

    @property
    def alive(self) -> BoolArray:
        """Which particles have not ended, bool ``[particle]``."""
        return np.asarray(self.status < _ENDED)

    @property
    def none_ended(self) -> bool:
        """Return whether all particles go on."""
        return self._none_ended

    @property
    def weights(self) -> FloatArray:
        """Weights ``[particle]``, normalised to a sum of 1; all 0 if no particle has a weight."""
        return particle_weights.normalised(self._logs)

    @property
    def log_weights(self) -> FloatArray:
        """Logarithms ``[particle]`` of the weights before normalisation."""
        return self._logs.copy()

    @property
    def effective_size(self) -> float:
        """Effective sample size of the weights, from 1 to n; 0 if all are 0."""
        return particle_weights.effective_size(self._logs)

    @property
    def solver(self) -> str:
        """The solver of ``ode`` that a pilot chose at the first advance; empty without a choice."""
        return self._motion.solver if isinstance(self._motion, OdeMotion) else ""

    def go_on_by(self, solver: str) -> None:
        """Keep to a `solver` that an earlier call chose."""
        if isinstance(self._motion, OdeMotion):
            self._motion.go_on_by(solver)

    def values(self, name: str | Sequence[str]) -> FloatArray:
        """Values of a species or an observable ``[particle]``; NaN if a particle has ended.

        For several names ``[particle, name]``.
        """
        own = self.own_values(name) if isinstance(name, str) else self._own_table(name)
        result: FloatArray = self.joined(own)
        return result

    def _own_table(self, names: Sequence[str]) -> FloatArray:
        """Values ``[particle of this rank, name]`` of species and observables."""
        known = self._motion.species, self._observables
        key = tuple(names)
        kept, columns = self._columns.get(key, (None, None))
        if kept != known or columns is None:
            places = {name: place for place, name in enumerate(chain(*known))}
            for name in names:
                self._require_quantity(name, places)
            columns = np.array([places[name] for name in names], np.int64)
            self._columns[key] = known, columns
        if columns.max(initial=0) < len(known[0]):
            result = self._motion.own_columns(columns)
        else:
            table = np.hstack([self._motion.own_counts(), self._motion.observe_own(self.time)])
            result = np.take(table, columns, axis=1).astype(np.float64, copy=False)
        if not self.none_ended:
            result[~self.alive[self.own]] = np.nan
        return result

    def _require_quantity(self, name: str, known: Collection[str]) -> None:
        """Refuse what is neither a species nor an observable, and say what is."""
        if name not in known:
            raise ConfigError(
                f"{name!r} is neither a species nor an observable of {self._model.name}; it has "
                f"{some(dict.fromkeys(known))}{meant(name, known).replace(':', ';', 1)}"
            )

    def own_counts(self) -> Array:
        """Counts of this rank's particles on the host; without meaning where one has ended."""
        return self._motion.own_counts()

    def own_values(self, name: str, counts: Array | None = None) -> FloatArray:
        """Values of a species or an observable of the particles of this rank, `own`.

        `counts` spares a copy from the device: the array of `own_counts`.
        """
        ended = ~self.alive[self.own]
        if name in self.species:
            number = self.species.index(name)
            result = self._motion.own_count(number) if counts is None else counts[:, number]
            column = result.astype(np.float64)
            column[ended] = np.nan
            return column
        self._require_quantity(name, [*self.species, *self._observables])
        table = self._motion.observe_own(self.time)
        table[ended] = np.nan
        return np.ascontiguousarray(table[:, self._observables.index(name)])

    def joined(self, own: Array) -> Any:
        """Values ``[particle]`` of all ranks, of the `own` ones of each. Collective."""
        self._meet("values")
        return np.asarray(self._motion.shares.joined(own))

    @property
    def device_particles(self) -> Any:
        """Slots of lattices ``[particle, z, y, x, slot]``: species + 1, 0 where empty.

        An array on the device, as `device_counts`, of the particles of this rank (`own`), or of
        its planes of a single lattice, without waiting particles.
        """
        return self._of_lattices("device_particles").cells

    def profile(self, species: str, axis: str = "z") -> IntArray:
        """Counts of a species per plane of lattices, ``[particle, plane]`` along z, y or x."""
        motion = self._of_lattices("profile")
        one_of("species", species, self.species)
        one_of("axis", axis, ("z", "y", "x"))
        result: IntArray = self.joined(motion.own_profile(species, axis))
        return result

    @property
    def model_step(self) -> float | None:
        """Seconds of a step of a lattice; None for a network."""
        return self._motion.lattice.step if isinstance(self._motion, LatticeMotion) else None

    def sites_of_types(self) -> IntArray:
        """Sites of each site type of lattices, int64 ``[particle, site type]``."""
        return self._of_lattices("sites_of_types").sites_of_types()

    def _of_lattices(self, what: str) -> LatticeMotion:
        if not isinstance(self._motion, LatticeMotion):
            raise ConfigError(f"{what} is of lattices, and {self._model.name} is a network")
        return self._motion

    def mean(self, name: str) -> float:
        """Weighted mean over particles that have not ended; NaN if all weights are 0."""
        values, shares = self.values(name), self.weights
        held = shares > 0
        return fixed_sum(shares[held] * values[held]) if held.any() else np.nan

    def __repr__(self) -> str:
        """One line."""
        ended = int((~self.alive).sum())
        more = f", {ended} ended" if ended else ""
        return (
            f"<Ensemble of {self._model.name}: {self.n} particles at t = {self.time:g}, effective "
            f"{self.effective_size:.1f}{more}, seed {self.seed}>"
        )

    # ---------------------------------------------------------------- moving

    @checks_keywords
    def advance(self, t: float) -> None:
        """Advance all particles to time `t`.

        A lattice makes all steps that end by `t`. A particle that overflows, becomes NaN or exceeds
        `max_steps` has ended: its weight is 0 and its counts are -1.

        Raises
        ------
        ConfigError
            `t` is before the present time or not finite, or no particle is left.
        """
        self._meet("advance", t=t)
        self._advance(t)

    def _advance(self, t: float, moved: tuple[Callable[[], None], ...] = ()) -> None:
        if not (isinstance(t, int | float | np.number) and self.time <= t <= sys.float_info.max):
            raise ConfigError(
                f"the particles are at t = {self.time:g}: they cannot be advanced to {t!r}"
            )
        if not self._none_ended and self.status.min() >= _ENDED:
            raise ConfigError(f"all {self.n} particles have ended: {self._end_counts()}")
        if t == self.time and not self._motion.waits:
            return
        stops = self._stops(float(t))
        self._motion.foresee(stops[-1])
        for stop in stops:
            if moved and stop == stops[-1]:
                self._motion.meanwhile, self._motion.afterwards = moved
            self._move(stop)
            if not self._none_ended and self.status.min() >= _ENDED:
                self.time = float(t)
                return

    def _stops(self, t: float) -> list[float]:
        """Times up to `t` at which steps end: where the model jumps, or has a pulse."""
        if self._ahead is None or not self._ahead.names:
            return [t]
        return self._ahead.stops(self.time, t, self._rows)

    def advance_while(
        self, t: float, beside: Callable[[], None], moved: Callable[[], None],
        afterwards: Callable[[], None],
    ) -> None:  # fmt: skip
        """`advance`, and launch work on `stream` beside a move and after it. Collective.

        Nobody waits for what is launched `afterwards`.
        """
        # Ranks have agreed on t. `moved` and `afterwards` launch work with the counts at t.
        motion = self._motion
        motion.beside = beside
        try:
            self._advance(t, (moved, afterwards))
        finally:
            motion.beside = motion.meanwhile = motion.afterwards = None

    def weigh(self, log_factors: npt.ArrayLike) -> float:
        """Multiply weights by factors ``[particle]``, given as their logarithms.

        Returns
        -------
        The logarithm of the weighted mean of the factors: a term of a log-likelihood.

        Raises
        ------
        ConfigError
            A factor is NaN or infinite.
        """
        self._meet("weigh", log_factors=log_factors)
        factors = np.asarray(log_factors, np.float64)
        if factors.shape != (self.n,):
            raise ConfigError(
                f"log_factors must have one value per particle ({self.n}), not shape "
                f"{factors.shape}"
            )
        factors = np.where(self.alive, factors, -np.inf)
        particle_weights.require_log_weights(factors)
        before = particle_weights.log_mean(self._logs)
        self._logs = self._logs + factors
        after = particle_weights.log_mean(self._logs)
        return after - before if np.isfinite(before) else -np.inf

    @checks_keywords
    def resample(
        self, weights: npt.ArrayLike | None = None, method: str = "systematic"
    ) -> IntArray:
        """Resample particles by their weights; afterwards all weights are equal.

        Parameters
        ----------
        weights
            Weights ``[particle]``, not negative, with any sum, instead of the ensemble's.
        method
            ``systematic``, ``stratified`` or ``multinomial``.

        Returns
        -------
        Ancestors int64 ``[particle]``, in increasing order.

        Raises
        ------
        ConfigError
            All weights are 0, or one is negative or not a number.
        """
        self._meet("resample", weights=weights, method=method)
        if weights is None:
            shares, _ = particle_weights.relative(self._logs)
        else:
            given = particle_weights.checked_weights(weights, self.n) * self.alive
            shares = np.ldexp(given, -np.frexp(given.max(initial=0.0))[1])  # sums that are finite
        number, self._resampled = self._resampled, self._resampled + 1
        ancestors = particle_weights.ancestors_of(shares, method, self.seed, number)
        self.take(ancestors)
        return ancestors

    def take(self, ancestors: npt.ArrayLike, weights: npt.ArrayLike | None = None) -> None:
        """Make particle i a copy of particle ``ancestors[i]``.

        Parameters
        ----------
        ancestors
            Numbers of particles ``[m]``; m becomes the number of particles.
        weights
            Weights ``[m]`` of the new particles; by default equal.

        Raises
        ------
        ConfigError
            A number that no particle has, or one that has ended.
        """
        self._meet("take", ancestors=ancestors, weights=weights)
        index = np.asarray(ancestors)
        whole_numbers = index.ndim == 1 and index.dtype.kind in "iu" and len(index)
        if not whole_numbers or index.min() < 0 or index.max() >= self.n:
            raise ConfigError(
                f"ancestors must be whole numbers from 0 to {self.n - 1}, one or more"
            )
        index = index.astype(np.int64)
        if not self.alive[index].all():
            ended = index[~self.alive[index]][0]
            raise ConfigError(f"particle {ended} has ended and cannot be copied")
        if weights is not None:
            given = particle_weights.checked_weights(weights, len(index))
        self._copy_rows(index)
        self._logs = np.zeros(len(index))
        if weights is not None:
            self._logs = portable_log(given)

    @checks_keywords
    def set(
        self, values: Mapping[str, float | npt.ArrayLike] | None = None, /, **more: Any
    ) -> None:
        """Set counts of species or values of parameters: one for all, or an array ``[n]``.

        By keyword, or in a mapping by name. On lattices, new particles are placed at random sites
        in which the species can diffuse (or is placed at the start, or reacts); removed particles
        are chosen at random. Events whose triggers become true are executed immediately.

        Raises
        ------
        ConfigError
            A name that the model does not have, counts that are negative or not whole, an array of
            another length.
        """
        values = {**(values or {}), **more}
        self._meet("set", **values)
        changed, state = dict(self._rows), dict[str, Any]()
        self._require_names(values, "set")
        for name, value in values.items():
            given = numbers(name, value)
            if isinstance(given, np.ndarray) and given.shape not in ((), (self.n,)):
                raise ConfigError(
                    f"{name}: give one value or one per particle ({self.n}), not an array of shape "
                    f"{np.shape(given)}"
                )
            if self._motion.holds(name):
                state[name] = given
            else:
                changed[name] = given
        if len(state) < len(values):
            self._motion.read_as_inputs(name for name in values if name not in state)
            self._motion.prepare(changed, self.n)  # which refuses what cannot be, as `put` does
        try:
            self._motion.put(state, self.time)
        except ConfigError:
            self._motion.prepare(self._rows, self.n)
            raise
        self._rows = changed
        self._replaced(values)
        if self._motion.looks and values:
            self._move(self.time)  # events that the new values set off

    def expect(self, names: Sequence[str]) -> None:
        """Make ready what `put` of these states needs. Collective."""
        self._motion.expect(names)

    def put(
        self, names: tuple[str, ...], states: FloatArray,
        parameters: tuple[str, ...], values: FloatArray,
    ) -> None:  # fmt: skip
        """`set` of known states and parameters, each ``[particle, name]``, again and again.

        A particle that these give a negative rate constant ends, and the others go on. At t = 0 it
        is an error if all have one.
        """
        motion, key = self._motion, (names, self._motion.looks)
        if key not in self._are_states:
            self._are_states[key] = np.array([motion.holds(name) for name in names], bool)
        held = self._are_states[key]
        if not held.all():  # such as what follows from conserved totals
            parameters += tuple(compress(names, ~held))
            values = np.hstack([values, states[:, ~held]])
            names, states = tuple(compress(names, held)), states[:, held]
        if parameters and not motion.change(parameters, values):
            self._set_where_allowed((*names, *parameters), states, parameters, values)
            return
        if parameters:
            self._late.pop(parameters, None)
            self._late[parameters] = values
        motion.put_table(names, states, self.time)
        self._replaced((*names, *parameters))
        if motion.looks:
            self._move(self.time)

    def _set_where_allowed(
        self, names: tuple[str, ...], states: FloatArray,
        parameters: tuple[str, ...], values: FloatArray,
    ) -> None:  # fmt: skip
        """`set`, after the end of particles that cannot move with these values of parameters."""
        try:
            self.set(dict(zip(names, np.hstack([states, values]).T, strict=True)))
        except ModelError:
            wrong = self._motion.refused(parameters, values)
            if not wrong.any() or (self.time == 0 and wrong[self.alive].all()):
                raise
            self.status = np.where(wrong & self.alive, np.uint8(STATUS_VALUES["nan"]), self.status)
            self._logs[~self.alive] = -np.inf
            self._stand_in(wrong)
            if self.alive.any():
                allowed = np.where(wrong[:, None], values[self.alive.argmax()], values)
                self.set(dict(zip(names, np.hstack([states, allowed]).T, strict=True)))

    @property
    def _rows(self) -> dict[str, Any]:
        """Values that were given, by name."""
        for names, values in self._late.items():
            self._given_rows = {**self._given_rows, **dict(zip(names, values.T, strict=True))}
        self._late = {}
        return self._given_rows

    @_rows.setter
    def _rows(self, rows: dict[str, Any]) -> None:
        self._given_rows, self._late = rows, {}

    @checks_keywords
    def reshape(
        self,
        site_types: Any,
        *,
        particles: Mapping[str, str] | None = None,
        reach: int = REACH,
    ) -> None:
        """Give lattices other site types, as `LatticeView.reshape` does.

        Parameters
        ----------
        site_types
            Numbers ``[z, y, x]`` or masks by site type for all lattices, or a list, one entry for
            each; None changes nothing.
        particles, reach
            As of `LatticeView.reshape`.

        Raises
        ------
        ConfigError
            The model is a network, site types have another shape, or no site is left for some
            particles.
        """
        motion = self._of_lattices("reshape")
        self._meet("reshape", particles=particles, reach=reach)
        given = site_types if isinstance(site_types, list) else [site_types] * self.n
        if len(given) != self.n:
            raise ConfigError(f"reshape: {len(given)} shapes are given for {self.n} particles")
        motion.reshape(given[motion.shares.own], particles, reach=reach)

    def halve(
        self, rows: Sequence[int], kept: Sequence[int], mothers: Sequence[int], how: Halving,
        step: int,
    ) -> tuple[IntArray, FloatArray, IntArray]:  # fmt: skip
        """Let lattices become one of their daughters: see `LatticeMotion.halve`. Collective."""
        self._meet("halve", rows=rows, kept=kept)
        return self._of_lattices("halve").halve(rows, kept, mothers, how, step)

    def types_of(self, row: int) -> Array:
        """Site types ``[z, y, x]`` of a lattice of this rank."""
        return self._of_lattices("types_of").types_of(row)

    def lift(self, rows: Sequence[int], names: Sequence[str]) -> IntArray:
        """Take species out of lattices of this rank: see `LatticeMotion.lift`. Collective."""
        self._meet("lift", names=names)
        return self._of_lattices("lift").lift(rows, names)

    def lay(self, particles: IntArray) -> None:
        """Put particles into lattices of this rank: see `LatticeMotion.lay`. Collective."""
        self._meet("lay")
        self._of_lattices("lay").lay(particles)

    def settle_objects(self, rows: Sequence[int], time: int) -> None:
        """Place objects of lattices that lost their sites in a new shape. Collective."""
        self._meet("settle_objects", rows=rows)
        self._of_lattices("settle_objects").settle_objects(rows, time)

    @checks_keywords
    def reset(
        self,
        *,
        seed: int | None = None,
        set: Mapping[str, float | npt.ArrayLike] | None = None,  # noqa: A002 - as tauslab.run calls it
    ) -> None:
        """Restart at t = 0, with another seed and other initial values if given."""
        self._meet("reset", seed=seed, set=set)
        rows = numbers_by_name("set", set)
        self._require_names(rows, "set")
        require_one_of_two(self._initial, rows)
        rows = dict(self._options.set) | rows
        for name, row in rows.items():
            if np.ndim(row) and np.shape(row) != (self.n,):
                raise ConfigError(
                    f"{name}: give one value or one per particle ({self.n}), not an array of shape "
                    f"{np.shape(row)}"
                )
        self.seed = self.seed if seed is None else seed_of(seed)
        self._motion.prepare(rows, self.n)
        self._begin(rows)

    # ---------------------------------------------------------------- keeping

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write particles, weights, values, time, seed and model to an HDF5 file.

        `load` continues with the same bits. An existing file is replaced.
        """
        self.save_with(path, {})

    def save_with(self, path: str | os.PathLike[str], more: Mapping[str, npt.ArrayLike]) -> None:
        """`save`, with arrays by name in a group ``more`` of the file."""
        self._meet("save", path=path)
        stored = self.stored()
        on_root(self._comm, lambda: write_stored(Path(path), self._model, stored, more))

    def stored(self) -> StoredParticles:
        """All that `go_on` takes up. Collective."""
        return StoredParticles(
            state=State(arrays=self._motion.stored()), status=self.status,
            log_weights=self._logs, rows=self._values(), initial=self._initial, time=self.time,
            round=self.round, resamplings=self._resampled, seed=self.seed,
            method=self._options.method.word, settings=given_in(self._options.method),
            max_steps=self._options.max_steps, counted=self._counted,
        )  # fmt: skip

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], *, device: Device = "auto", comm: Comm = "world"
    ) -> Ensemble:
        """Read what `save` wrote.

        Raises
        ------
        InputFileError
            The file is missing, damaged or of another kind.
        """
        model, stored, _ = read_stored(Path(path))
        how: dict[str, Any] = {}
        if isinstance(model, Network):
            method = method_with(stored.method, stored.settings)
            how = {"method": method, "max_steps": stored.max_steps}
        made = cls(
            model, len(stored.status), seed=stored.seed, device=device, set=stored.rows,
            initial=stored.initial, comm=comm, count_reactions=stored.counted or False, **how,
        )  # fmt: skip
        made.go_on(path, stored)
        return made

    def go_on(self, path: str | os.PathLike[str], stored: StoredParticles) -> None:
        """Take up what was read from a file, with as many particles and their values."""
        if len(stored.status) != self.n:
            raise InputFileError(f"{path} is damaged: its arrays do not belong together")
        # One value for all was `set`, and is one for any number of particles.
        alike = {
            name: float(row[0])
            for name, row in stored.rows.items()
            if isinstance(row, np.ndarray) and name in self._model.parameters
            if row.ndim and (row == row[0]).all()
        }
        self._motion.read_as_inputs(alike)
        alike = {name: value for name, value in alike.items() if name in self._motion.apart}
        rows = {**stored.rows, **alike}
        if any(np.ndim(row) for row in stored.rows.values()):
            self._motion.prepare(rows, self.n)
        self._options = replace(self._options, set={**self._options.set, **alike})
        self._rows = {k: v for k, v in rows.items() if not self._motion.holds(k)}
        self._motion.take_up(stored.state)
        self.time, self.round, self._resampled = stored.time, stored.round, stored.resamplings
        self._logs, self.status = stored.log_weights, stored.status

    def close(self) -> None:
        """Release the device; ``with ts.Ensemble(...) as particles`` does so at its end."""
        if sys.exc_info()[0] is None:  # ranks that fail do not wait for each other
            self._motion.close()
        self._backend.close()

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(self, *error: object) -> None:
        """Release the device."""
        self.close()

    # ---------------------------------------------------------------- inside

    def _meet(self, name: str, /, **arguments: object) -> None:
        """Wait until all ranks call the method, with the same arguments. Collective."""
        require_same(self._comm, f"Ensemble.{name}", arguments)

    def _begin(self, rows: Mapping[str, Any]) -> None:
        """Take the state at t = 0."""
        self.time, self.round, self._resampled = 0.0, 0, 0
        self._logs = np.zeros(self.n)
        self.status = np.zeros(self.n, np.uint8)
        first = self._number * self._group
        drawn = bool(self._initial) and self._motion.draw(
            self._initial, self.seed, self._group, self._number, particle_weights.START
        )
        if self._initial and not drawn:
            self._motion.place(self._drawn(), self.seed, first)
        elif not drawn:
            self._motion.begin(self.seed, first)
        self._rows = {k: v for k, v in rows.items() if not self._motion.holds(k)}
        self._replaced([*rows, *self._initial])
        if self._motion.draws:
            self._move(0.0)

    def _replaced(self, names: Collection[str]) -> None:
        """Note amounts that are no longer as the model moves them."""
        if self._ahead is not None and names:
            self._ahead.put(names)

    def _require_names(self, names: Iterable[str], keyword: str) -> None:
        """Refuse names that the model does not have, and say which it has."""
        parameters, species = self._model.parameters, self._model.species
        labels = getattr(self._model, "labels", {}).values()
        named = {*parameters, *species, *labels}
        for name in names:
            if name not in named:
                known = [*parameters, *species, *labels]
                near = meant(name, known).replace(":", ";", 1)
                raise ConfigError(
                    f"{said(opt('set', key=name), f'{keyword}[{name!r}]')}: {self._model.name} has "
                    f"no parameter or species of that name; parameters: {some(parameters)}; "
                    f"species: {some(dict.fromkeys(species))}{near}"
                )

    def _values(self) -> dict[str, Any]:
        """Values that a file keeps: with amounts that were given, which a model may not know."""
        given = {
            name: float(np.asarray(row, np.float64).flat[0])
            for name, row in self._options.set.items()
            if self._motion.holds(name)
        }
        apart = {  # which kernels read there too, so that no bit changes
            name: np.full(self.n, row)
            for name, number in self._motion.apart.items()
            if (row := self._rows.get(name, number)) is not None and not np.ndim(row)
        }
        return {**given, **self._rows, **apart}

    def _end_counts(self) -> str:
        kinds, numbers_ = np.unique(self.status, return_counts=True)
        return ", ".join(
            f"{n} by {STATUS_NAMES[kind]}"
            for kind, n in zip(kinds.tolist(), numbers_.tolist(), strict=True)
        )

    def _stand_in(self, ended: Array) -> None:
        """Put a legal state into rows of particles that have ended: kernels start from it."""
        alive = self.alive
        if ended.any() and alive.any():
            index = np.arange(self.n)
            index[ended] = alive.argmax()  # the first
            self._motion.take(index)

    def _move(self, t: float) -> None:
        """One round."""
        if self._origin.others():
            self._origin = Origin(repeats=False)
            warn(
                f"an ensemble with seed {self.seed} draws the same numbers in every process that "
                "has a copy of it: make one in each process, with a seed of its own"
            )
        word = 0
        if self._motion.by_chance:
            word = int(particle_weights.words(self.seed, particle_weights.ROUNDS, self.round, 1)[0])
        result = self._motion.advance(self.time, t, word, first=self._number * self._group)
        self.time, self.round = t, self.round + 1
        if self._any_status or (result is not self._motion.none and _any(result)):
            self.status = result if self._none_ended else np.where(self.alive, result, self.status)
        if not self._none_ended:
            self._logs[~self.alive] = -np.inf
            self._stand_in(result >= _ENDED)

    def in_groups(self, size: int, number: int = 0) -> None:
        """Let every `size` particles draw as if they were alone in an ensemble of their number.

        At the start, before anything moves. The first group has the number `number`.
        """
        if (size, number) == (self._group, self._number):
            return
        self._group, self._number = size, number
        if self._initial or self._motion.draws or number:
            self._begin(self._options.set)

    def begin_copy(self, copies: Copies, *, alike: bool) -> Callable[[], None]:
        """Begin to copy states, status and values of particles; the function returned ends it.

        Weights are unchanged. `alike`: a particle has the same values as its copy. Collective.
        """
        if not alike and any(np.ndim(v) for v in self._rows.values()):
            return lambda: self._copy_rows(self.ancestors_on_host(copies))
        take = self._motion.begin_copy(copies)

        def copy() -> None:
            take()
            if self._any_status:
                self.status = self._motion.copied(self.status, copies)

        return copy

    def ancestors_on_host(self, copies: Copies) -> IntArray:
        """Ancestors ``[particle]``. Collective."""
        return self._motion.ancestors_on_host(copies)

    def _copy_rows(self, index: IntArray) -> None:
        """Copy states, status and values of particles ``[any]``; weights are unchanged."""
        self._motion.take(index)
        size = len(index) != len(self._logs)
        if size or self._any_status:
            self.status = self.status[index]
        rows = {k: v[index] if np.ndim(v) else v for k, v in self._rows.items()}
        if size or any(np.ndim(v) and (v != self._rows[k]).any() for k, v in rows.items()):
            self._motion.prepare(rows, len(index))
        if size:
            self._group = len(index)
        self._rows = rows

    @property
    def backend(self) -> Backend:
        """The device."""
        return self._backend

    @property
    def stream(self) -> Any:
        """On which particles are copied, of work that is waited for."""
        return self._motion.stream

    def _drawn(self) -> dict[str, IntArray]:
        """Initial counts by inverting the distribution function of each distribution."""
        first, size = self._number, self._group
        return particle_weights.initial_counts(
            self._initial, self._motion.species, self.seed, size,
            range(first, first + self.n // size),
        )  # fmt: skip


def _any(status: Array) -> bool:
    """Return whether a u8 is not 0: of as many bools NumPy finds it four times as fast."""
    return bool(status.view(np.bool_).any())

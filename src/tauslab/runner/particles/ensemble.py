"""`tauslab.Ensemble`: particles of a network that live on the device."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from tauslab.model.arrays import Array, BoolArray, FloatArray, Int32Array, IntArray
from tauslab.model.errors import ConfigError, InputFileError
from tauslab.model.network.counts import some
from tauslab.model.network.network import Network
from tauslab.model.portable.array_log import portable_log
from tauslab.runner.options.ensemble import MOST_TRAJECTORIES, Options
from tauslab.runner.options.methods import (
    SSA,
    Method,
    MethodWord,
    TauLeaping,
    method_of,
)
from tauslab.runner.options.places import Device, device_settings
from tauslab.runner.options.values.checks import seed_of, within
from tauslab.runner.options.values.python_values import numbers, whole
from tauslab.runner.options.values.start_laws import StartLaw, start_laws
from tauslab.runner.options.values.unknown import checks_keywords
from tauslab.runner.particles import weights as particle_weights
from tauslab.runner.particles.motion import Motion, require_method
from tauslab.runner.particles.store import Stored, read_stored, write_stored
from tauslab.runner.ranks.all_ranks import ranks_for
from tauslab.runner.ranks.job import agreed_seed, open_backend

MISSING = -1  # a count of a particle that ended
_ENDED = 2  # statuses from here on are ends: overflow, step_limit, nan


class Ensemble:
    """n particles of a network: advance them, weigh them, copy them, as often as you like.

    The state stays on the device between calls. A draw is a pure function of seed, round and
    particle, where each advance is a round; weights are summed in one fixed order on the host. So
    the same calls give the same bits on any device and on any number of ranks. Under ``mpirun``
    all ranks make the same calls, and each holds and advances its share of the particles; one goes
    to another rank where an ancestor of it is there.

    Parameters
    ----------
    model
        A network that ``ssa`` or ``tau`` can run. With events, rate rules or laws of the time it is
        ``ssa``; what waits and what they set goes with a particle wherever it is copied.
    n
        Number of particles.
    seed
        64 bits; drawn if not given.
    device
        As of `tauslab.run`.
    parameters
        Values of parameters and initial amounts by name: one for all, or an array ``[n]``.
    initial
        Laws of initial counts by species, drawn for each particle: see `tauslab.cme`.
    method
        ``ssa``, the default, or ``tau``; or their settings. With ``tau`` a leap ends at every
        advance, so that results depend on the times between.
    max_steps
        Steps of a particle in one advance at most.

    Attributes
    ----------
    time
        Time of all particles.
    round
        Advances so far.
    seed, species, n, status
        As given or drawn; names of the columns of `counts`; number of particles; u8 ``[n]``, how
        each particle is: 0 and 1 go on, others have ended (2 overflow, 3 step_limit, 4 nan,
        5 event_queue, 6 event_cascade).

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
    def __init__(
        self,
        model: Network,
        n: int,
        *,
        seed: int | None = None,
        device: Device = "auto",
        parameters: Mapping[str, float | npt.ArrayLike] | None = None,
        initial: Mapping[str, StartLaw] | None = None,
        method: MethodWord | Method | None = None,
        max_steps: int | None = None,
    ) -> None:
        if not isinstance(model, Network):
            raise ConfigError(f"an ensemble takes a network, not {model!r:.80}")
        within("n", whole(n), 1, MOST_TRAJECTORIES)
        self._model, self._comm = model, ranks_for("mpi")
        laws = start_laws(initial, model)
        steps = {} if max_steps is None else {"max_steps": whole(max_steps)}
        rows = {name: numbers(name, value) for name, value in (parameters or {}).items()}
        self.seed = agreed_seed(seed, lambda: None, self._comm)
        options = Options(
            times=np.zeros(1), n=whole(n), seed=self.seed, set=rows,
            method=method_of(method), **device_settings(device), **steps,
        )  # fmt: skip
        require_method(options, model)
        self._options = options
        self._backend = open_backend(options.device, options.threads, self._comm)
        try:
            self._motion = Motion(model, options, rows, self._backend, self._comm)
        except BaseException:
            self._backend.close()
            raise
        self.species = self._motion.task.species
        self._group, self._number = options.n, 0  # see `in_groups`
        self._observables = self._motion.task.observables
        self._laws = laws
        self.time, self.round, self._resampled = 0.0, 0, 0
        self._rows: dict[str, Any] = {}
        self._logs = np.zeros(options.n)
        self.status: Array = np.zeros(options.n, np.uint8)
        self._begin(rows, options.n)

    # ---------------------------------------------------------------- looking

    @property
    def n(self) -> int:
        """Number of particles."""
        return self._motion.n

    @property
    def counts(self) -> Int32Array:
        """A copy of the counts ``[particle, species]``; -1 where a particle has ended."""
        counts = self._motion.host_counts()
        counts[~self.alive] = MISSING
        return counts

    @property
    def device_counts(self) -> Any:
        """The counts where they are: a NumPy array, or one of CuPy with DLPack and no copy.

        Read it, and do not write. In the row of a particle that has ended is a copy of another.
        Under ``mpirun`` these are the particles of this rank, `own`.
        """
        return self._motion.counts

    @property
    def observables(self) -> dict[str, FloatArray]:
        """Recorded rules ``[particle]`` by name, now; NaN where a particle has ended."""
        if not self._observables:
            return {}
        table = self._motion.observe(self.time)
        table[~self.alive] = np.nan
        return {name: table[:, i] for i, name in enumerate(self._observables)}

    @property
    def own(self) -> slice:
        """The particles that this rank holds; all without ``mpirun``."""
        return self._motion.shares.own

    @property
    def alive(self) -> BoolArray:
        """Whether each particle goes on."""
        return np.asarray(self.status < _ENDED)

    @property
    def weights(self) -> FloatArray:
        """Weights ``[particle]`` that sum to 1; all 0 where no particle has one."""
        return particle_weights.normalised(self._logs)

    @property
    def log_weights(self) -> FloatArray:
        """Logarithms ``[particle]`` of the weights as they are, not divided by their sum."""
        return self._logs.copy()

    @property
    def effective_size(self) -> float:
        """How many particles of equal weight tell as much: from 1 to n; 0 if all weights are 0."""
        return particle_weights.effective_size(self._logs)

    def values(self, name: str) -> FloatArray:
        """A species or an observable of every particle as numbers; NaN where one has ended."""
        return self.joined(self.own_values(name))

    def own_values(self, name: str) -> FloatArray:
        """What `values` gives, of the particles of this rank, `own`."""
        ended = ~self.alive[self.own]
        if name in self.species:
            counts = self._motion.own_counts()
            column = counts[:, self.species.index(name)].astype(np.float64)
            column[ended] = np.nan
            return column
        if name not in self._observables:
            known = some(dict.fromkeys([*self.species, *self._observables]))
            raise ConfigError(
                f"{name!r} is neither a species nor an observable of {self._model.name}; it has "
                f"{known}"
            )
        table = self._motion.observe_own(self.time)
        table[ended] = np.nan
        return np.ascontiguousarray(table[:, self._observables.index(name)])

    def joined(self, own: FloatArray) -> FloatArray:
        """Values ``[particle]`` of those that each rank has of its own. Collective."""
        return np.asarray(self._motion.shares.joined(own))

    def mean(self, name: str) -> float:
        """Weighted mean over particles that go on; NaN where no weight is left."""
        values, shares = self.values(name), self.weights
        held = shares > 0
        return particle_weights.fixed_sum(shares[held] * values[held]) if held.any() else np.nan

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
        """Move all particles to time `t`, one round; at the present time nothing happens.

        A particle that overflows, meets a NaN or takes too many steps has ended: its weight is 0,
        and its counts are -1; the others go on.

        Raises
        ------
        ConfigError
            `t` is before the present time or not finite, or no particle is left.
        """
        if not (isinstance(t, int | float | np.number) and np.isfinite(t)) or t < self.time:
            raise ConfigError(
                f"the particles are at t = {self.time:g}: they cannot be advanced to {t!r}"
            )
        if not self.alive.any():
            raise ConfigError(f"all {self.n} particles have ended: {self._how_ended()}")
        if t == self.time and (self._motion.kept is not None or not self._motion.words):
            return  # else events at time 0 are still to come
        self._move(float(t))

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
        factors = np.asarray(log_factors, np.float64)
        if factors.shape != (self.n,):
            raise ConfigError(
                f"log_factors must have one value per particle ({self.n}), not shape "
                f"{factors.shape}"
            )
        factors = np.where(self.alive, factors, -np.inf)
        bad = np.flatnonzero(np.isnan(factors) | (factors == np.inf))
        if len(bad):
            raise ConfigError(
                f"the log-weight of particle {bad[0]} is {factors[bad[0]]}: a number or -inf "
                f"({len(bad)} of {self.n} are not)"
            )
        before = particle_weights.log_mean(self._logs)
        self._logs = self._logs + factors
        after = particle_weights.log_mean(self._logs)
        return after - before if np.isfinite(before) else -np.inf

    @checks_keywords
    def resample(
        self, weights: npt.ArrayLike | None = None, method: str = "systematic"
    ) -> IntArray:
        """Copy particles by their weights; afterwards all weigh the same.

        Parameters
        ----------
        weights
            Weights ``[particle]`` of 0 or more in place of those of the ensemble; of any sum.
        method
            ``systematic``, ``stratified`` or ``multinomial``.

        Returns
        -------
        Ancestors int64 ``[particle]``: which particle each one was, in increasing order.

        Raises
        ------
        ConfigError
            All weights are 0, or one is negative or not a number.
        """
        if weights is None:
            shares, _ = particle_weights.relative(self._logs)
        else:
            shares = particle_weights.checked_weights(weights, self.n) * self.alive
        draws = 1 if method == "systematic" else self.n
        uniforms = particle_weights.uniform(
            self.seed, particle_weights.RESAMPLING, self._resamplings(), draws
        )
        ancestors = particle_weights.ancestors_of(shares, self.n, method, uniforms)
        self.take(ancestors)
        return ancestors

    def take(self, ancestors: npt.ArrayLike, weights: npt.ArrayLike | None = None) -> None:
        """Make particle i a copy of particle ``ancestors[i]``: split some, give up others.

        Parameters
        ----------
        ancestors
            Numbers of particles ``[m]``; m becomes the number of particles.
        weights
            Of the particles that come out, ``[m]``; equal ones by default.

        Raises
        ------
        ConfigError
            A number that no particle has, or one that has ended.
        """
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
        self.copy_rows(index)
        self._logs = np.zeros(len(index))
        if weights is not None:
            self._logs = portable_log(given)

    @checks_keywords
    def set(self, **values: float | npt.ArrayLike) -> None:
        """Give species counts, or parameters values: one for all particles, or an array ``[n]``.

        Events whose triggers the new values turn true come at once.

        Raises
        ------
        ConfigError
            A name that the model does not have, counts that are negative or not whole, an array of
            another length.
        """
        counts = self._motion.host_counts()
        changed, quantities = dict(self._rows), dict[str, FloatArray]()
        moved = False
        for name, value in values.items():
            given = numbers(name, value)
            if np.shape(given) not in ((), (self.n,)):
                raise ConfigError(
                    f"{name}: give one value or one per particle ({self.n}), not an array of shape "
                    f"{np.shape(given)}"
                )
            column = np.broadcast_to(np.asarray(given, np.float64), (self.n,))
            if name in self._motion.reals and self._motion.kept is not None:
                if not np.isfinite(column).all():
                    raise ConfigError(f"{name}: values must be finite")
                quantities[name] = column
                continue
            if not self._moves(name):
                changed[name] = given
                continue
            if not ((column >= 0) & (column <= 2**31 - 1) & (column == np.rint(column))).all():
                raise ConfigError(f"{name}: counts must be whole numbers from 0 to 2147483647")
            counts[:, self.species.index(name)] = column
            moved = True
        if changed.keys() - self._rows.keys() or any(name in changed for name in values):
            self._motion.prepare(changed, self.n)
            self._rows = changed
        if moved:
            self._motion.put(counts)
        for name, column in quantities.items():
            self._motion.put_real(name, column)
        if self._motion.kept is not None and values:
            self._move(self.time)  # events that the new values set off

    @checks_keywords
    def reset(
        self,
        *,
        seed: int | None = None,
        parameters: Mapping[str, float | npt.ArrayLike] | None = None,
    ) -> None:
        """Begin again at t = 0, with another seed and other values where they are given.

        Values that were given before and are not now keep what they had at first. Where every
        particle has its own value of a parameter, kernels are not compiled again.
        """
        rows = {name: numbers(name, value) for name, value in (parameters or {}).items()}
        rows = dict(self._options.set) | rows
        self.seed = self.seed if seed is None else seed_of(seed)
        self._motion.prepare(rows, self.n)
        self._motion.begin()
        self._begin(rows, self.n)

    # ---------------------------------------------------------------- keeping

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write particles, weights, values, time, seed and model to an HDF5 file.

        An existing file is replaced when the new one is complete. `load` goes on with the same
        bits as if nothing had been saved.
        """
        self.save_with(path, {})

    def save_with(self, path: str | os.PathLike[str], more: Mapping[str, npt.ArrayLike]) -> None:
        """`save`, with arrays by name in a group ``more`` of the file."""
        counts, kept = self._motion.host_counts(), self._motion.host_kept()
        if self._comm.rank == 0:
            stored = Stored(
                counts=counts, kept=kept, status=self.status,
                log_weights=self._logs, rows=self._rows, time=self.time, round=self.round,
                resamplings=self._resampled, seed=self.seed, method=self._options.method.word,
                epsilon=self._motion.task.leaps.epsilon, max_steps=self._options.max_steps,
            )  # fmt: skip
            write_stored(Path(path), self._model, stored, more)
        self._comm.barrier()

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, device: Device = "auto") -> Ensemble:
        """Read what `save` wrote.

        Raises
        ------
        InputFileError
            The file is missing, damaged or of another kind.
        """
        network, stored = read_stored(Path(path))
        method = SSA() if stored.method == "ssa" else TauLeaping(epsilon=stored.epsilon)
        made = cls(
            network, len(stored.counts), seed=stored.seed, device=device, parameters=stored.rows,
            method=method, max_steps=stored.max_steps,
        )  # fmt: skip
        made.go_on(path, stored)
        return made

    def go_on(self, path: str | os.PathLike[str], stored: Stored) -> None:
        """Take up what was read from a file, with as many particles and their values."""
        if stored.counts.shape != (self.n, len(self.species)):
            raise InputFileError(f"{path} is damaged: its arrays do not belong together")
        if stored.kept is not None and stored.kept.shape[1] != self._motion.words:
            raise InputFileError(
                f"{path} keeps states of events as another version of tauslab did: make it anew"
            )
        if any(np.ndim(row) for row in stored.rows.values()):
            self._motion.prepare(stored.rows, self.n)
        self._rows = dict(stored.rows)
        self._motion.put(stored.counts)
        self._motion.put_kept(stored.kept)
        self.time, self.round, self._resampled = stored.time, stored.round, stored.resamplings
        self._logs, self.status = stored.log_weights, stored.status

    def close(self) -> None:
        """Give the device back; `with ts.Ensemble(...) as particles` does so at its end."""
        self._backend.close()

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Give the device back."""
        self.close()

    # ---------------------------------------------------------------- inside

    def _begin(self, rows: Mapping[str, Any], n: int) -> None:
        """All that an ensemble has at t = 0."""
        self._rows = {k: v for k, v in rows.items() if not self._moves(k)}
        self.time, self.round, self._resampled = 0.0, 0, 0
        self._logs = np.zeros(n)
        self.status = np.zeros(n, np.uint8)
        if self._laws:
            self._draw(self._laws)

    def _resamplings(self) -> int:
        """The number of this resampling."""
        self._resampled += 1
        return self._resampled - 1

    def _moves(self, name: str) -> bool:
        """Whether reactions or events change the count of this species."""
        return name in self.species and not self._model.species[name].fixed

    def _how_ended(self) -> str:
        names = {2: "overflow", 3: "step_limit", 4: "nan", 5: "event_queue", 6: "event_cascade"}
        kinds, numbers_ = np.unique(self.status, return_counts=True)
        return ", ".join(
            f"{n} by {names.get(int(kind), kind)}"
            for kind, n in zip(kinds.tolist(), numbers_.tolist(), strict=True)
        )

    def _stand_in(self, ended: Array) -> None:
        """Put a legal state into rows of particles that have ended: kernels start from it."""
        alive = np.flatnonzero(self.alive)
        if ended.any() and len(alive):
            index = np.arange(self.n)
            index[ended] = alive[0]
            self._motion.take(index)

    def _move(self, t: float) -> None:
        """One round."""
        word = particle_weights.words(self.seed, particle_weights.ROUNDS, self.round, 1)[0]
        found = self._motion.advance(self.time, t, int(word), first=self._number * self._group)
        self.time, self.round = t, self.round + 1
        self.status = np.where(self.alive, found, self.status)
        self._logs[~self.alive] = -np.inf
        self._stand_in(found >= _ENDED)

    def in_groups(self, size: int, number: int = 0) -> None:
        """Let every `size` particles draw as if they were alone in an ensemble of their number.

        At the start, before anything moves. The first group has the number `number`.
        """
        self._group, self._number = size, number
        if self._laws:
            self._draw(self._laws)

    def copy_rows(self, index: IntArray) -> None:
        """Copy states, how particles are, and their values; weights stay as they are."""
        self._motion.take(index)
        self.status = self.status[index]
        rows = {k: v[index] if np.ndim(v) else v for k, v in self._rows.items()}
        size = len(index) != len(self._logs)
        if size or any(np.ndim(v) and (v != self._rows[k]).any() for k, v in rows.items()):
            self._motion.prepare(rows, len(index))
        self._rows = rows

    def _draw(self, laws: Mapping[str, FloatArray]) -> None:
        """Initial counts by inverting the distribution function of each law."""
        counts = self._motion.host_counts()
        for number, name in enumerate(self.species):
            if name not in laws:
                continue
            law, size = laws[name], self._group
            counts[:, number] = np.concatenate([
                particle_weights.drawn(law, self.seed, number, size, self._number + group)
                for group in range(self.n // size)
            ])  # fmt: skip
        self._motion.put(counts)

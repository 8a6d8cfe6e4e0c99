"""`tauslab.Polymer`: a bead chain that moves on the device."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from tauslab.analysis.polymers.beads import Beads, as_positions
from tauslab.analysis.polymers.chain import MOST_STEPS, REACH, Chain, random_walk, spring_of
from tauslab.base.arrays import FloatArray
from tauslab.base.errors import ConfigError
from tauslab.base.unknown import checks_keywords
from tauslab.decomposition.ranks.all_ranks import Comm, ranks_of
from tauslab.decomposition.ranks.job import agreed_seed, open_backend, seed_of
from tauslab.decomposition.ranks.on_root import on_root
from tauslab.model.geometry.changing import Shape
from tauslab.model.geometry.shapes import Grid, Mask
from tauslab.model.names import check_name
from tauslab.options.places import Device, device_settings
from tauslab.options.values.checks import number, within
from tauslab.store.state import StateFile

_MOST_BEADS = 1 << 27
_USUAL, _LONGEST = 0.1, 0.5  # of the shortest relaxation time: a step
_ABOVE_0 = number(lambda value: 0 < value < math.inf, "a number above 0")
_FROM_0 = number(lambda value: 0 <= value < math.inf, "a number from 0 on")
_SLOWEST = 1e-200  # 1/s
_NUMBERS = "bond", "diffusion", "stretch", "persistence", "repulsion", "diameter", "step"


class Polymer(Beads):
    """A chain of beads that moves by Brownian dynamics on the device.

    Bonds are Gaussian springs (the Rouse model), or stiff bonds that resist bending. Beads that
    are not bound to each other repel each other softly, so chains can cross. There are no
    hydrodynamic interactions. The same seed gives the same bits on any device. Under
    ``mpirun`` each rank moves a copy of the chain.

    Parameters
    ----------
    name
        Name of the chain.
    beads
        Number of beads.
    bond
        Length of a bond in metres: the root mean square, or the rest length if `stretch` is given.
    diffusion
        Diffusion coefficient of a single bead, in m^2/s.
    ring
        Whether the chain is closed.
    stretch
        Standard deviation of a stiff bond, as a fraction of `bond`. By default bonds are Gaussian
        springs, ``3 kT / bond**2``.
    persistence
        Persistence length in metres, with `stretch`: three beads in a row have the energy
        ``kT * persistence / bond * (1 - cos(angle))``. With k = persistence / bond, correlations
        of directions decay over ``-bond / log(coth(k) - 1 / k)``: 13 % less than `persistence` at
        k = 4, 3 % at 15.
    repulsion, diameter
        Energy ``kT * repulsion * (1 - (r / diameter)**2)**2`` of two beads at a distance r below
        `diameter` (metres, by default `bond`).
    step
        Time step in seconds; by default a tenth of the shortest relaxation time. Mean squares of
        springs are then 3 % too large, in proportion to the step.
    positions
        Start, ``[bead, 3]`` (z, y, x) in metres; by default a random walk from (0, 0, 0), closed
        for a ring.
    seed
        64 bits; drawn if not given. Chains with different names have independent noise.
    device, comm
        As of `tauslab.run`.

    Attributes
    ----------
    name, seed, step
        As given or drawn.

    Raises
    ------
    ConfigError
        An argument is not allowed.

    Examples
    --------
    >>> import tauslab as ts
    >>> dna = ts.Polymer("dna", beads=100, bond=3.4e-9, diffusion=1e-12, seed=1, device="cpu")
    >>> dna.advance(1e-6)
    >>> dna.positions.shape
    (100, 3)
    """

    @checks_keywords
    def __init__(  # noqa: PLR0913 - keywords
        self,
        name: str,
        *,
        beads: int,
        bond: float,
        diffusion: float,
        ring: bool = False,
        stretch: float | None = None,
        persistence: float | None = None,
        repulsion: float = 0.0,
        diameter: float | None = None,
        step: float | None = None,
        positions: npt.ArrayLike | None = None,
        seed: int | None = None,
        device: Device = "auto",
        comm: Comm = "world",
    ) -> None:
        check_name(name, "the name of a chain")
        within("beads", beads, 3 if ring else 1, _MOST_BEADS)
        given = _checked(
            {"bond": bond, "diffusion": diffusion, "repulsion": repulsion,
             "diameter": bond if diameter is None else diameter},
            {"stretch": stretch, "persistence": persistence, "step": step},
        )  # fmt: skip
        if seed is not None:
            within("seed", seed, 0, 2**64 - 1)
        rate = _fastest(given)
        self.name, self.step = name, given["step"] or _USUAL / rate
        self._comm = ranks_of(
            comm, "ts.Polymer", name=name, beads=beads, ring=ring, seed=seed, positions=positions,
            **given,
        )  # fmt: skip
        if self.step > _LONGEST / rate:
            raise ConfigError(
                f"step={self.step:g} is not allowed: beads of {name} relax in {1 / rate:.3g} s; a "
                f"step is at most {_LONGEST} of it"
            )
        self.seed = agreed_seed(seed, lambda: None, self._comm)
        key = seed_of(self.seed, name)
        start = (
            random_walk(beads, bond, key, ring=ring)
            if positions is None
            else as_positions(positions, name)
        )
        if len(start) != beads or not (np.abs(start) < REACH * bond).all():
            raise ConfigError(
                f"{name}: positions [{len(start)}, 3] for {beads} beads: as many are expected, "
                f"all of them within {REACH * bond:.1g} m of (0, 0, 0)"
            )
        places = device_settings(device)
        self._backend = open_backend(places["device"], places["threads"], self._comm)
        try:
            self._chain = Chain(
                self._backend, name, given | {"step": self.step}, start, ring=bool(ring), key=key,
                drawn=positions is None,
            )  # fmt: skip
        except BaseException:
            self._backend.close()
            raise

    def __repr__(self) -> str:
        """Say how many beads there are, and when."""
        chain = self._chain
        kind = "ring" if chain.ring else "chain"
        return f"<Polymer {self.name}: {kind} of {chain.beads} beads at t = {self.time:g} s>"

    # ---------------------------------------------------------------- moving

    @property
    def time(self) -> float:
        """Current time in seconds, a whole number of steps."""
        return self._chain.time

    @property
    def positions(self) -> FloatArray:
        """A copy of the positions ``[bead, 3]`` (z, y, x) in metres.

        After `replicate` there are twice as many rows: row ``beads + i`` is the copy of bead i, and
        NaN until it exists.
        """
        return self._chain.positions

    def advance(self, t: float) -> None:
        """Make the number of steps that ends nearest to time `t` in seconds.

        Raises
        ------
        ConfigError
            `t` is more than half a step before the current time, or beads have left the range of
            numbers.
        """
        self._chain.advance(t)

    def run(self, steps: int) -> None:
        """Take `steps` steps.

        Raises
        ------
        ConfigError
            Beads have left the range of numbers.
        """
        self._chain.run(steps)

    # ---------------------------------------------------------------- walls

    def confine(self, grid: Grid, where: Mask | Shape, **values: float) -> None:
        """Keep beads inside of a region of a lattice, from the next step on.

        A move along an axis that would leave the region is not made. If the region changes, beads
        outside of it move towards it. Before the first step a random initial chain is folded into
        the region.

        Parameters
        ----------
        grid
            A `tauslab.Lattice`, or the view of a hook: the region has its sites.
        where
            Booleans ``[z, y, x]``, or a shape of `tauslab.shapes`, of which the innermost mask is
            taken.
        values
            Quantities of the shape.

        Raises
        ------
        ConfigError
            The region is empty or of another shape, or a bead is outside of the lattice.
        """
        if values and not isinstance(where, Shape):
            raise ConfigError(f"{self.name}: {', '.join(values)}: a mask has no quantities")
        masks = where(grid, **values) if isinstance(where, Shape) else {"": where}
        mask = np.asarray(next(reversed(masks.values())))
        self._chain.confine(grid, mask)

    # ---------------------------------------------------------------- copies and loops

    def replicate(self, left: int, right: int, origin: int = 0) -> int:
        """Advance two replication forks; each copied bead starts at the position of its original.

        Parameters
        ----------
        left, right
            Numbers of beads by which the forks before and after the origin advance.
        origin
            Bead at which the forks begin; used in the first call.

        Returns
        -------
        Number of beads copied in this call. Forks stop at an end of the chain, and where they
        meet.
        """
        within("left", left, 0, _MOST_BEADS)
        within("right", right, 0, _MOST_BEADS)
        within("origin", origin, 0, self._chain.beads - 1)
        return self._chain.replicate(left, right, origin)

    def set_loops(self, pairs: npt.ArrayLike) -> None:
        """Bind pairs of beads ``[loop, 2]`` by springs, in place of earlier loops.

        Raises
        ------
        ConfigError
            There is no such bead, or one is in more than two loops.
        """
        try:
            result = np.asarray(pairs)
        except ValueError:  # rows of unlike lengths
            result = np.zeros((1, 3))
        result = result.reshape(-1, 2) if result.size in (0, 2) else result
        exists = self._chain.exist
        whole = (
            result.ndim == 2
            and result.shape[1] == 2
            and (result.dtype.kind in "iu" or not result.size)
        )
        if not whole or ((result < 0) | (result >= len(exists))).any():
            raise ConfigError(f"{self.name}: loops are pairs of beads from 0 to {len(exists) - 1}")
        result = result.astype(np.int64)
        if (result[:, 0] == result[:, 1]).any() or not exists[result].all():
            raise ConfigError(f"{self.name}: a loop binds two beads that exist")
        self._chain.bind(result)

    # ---------------------------------------------------------------- keeping

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the chain to an HDF5 file, from which `load` continues with the same bits."""
        chain = self._chain
        arrays = {**chain.stored(), **chain.numbers, **chain.walls}
        attributes = {
            "name": self.name, "seed": np.uint64(self.seed), "key": np.uint64(chain.key),
            "steps": np.uint64(chain.steps), "ring": np.uint64(chain.ring),
            "beads": np.uint64(chain.beads), "drawn": np.uint64(chain.drawn),
        }  # fmt: skip
        on_root(self._comm, lambda: _file(path).write(arrays, attributes))

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], *, device: Device = "auto", comm: Comm = "world"
    ) -> Polymer:
        """Read what `save` wrote.

        Raises
        ------
        InputFileError
            The file is missing, damaged or of another kind.
        """
        state = _file(path).read()
        given: dict[str, Any] = {name: state.real(name, 0.0) or None for name in _NUMBERS}
        given["repulsion"] = given["repulsion"] or 0.0
        beads = state.whole("beads", 1, _MOST_BEADS)
        positions = state.take("positions", np.float64, None, 3)
        made = cls(
            state.text("name"), beads=beads, ring=bool(state.whole("ring", 0, 1)),
            positions=positions[:beads], seed=state.whole("seed"), device=device, comm=comm,
            **given,
        )  # fmt: skip
        chain = made._chain
        # Files of earlier versions lack it: there the seed alone gave the noise.
        chain.key = state.whole("key") if "key" in state.attributes else made.seed
        chain.drawn = bool(state.whole("drawn", 0, 1))
        chain.take_up(state, state.whole("steps", 0, MOST_STEPS))
        return made

    def close(self) -> None:
        """Release the device; ``with ts.Polymer(...) as chain`` does so at its end."""
        self._backend.close()

    def __enter__(self) -> Self:
        """The chain itself."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close."""
        self.close()


def _file(path: str | os.PathLike[str]) -> StateFile:
    return StateFile(Path(path), "polymer", "file of a chain, which ts.Polymer.save writes")


def _checked(needed: dict[str, Any], optional: dict[str, Any]) -> dict[str, float]:
    """Numbers that are allowed, 0 for what is left out.

    Raises
    ------
    ConfigError
        Names one that is not.
    """
    for name, value in (needed | optional).items():
        if name == "repulsion":
            _FROM_0(name, value)
        elif name in needed or value is not None:
            _ABOVE_0(name, value)
    if optional["persistence"] and not optional["stretch"]:
        raise ConfigError("persistence= needs bonds with a length: give stretch= too")
    return {name: float(value or 0.0) for name, value in (needed | optional).items()}


def _fastest(given: dict[str, float]) -> float:
    """About the fastest relaxation rate of a bead, 1/s; a `ConfigError` where it is no number."""
    bond, diameter = given["bond"], given["diameter"]
    try:
        stiffness = 4 * spring_of(given) + 16 * given["persistence"] / bond**3
        rate = given["diffusion"] * (stiffness + 16 * given["repulsion"] / diameter**2)
    except (OverflowError, ZeroDivisionError):
        rate = 0.0
    if not _SLOWEST < rate < 1 / _SLOWEST:
        raise ConfigError(
            "bond=, diffusion= and the others together give no time step that is a number: lengths "
            "are in metres, diffusion= in m^2/s"
        )
    return rate


def chain_of(polymer: Polymer) -> Chain:
    """What a polymer moves, of which parts of hybrids make copies."""
    return polymer._chain  # noqa: SLF001 - of this module

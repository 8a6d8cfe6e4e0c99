"""The Min proteins without noise: rate equations of `examples/minde.toml` on its own sites.

    python scripts/lattice/minde_mean_field.py  # constants of the file
    python scripts/lattice/minde_mean_field.py recruit=0.731 bind=0.731  # nominal constants of pairs
    python scripts/lattice/minde_mean_field.py diffusion=10 --seconds 2

A factor may be given for each constant (exchange, attach, recruit, bind, release), for the number
of MinE (min_e), and for all diffusion.

A period to hold the lattice's against: sites of one type, plane and distance to the axis (to a
site) are mixed, hops between them are those of the lattice, concentrations are continuous.  The
equations and constants are written here once more; only the sites come from the file.  A start
that is 2 % uneven breaks the symmetry.  Needs SciPy, and 10 s of a core.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt
from lattice_cases import FloatArray, lattice_of, swings
from scipy import sparse
from scipy.integrate import solve_ivp

from tauslab.model.lattice.lattice import Lattice

EXCHANGE, ATTACH, RELEASE = 0.5, 0.78, 0.7  # 1/s
RECRUIT, BIND = 0.004759618130548922, 0.029403863117613338  # 1/s in the whole lattice
MIN_D, MIN_E = 3516, 914
TILT = 0.02


class Rings:
    """Groups of sites, and hops between them.

    Attributes
    ----------
    planes
        Planes along z.
    size, membrane, plane
        Sites, whether they are membrane, and z of a group ``[group]``.
    """

    def __init__(self, lattice: Lattice) -> None:
        sites = lattice.site_array()
        self.spacing, self.planes = lattice.spacing, lattice.shape[0]
        z, y, x = np.indices(sites.shape)
        away = np.hypot(y - (sites.shape[1] - 1) / 2, x - (sites.shape[2] - 1) / 2).astype(int)
        keys = np.where(sites > 0, (z * 64 + away) * 2 + sites - 1, -1)
        result, number = np.unique(keys, return_inverse=True)
        self.group = number.reshape(sites.shape) - 1
        self.membrane, self.plane = result[1:] % 2 == 1, result[1:] // 128
        self.size = np.bincount(self.group[self.group >= 0]).astype(float)

    def hops(self, coefficient: float, within: npt.NDArray[np.bool_]) -> sparse.csr_matrix:
        """Rates of change of particles by hops among groups."""
        rate, n = coefficient / self.spacing**2, len(self.size)
        total = sparse.csr_matrix((n, n))
        for axis in range(3):
            low = np.moveaxis(self.group, axis, 0)[:-1].ravel()
            high = np.moveaxis(self.group, axis, 0)[1:].ravel()
            pairs = (low >= 0) & (high >= 0) & within[low] & within[high]
            for a, b in ((low[pairs], high[pairs]), (high[pairs], low[pairs])):
                per_particle = rate / self.size[a]
                values = np.concatenate((per_particle, -per_particle))
                places = (np.concatenate((b, a)), np.concatenate((a, a)))
                total = total + sparse.csr_matrix((values, places), (n, n))
        return total


@dataclass(frozen=True)
class Factors:
    """Factors of the constants of the file."""

    exchange: float = 1.0
    attach: float = 1.0
    recruit: float = 1.0
    bind: float = 1.0
    release: float = 1.0
    min_e: float = 1.0
    diffusion: float = 1.0


class Equations:
    """d/dt of minDadp, minDatp, minDm, minE, minDEm, particles in each group ``[5 n]``."""

    def __init__(self, lattice: Lattice, factors: Factors) -> None:
        self.rings = Rings(lattice)
        sites = float(np.prod(lattice.shape))
        local, everywhere = self.rings.membrane, np.ones(len(self.rings.size), bool)
        self.exchange = EXCHANGE * factors.exchange * ~local
        self.attach = ATTACH * factors.attach * local
        self.release = RELEASE * factors.release
        self.recruit = RECRUIT * factors.recruit * sites * local / self.rings.size
        self.bind = BIND * factors.bind * sites * local / self.rings.size
        self.min_e = MIN_E * factors.min_e
        fast = self.rings.hops(2.5e-12 * factors.diffusion, everywhere)
        slow = self.rings.hops(1e-14 * factors.diffusion, local)
        self.moves = sparse.block_diag([fast, fast, slow, fast, slow]).tocsr()

    def start(self) -> FloatArray:
        """Start with all in the cytoplasm, MinD 2 % more towards one pole."""
        share = self.rings.size * ~self.rings.membrane
        share /= share.sum()
        last = self.rings.planes - 1
        tilted = MIN_D / 2 * share * (1 + TILT * np.cos(np.pi * self.rings.plane / last))
        none = np.zeros_like(share)
        return np.concatenate((tilted, tilted, none, self.min_e * share, none))

    def slope(self, time: float, state: FloatArray) -> FloatArray:
        """Particles a second."""
        del time
        adp, atp, bound, e, complexes = state.reshape(5, -1)
        exchange, attach = self.exchange * adp, self.attach * atp
        grow, bind = self.recruit * atp * bound, self.bind * bound * e
        free = self.release * complexes
        changes = (free - exchange, exchange - attach - grow, attach + grow - bind,
                   free - bind, bind - free)  # fmt: skip
        return np.asarray(self.moves @ state + np.concatenate(changes))

    def jacobian(self, time: float, state: FloatArray) -> sparse.csc_matrix:
        """Derivatives of `slope`."""
        del time
        _, atp, bound, e, _ = state.reshape(5, -1)
        d = sparse.diags
        exchange, free = d(self.exchange), d(np.full(len(bound), self.release))
        attach, grow = d(self.attach + self.recruit * bound), d(self.recruit * atp)
        by_d, by_e = d(self.bind * bound), d(self.bind * e)
        blocks = [
            [-exchange, None, None, None, free],
            [exchange, -attach, -grow, None, None],
            [None, attach, grow - by_e, -by_d, None],
            [None, None, -by_e, -by_d, free],
            [None, None, by_e, by_d, -free],
        ]
        return (self.moves + sparse.bmat(blocks)).tocsc()


def solved(factors: Factors, times: FloatArray) -> tuple[Rings, FloatArray]:
    """Particles of the five species in each group ``[5, group, time]``."""
    model = Equations(lattice_of("minde.toml"), factors)
    result = solve_ivp(model.slope, (0, times[-1]), model.start(), "BDF", t_eval=times,
                      jac=model.jacobian, rtol=3e-4, atol=1e-4)  # fmt: skip
    return model.rings, result.y.reshape(5, -1, len(times))


def main() -> None:
    """Integrate, and print bound MinD early and the changes of sides."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    names = ", ".join(field.name for field in fields(Factors))
    parser.add_argument("factor", nargs="*", help=f"NAME=VALUE, of {names}")
    parser.add_argument("--seconds", type=float, default=300.0)
    options = parser.parse_args()
    given = (text.split("=") for text in options.factor)
    times = np.arange(0.0, options.seconds + 0.25, 0.5)
    rings, particles = solved(Factors(**{name: float(value) for name, value in given}), times)
    bound, lower = particles[2] + particles[4], rings.plane < rings.planes // 2
    sums = ", ".join(
        f"{bound[:, 2 * t].sum():.0f} at {t} s" for t in (1, 2, 3, 5, 10) if t <= options.seconds
    )
    print(f"bound MinD: {sums}")
    swung = swings(times, bound[lower].sum(axis=0), bound[~lower].sum(axis=0))
    print("changes of sides (s):", *(f"{t:.1f}" for t in swung.turns))
    print("twice the times between (s):", *(f"{2 * t:.1f}" for t in np.diff(swung.turns)))


if __name__ == "__main__":
    main()

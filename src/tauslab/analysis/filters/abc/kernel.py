"""The proposal of a generation: a normal kernel of its own around each particle of the last one.

Filippi, Barnes, Cornebise and Stumpf, Stat. Appl. Genet. Mol. Biol. 12, 87 (2013), section 3.2: the
optimal local covariance matrix. Sums, roots and densities are IEEE operations in a fixed order, so
that a proposal has the same bits on every machine.
"""

from __future__ import annotations

import numpy as np

from tauslab.analysis.filters.draws import uniforms_of
from tauslab.analysis.particles.shares import Shares
from tauslab.analysis.particles.sums import fixed_sum, fixed_sums
from tauslab.analysis.particles.weights import normalised
from tauslab.base.arrays import BoolArray, FloatArray, IntArray, UintArray
from tauslab.decomposition.ranks.mpi import Communicator
from tauslab.kernels.backends.base import Backend
from tauslab.kernels.particles.proposals import Proposals
from tauslab.model.portable import normal_quantile, portable_log, rounded_log

_LEAST_NEAR = 4  # particles per parameter that give a covariance
_STEPS = 4  # per particle, of a table that spares most searches
_RIDGE = 1e-10  # of the spread of all particles, in a covariance that is hardly regular


class Densities:
    """Densities of proposals of so many parameters, by the devices of all ranks."""

    def __init__(self, backend: Backend, comm: Communicator, parameters: int) -> None:
        self._comm, self._proposals = comm, Proposals(backend, parameters)

    def __call__(self, places: FloatArray, *normals: FloatArray) -> FloatArray:
        """Logarithms ``[place]``, of what `Proposals.sums` takes. Collective."""
        shares = Shares(len(places), self._comm)
        largest, sums = self._proposals.sums(places[shares.own], *normals)
        return np.asarray(shares.joined(largest + rounded_log(sums)))


class Kernel:
    """Normal kernels around ``centres [particle, parameter]``, chosen by their weights.

    The covariance of a kernel is that of the particles in `near`, those which the next threshold
    keeps, about the kernel's centre.
    """

    def __init__(self, centres: FloatArray, weights: FloatArray, near: BoolArray) -> None:
        n, size = centres.shape
        self._centres, self._ladder = centres.T.copy(), np.add.accumulate(weights)
        # Of numbers from 0 to 1 in equal steps: the centre that each chooses, at most the last.
        steps = 1 << (_STEPS * n - 1).bit_length()
        starts = np.arange(steps + 1) / steps * self._ladder[-1]
        self._first = np.minimum(np.searchsorted(self._ladder, starts, side="right"), n - 1)
        self._log_weights = portable_log(weights)
        if near.sum() < _LEAST_NEAR * size:
            near = np.ones(n, bool)
        kept, shares = centres[near], weights[near] / fixed_sum(weights[near])
        mean = _weighted(shares, kept)
        overall = _weighted(weights, centres)
        # Each parameter is divided by its spread: scales may lie far apart.
        off = centres - overall
        spread = np.sqrt(_weighted(weights, off * off))
        spread = np.where(spread > 0, spread, np.where(overall != 0, np.abs(overall), 1.0) * 1e-9)
        self._spread = spread
        around, apart = (kept - mean) / spread, (centres - mean) / spread
        roots = np.zeros((size, size, n))
        for row in range(size):
            for column in range(row + 1):
                common = fixed_sum(shares * (around[:, row] * around[:, column]))
                common += _RIDGE if row == column else 0.0
                roots[row, column] = common + apart[:, row] * apart[:, column]
        self._roots = _cholesky(roots)
        self._log_sizes = sum(portable_log(self._roots[i, i]) for i in range(size))

    def propose(self, words: UintArray) -> FloatArray:
        """Places ``[m, parameter]`` of random words ``[m, 1 + parameter or more]``."""
        uniforms = uniforms_of(words)
        at = self._chosen(uniforms[:, 0])
        size = len(self._centres)
        z = normal_quantile(uniforms[:, 1 : 1 + size].T)
        result = np.empty((len(words), size))
        for row in range(size):
            step = self._roots[row, 0][at] * z[0]
            for column in range(1, row + 1):
                step += self._roots[row, column][at] * z[column]
            result[:, row] = self._centres[row][at] + self._spread[row] * step
        return result

    def _chosen(self, uniforms: FloatArray) -> IntArray:
        """The first centre up to which the weights exceed a part of their sum."""
        ladder, first = self._ladder, self._first
        part = uniforms * ladder[-1]
        at = first[(uniforms * (len(first) - 1)).astype(np.int64)]  # or one before it
        later = np.flatnonzero(ladder[at] <= part)
        at[later] = np.searchsorted(ladder, part[later], side="right")
        return np.asarray(np.minimum(at, len(ladder) - 1))

    def log_density(self, places: FloatArray, densities: Densities) -> FloatArray:
        """Logarithms ``[m]`` of the density of proposals, up to a constant. Collective."""
        logs = self._log_weights - self._log_sizes
        return densities(places, self._centres.T, self._spread, self._roots, logs)


def importance_weights(log_prior: FloatArray, log_proposal: FloatArray) -> FloatArray:
    """Weights ``[particle]`` with the sum 1 of draws of a proposal, for a prior."""
    return normalised(log_prior - log_proposal)


def _weighted(weights: FloatArray, rows: FloatArray) -> FloatArray:
    return fixed_sums(np.ascontiguousarray((weights[:, None] * rows).T))


def _cholesky(lower: FloatArray) -> FloatArray:
    """Roots of matrices ``[row, column, particle]``, in place."""
    size = len(lower)
    for column in range(size):
        for k in range(column):
            lower[column, column] -= lower[column, k] * lower[column, k]
        lower[column, column] = np.sqrt(np.maximum(lower[column, column], _RIDGE / 4))
        for row in range(column + 1, size):
            for k in range(column):
                lower[row, column] -= lower[row, k] * lower[column, k]
            lower[row, column] /= lower[column, column]
    return lower

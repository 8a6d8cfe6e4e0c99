"""Iterated filtering: particles with parameters of their own, which move ever less.

Ionides, Nguyen, Atchadé, Stoev and King, PNAS 112, 719 (2015), algorithm IF2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tauslab.analysis.filters.observing import Observations
from tauslab.analysis.particles.ensemble import Ensemble
from tauslab.analysis.particles.weights import shares_of
from tauslab.base.arrays import FloatArray
from tauslab.base.option_names import warn
from tauslab.store.format.schema import STATUS_VALUES

_LIMITED, _MOST_LIMITED = STATUS_VALUES["step_limit"], 0.5
_WIDEST, _NARROWEST = 0.2, 0.01  # steps of logarithms per row, in the first and last iteration


def searched(
    particles: Ensemble, cells: Sequence[Observations], names: Sequence[str], places: FloatArray,
    constants: Callable[[], Any], *, iterations: int, draws: np.random.Generator,
    after_row: Callable[[float], None] = lambda _: None,
) -> FloatArray:  # fmt: skip
    """Move logarithms of parameters ``[particle, parameter]`` to where the likelihood is large.

    Of many cells, a swarm goes through one after the other (Bretó, Ionides and King, J. Am. Stat.
    Assoc. 115, 1178 (2020), with shared parameters alone).

    Parameters
    ----------
    places
        Where the swarm begins.
    constants
        Gives values of parameters as they are now, as `Observations.log_density` takes them.
    after_row
        Takes how many iterations are done; of the present one a part, after each an integer.
    """
    none, limited = np.zeros((len(places), 0)), 0.0
    for iteration in range(iterations):
        part = iteration / max(1, iterations - 1)
        width = _WIDEST * (_NARROWEST / _WIDEST) ** part
        for cell, data in enumerate(cells):
            particles.reset(
                seed=int(draws.integers(2**63)),
                set=dict(zip(names, np.exp(places).T, strict=True)),
            )
            for row, t in enumerate(data.times.tolist()):
                places = places + width * draws.standard_normal(places.shape)
                particles.put((), none, tuple(names), np.exp(places))
                particles.advance(t)
                passed = cell + (t / data.times[-1] if data.times[-1] > 0 else 0.0)
                after_row(iteration + passed / len(cells))
                limited = max(limited, float((particles.status == _LIMITED).mean()))
                if not particles.alive.any():
                    break
                logs = data.log_density(row, particles.values, constants(), particles.n)
                if logs is None:
                    continue
                logs = np.where(particles.alive, logs, -np.inf)
                if logs.max() > -np.inf:  # else no particle explains the row, and all go on
                    places = places[particles.resample(shares_of(logs, logs.max()))]
        after_row(iteration + 1)
    if limited > _MOST_LIMITED:
        warn(
            f"{100 * limited:.0f} % of the particles of the search reached the limit of steps "
            "between two rows and were left out: the fit may miss the maximum; give a start= that "
            "is nearer, or method='tau'"
        )
    return places

"""A lattice run against the exact master equation of the same lattice, by `ssa` on its network."""

from __future__ import annotations

import h5py
import numpy as np
import pytest
from scipy import stats

import tauslab as ts
from tauslab.kernels.lattice.lowering import lower_lattice

REPLICAS = 120


def lattice() -> ts.Lattice:
    """A + B <-> C on 8^3 periodic sites; q = 0.02 and 0.02 for a pair in a step."""
    made = ts.Lattice("box", shape=(8, 8, 8), spacing=1.0, step=0.02, boundary="periodic", slots=8)
    made.add_species("A", "B", "C")
    made.add_diffusion("*", 1.0)
    made.add_reaction("A + B -> C", rate=1.0, volume="site")
    made.add_reaction("C -> A + B", rate=0.1)
    return made


def started() -> ts.Lattice:
    """60 A and 60 B at fixed positions: every replica and the network start alike."""
    spread = lattice()
    spread.place("A", count=60)
    spread.place("B", count=60)
    particles = lower_lattice(spread).particles(0, 8, seed=1)
    fixed = lattice()
    for number, name in enumerate(("A", "B"), start=1):
        fixed.place(name, positions=np.argwhere(particles == number)[:, :3])
    return fixed


@pytest.mark.validate
def test_counts_over_time_follow_the_master_equation(tmp_path, device):
    """C at four times: chi-square of the two samples in up to six bins, p > 1e-6 / 4 each."""
    made = started()
    network = made.to_network(seed=1)
    exact = ts.run(network, n=REPLICAS, times=[1, 2, 3, 4], seed=9, device=device)
    path = tmp_path / "box.h5"
    ts.run(made, t_end=4.0, count_every=50, replicas=REPLICAS, seed=5, device=device, output=path)
    with h5py.File(path) as file:
        actual = file["counts"][:, 1:, 2]
    expected = sum(exact.counts(name) for name in exact.species if name.startswith("C_"))
    assert actual.shape == expected.shape
    for one, other in zip(actual.T, expected.T, strict=True):
        both = np.concatenate([one, other])
        edges = np.unique(np.quantile(both, np.linspace(0, 1, 7)[1:-1]))
        table = [np.bincount(np.searchsorted(edges, x), minlength=len(edges) + 1)
                 for x in (one, other)]  # fmt: skip
        assert stats.chi2_contingency(table).pvalue > 1e-6 / 4
        assert one.mean() == pytest.approx(other.mean(), abs=5 * np.sqrt(2 * both.var() / REPLICAS))

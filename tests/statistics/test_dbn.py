"""Marginals of networks against trajectories that were sampled directly."""

from __future__ import annotations

import numpy as np
import pytest

import tauslab as ts
from tauslab import dbn


@pytest.fixture
def validate(monkeypatch):
    """The script that compares at any scale."""
    import validate_dbn

    return validate_dbn


def test_marginals_are_those_of_direct_sampling(validate, tmp_path, capsys):
    """A right network fails once in 10,000 seeds (the seed is fixed)."""
    words = ["--samples", "4000", "--points", "11", "--substeps", "100", "--compare", "6",
             "--t-end", "5", "--device", "cpu", "-o", str(tmp_path / "x.csv")]  # fmt: skip
    assert validate.main(words) == 0
    told = capsys.readouterr().out
    assert "none below" in told
    lines = (tmp_path / "x.csv").read_text().splitlines()
    assert len(lines) == 29
    columns = np.array([line.split(",")[1:] for line in lines[1:]], float)
    assert columns[:, 0].sum() > 60, "tests"
    assert columns[:, 2].max() < 0.04, "sampled"
    assert columns[:, 3].max() < 0.45, "frontier"


def test_another_law_is_noticed(validate):
    """4,000 trajectories tell 30 % from 35 %; equal shares are told apart once in 10,000."""
    one, other = np.array([1200.0, 2800.0]), np.array([1400.0, 2600.0])
    assert validate.two_samples(one, other) < 1e-5
    assert validate.two_samples(one, one) == 1.0
    assert validate.two_samples(np.array([4000.0, 0.0]), np.array([4000.0, 0.0])) is None
    rng = np.random.default_rng(4)
    cells = rng.multinomial(4000, [0.1, 0.2, 0.3, 0.4], size=(400, 2)).astype(float)
    found = np.array([validate.two_samples(*pair) for pair in cells])
    seen = np.histogram(found, 5, (0, 1))[0]
    # Five equal cells of 400 p-values: chi-square with 4 degrees above 23.5 once in 10,000.
    assert ((seen - 80) ** 2 / 80).sum() < 23.5


@pytest.mark.parametrize("degrees", [1, 2, 3, 4, 7])
def test_tail_of_chi_square(validate, degrees):
    from scipy.stats import chi2

    for x in (0.1, 3.0, 40.0):
        assert validate.survival(x, degrees) == pytest.approx(chi2.sf(x, degrees), rel=1e-10)


def test_frontier_of_signalling_by_egf_and_ngf(data):
    model = data / "sbml" / "BIOMD0000000033.xml"
    network = dbn.build(
        model, unknown=["kSos", "kdErk", "kpMekCytoplasmic"], samples=2000, t_end=2, points=5,
        method=ts.ODE(substeps=200), seed=1, device=ts.CPU(threads=2),
    )  # fmt: skip
    assert len(network.variables) == 28
    beliefs = dbn.factored_frontier(network)
    for name in network.variables:
        # The seed is fixed: what differs is that the frontier takes nodes as independent.
        worst = abs(beliefs.probabilities[name] - network.marginal(name)).max()
        assert worst < 0.12, name
        assert network.outside[name][:, 2].sum() == 0
    moved = [n for n in network.variables if network.marginal(n)[-1].max() < 0.9]
    assert len(moved) >= 3

"""Marginals of networks against trajectories that were sampled directly."""

from __future__ import annotations

import numpy as np
import pytest
import validate
import validate_dbn


@pytest.mark.validate
def test_marginals_are_those_of_direct_sampling(tmp_path):
    """A right network fails once in 10,000 seeds (the seed is fixed)."""
    words = ["dbn", "--n", "4000", "--points", "11", "--substeps", "100", "--compare", "6",
             "--t-end", "5", "--device", "cpu", "-o", str(tmp_path / "x.csv")]  # fmt: skip
    assert validate.main(words) == 0
    lines = (tmp_path / "x.csv").read_text().splitlines()
    assert len(lines) == 29
    columns = np.array([line.split(",")[1:-1] for line in lines[1:]], float)
    assert columns[:, 0].sum() > 60, "tests"
    assert columns[:, 2].max() < 0.04, "sampled"
    assert columns[:, 3].max() < 0.45, "frontier"


def test_another_law_is_noticed():
    """4,000 trajectories tell 30 % from 35 %; equal shares are told apart once in 10,000."""
    one, other = np.array([1200.0, 2800.0]), np.array([1400.0, 2600.0])
    assert validate_dbn.two_samples(one, other) < 1e-5
    assert validate_dbn.two_samples(one, one) == 1.0
    assert validate_dbn.two_samples(np.array([4000.0, 0.0]), np.array([4000.0, 0.0])) is None
    rng = np.random.default_rng(4)
    cells = rng.multinomial(4000, [0.1, 0.2, 0.3, 0.4], size=(400, 2)).astype(float)
    actual = np.array([validate_dbn.two_samples(*pair) for pair in cells])
    seen = np.histogram(actual, 5, (0, 1))[0]
    # Five equal cells of 400 p-values: chi-square with 4 degrees above 23.5 once in 10,000.
    assert ((seen - 80) ** 2 / 80).sum() < 23.5

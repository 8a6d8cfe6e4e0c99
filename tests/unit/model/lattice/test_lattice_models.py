"""Models that the lattice examples are compared with: rate equations, compartments, stored runs."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from places import ROOT, SCRIPTS


@pytest.fixture(autouse=True)
def scripts(monkeypatch):
    monkeypatch.syspath_prepend(SCRIPTS)


def test_rate_equations_of_the_min_proteins_lose_nothing_and_know_their_slope():
    from lattice_cases import lattice_of
    from minde_mean_field import Equations, Factors

    model = Equations(lattice_of("minde.toml"), Factors(recruit=2.0, min_e=0.5, diffusion=3.0))
    start = model.start()
    assert start.reshape(5, -1).sum(axis=1) == pytest.approx([1758, 1758, 0, 457, 0])
    random = np.random.default_rng(1)
    state, change = random.uniform(0, 5, (2, len(start)))
    state.reshape(5, -1)[[2, 4]] *= model.rings.membrane
    slope = model.slope(0.0, state)
    by_species = slope.reshape(5, -1).sum(axis=1)
    assert by_species[[0, 1, 2, 4]].sum() == pytest.approx(0, abs=1e-6 * np.abs(slope).max())
    assert by_species[[3, 4]].sum() == pytest.approx(0, abs=1e-6 * np.abs(slope).max())
    numerical = (model.slope(0.0, state + 1e-4 * change) - slope) / 1e-4
    actual = model.jacobian(0.0, state) @ change
    assert actual == pytest.approx(numerical, abs=2e-3 * np.abs(numerical).max())


@pytest.mark.validate
def test_compartments_of_the_lac_cell_hold_what_the_lattice_holds(tmp_path):
    from lac_compartments import PARTS, Compartments
    from lattice_cases import lac_model

    import tauslab as ts

    cell = lac_model(tmp_path)
    parts = Compartments(cell, 6466.0, seed=1)
    sites = parts.sites
    assert sites.beside + sites.behind == (cell.site_array() == 1).sum()
    actual = ts.run(parts.build(), method="ssa", n=4, times=[0, 5], seed=1, device="cpu")

    def total(*names):
        every = [part for name in names for part in PARTS.get(name, (name,))]
        return sum(actual.counts(part) for part in every)

    assert (total("O", "R2O", "IR2O", "I2R2O") == 1).all()
    repressors = total("R2", "IR2", "I2R2", "R2O", "IR2O", "I2R2O")
    assert (repressors == 9).all()
    inducer = total("I", "Iex", "YI", "IR2", "IR2O") + 2 * total("I2R2", "I2R2O")
    assert (inducer == 2 * 6466).all()
    assert (total("YI")[:, 1] > 0).any() or (total("IR2", "I2R2")[:, 1] > 0).any()


def test_the_stored_run_of_the_min_proteins_swings_as_the_exact_one():
    from validate_rdme import t11

    stored = ROOT / "docs" / "figures" / "lattice-minde.npz"
    rows = list(t11(None, 1.0, stored=stored))
    assert [row.test for row in rows] == ["T11", "T11"]
    assert all(row.z < 4.5 for row in rows), rows
    assert 0 < rows[0].error < 1.0  # so a period that is 20 % off fails


@pytest.mark.filterwarnings("ignore:minde. reaction bind")
def test_trials_are_put_together_by_kind(tmp_path, monkeypatch):
    """Two steps of the Min proteins' file, and an exact run, as the picture reads them."""
    import exact_rdme
    import figures_minde
    import lattice_trials

    trial, exact, out = (str(tmp_path / f"{name}.npz") for name in ("trial", "exact", "out"))
    given = "trials minde --device cpu --seconds 0.001 --points 2 --divide 1 2 --first 3 -o"
    monkeypatch.setattr(sys, "argv", [*given.split(), trial])
    lattice_trials.main()
    model = str(ROOT / "examples" / "minde.toml")
    given = f"exact {model} --seconds 0.001 --points 2 --seed 3 -o {exact}"
    monkeypatch.setattr(sys, "argv", given.split())
    exact_rdme.main()
    figures_minde.collect([f"lattice={trial}", f"exact={exact}"], Path(out))
    early = figures_minde.loaded(Path(out))
    assert early["lattice:divide"].tolist() == [1, 2]
    assert early["lattice:counts"].shape == (2, 3, 5)
    assert early["exact:counts"].shape == (1, 3, 5)
    for counts in (early["lattice:counts"], early["exact:counts"]):
        assert (counts[:, :, [0, 1, 2, 4]].sum(axis=2) == 3516).all()  # MinD
        assert (counts[:, :, [3, 4]].sum(axis=2) == 914).all()  # MinE
    times, runs = figures_minde.lattice_runs(early, "", 2)
    assert times == pytest.approx([0, 5e-4, 1e-3])
    assert runs.shape == (1, 3)

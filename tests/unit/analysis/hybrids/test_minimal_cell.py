"""The small form of examples/minimal_cell.py: it doubles, divides, and loses nothing."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest
from places import ROOT

import tauslab as ts

END = 12.6


@pytest.fixture(scope="module")
def model():
    sys.path.append(str(ROOT / "examples"))
    try:
        import minimal_cell
    finally:
        sys.path.pop()
    # Doubles and copies its chromosome twice as fast.
    faster = replace(minimal_cell.SMALL, cycle=12.0, fork=4.0, step=0.05 / 12)
    return minimal_cell.Cell(faster)


@pytest.fixture(scope="module")
def result(model):
    return ts.run(model.hybrid(), t_end=END, seed=1, pilot=0, device=ts.CPU(threads=1))


def test_area_and_volume_double_by_division(model, result):
    area, volume = result.values("size.area")[0], result.values("size.volume")[0]
    divided = result.divisions
    assert len(divided) == 1
    at = int(np.searchsorted(result.time("size"), divided.time[0]))
    assert area[at] / model.area == pytest.approx(2, rel=0.02)
    assert area[at + 1] / model.area == pytest.approx(1, rel=0.1)
    assert volume[at] * 1e24 / model.volume == pytest.approx(2, rel=0.1)
    assert volume[at + 1] * 1e24 / model.volume == pytest.approx(1, rel=0.15)
    for name, before in (("to_do", 0), ("done", model.size.genome)):
        mother, first, second = divided.of(f"expression.{name}")
        assert mother == before
        assert first == second == model.size.genome - before


def test_daughters_have_all_of_the_mother(result):
    divided = result.divisions
    for name in divided.names:
        if name.startswith(("space.", "expression.")) and not name.endswith(("to_do", "done")):
            mother, first, second = divided.of(name)
            assert first + second == pytest.approx(mother, rel=1e-15, abs=0), name
            assert np.floor(first) + np.floor(second) == np.floor(mother), name
    assert divided.of("space.ribosome")[0] > 0


def test_each_daughter_has_one_chromosome(model, result):
    """Of each gene one, free or with a polymerase; beads of the whole chromosome before."""
    divided, beads = result.divisions, result.values("dna.beads")[0]
    assert beads.max() == 2 * model.size.beads
    assert model.size.beads <= beads[-1] < 2 * model.size.beads
    for gene in model.genes:
        free, loaded = (np.array(divided.of(f"space.{kind}{gene}")) for kind in "GL")
        assert (free + loaded).reshape(-1).tolist() == [2, 1, 1]


def test_transfer_rna_is_charged_or_not_or_owed(model, result):
    """Translation takes charged tRNA and gives uncharged one; the rest is a debt."""
    until = result.time("expression") <= result.divisions.time[0]
    for number in range(20):
        names = f"expression.charged{number}", f"expression.tRNA{number}"
        charged, free = (result.values(name)[0, until] for name in names)
        owed = result.debt(names[0])[0, until]
        assert (charged + free - owed == charged[0]).all()
        translated = result.paid(names[0])[0, until] + owed
        assert (np.diff(translated) >= 0).all()
    assert translated[-1] > 0
    assert sum(result.values(f"space.P{gene}")[0, -3] for gene in model.genes) > 0


def test_bills_are_whole_proteins(model, result):
    """GTP that was billed is twice the residues of the proteins, and the bases of transcripts."""
    until = result.time("expression") <= result.divisions.time[0]
    gtp = "expression.GTP"
    assert all(part < 0.2 for part in result.owing().values())
    billed = (result.paid(gtp) + result.debt(gtp))[0, until]
    residues = [
        (result.paid(name) + result.debt(name))[0, until]
        for name in (f"expression.charged{i}" for i in range(20))
    ]
    ctp, utp = ((result.paid(f"expression.{x}") + result.debt(f"expression.{x}"))[0, until]
                for x in ("CTP", "UTP"))  # fmt: skip
    transcribed = billed - 2 * np.sum(residues, axis=0)
    assert (transcribed >= 0).all()
    # A quarter of the bases each, as drawn.
    assert transcribed[-1] == pytest.approx((ctp[-1] + utp[-1]) / 2, rel=0.05)

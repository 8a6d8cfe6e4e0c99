"""docs/file-format.md names every dataset that a run writes."""

from __future__ import annotations

import re

import h5py
import pytest
from places import ROOT

import tauslab as ts

PAGE = (ROOT / "docs" / "file-format.md").read_text(encoding="utf-8")
ENSEMBLE, LATTICE = re.split(r"(?m)^## A lattice run$", PAGE.split("## Sums of real")[0])
# Described on pages of their own, to which this one leads.
ELSEWHERE = re.compile(r"model/|profile/")


def datasets(path):
    actual: list[str] = []
    with h5py.File(path) as file:
        file.visititems(
            lambda name, one: actual.append(name) if isinstance(one, h5py.Dataset) else None
        )
    return actual


def unnamed(names, text):
    """Datasets that a page does not have: neither whole, nor as another of a line's group."""
    for name in names:
        shown = re.sub(r"^(sweep|summary)/.*", r"\1/NAME", name)
        shown = shown.replace("histogram/X", "histogram/SPECIES")
        group, _, leaf = shown.rpartition("/")
        if shown.startswith("statistics/amounts/"):
            shown = "statistics/amounts/..."
        together = f"`/{group}/" in text and f"`{leaf}`" in text
        if f"`/{shown}`" not in text and not together:
            yield name


def network():
    net = ts.Network("here")
    net.add_species("X", 40)
    net.add_parameter("k", 1.0)
    net.add_reaction("X ->", rate="k")
    net.add_rule("twice", "2 * X")
    return net


@pytest.mark.compiler
@pytest.mark.parametrize(
    "options",
    [
        {"record": "trajectories,statistics,final,histogram:X:0:50:5,summary:mean:X"},
        {"record": "statistics", "sweep": {"k": [1, 2]}},
        {"record": "trajectories,statistics", "method": "ode"},
        pytest.param(
            {"record": "trajectories,statistics", "method": "tau"}, marks=pytest.mark.validate
        ),
    ],
)
def test_datasets_of_an_ensemble(options, tmp_path):
    path = tmp_path / "a.h5"
    ts.run(network(), n=8, t_end=1, points=3, seed=1, device="cpu", output=path, **options).close()
    names = datasets(path)
    assert len(names) > 20
    assert list(unnamed(names, ENSEMBLE)) == []


@pytest.mark.compiler
@pytest.mark.parametrize("options", [{}, {"replicas": 2, "sweep": {"k": [1, 2]}}])
def test_datasets_of_a_lattice(options, tmp_path):
    cube = ts.Lattice("cube", shape=(4, 4, 4), spacing=32e-9, step=1e-5, t_end=1e-4)
    cube.add_species("A")
    cube.add_parameter("k", 1.0)
    cube.add_diffusion("A", 1e-12)
    cube.add_reaction("A ->", rate="k")
    cube.place("A", count=20)
    path = tmp_path / "a.h5"
    ts.run(cube, frame_every=5, seed=1, device="cpu", output=path, **options).close()
    names = [name for name in datasets(path) if not ELSEWHERE.match(name)]
    assert len(names) > 20
    page = LATTICE + ENSEMBLE if options else LATTICE
    assert list(unnamed(names, page)) == []


def test_a_dataset_without_a_line_is_found():
    assert list(unnamed(["counts", "profile/wall", "news", "statistics/news"], ENSEMBLE)) == [
        "news",
        "statistics/news",
    ]

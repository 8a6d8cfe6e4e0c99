"""Kinds of result files: chosen by what a file says of itself."""

from __future__ import annotations

import re

import h5py
import pytest

from tauslab.api.kinds.ensembles import KIND as ENSEMBLE
from tauslab.api.kinds.lattices import KIND as LATTICE
from tauslab.api.kinds.networks import KIND as DBN
from tauslab.api.kinds.registry import kind_at
from tauslab.base.files.seals import FORMAT, FORMAT_VERSION
from tauslab.base.files.text import put_attributes
from tauslab.cli.main import main


@pytest.mark.parametrize(
    ("method", "kind"),
    [("ssa", ENSEMBLE), ("tau", ENSEMBLE), ("ode", ENSEMBLE), ("rdme", LATTICE), ("dbn", DBN)],
)
def test_the_method_that_a_file_names_chooses_its_kind(tmp_path, method, kind):
    path = tmp_path / "some.h5"
    with h5py.File(path, "w") as file:
        put_attributes(file, {"format": FORMAT, "method": method})
    assert kind_at(path) is kind


def test_what_is_no_result_is_refused_as_an_ensemble(tmp_path):
    path = tmp_path / "some.h5"
    path.write_text("no HDF5")
    assert kind_at(path) is ENSEMBLE


@pytest.mark.parametrize(
    ("method", "command", "told"),
    [
        ("ssa", ["plot", "--point", "3"], "--point 3: .* is of an ensemble: leave it out"),
        ("ssa", ["export", "--steps", "0:2"], "--steps 0:2: .* is of an ensemble"),
        ("rdme", ["plot", "--summary", "mean"], "--summary mean: .* is of a lattice"),
        ("dbn", ["export", "--species", "A,B"], "--species A,B: .* is of a dynamic Bayesian"),
        ("sensitivity", ["plot", "--kind", "mean"], "--kind mean: .* is of derivatives of means"),
        ("population", ["digest", "--species", "A"], "--species A: .* is of a population"),
        ("population", ["merge"], "holds a population of cells, not an ensemble"),
    ],
)
def test_an_option_that_means_nothing_for_a_file_is_refused(
    tmp_path, capsys, method, command, told
):
    path = tmp_path / "some.h5"
    with h5py.File(path, "w") as file:
        put_attributes(file, {"format": FORMAT, "format_version": FORMAT_VERSION, "method": method})
    assert main([command[0], str(path), *command[1:]]) == 2
    assert re.search(told, capsys.readouterr().err)
    assert list(tmp_path.iterdir()) == [path]

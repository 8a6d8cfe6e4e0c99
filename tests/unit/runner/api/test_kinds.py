"""Kinds of result files: chosen by what a file says of itself."""

from __future__ import annotations

import h5py
import pytest

from tauslab.model.files.seals import FORMAT
from tauslab.model.files.text import put_attributes
from tauslab.runner.api.kinds.recorded import DBN, ENSEMBLE, LATTICE
from tauslab.runner.api.kinds.registry import kind_at


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

"""Time and amounts have units in files and in xarray, and no digest knows of them."""

from __future__ import annotations

import h5py
import pytest
import xarray as xr
from places import TESTS

import tauslab as ts
from tauslab.cli.main import main

SBML = TESTS / "data" / "sbml"
COMMON = {"t_end": 1, "points": 2, "seed": 1, "device": "cpu"}


def decay():
    net = ts.Network("decay")
    net.add_species("X", 10)
    net.add_reaction("X ->", rate=1.0)
    return net


def run(model, path=None, **given):
    output = None if path is None else ts.Output(path, overwrite=True)
    return ts.run(model, output=output, **COMMON, **given)


@pytest.mark.parametrize("stored", [True, False])
def test_counts_are_molecules(tmp_path, stored):
    with run(decay(), tmp_path / "a.h5" if stored else None, n=3) as result:
        actual = result.to_xarray()
        assert actual["counts"].attrs["units"] == "molecules"
        assert "units" not in actual["time"].attrs, "nobody has said what a unit of time is"
        assert (result.amount_unit, result.time_unit) == ("molecules", "")


@pytest.mark.parametrize("stored", [True, False])
def test_a_model_in_nanomoles(tmp_path, stored):
    model = ts.read(SBML / "BIOMD0000000010.xml")
    with run(model, tmp_path / "a.h5" if stored else None, method="ode") as result:
        actual = result.to_xarray()
        assert actual["amounts"].attrs["units"] == "nmol"
        assert actual["time"].attrs["units"] == "s"
        assert (result.amount_unit, result.time_unit) == ("nmol", "s")


@pytest.mark.filterwarnings("ignore:initial amounts that are not whole")
def test_molecules_of_it():
    model = ts.in_molecules(ts.read(SBML / "BIOMD0000000010.xml"))
    result = run(model, n=2, set={"uVol": 1e-14})
    assert (result.amount_unit, result.time_unit) == ("molecules", "s")


def test_other_programs_read_them_and_times_stay_numbers(tmp_path):
    run(ts.read(SBML / "BIOMD0000000010.xml"), tmp_path / "a.h5", method="ode").close()
    with xr.open_dataset(tmp_path / "a.h5", engine="h5netcdf") as actual:
        assert actual["time"].dtype == "float64"
        assert actual["amounts"].attrs["units"] == "nmol"
    again = ts.run(tmp_path / "a.h5", method="ode", **COMMON)
    assert again.time_unit == "s"


def test_a_digest_knows_no_units(tmp_path, capsys):
    path = tmp_path / "a.h5"
    run(decay(), path, n=3).close()
    assert main(["digest", str(path)]) == 0
    before = capsys.readouterr().out
    with h5py.File(path, "r+") as file:  # as a file of an earlier version
        del file["counts"].attrs["units"]
    assert main(["digest", str(path)]) == 0
    assert capsys.readouterr().out == before


def test_a_lattice_has_seconds_and_particles(tmp_path):
    lattice = ts.Lattice("cube", shape=(4, 4, 4), spacing=32e-9, t_end=1e-3)
    lattice.add_species("A")
    lattice.add_diffusion("A", 1e-12)
    lattice.place("A", count=20)
    ts.run(
        lattice, count_every=1, frame_every=1, seed=1, device="cpu", output=tmp_path / "a.h5"
    ).close()
    with h5py.File(tmp_path / "a.h5") as file:
        units = [file[name].attrs["units"] for name in ("time", "lattice/time", "counts")]
    assert units == [b"s", b"s", b"particles"]

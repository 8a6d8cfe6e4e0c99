"""Files of Lattice Microbes without a lattice: a network, run by ``tauslab run``."""

from __future__ import annotations

import shutil
import warnings

import h5py
import numpy as np
import pytest

import tauslab as ts
from tauslab.base.errors import ModelError
from tauslab.cli.main import main
from tauslab.model.expressions.host_math import evaluate

R = "Model/Reaction"
pytestmark = pytest.mark.filterwarnings("ignore:.*2 A. the propensity:UserWarning")


@pytest.fixture
def stirred(data, tmp_path):
    """The reactions of tiny.lm alone: -> A, C -> A + B, A + B -> C, 2 A -> B."""
    path = shutil.copy(data / "lm" / "tiny.lm", tmp_path / "stirred.lm")
    with h5py.File(path, "r+") as file:
        del file["Model/Diffusion"]
        del file["Parameters"].attrs["timestep"]
        names = np.array([["A"], ["B"], ["C"]], object)
        file["Parameters"].create_dataset("SpeciesNames", data=names, dtype=h5py.string_dtype())
    return path


def changed(path, name, index, value):
    with h5py.File(path, "r+") as file:
        file[name][index] = value
    return path


def test_constants_are_stochastic_constants_of_the_one_volume(stirred):
    """k, k n, k n_A n_B, k n (n - 1) / 2 with the numbers of the file, whatever a lattice had."""
    network = ts.read(stirred)
    assert isinstance(network, ts.Network)
    counts = {"A": 100.0, "B": 200.0, "C": 300.0}
    assert network.initial_amounts() == counts
    expected = [100.0, 1.5 * 300, 2e-3 * 100 * 200, 4e-3 * 100 * 99 / 2]
    assert [evaluate(r.law, counts) for r in network.reactions] == pytest.approx(expected)
    changes = [{"A": 1}, {"A": 1, "B": 1, "C": -1}, {"A": -1, "B": -1, "C": 1}, {"A": -2, "B": 1}]
    assert [r.net_change() for r in network.reactions] == changes
    assert (network.t_end, network.name) == (0.01, "stirred")


def test_pairs_of_one_species_are_warned_of(stirred):
    """Versions of the program differ by a factor of 2."""
    with pytest.warns(UserWarning, match=r"stirred: 2 A: .* / 2; some versions .* twice it"):
        ts.read(stirred)
    changed(stirred, f"{R}/ReactionTypes", 3, 1)
    changed(stirred, f"{R}/StoichiometricMatrix", (slice(None), 3), [-1, 1, 0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ts.read(stirred)


def test_a_catalyst_is_no_change_and_stays_in_the_law(stirred):
    changed(stirred, f"{R}/StoichiometricMatrix", (slice(None), 2), [0, -1, 1])  # A + B -> A + C
    reaction = ts.read(stirred).reactions[2]
    assert (reaction.reactants, reaction.products) == ({"A": 1, "B": 1}, {"A": 1, "C": 1})


def test_it_runs_and_says_what_was_assumed(stirred, tmp_path, capsys):
    assert main(["check", str(stirred)]) == 0
    text = capsys.readouterr().out
    assert "note: no lattice: a well-stirred model, its constants taken as stochastic" in text
    assert "note: 2 A: the propensity is k n (n - 1) / 2; some versions" in text
    assert "note: writeInterval = 100: not used" in text
    assert "note: output of 1 runs in the file is not read" in text
    out = str(tmp_path / "out.h5")
    run = ["run", str(stirred), "-n", "20", "--seed", "1", "--device", "cpu", "-o", out]
    assert main([*run, "--quiet"]) == 0
    with ts.open(out) as result:
        assert result.times[-1] == 0.01
        assert (result.counts("A")[:, 0] == 100).all()
    assert main(["rdme", str(stirred)]) == 2
    assert "holds no lattice: run it with tauslab run" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "index", "value", "message"),
    [
        (f"{R}/ReactionTypes", 1, 4, r"R2: type 4 is not supported; types 0 to 3 are"),
        (f"{R}/ReactionRateConstants", (1, 0), np.nan, "R2: its constant is nan"),
        (f"{R}/StoichiometricMatrix", (2, 1), -2, "R2: takes more C than its reactants"),
    ],
)
def test_what_is_refused(stirred, name, index, value, message):
    with pytest.raises(ModelError, match=message) as caught:
        ts.read(changed(stirred, name, index, value))
    assert str(stirred) in str(caught.value)


def test_counts_for_other_species_are_refused(stirred):
    with h5py.File(stirred, "r+") as file:
        del file[f"{R}/InitialSpeciesCounts"]
        file[f"{R}/InitialSpeciesCounts"] = np.zeros(2, np.uint32)
    with pytest.raises(ModelError, match="InitialSpeciesCounts has 2 numbers for 3 species"):
        ts.read(stirred)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.array([0.5, 1.0, 2.0]), "holds what is not a whole number below"),
        (np.array([b"A"] * 3), "is not an array of numbers with 1 axes"),
        (np.array([np.inf, 1.0, 2.0]), "holds what is not a whole number below"),
    ],
)
def test_counts_that_are_no_counts_are_refused(stirred, values, message):
    with h5py.File(stirred, "r+") as file:
        del file[f"{R}/InitialSpeciesCounts"]
        file[f"{R}/InitialSpeciesCounts"] = values
    with pytest.raises(ModelError, match=f"InitialSpeciesCounts {message}"):
        ts.read(stirred)


def test_a_file_of_no_species(stirred):
    with h5py.File(stirred, "r+") as file:
        file[R].attrs["numberSpecies"] = 0
    with pytest.raises(ModelError, match=r"has 3 species, .* numberSpecies of 0"):
        ts.read(stirred)


def test_a_file_without_reactions_is_no_model(stirred):
    with h5py.File(stirred, "r+") as file:
        del file[R].attrs["numberReactions"]
    with pytest.raises(ModelError, match=r"holds no lattice, .* and is no well-stirred model"):
        ts.read(stirred)

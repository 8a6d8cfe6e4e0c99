"""Files of Lattice Microbes: values of a real one, every trap, and what is refused."""

from __future__ import annotations

import json
import shutil

import h5py
import numpy as np
import pytest

from tauslab.base.errors import ModelError
from tauslab.cli.main import main
from tauslab.formats.read import read
from tauslab.kernels.lattice.lowering import lower_lattice
from tauslab.model.lattice.values import lattice_values

D, R = "Model/Diffusion", "Model/Reaction"


@pytest.fixture
def tiny(data, tmp_path):
    return shutil.copy(data / "lm" / "tiny.lm", tmp_path / "tiny.lm")


def change(path, edit):
    with h5py.File(path, "r+") as file:
        edit(file)
    return path


def replace(group, name, values):
    del group[name]
    group[name] = values


def test_the_numbers_of_a_file(tiny):
    """For a site of N = 4096: k0 / N, k1, N k2; 2 N k3, since the GPU solver has N k3 n (n - 1)."""
    lattice = read(tiny)
    assert lattice.shape == (16, 8, 32)  # its x is 32
    assert (lattice.spacing, lattice.step, lattice.t_end) == (3.2e-8, 1e-5, 0.01)
    assert (lattice.type_names, lattice.slots) == (("outside", "cell"), 16)
    values = lattice_values(lattice)
    per_mille = np.arange(1, 13).reshape(3, 2, 2).transpose(1, 2, 0)
    assert values.diffusion[0, 0] == pytest.approx([1e-13, 5e-13, 9e-13])
    assert values.diffusion[0, 1] == pytest.approx([3e-13, 7e-13, 11e-13])
    assert values.diffusion[1, 0] == pytest.approx([2e-13, 6e-13, 10e-13])
    assert per_mille.shape == values.diffusion.shape
    everywhere = np.ones(2)
    expected = [
        [0, 100 / 4096],
        1.5 * everywhere,
        2e-3 * 4096 * everywhere,
        2 * 4e-3 * 4096 * everywhere,
    ]
    assert values.rates == pytest.approx(np.array(expected), rel=1e-12)
    sides = [(r.reactants, r.products) for r in lower_lattice(lattice).reactions]
    assert sides == [((), (0,)), ((2,), (0, 1)), ((0, 1), (2,)), ((0, 0), (1,))]


def test_pairs_of_one_species_react_as_with_a_molar_constant(tiny):
    """A file of jLM has k / (N_A V) of the lattice, which gives the rate of k in M^-1 s^-1."""
    molar = 1e6

    def edit(file):
        volume = 4096 * 3.2e-8**3  # m^3
        file[f"{R}/ReactionRateConstants"][3, 0] = molar / (6.02214076e23 * 1e3 * volume)

    lattice = read(change(tiny, edit))
    lattice.add_reaction("2 species0 -> species1", rate=molar, unit="M^-1 s^-1", name="block")
    rates = lattice_values(lattice).rates
    assert rates[3] == pytest.approx(rates[4], rel=1e-12)


def test_every_particle_stands_where_it_stood(tiny):
    lattice = read(tiny)
    with h5py.File(tiny) as file:
        stored = file[f"{D}/Lattice"][...].transpose(2, 1, 0, 3)
        sites = file[f"{D}/LatticeSites"][...].transpose(2, 1, 0)
    particles = lower_lattice(lattice).particles(0, 16, 1)
    for species in (1, 2, 3):
        assert ((particles == species).sum(-1) == (stored == species).sum(-1)).all()
        assert (particles == species).sum() == 100 * species
    assert (lattice.site_array() == sites).all()


def test_particles_may_stand_in_any_slot_and_take_four_bytes(tiny):
    def edit(file):
        stored = file[f"{D}/Lattice"][...].astype(np.uint32)
        replace(file[D], "Lattice", stored[..., ::-1])
        file[D].attrs["bytes_per_particle"] = np.array([4], np.uint32)

    before = lower_lattice(read(tiny)).particles(0, 16, 1)
    after = lower_lattice(read(change(tiny, edit))).particles(0, 16, 1)
    assert (np.sort(before) == np.sort(after)).all()
    assert (after[..., 0] > 0).sum() == (before[..., 0] > 0).sum()


@pytest.mark.parametrize(
    ("group", "name"), [("Parameters", "reactionConstNames"), ("Model", "name")]
)
def test_jlm_stores_z_first(tiny, group, name):
    def edit(file):
        file[group].attrs[name] = np.bytes_(b"k1,k2")

    lattice = read(change(tiny, edit))
    assert lattice.shape == (32, 8, 16)
    assert any("jLM" in note for note in lattice.notes)


def test_a_file_without_its_mark_is_read_and_noted(tiny, tmp_path):
    with h5py.File(tiny) as file, h5py.File(tmp_path / "plain.lm", "w") as plain:
        plain.attrs["formatVersion"] = file.attrs["formatVersion"]
        for name in file:
            file.copy(name, plain)
    assert any("LMH5" in note for note in read(tmp_path / "plain.lm").notes)
    assert not any("LMH5" in note for note in read(tiny).notes)


def test_names(tiny):
    def edit(file):
        names = np.array([["min-D"], ["2x"], ["min_D"]], object)
        file["Parameters"].create_dataset("SpeciesNames", data=names, dtype=h5py.string_dtype())

    lattice = read(change(tiny, edit))
    assert lattice.species == ["min_D", "_2x", "min_D_"]
    assert any("'2x' is called _2x" in note for note in lattice.notes)

    def older(file):
        del file["Parameters/SpeciesNames"]
        file["Parameters"].attrs["speciesNames"] = np.bytes_(b"a, b,c")

    assert read(change(tiny, older)).species == ["a", "b", "c"]


def test_a_file_without_reactions(tiny):
    def edit(file):
        del file[R].attrs["numberReactions"]
        file[D].attrs["numberReactions"] = np.array([0], np.uint32)
        del file[f"{D}/ReactionLocationMatrix"]

    lattice = read(change(tiny, edit))
    assert lattice.reactions == []
    assert "no reactions" in lattice.notes


def test_a_reaction_that_is_allowed_nowhere_happens_nowhere(tiny):
    def edit(file):
        file[f"{D}/ReactionLocationMatrix"][1] = 0

    lattice = read(change(tiny, edit))
    assert [r.name for r in lattice.reactions] == ["R1", "R3", "R4"]
    assert any("R2 is allowed nowhere" in note for note in lattice.notes)


def test_a_catalyst_stays(tiny):
    def edit(file):
        file[f"{R}/StoichiometricMatrix"][:, 1] = [1, 0, 0]  # S2 -> S2 + S0

    reaction = read(change(tiny, edit)).reactions[1]
    assert reaction.reactants == {"species2": 1}
    assert reaction.products == {"species0": 1, "species2": 1}


@pytest.mark.parametrize(
    ("given", "kind"), [(b"PERIODIC", "periodic"), (b"absorbing", "absorbing")]
)
def test_boundaries_that_are_named(tiny, given, kind):
    def edit(file):
        file["Parameters"].attrs["boundaryConditions"] = np.bytes_(given)

    assert read(change(tiny, edit)).boundary["z-"].kind == kind


def test_what_was_assumed_is_printed(tiny, capsys):
    assert main(["check", str(tiny)]) == 0
    text = capsys.readouterr().out
    for note in (
        "periodic is assumed",
        "volume of the whole lattice, 1.342e-19 m^3",
        "2 A: the propensity is k n (n - 1), as in that program's GPU solver of lattices",
        "latticeWriteInterval = 500, in time steps",
        "InitialSpeciesCounts is not used",
        "output of 1 runs in the file is not read",
        "axes of its arrays are x, y, z",
    ):
        assert f"note: {note}" in text or note in text
    assert main(["check", "--json", str(tiny)]) == 0
    assert "periodic is assumed" in " ".join(json.loads(capsys.readouterr().out)["notes"])


def set_type(kind):
    def edit(file):
        file[f"{R}/ReactionTypes"][2] = kind

    return edit


NOISE = np.array([[0.0, 1.0]] * 3 + [[0.5, 1.0]])


def attribute(group, name, value):
    return lambda file: file[group].attrs.__setitem__(name, value)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (set_type(7), "reaction R3: type 7 is not supported; types 0 to 3"),
        (set_type(1), "reaction R3: depends on 2 species; type 1 depends on 1"),
        (lambda f: f[f"{R}/StoichiometricMatrix"].__setitem__((0, 1), -1), "R2: takes more"),
        (lambda f: f[f"{D}/Lattice"].__setitem__((0, 0, 0, 0), 9), "particles of species 9"),
        (lambda f: replace(f[D], "DiffusionMatrix", np.zeros((2, 2, 2))), "DiffusionMatrix is"),
        (lambda f: replace(f[D], "LatticeSites", np.zeros((8, 8, 8), "u1")), "the attributes say"),
        (lambda f: replace(f[D], "ReactionLocationMatrix", np.ones((3, 2))), "LocationMatrix is"),
        (attribute("/", "formatVersion", np.array([9], np.uint32)), "formatVersion is 9; 2 to 4"),
        (attribute(D, "particlesPerSite", np.array([64], np.uint32)), "particlesPerSite is 64"),
        (attribute("Parameters", "timestep", np.bytes_(b"fast")), "timestep = 'fast'"),
        (attribute("Parameters", "boundaryConditions", np.bytes_(b"LINEAR")), "'LINEAR'"),
        (
            lambda f: f[R].create_dataset("ReactionRateNoise", data=NOISE),
            "R4: a noisy rate constant",
        ),
        (lambda f: f[R].__delitem__("ReactionTypes"), "is not whole"),
        (lambda f: replace(f[R], "ReactionTypes", [b"A"] * 4), "ReactionTypes is not an array of"),
        (lambda f: replace(f[R], "ReactionTypes", [1.5] * 4), "not a whole number below 2.31"),
        (lambda f: replace(f[R], "ReactionRateConstants", 1.0), "of numbers with 2 axes"),
        (lambda f: replace(f[R], "ReactionRateConstants", np.ones((4, 0))), "holds no constants"),
        (lambda f: replace(f[R], "StoichiometricMatrix", np.full((3, 4), 2**40)), "below 2.31"),
        (lambda f: replace(f[R], "InitialSpeciesCounts", b"\xff"), "InitialSpeciesCounts is not"),
        (lambda f: replace(f[D], "DiffusionMatrix", b"\xff\xfe"), "DiffusionMatrix is not an arr"),
        (lambda f: replace(f[D], "LatticeSites", np.full((32, 8, 16), 300)), "not from 0 to 255"),
        (lambda f: replace(f[D], "Lattice", np.full((32, 8, 16, 16), -1)), "not from 0 to 21474"),
        (attribute(D, "numberSpecies", "many"), "numberSpecies is not a number"),
        (attribute(D, "numberSpecies", 2**31), "numberSpecies is 2.14748e"),
        (attribute(D, "latticeXSize", 0.5), "latticeXSize is 0.5, not a whole number"),
        (attribute(D, "particlesPerSite", []), "has no attribute particlesPerSite"),
        (attribute(D, "latticeSpacing", "wide"), "latticeSpacing is not a number"),
    ],
)  # fmt: skip
def test_what_is_refused(tiny, edit, message):
    with pytest.raises(ModelError, match=message) as caught:
        read(change(tiny, edit))
    assert str(tiny) in str(caught.value)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("SimulationFile_3", "holds no lattice, .* and is no well-stirred model"),
        ("SimulationFile_GetReactionModel", "maxTime = .1e. is not a number"),
        ("SimulationFile_GetDiffusionModel", "no attribute numberSpecies"),
    ],
)
def test_files_without_a_whole_model(data, name, message):
    with pytest.raises(ModelError, match=message):
        read(data / "lm" / f"{name}.lm")


def test_arrays_of_other_files_are_not_read(tiny, tmp_path):
    secret = tmp_path / "secret"
    secret.write_bytes(bytes(32 * 8 * 16))

    def outside(file):
        del file[f"{D}/LatticeSites"]
        external = [(str(secret), 0, 32 * 8 * 16)]
        file[D].create_dataset("LatticeSites", (32, 8, 16), "u1", external=external)

    def linked(file):
        del file[f"{D}/LatticeSites"]
        file[f"{D}/LatticeSites"] = h5py.ExternalLink(str(tmp_path / "other.h5"), "/sites")

    with h5py.File(tmp_path / "other.h5", "w") as other:
        other["sites"] = np.zeros((32, 8, 16), "u1")
    for edit in (outside, linked):
        with pytest.raises(ModelError, match="LatticeSites lies in another file"):
            read(change(tiny, edit))
        with h5py.File(tiny, "r+") as file:
            del file[f"{D}/LatticeSites"]
            file[f"{D}/LatticeSites"] = np.zeros((32, 8, 16), "u1")


def test_what_is_no_hdf5_is_refused(tmp_path):
    (tmp_path / "a.lm").write_bytes(b"LMH5 and nothing")
    with pytest.raises(ModelError, match="cannot be read as HDF5"):
        read(tmp_path / "a.lm")

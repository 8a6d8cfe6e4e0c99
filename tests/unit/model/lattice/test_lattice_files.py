"""Lattices in TOML and HDF5: what is written reads back, what is wrong is named."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest
from places import ROOT
from spatial_factory import cell

from tauslab.base.errors import ModelError
from tauslab.formats.read import read, read_network
from tauslab.kernels.lattice.lowering import lower_lattice
from tauslab.model.lattice.canonical import lattice_canonical_text
from tauslab.model.lattice.lattice import Lattice
from tauslab.model.lattice.site_map import FileSites
from tauslab.model.lattice.values import lattice_values

TEXT = """
name = "rod"
t_end = 3

[lattice]
shape = [10, 6, 6]
spacing = 1e-8
step = 1e-6
slots = 32
boundary = "absorbing"
reaction_substeps = 2
site_types = ["out"]

[boundary]
z = "periodic"
"x-" = {kind = "held", concentrations = {A = 1e-3, B = "c"}, site_type = "in"}

[parameters]
c = 2e-3
k = "c * 10"

[[regions]]
site_type = "in"
shape = "box"
low = [1e-8, 1e-8, 1e-8]
high = [9e-8, 5e-8, 5e-8]

[[regions]]
site_type = "wall"
shape = "membrane"
of = "in"
neighbours = 26

[[regions]]
site_type = "stone"
shape = "obstacles"
of = "in"
radius = 2e-9
fraction = 0.25
seed = 4

[[regions]]
site_type = "out"
shape = "sphere"
radius = 1.8e-8
centre = [0.5e-8, 0.5e-8, 0.5e-8]
within = "wall"

[species]
A = [{count = 5, site_type = "in"}, {positions = [[0, 0, 0], [0, 0, 1]]}]
B = {concentration = "c", site_type = "in"}
C = 0

[[diffusion]]
species = "*"
coefficient = 1e-12

[[diffusion]]
species = ["A", "B"]
between = ["in", "out"]
coefficient = "k * 1e-12"

[[reactions]]
name = "pair"
equation = "A + B -> C"
rate = "k"
unit = "M^-1 s^-1"
site_types = ["in", "out"]

[[reactions]]
equation = "-> A"
rate = 1
volume = 1e-20

[[place]]
species = "C"
count = "2 + 1"
site_type = "out"
"""


def write(tmp_path, text=TEXT, name="rod.toml"):
    (tmp_path / name).write_text(text)
    return tmp_path / name


def test_toml_holds_what_the_builder_holds(tmp_path):
    lattice = read(write(tmp_path))
    assert isinstance(lattice, Lattice)
    assert (lattice.name, lattice.t_end, lattice.slots) == ("rod", 3.0, 32)
    assert lattice.type_names == ("out", "in", "wall", "stone")
    values = lattice_values(lattice)
    box = 8 * 4 * 4
    inner = 6 * 2 * 2
    assert values.sites_of.sum() == 360
    assert values.sites_of[1:].tolist() == [inner * 3 // 4, box - inner - 1, inner // 4]
    assert lattice.boundary["z+"].kind == "periodic"
    assert lattice.boundary["x+"].kind == "absorbing"
    molar = 6.02214076e23 * 1e3 * 1e-24
    assert values.ghost[4] == pytest.approx([1e-3 * molar, 2e-3 * molar, 0])
    assert values.ghost_type[4] == 1
    assert values.diffusion[0, 1].tolist() == [2e-14, 2e-14, 1e-12]
    assert values.rates[0] == pytest.approx([0.02 / molar, 0.02 / molar, 0, 0])
    assert values.rates[1] == pytest.approx([1e-24 / 1e-20] * 4)
    counts = [(p.species, p.count, p.positions is not None) for p in values.placed]
    assert counts == [(0, 5, False), (0, 2, True), (1, round(2e-3 * molar * 18), False),
                      (2, 3, False)]  # fmt: skip


def both_ways(lattice, path):
    lattice.write(path)
    again = read(path)
    assert isinstance(again, Lattice)
    return again


@pytest.mark.parametrize("make", [cell, lambda: None], ids=["builder", "toml"])
def test_hdf5_gives_the_same_model(tmp_path, make):
    lattice = make() or read(write(tmp_path))
    again = both_ways(lattice, tmp_path / "model.h5")
    assert isinstance(again.sites, FileSites)
    assert lattice_canonical_text(again) == lattice_canonical_text(lattice)
    assert lattice_canonical_text(again) == lattice_canonical_text(lattice)
    one, two = lower_lattice(lattice), lower_lattice(again)
    n = lattice.shape[0]
    assert (one.sites(2, n - 1) == two.sites(2, n - 1)).all()
    for z0, z1 in ((0, n), (3, 5)):
        assert (one.particles(z0, z1, 9) == two.particles(z0, z1, 9)).all()
    assert (one.hop == two.hop).all()
    assert [r.products for r in one.reactions] == [r.products for r in two.reactions]
    third = both_ways(again, tmp_path / "copy.h5")  # from file to file, planes by planes
    assert lattice_canonical_text(third) == lattice_canonical_text(lattice)
    assert third.source_text == again.source_text


def test_sites_in_a_file_are_read_only_where_they_are_asked_for(tmp_path):
    path = cell().write(tmp_path / "model.h5")
    lattice = read(path)
    changed = np.roll(lattice.sites.planes(4, 5), 1, axis=2)
    with h5py.File(path, "r+") as file:  # a change shows that nothing was kept
        file["model/sites"][4:5] = changed
    assert (lattice.sites.planes(4, 5) == changed).all()
    with h5py.File(path, "r+") as file:
        file["model/sites"][4] = 1
    with pytest.raises(ModelError, match="not as many of each type as it says"):
        lattice.sites.planes(4, 5)
    with h5py.File(path, "r+") as file:
        file["model/sites"][4:5] = changed
    lattice.site_array()[0] = 1  # now it has its own
    assert (lattice.sites.planes(0, 1) == 1).all()
    assert (read(path).sites.planes(0, 1) == 0).all()


def test_a_model_file_is_complete_or_not_there(tmp_path, monkeypatch):
    monkeypatch.setattr(
        Path, "write_bytes",
        lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")),
    )  # fmt: skip
    with pytest.raises(ModelError, match="cannot be written: No space left"):
        cell().write(tmp_path / "model.h5")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ModelError, match=r"is called \.h5"):
        cell().write(tmp_path / "model.txt")


def test_a_network_is_not_a_lattice(tmp_path):
    with pytest.raises(ModelError, match="run it with tauslab rdme"):
        read_network(write(tmp_path))
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.attrs["format"] = "tauslab"
    with pytest.raises(ModelError, match="is not a result of tauslab"):
        read(tmp_path / "x.h5")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("spacing = 1e-8\n", "", r"\[lattice\]: the key spacing is missing"),
        ("slots = 32", "slots = 32.0", r"\[lattice\] slots: .* whole number"),
        ("slots = 32", "slot = 32", r"\[lattice\]: unknown key 'slot'"),
        ("t_end = 3", "tend = 3", "the file: unknown key 'tend'"),
        ('shape = "box"', 'shape = "cube"', r"\[\[regions\]\] number 1: 'cube' is not a shape"),
        ("high =", "top =", r"number 1: unknown key 'top'"),
        ('of = "in"\nneigh', 'of = "inn"\nneigh', r"number 2: .*'inn' is not a site type"),
        ("seed = 4", "seed = 4.5", r"number 3, seed: 4.5 where a whole number"),
        ("radius = 2e-9\n", "", r"number 3, radius: nothing where a number"),
        ('kind = "held"', 'kind = "hold"', r"\[boundary\] x-: .*'hold' is not a boundary"),
        ("B = {conc", "B = {con", r"\[species\] B: unknown key"),
        ("species = [", "kinds = [", r"\[\[diffusion\]\] number 2: unknown key 'kinds'"),
        ('between = ["in", "out"]', 'between = ["in"]', "between: two site types"),
        ('rate = "k"', "", r"\[\[reactions\]\] pair: the key rate is missing"),
        ("volume = 1e-20\n", "", r"\[\[reactions\]\] number 2: reaction R2: its rate needs"),
        ('count = "2 + 1"\n', "", r"\[\[place\]\] number 1: place C: give one of"),
        ('count = "2 + 1"', 'positions_sha256 = "x"', "unknown key 'positions_sha256'"),
    ],
)
def test_toml_that_is_wrong(tmp_path, old, new, message):
    assert old in TEXT
    path = write(tmp_path, TEXT.replace(old, new))
    with pytest.raises(ModelError, match=message) as caught:
        read(path)
    assert str(caught.value).startswith(f"{path}: ")


def test_two_rates_of_a_reversible_reaction(tmp_path):
    path = tmp_path / "a.toml"
    for rates, message in (
        ('["k", 50.0]', None),
        ('["k", true]', r"a boolean .* where a number or an expression"),
        ("[1.0]", r"rate=\(forward, reverse\)"),
    ):
        text = TEXT.replace('"A + B -> C"\nrate = "k"', f'"A + B <-> C"\nrate = {rates}')
        path.write_text(text)
        if message is None:
            pair, reverse, _ = read(path).reactions
            assert (pair.name, reverse.name) == ("pair", "pair_reverse")
            assert lattice_values(read(path)).rates[1, 0] == 50
            continue
        with pytest.raises(ModelError, match=message):
            read(path)


def test_labels_in_toml(tmp_path):
    np.save(tmp_path / "labels.npy", np.arange(8).reshape(2, 2, 2) // 4)
    text = """
    [lattice]
    shape = [2, 2, 2]
    spacing = 1e-8
    step = 1e-6
    [[regions]]
    shape = "labels"
    file = "labels.npy"
    labels = {0 = "water", 1 = "oil"}
    [species]
    A = 0
    """
    lattice = read(write(tmp_path, text))
    assert lattice.type_names == ("water", "oil")
    assert lattice.site_array()[:, 0, 0].tolist() == [0, 1]


def test_regions_without_a_list_of_types_take_all_sites(tmp_path):
    text = """
    [lattice]
    shape = [4, 4, 4]
    spacing = 1e-8
    step = 1e-6
    TYPES
    [[regions]]
    site_type = "cell"
    shape = "box"
    low = [0, 0, 0]
    high = [2e-8, 4e-8, 4e-8]
    [species]
    A = 0
    """
    with pytest.raises(ModelError, match=r"'cell' of .* the first, .* 32 of 64 sites are in none"):
        read(write(tmp_path, text.replace("TYPES", "")))
    listed = read(write(tmp_path, text.replace("TYPES", 'site_types = ["water", "cell"]')))
    assert np.bincount(listed.site_array().ravel()).tolist() == [32, 32]


DOCS = ROOT / "docs"


def code_block(page, language):
    return (DOCS / page).read_text().split(f"```{language}\n")[1].split("```")[0]


def test_the_page_of_the_schema_shows_a_model(tmp_path):
    lattice = read(write(tmp_path, code_block("lattice-toml.md", "toml")))
    assert lattice.type_names == ("outside", "cytoplasm", "membrane")
    assert lower_lattice(lattice).reactions[0].products == (1, 1)


def test_the_page_about_lattices_shows_a_program(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(code_block("lattices.md", "python"), {})  # noqa: S102 - our own page
    lattice = read(tmp_path / "cell.h5")
    assert lattice_values(lattice).placed[0].count > 0
    assert lattice.boundary["z+"].kind == "periodic"

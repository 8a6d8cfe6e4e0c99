"""The lattice model: what it refuses, and the numbers it turns constants into."""

from __future__ import annotations

import numpy as np
import pytest
from spatial_factory import cell

import tauslab as ts
from tauslab.base.errors import ConfigError, ModelError
from tauslab.kernels.lattice.codegen import pass_length, reaction_passes
from tauslab.kernels.lattice.lowering import lower_lattice
from tauslab.model.lattice.canonical import lattice_canonical_text
from tauslab.model.lattice.values import lattice_values

N_A = 6.02214076e23
H = 32e-9


def small(**options):
    lattice = ts.Lattice("small", shape=(4, 5, 6), spacing=H, step=1e-5, **options)
    lattice.add_species("A", "B")
    return lattice


def rates(lattice):
    return lattice_values(lattice).rates[:, 0]


def test_molar_constants_become_stochastic_constants_of_a_site():
    """K N_A v, k, k / (N_A v), and 2 k / (N_A v) for a pair of equals (Gillespie 1977)."""
    lattice = small()
    lattice.add_reaction("-> A", rate=1e-6, unit="M s^-1")
    lattice.add_reaction("A ->", rate=3.0)
    lattice.add_reaction("A + B ->", rate=1e6, unit="M^-1 s^-1")
    lattice.add_reaction("2 A ->", rate=1e6, unit="M^-1 s^-1")
    litres = H**3 * 1000
    expected = [1e-6 * N_A * litres, 3.0, 1e6 / (N_A * litres), 2e6 / (N_A * litres)]
    assert rates(lattice) == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize(
    ("volume", "zeroth", "second"),
    [
        ("site", 2.0, 2.0),
        ("lattice", 2.0 / 120, 2.0 * 120),
        (120 * H**3, 2.0 / 120, 2.0 * 120),
        ("inner", 2.0 / 20, 2.0 * 20),
    ],
)
def test_stochastic_constants_scale_with_their_volume(data, volume, zeroth, second):
    """conventions.json: a pair in a site has k times the number of sites, a source k / N."""
    assert "number_of_sites" in (data / "rdme" / "conventions.json").read_text()
    lattice = small()
    mask = np.zeros((4, 5, 6), bool)
    mask.ravel()[:20] = True
    lattice.add_site_type("outer")
    lattice.add_site_type("inner", mask)
    for equation in ("-> A", "A + B ->", "2 A ->"):
        lattice.add_reaction(equation, rate=2.0, volume=volume)
    assert rates(lattice) == pytest.approx([zeroth, second, second], rel=1e-12)


def test_a_first_type_with_a_mask_does_not_fill_the_lattice():
    """Nobody means the sites outside its mask to be of that type: others have to take them."""
    inside = np.zeros((4, 5, 6), bool)
    inside[1:3] = True
    lattice = small()
    lattice.add_site_type("inside", inside)
    lattice.place("A", count=5, site_type="inside")
    with pytest.raises(ModelError, match=r"'inside' of small, the first, .* 60 of 120 sites"):
        lattice.validate()
    with pytest.raises(ModelError, match="60 of 120 sites"):
        ts.run(lattice, t_end=1e-3, device="cpu")
    lattice.add_site_type("below", np.indices((4, 5, 6))[0] < 1)
    with pytest.raises(ModelError, match="30 of 120 sites"):
        lattice.check()
    lattice.site_array()[3] = lattice.type_number("below", "here")
    lattice.validate()
    assert lattice_values(lattice).sites_of.tolist() == [60, 60]
    other = small()
    other.add_site_type("all", np.ones((4, 5, 6), bool))
    other.validate()


def test_a_concentration_of_less_than_half_a_particle_is_reported():
    lattice = small()
    litre_sites = 120 * H**3 * 1000
    lattice.place("A", concentration=0.4 / (N_A * litre_sites))
    with pytest.warns(UserWarning, match=r"^place A: .* are 0.4 particles, rounded to none"):
        assert lattice_values(lattice).initial(2).tolist() == [[0, 0]]
    other = small()
    other.place("A", concentration=0.6 / (N_A * litre_sites))
    other.place("B", concentration=0.0)
    assert lattice_values(other).initial(2).tolist() == [[1, 0]]


def test_later_diffusion_rules_replace_earlier_ones():
    lattice = small()
    lattice.add_site_type("out")
    lattice.add_site_type("in")
    lattice.add_diffusion("*", 1.0)
    lattice.add_diffusion("A", 2.0, between=("out", "in"))
    lattice.add_diffusion(["B"], 0.0, source="in", target="out")
    lattice.add_diffusion("B", 3.0, within="in")
    actual = lattice_values(lattice).diffusion  # from, to, species
    assert actual[:, :, 0].tolist() == [[1, 2], [2, 1]]
    assert actual[:, :, 1].tolist() == [[1, 1], [0, 3]]


def test_concentrations_become_whole_particles():
    lattice = small()
    lattice.place("A", concentration=1e-4)
    [placed] = lattice_values(lattice).placed
    assert placed.count == round(1e-4 * N_A * 1000 * 120 * H**3) == 237


def test_a_held_face_has_particles_in_ghost_sites():
    lattice = small()
    lattice.add_site_type("water")
    lattice.add_site_type("wall")
    lattice.set_boundary("x-", "held", concentrations={"B": 1e-3}, site_type="wall")
    lattice.set_boundary("z", "periodic")
    lattice.add_diffusion("*", 1e-12)
    lowered = lower_lattice(lattice)
    assert lowered.boundary == ("periodic",) * 2 + ("reflecting",) * 2 + ("held", "reflecting")
    expected = np.zeros((6, 2))
    expected[4, 1] = 1e-3 * N_A * 1000 * H**3
    assert lowered.ghost == pytest.approx(expected)
    assert lowered.ghost_type == (0, 0, 0, 0, 1, 0)


def test_lowering_numbers_reactions():
    lowered = lower_lattice(cell())
    bind, free = lowered.reactions
    assert (bind.name, bind.reactants, bind.products) == ("bind", (0, 1), (2,))
    assert (free.reactants, free.products) == ((2,), (0, 1))
    assert bind.rates[0] == 0 < bind.rates[1]
    assert lower_lattice(cell(), parameters={"k": 7.0}).reactions[1].rates[1] == 7.0
    lattice = small()
    lattice.add_diffusion("*", 1e-12)
    lattice.add_reaction("B + A -> 2 B + A", rate=1.0, volume="site")
    lattice.add_reaction("2 B ->", rate=1.0, volume="site")
    swapped, pair = lower_lattice(lattice).reactions
    assert (swapped.reactants, swapped.products) == ((0, 1), (0, 1, 1))
    assert (pair.reactants, pair.products) == ((1, 1), ())


@pytest.mark.parametrize(("max_hop", "passes"), [(1 / 6, 1), (0.1, 2), (0.03, 5), (0.49, 1)])
def test_a_step_is_divided_by_the_hop_probability(max_hop, passes):
    """Q = D tau / h^2 = 0.122 at 2.5 um^2/s, 50 us, 32 nm."""
    lattice = small()
    lattice.step = 5e-5
    lattice.add_diffusion("*", 2.5e-12)
    lowered = lower_lattice(lattice, max_hop=max_hop)
    assert lowered.diffusion_substeps == passes
    assert lowered.hop.max() == pytest.approx(2.5e-12 * 5e-5 / H**2 / passes)
    assert lowered.step == 5e-5


def test_a_model_without_a_step_takes_the_longest_of_one_pass():
    lattice = ts.Lattice(shape=(3, 3, 3), spacing=H)
    lattice.add_species("A")
    with pytest.raises(ModelError, match="nothing diffuses"):
        lower_lattice(lattice)
    lattice.add_diffusion("A", 1e-12)
    lowered = lower_lattice(lattice)
    assert lowered.step == pytest.approx(H**2 / 6e-12)
    assert lowered.diffusion_substeps == 1
    assert lowered.hop.max() == pytest.approx(1 / 6)


def test_reaction_substeps_are_the_passes_of_hops_unless_given():
    lattice = small()
    lattice.add_diffusion("*", 1e-12)
    lattice.add_reaction("A -> B", rate=1e6)
    lattice.place("A", count=360)
    assert lower_lattice(lattice).reaction_substeps == 1
    assert lower_lattice(lattice, max_hop=0.005).reaction_substeps == 2
    assert lower_lattice(lattice, reaction_substeps=5).reaction_substeps == 5
    lattice.reaction_substeps = 3
    assert lower_lattice(lattice).reaction_substeps == 3


def test_every_part_of_a_step_has_as_many_passes_of_reactions():
    """Q = 0.0098 in two parts; three passes of reactions become four."""
    lattice = small()
    lattice.add_diffusion("*", 1e-12)
    lattice.add_reaction("A -> B", rate=1000)
    lattice.place("A", count=360)
    lowered = lower_lattice(lattice, max_hop=0.005, reaction_substeps=3)
    assert (lowered.diffusion_substeps, lowered.reaction_substeps) == (2, 4)
    assert reaction_passes(lowered) == 2
    assert pass_length(lowered) == pytest.approx(lowered.step / 4)


@pytest.mark.parametrize("max_hop", [0.0, 0.5, 0.7, float("nan")])
def test_a_hop_probability_of_a_half_is_refused(max_hop):
    lattice = small()
    lattice.add_diffusion("*", 1e-12)
    with pytest.raises(ConfigError, match="max_hop="):
        lower_lattice(lattice, max_hop=max_hop)


def test_particles_take_two_bytes_from_256_species_on():
    for count, dtype in ((255, np.uint8), (256, np.uint16)):
        lattice = ts.Lattice(shape=(2, 2, 2), spacing=H, step=1e-6)
        lattice.add_species(*(f"S{i}" for i in range(count)))
        lattice.place(f"S{count - 1}", positions=[[1, 1, 1]])
        lowered = lower_lattice(lattice)
        assert lowered.particle_type is dtype
        particles = lowered.particles(0, 2, 1)
        assert (particles.dtype, particles[1, 1, 1, 0]) == (dtype, count)


def test_ten_thousand_reactions():
    lattice = small()
    lattice.add_diffusion("*", 1e-12)
    for i in range(10_000):
        lattice.add_reaction("A -> B", rate=float(i))
    assert lower_lattice(lattice).reactions[9999].rates.tolist() == [9999.0]


WRONG = [
    (lambda m: m.add_species("A"), "species 'A' is defined twice"),
    (lambda m: m.add_species("2A"), "species '2A' is not a name"),
    (lambda m: m.add_site_type("lattice"), "site type 'lattice'"),
    (lambda m: m.paint("default", np.zeros((4, 5, 6))), "mask of 'default': float64"),
    (lambda m: m.paint("default", np.zeros((4, 5, 5), bool)), r"it must be bool \[4, 5, 6\]"),
    (lambda m: m.add_reaction("2 A + B ->", rate=1), "3 particles react"),
    (
        lambda m: m.add_reaction("A + B ->", rate=1),
        r'reaction R1: .* unit="M\^-1 s\^-1" or volume=',
    ),
    (lambda m: m.add_reaction("A + B ->", rate=1, unit="s^-1"), "unit 's.-1' where 'M.-1 s.-1'"),
    (lambda m: m.add_reaction("-> A", rate=1, volume=-1.0), "R1: volume = -1 m"),
    (lambda m: m.add_reaction("-> A", rate=1, volume="cell"), "R1: volume: 'cell' is not a site"),
    (lambda m: m.add_reaction("A -> X", rate=1), "reaction R1: 'X' is not a species"),
    (lambda m: m.add_reaction("A ->", rate=-1), "reaction R1: rate is -1"),
    (lambda m: m.add_reaction("A ->", rate="kk"), "reaction R1: rate: 'kk' is not a parameter"),
    (lambda m: m.add_reaction("A ->", rate="1 / (2 + A)"), "R1: rate: 'A' is a species.*E \\+ S"),
    (lambda m: m.add_reaction("A -> 17 B", rate=1), "R1 makes 17 particles; a site holds 16"),
    (
        lambda m: m.add_reaction("A ->", rate=1, site_types="x"),
        "reaction R1: 'x' is not a site type",
    ),
    (lambda m: m.add_diffusion("A", -1.0), r"diffusion of A: coefficient is -1"),
    (lambda m: m.add_diffusion("X", 1.0), r"diffusion of X: 'X' is not a species"),
    (lambda m: m.add_diffusion("A", 1.0, within="x", source="y"), "one of within="),
    (lambda m: m.place("A"), "place A: give one of count="),
    (lambda m: m.place("X", count=1), "place X: 'X' is not a species"),
    (lambda m: m.place("A", count=1921), "1921 particles are placed in 120 sites, which hold 1920"),
    (lambda m: m.place("A", positions=[[0, 0, 6]]), r"position \[0, 0, 6\] is outside"),
    (lambda m: m.place("A", positions=[[0.0, 0.0, 1.0]]), "whole numbers"),
    (lambda m: m.set_boundary("z-", "periodic"), "z- is periodic and z. is reflecting"),
    (lambda m: m.set_boundary("w", "periodic"), "'w' is not a face"),
    (lambda m: m.set_boundary("z", "open"), "face z-: 'open' is not a boundary"),
    (lambda m: m.set_boundary("z", "absorbing", concentrations={"A": 1}), "belong to a held face"),
]


@pytest.mark.parametrize(("change", "message"), WRONG)
def test_what_is_wrong_is_named(change, message):
    def build():
        lattice = small()
        change(lattice)
        lattice.validate()

    with pytest.raises(ModelError, match=message):
        build()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shape": (4, 0, 4)}, "shape"),
        ({"shape": (4, 4)}, "shape"),
        ({"spacing": 0.0}, "spacing"),
        ({"slots": 12}, "slots = 12: a site holds 8, 16, 32"),
        ({"step": -1.0}, "step"),
        ({"boundary": "open"}, "'open' is not a boundary"),
        ({"reaction_substeps": 0}, "reaction_substeps"),
    ],
)
def test_wrong_lattices(options, message):
    with pytest.raises(ModelError, match=message):
        ts.Lattice(**{"shape": (4, 4, 4), "spacing": 1e-8, **options})


def test_a_count_that_is_not_whole_is_rounded_with_a_warning():
    lattice = small()
    lattice.place("A", count=2.5)
    with pytest.warns(UserWarning, match=r"count 2\.5 is not whole"):
        assert lattice_values(lattice).placed[0].count == 2


def test_the_hash_sees_what_matters():
    first = lattice_canonical_text(cell())
    assert lattice_canonical_text(cell()) == first
    renamed = cell()
    renamed.name = "other"
    assert lattice_canonical_text(renamed) == first
    for change in (
        lambda m: m.place("A", count=1, site_type="cell"),
        lambda m: m.place("A", positions=[[1, 1, 1]]),
        lambda m: m.site_array().__setitem__((0, 0, 0), 1),
        lambda m: m.set_boundary("z", "periodic"),
        lambda m: m.add_diffusion("A", 1e-13),
    ):
        changed = cell()
        change(changed)
        assert lattice_canonical_text(changed) != first


def test_numbers_are_put_into_parameters() -> None:
    lattice = ts.Lattice(shape=(2, 2, 2), spacing=1e-8)
    lattice.add_parameter("k", 1)
    lattice.parameters["k"] = 2
    assert lattice.parameter_values() == {"k": 2}
    for name, value in (("k", "2 * k"), ("j", 3)):
        with pytest.raises(ModelError, match=r"assign a number|'j' is not a parameter"):
            lattice.parameters[name] = value
    lattice.parameters = {"k": 3}
    assert lattice.parameter_values() == {"k": 3}


def test_the_diffusion_matrix_is_what_all_rules_give():
    lattice = ts.Lattice("cell", shape=(4, 4, 4), spacing=1e-8)
    lattice.add_site_type("cytoplasm")
    lattice.add_site_type("nucleoid", np.arange(64).reshape(4, 4, 4) < 32)
    lattice.add_species("A", "B")
    lattice.add_parameter("D", 1e-12)
    lattice.add_diffusion("*", "D")
    lattice.add_diffusion("A", "D / 2", within="nucleoid")
    lattice.add_diffusion("A", 0, source="cytoplasm", target="nucleoid")
    shown = lattice.diffusion_matrix("A", {"D": 4e-12}).splitlines()
    assert shown[0].split()[-2:] == ["cytoplasm", "nucleoid"]
    assert shown[1].split() == ["cytoplasm", "4e-12", "0"]
    assert shown[2].split() == ["nucleoid", "4e-12", "2e-12"]
    with pytest.raises(ModelError, match="'C' is not a species; species: A, B"):
        lattice.diffusion_matrix("C")


def test_particles_of_unknown_species_are_refused_at_the_call():
    lattice = ts.Lattice(shape=(8, 8, 8), spacing=1e-8)
    lattice.add_species("A", "B")
    for given in ({"count": 1}, {"positions": [[0, 0, 0]]}):
        with pytest.raises(ModelError, match="place C: 'C' is not a species; species: A, B"):
            lattice.place("C", **given)
    assert not lattice.placements

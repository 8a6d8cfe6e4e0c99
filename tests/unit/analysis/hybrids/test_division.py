"""Cells of hybrids that divide."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sampling import ordinary
from scipy.stats import binom, chi2, poisson

import tauslab as ts
from tauslab.analysis.hybrids.driver import HybridRun
from tauslab.base.errors import ConfigError, ModelError
from tauslab.kernels.lattice.halving import COPY, FIRST, POSITION, Halving, Plane
from tauslab.kernels.lattice.state import WAITING
from tauslab.store.state import StateFile

RARE = 1e-5  # false alarms of a test of chance
SPACING = 1e-8
VOLUME = 4 / 3 * math.pi * 60**3  # nm^3
SHAPE = ts.shapes.dividing_sphere(
    area="1e-18 * lipids.area", volume=2e-27 * VOLUME, shells={"membrane": 1}
)
AREA = 4 * math.pi * 60**2  # nm^2


def fits(counts, expected, most=RARE):
    """Whether whole numbers follow probabilities, cells of fewer than 5 joined."""
    seen = np.bincount(counts, minlength=len(expected))[: len(expected)].astype(float)
    want = expected * len(counts)
    order = np.argsort(want)
    few = order[np.cumsum(want[order]) < 5]
    rest = np.setdiff1d(np.arange(len(want)), few)
    seen = np.append(seen[rest], seen[few].sum() + len(counts) - seen.sum())
    want = np.append(want[rest], max(want[few].sum(), 1e-9))
    if want[-1] < 1e-6:
        assert seen[-1] == 0
        seen, want = seen[:-1], want[:-1]
    return chi2.sf(((seen - want) ** 2 / want).sum(), len(want) - 1) > most


def run(hybrid, t_end=1.0, **given):
    return ts.run(hybrid, **{"t_end": t_end, "seed": 5, "pilot": 0, "device": "cpu"} | given)


def mixture():
    """All kinds of parts, without a lattice."""
    genes = ts.Network("genes")
    for name, count in {"X": 5, "Y": 101, "plasmid": 4, "ATP": 1001, "fuel": 300}.items():
        genes.add_species(name, count)
    genes.add_species("gene", 2, fixed=True)
    genes.add_reaction("X -> X", rate=1.0, name="use")
    made = ts.Network("made")
    made.add_species("ATP", 1.0)
    made.add_species("c", 3.0)
    made.add_species("V", 1.0)
    made.add_rate("c", "0.0 * V")
    made.add_rate("ATP", "0.001")
    made.add_rate("V", "0.1 * V")
    hybrid = ts.Hybrid("cell", tick=0.5)
    hybrid.add_part("genes", genes)
    hybrid.add_part("made", made, method="ode")
    hybrid.add_part("size", lambda t, dt, v: {"m": 2 * dt}, values={"m": 1.0, "k": 4.0})
    hybrid.share("genes.ATP", "made.ATP", volume="1000 * made.V")
    hybrid.bill("genes.fired(use)", {"genes.fuel": 1000})
    return hybrid


WORDS = {
    "genes.Y": "even", "genes.plasmid": "copy", "made.*": "share", "made.c": "copy",
    "size.*": "share", "size.k": "copy",
}  # fmt: skip


def test_each_quantity_is_divided_by_its_word():
    hybrid = mixture()
    hybrid.divide("time == 0.5", partition=WORDS | {"made.V": "share"}, fraction=0.3)
    n = 4000
    result = run(hybrid, n=n)
    divided = result.divisions
    assert len(divided) == n
    assert (divided.time == 0.5).all()
    assert (divided.fraction == 0.3).all()
    for name in set(divided.names) - {"genes.plasmid", "genes.gene", "made.c", "size.k"}:
        mother, first, second = divided.of(name)
        assert (np.floor(first) + np.floor(second) <= mother).all(), name
        assert first + second == pytest.approx(mother, rel=1e-15), name
    mother, first, _ = divided.of("genes.X")
    assert (mother == 5).all()
    assert fits(first.astype(int), binom.pmf(np.arange(6), 5, 0.3))
    _, first, _ = divided.of("genes.Y")
    assert fits(first.astype(int) - 50, np.array([0.5, 0.5]))
    mother, first, _ = divided.of("genes.ATP")
    z = (np.floor(first) - 0.3 * np.floor(mother)) / np.sqrt(0.21 * mother)
    assert abs(z.mean()) < 4.5 / math.sqrt(n)
    assert abs(z.var() - 1) < 4.5 * math.sqrt(2 / n)
    mother, first, _ = divided.of("genes.fuel.debt")
    z = ((first - 0.3 * mother) / np.sqrt(0.21 * np.maximum(mother, 1)))[mother > 0]
    assert abs(z.mean()) < 4.5 / math.sqrt(len(z))
    for name, both in {"genes.plasmid": 4, "genes.gene": 2, "made.c": 3, "size.k": 4}.items():
        assert all((one == both).all() for one in divided.of(name)), name
    for name in ("made.V", "size.m"):
        mother, first, _ = divided.of(name)
        assert (first == 0.3 * mother).all()
    kept = np.where(divided.first_in >= 0, divided.of("genes.Y")[1], divided.of("genes.Y")[2])
    assert (result.values("genes.Y")[:, -1] == kept).all()
    assert (divided.first_in >= 0).mean() == pytest.approx(0.5, abs=4.5 / math.sqrt(4 * n))


def test_debts_and_pools_keep_their_sums_and_accounts_go_on():
    hybrid = mixture()
    hybrid.divide("time == 0.5", partition=WORDS | {"made.V": "share"})
    plain = mixture()
    result, other = run(hybrid, n=50), run(plain, n=50)
    divided = result.divisions
    for name in ("genes.ATP", "genes.fuel"):
        assert (np.rint(divided.of(name)[0]) == other.values(name)[:, 1]).all(), name
    assert (divided.of("genes.fuel.debt")[0] == other.debt("genes.fuel")[:, 1]).all()
    kept = np.where(divided.first_in >= 0, *divided.of("genes.fuel.debt")[1:])
    billed = (result.paid("genes.fuel") + result.debt("genes.fuel"))[:, 1:]
    assert (billed[:, 0] == other.paid("genes.fuel")[:, 1] + other.debt("genes.fuel")[:, 1]).all()
    # What a daughter owes later are her part of the debt, and what she was billed herself.
    assert ((billed[:, 1] - result.paid("genes.fuel")[:, 1] - kept) % 1000 == 0).all()


def box(n_z=4, count=60, **more):
    made = ts.Lattice("box", shape=(n_z, 4, 4), spacing=1e-7, step=0.01)
    for name in ("P", "Q", "R"):
        made.add_species(name)
        made.add_diffusion(name, 5e-14)
        made.place(name, count=count)
    hybrid = ts.Hybrid("cell", tick=0.5)
    hybrid.add_part("box", made)
    hybrid.divide("time == 2", partition={"box.Q": "copy", "box.R": "first"}, **more)
    return hybrid


@pytest.mark.validate
@pytest.mark.parametrize(
    ("at", "share"), ordinary([(None, 0.5), (1e-7, 0.25), (1.5e-7, 0.375)], (1.5e-7, 0.375))
)
def test_mixed_particles_are_divided_binomially_by_their_sites(at, share):
    n, count = 200, 20
    result = run(box(count=count, at=at), t_end=2.5, n=n, seed=8)
    divided = result.divisions
    assert divided.fraction == pytest.approx(np.full(n, share), rel=1e-15)
    mother, first, second = divided.of("box.P")
    assert (first + second == mother).all()
    assert fits(first.astype(int), binom.pmf(np.arange(count + 1), count, share))
    assert all((one == count).all() for one in divided.of("box.Q"))
    assert (divided.of("box.R")[1] == count).all()
    assert (divided.of("box.R")[2] == 0).all()
    first_goes_on = divided.first_in >= 0
    kept = np.where(first_goes_on, first, second)
    assert (result.values("box.P")[:, -1] == kept).all()
    assert (result.values("box.R")[:, -1] == count * first_goes_on).all()


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("inside", [False, True])
def test_halves_are_those_of_a_loop(axis, inside):
    rng = np.random.default_rng(3)
    shape = tuple(np.roll((7, 5, 4), axis))
    types = (rng.random(shape) < 0.6).astype(np.uint8)
    slots = 4
    cells = np.zeros((*shape, slots), np.uint8)
    for site in np.ndindex(shape):
        held = rng.integers(1, 4, rng.integers(0, slots + 1))
        cells[(*site, slice(len(held)))] = held
    waiting = np.zeros(3, WAITING)
    waiting["site"], waiting["particle"] = [2, 30, 139], [1, 2, 3]
    plane = Plane(axis, None, (1,) if inside else None)
    sides = plane.sides(shape, 1e-8)
    assert (sides == [1, 1, 1, 0, 2, 2, 2]).all()
    how = Halving(plane, np.array([POSITION, COPY, FIRST], np.uint8))

    def half(kept):
        return how.half(cells, waiting, types, sides, kept, np.random.Philox(7))

    one, two = half(1), half(2)
    numbers = np.bincount(np.append(cells[cells > 0], waiting["particle"]), minlength=4)[1:]
    assert (one.counts == two.counts).all()
    assert one.counts[:, 0].sum() == numbers[0]
    assert (one.counts[:, 1] == numbers[1]).all()
    assert one.counts[:, 2].tolist() == [numbers[2], 0]
    filled = np.moveaxis(types != 0 if inside else types >= 0, axis, 0).sum(axis=(1, 2))
    assert one.share == pytest.approx((filled[:3].sum() + filled[3] / 2) / filled.sum())
    for kept, actual in ((1, one), (2, two)):
        held = np.bincount(actual.cells[actual.cells > 0], minlength=4)[1:]
        held += np.bincount(actual.waiting[1], minlength=4)[1:]
        assert (held == actual.counts[kept - 1]).all()
        assert ((actual.cells[..., 1:] > 0) <= (actual.cells[..., :-1] > 0)).all()
        # Species 1 off the plane: each stands where the loop puts it.
        for site in np.ndindex(shape):
            z = site[axis] + actual.shift
            if not 0 <= z < 7 or sides[z] != kept:
                continue
            origin = (*site[:axis], z, *site[axis + 1 :])
            want = (cells[origin] == 1).sum()
            flat = int(np.ravel_multi_index(origin, shape))
            want += ((waiting["site"] == flat) & (waiting["particle"] == 1)).sum()
            local = int(np.ravel_multi_index(site, shape))
            got = (actual.cells[site] == 1).sum()
            got += ((actual.waiting[0] == local) & (actual.waiting[1] == 1)).sum()
            assert got == want
            if inside:
                assert actual.types[site] == types[origin]
    if not inside:
        assert one.shift == two.shift == 0
        assert (one.types == types).all()


def growing(*, counts=False, **more):
    """A ball that grows into two; ribosomes, membrane proteins, a gene, and lipids in a pool."""
    lattice = ts.Lattice("space", shape=(34, 24, 24), spacing=SPACING, step=0.05)
    lattice.add_site_type("out")
    for name, mask in SHAPE(lattice, area=1e-18 * AREA).items():
        lattice.add_site_type(name, mask)
    lattice.add_species("P", "M", "R", "gene")
    lattice.add_diffusion("P", 1e-15, within="cytoplasm")
    lattice.add_diffusion("M", 1e-16, within="membrane")
    lattice.add_diffusion("R", 2e-16, within="cytoplasm")
    lattice.add_object("ribosome", sites=1, follows="R", within="cytoplasm")
    lattice.add_reaction("-> P", rate=0.05, volume="site", site_types="cytoplasm")
    lattice.place("P", count=400, site_type="cytoplasm")
    lattice.place("M", count=300, site_type="membrane")
    lattice.place("R", count=8, site_type="cytoplasm")
    lattice.pin("gene", [(16, 12, 12), (17, 12, 12)])
    lipids = ts.Network("lipids")
    lipids.add_species("area", round(AREA))
    if counts:
        lipids.add_reaction("-> area", rate=0.2 * AREA)
    else:
        lipids.add_rate("area", f"0.2 * {AREA}")
    hybrid = ts.Hybrid("cell", tick=0.5)
    hybrid.add_part("lipids", lipids, method="ssa" if counts else "ode")
    hybrid.add_part("space", lattice)
    hybrid.shape("space", SHAPE, every=0.5)
    hybrid.add_part("size", lambda t, dt, v: {}, values={"inside": 0.0, "ribosome": 0.0})
    for name, kind in (("inside", "cytoplasm"), ("ribosome", "ribosome")):
        hybrid.drive(f"size.{name}", f"space.volume({kind})", over="end")
    word = "even" if counts else "share"
    hybrid.divide(
        f"lipids.area >= 1.98 * {AREA}",
        partition={"lipids.area": word, "size.*": "copy", "space.gene": "copy"}, **more,
    )  # fmt: skip
    return hybrid


def test_pinned_particles_that_one_daughter_gets_are_named():
    lattice = ts.Lattice("space", shape=(4, 2, 2), spacing=SPACING, step=0.5)
    lattice.add_species("P", "gene", "locus")
    lattice.add_diffusion("P", 1e-16)
    lattice.pin("gene", [(1, 1, 1)])
    lattice.pin("locus", [(2, 1, 1)])
    cell = ts.Hybrid("cell", tick=0.5)
    cell.add_part("space", lattice)
    cell.divide("time >= 1", partition={"space.lo*": "copy"})
    with pytest.warns(UserWarning, match=r"only one daughter gets the pinned species space\.gene"):
        result = run(cell, t_end=1.0)
    assert result.divisions.of("space.locus")[1:] == (1, 1)


@pytest.mark.validate
def test_a_daughter_has_the_shape_of_her_own_quantities():
    result = run(growing(), t_end=6.0, n=2)
    divided = result.divisions
    assert divided.time.tolist() == [5.0, 5.0]
    assert divided.fraction.tolist() == [0.5, 0.5]
    for name in ("space.P", "space.M", "space.R"):
        mother, first, second = divided.of(name)
        assert (first + second == mother).all(), name
    for cell in range(2):
        kept = 1 if divided.first_in[cell] == cell else 2
        for name in ("P", "M", "R", "gene"):
            got = divided.of(f"space.{name}")[kept][cell]
            if name != "P":
                assert (result.values(f"space.{name}")[cell, 11:] == got).all(), name
    last = {name: result.values(f"space.{name}")[:, -1] for name in result.parts["space"].names}
    for name, where in (("P", "cytoplasm"), ("M", "membrane"), ("R", "ribosome")):
        assert (last[name] == last[f"{name}_in_{where}"]).all(), name
    assert (last["gene"] == 2).all()
    volume = result.values("size.inside") + result.values("size.ribosome")
    # The shape at t = 5.5, half a second after the area was that of the start again.
    assert volume[:, -1] / volume[:, 1] == pytest.approx(1.1**1.5, rel=0.03)
    site = 1e3 * SPACING**3
    assert result.values("size.ribosome")[:, -1] == pytest.approx(7 * site * last["R"], rel=1e-9)


@pytest.mark.gpu
def test_devices_divide_alike():
    hybrid = growing(counts=True, follow="population")
    actual = {run(hybrid, t_end=12.0, n=3, device=device).digest() for device in ("cpu", "cuda")}
    assert len(actual) == 1


@pytest.mark.validate
def test_a_hybrid_that_divides_goes_on_from_its_checkpoint(tmp_path):
    how = {"n": 2, "seed": 4, "t_end": 6.0, "splitting": "strang", "device": "cpu"}

    class EnoughError(Exception):
        """The run is left."""

    def part_way(tick):
        kept = []

        def keep(now, last):
            if now._reached[0] >= tick:
                kept.append({name: np.array(value) for name, value in now.stored().items()})
                raise EnoughError

        half = HybridRun(growing(follow="population"), **how)
        with pytest.raises(EnoughError):
            half.run(keep)
        half.close()
        return kept[0]

    straight = HybridRun(growing(follow="population"), **how)
    straight.run()
    expected = straight.stored()
    straight.close()
    assert len(expected["divider/time"]) == 2
    for tick in (12, 20, 22):  # half ticks; cells divide at 20
        file = StateFile(tmp_path / f"{tick}.h5", "hybrid", "state")
        file.write(part_way(tick))
        again = HybridRun(growing(follow="population"), **how)
        again.take_up(file.read())
        again.run()
        actual = again.stored()
        again.close()
        for name, value in expected.items():
            assert np.array_equal(np.asarray(actual[name]), np.asarray(value)), name


def test_a_result_with_divisions_is_read_from_its_file(tmp_path):
    hybrid = mixture()
    hybrid.divide("age >= 0.5", partition=WORDS, follow="one")
    result = run(hybrid, n=3, output=ts.Output(tmp_path / "cell.h5"))
    read = ts.open(tmp_path / "cell.h5")
    assert read.digest() == result.digest()
    assert read.divisions.names == result.divisions.names
    assert (read.divisions.time == [0.5, 0.5, 0.5, 1.0, 1.0, 1.0]).all()
    assert (read.divisions.first_in == [0, 1, 2, 0, 1, 2]).all()
    assert (read.divisions.second_in == -1).all()
    assert (read.divisions.first == result.divisions.first).all()
    table = read.to_pandas("divisions")
    assert len(table) == 6
    assert (table["genes.Y_first"] + table["genes.Y_second"] == table["genes.Y_mother"]).all()
    assert "6 divisions" in read.lines()
    with pytest.raises(ConfigError, match=r"'made\.no' is not divided"):
        read.divisions.of("made.no")


def dilution(follow, when, n):
    """Production k V without decay."""
    cell = ts.Network("cell")
    cell.add_species("X", 0)
    cell.add_parameter("V", 1.0)
    cell.add_reaction("-> X", law="20 * V", name="make")
    size = ts.Network("size")
    size.add_species("V", 1.0)
    size.add_rate("V", "0.5 * V")
    period = math.log(2) / 0.5
    hybrid = ts.Hybrid("cell", tick=period / 8)
    hybrid.add_part("size", size, method="ode")
    hybrid.add_part("cell", cell)
    hybrid.drive("cell.V", "size.V")
    hybrid.divide(when(period), partition={"size.V": "share"}, follow=follow)
    return run(hybrid, t_end=8 * period, n=n)


def test_dilution_by_growth_and_division_leaves_poisson_numbers():
    """Thinned and independent Poisson numbers: mean (m + 40) / 2 in each generation."""
    result = dilution("lineage", lambda period: f"age >= {period - 1e-6}", 1500)
    divided = result.divisions
    assert np.unique(divided.time).size == 8
    last = divided.time > divided.time.max() - 1e-6
    _, first, second = divided.of("cell.X")
    mean = 40 * (1 - 0.5**8)
    for one in (first[last], second[last]):
        assert fits(one.astype(int), poisson.pmf(np.arange(120), mean))
    both = np.corrcoef(first[last], second[last])[0, 1]
    assert abs(both) < 4.5 / math.sqrt(1500)


@pytest.mark.validate
def test_a_population_that_divides_at_a_rate_has_the_mean_of_its_equation():
    """With production k and division at a rate r, m' = k - r m in the whole population."""
    cell = ts.Network("cell")
    cell.add_species("X", 0)
    cell.add_species("D", 0)
    cell.add_reaction("-> X", rate=20.0)
    cell.add_reaction("-> D", rate=0.5)
    hybrid = ts.Hybrid("cell", tick=0.02)
    hybrid.add_part("cell", cell, sample=1.0)
    hybrid.divide("cell.D > generation", partition={"cell.D": "copy"}, follow="population")
    result = run(hybrid, t_end=10, n=1000)
    x = result.values("cell.X")[:, -1]
    assert 0.47 < len(result.divisions) / 1000 / 10 < 0.53
    # Cells that descend from few are alike: 1,000 of them count as about 300.
    assert x.mean() == pytest.approx(40 * (1 - math.exp(-5)), abs=4.5 * x.std() / math.sqrt(300))
    single = ts.Hybrid("cell", tick=0.02)
    single.add_part("cell", cell, sample=1.0)
    single.divide("cell.D > generation", partition={"cell.D": "copy"})
    # In a lineage they are older: m' = k - r m / 2.
    x = run(single, t_end=16, n=1000).values("cell.X")[:, -1]
    assert x.mean() == pytest.approx(80 * (1 - math.exp(-4)), abs=4.5 * x.std() / math.sqrt(1000))


def test_a_file_says_how_cells_divide(tmp_path):
    genes = tmp_path / "genes.toml"
    genes.write_text('[species]\nX = 9\n[[reactions]]\nequation = "-> X"\nrate = 1.0\n')
    path = tmp_path / "cell.toml"
    text = '[hybrid]\ntick = 1.0\n[[parts]]\nname = "genes"\nmodel = "genes.toml"\n[divide]\n'
    path.write_text(text + 'when = "age >= 2"\nfollow = "one"\npartition = {"genes.X" = "even"}\n')
    result = run(path, t_end=4.0)
    assert result.divisions.time.tolist() == [2, 4]
    path.write_text(text + 'when = "size > 2"\n')
    with pytest.raises(ModelError, match=r"\[divide\]: .*'size' is no quantity"):
        run(path)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"when": "genes.no > 1"}, "no 'no'"),
        ({"when": "X > 1"}, "'X' is no quantity of a part"),
        ({"follow": "both"}, "follow='both' is not known"),
        ({"axis": "w"}, "axis='w' is not known"),
        ({"fraction": 1.5}, "between 0 and 1"),
        ({"at": -1.0}, "above 0"),
    ],
)
def test_arguments_are_checked(given, message):
    with pytest.raises(ConfigError, match=message):
        mixture().divide(**{"when": "time > 1", **given})


@pytest.mark.parametrize(
    ("partition", "message"),
    [
        ({}, "an amount or a concentration"),
        ({"genes.no*": "copy"}, "no quantity fits"),
        (WORDS | {"genes.X": "share"}, "genes.X=share is not allowed"),
        (WORDS | {"genes.ATP": "even", "made.ATP": "share"}, "several words for the pool"),
        (WORDS | {"genes.Y": "position"}, "genes.Y=position is not allowed"),
    ],
)
def test_words_are_checked(partition, message):
    hybrid = mixture()
    hybrid.divide("time > 1", partition=partition)
    with pytest.raises(ConfigError, match=message):
        run(hybrid)


def test_what_cannot_divide_is_refused():
    delayed = mixture()
    delayed.parts["genes"].model.add_reaction("X -> Y", rate=1.0, delay=2.0)
    delayed.divide("time > 1", partition=WORDS)
    with pytest.raises(ConfigError, match="delayed, which cells that divide cannot have"):
        run(delayed)
    hybrid = mixture()
    hybrid.divide("time > 1", every=0.7, partition=WORDS)
    with pytest.raises(ConfigError, match="whole multiple"):
        run(hybrid)
    with pytest.raises(ConfigError, match="two conditions"):
        hybrid.divide("time > 2")
    with pytest.raises(ConfigError, match="follows from the plane"):
        run(box(fraction=0.4))
    own = of_two_kinds()
    own.set_rate("net.idle", "k * (1 + own.k)")
    with pytest.raises(ConfigError, match="the same for all cells: give k as a parameter"):
        run(own, n=8)


def of_two_kinds(n=8):
    """Cells of which half grow twice as fast, each with amounts of its own at the start."""
    net = ts.Network("net")
    for name, value in {"k": 0.0, "x": 0.0}.items():
        net.add_parameter(name, value)
    net.add_species("X", "x")
    net.add_species("kept", "10 * k")
    net.add_rate("X", "k * X")
    net.add_reaction("kept -> kept", rate="k", name="idle")
    hybrid = ts.Hybrid("cells", tick=0.125)
    k, x = np.repeat([0.5, 1.0], n // 2), np.linspace(1.0, 1.9, n)
    hybrid.add_part("net", net, method="ode", set={"k": k, "x": x})
    hybrid.add_part("own", lambda *_: {}, values={"k": k})
    hybrid.drive("own.k", "net.k", over="end")
    hybrid.divide("net.X >= 2", partition={"net.X": "share", "net.kept": "initial"},
                  follow="population")  # fmt: skip
    return hybrid


def test_daughters_have_the_values_of_their_mother():
    """Parameters and values at the start go with a daughter to the place of another cell."""
    result = run(of_two_kinds(), t_end=6.0, n=8)
    assert len(result.divisions) > 20
    assert len(set(result.divisions.second_in.tolist()) - {-1}) > 3
    x, k, kept = (result.values(name) for name in ("net.X", "own.k", "net.kept"))
    np.testing.assert_array_equal(kept, 10 * k)
    grows = np.log(x[:, 1:] / x[:, :-1]) / 0.125
    same, divided = np.ones(grows.shape, bool), result.divisions
    at = np.rint(divided.time / 0.125).astype(int)
    for place in (divided.first_in, divided.second_in):  # -1: a daughter that nobody follows
        same[place[place >= 0], np.minimum(at[place >= 0], same.shape[1] - 1)] = False
    np.testing.assert_allclose(grows[same], k[:, 1:][same], rtol=1e-4)
    assert same.mean() > 0.7
    assert (k[:, -1] != k[:, 0]).any()


def pool_of_amounts(start, word):
    """Two parts with amounts that share X."""
    hybrid = ts.Hybrid("cell", tick=1.0)
    for name in ("one", "two"):
        part = ts.Network(name)
        part.add_species("X", start)
        part.add_rate("X", "0.0")
        hybrid.add_part(name, part, method="ode")
    hybrid.share("one.X", "two.X")
    hybrid.divide("time == 1", partition={"one.X": word}, fraction=0.3)
    return hybrid


@pytest.mark.parametrize("start", ordinary([0.8, 2.5, 7.9], 2.5))
def test_a_pool_that_nobody_counts_is_divided_like_an_amount(start):
    result = run(pool_of_amounts(start, "share"), t_end=2.0, n=8)
    divided = result.divisions
    mother, first, second = divided.of("one.X")
    assert first == pytest.approx(0.3 * mother, rel=1e-12)
    assert second == pytest.approx(0.7 * mother, rel=1e-12)
    kept = np.where(divided.first_in >= 0, first, second)
    assert result.values("two.X")[:, -1] == pytest.approx(kept, rel=1e-12)


@pytest.mark.parametrize("word", ["binomial", "even", "share", "first"])
@pytest.mark.parametrize("power", ordinary([49, 51, 60], 60))
def test_large_pools_are_divided(word, power):
    divided = run(pool_of_amounts(2.0**power, word), t_end=1.0, n=4).divisions
    mother, first, second = divided.of("one.X")
    part = {"even": 0.5, "first": 1.0}.get(word, 0.3)
    assert first == pytest.approx(part * mother, rel=1e-6)
    assert second == pytest.approx(mother - first, rel=1e-6)


def test_what_follows_a_formula_is_not_divided():
    cell = ts.Network("cell")
    cell.add_species("A", 7)
    cell.add_reaction("A -> A", rate=1.0)
    hybrid = ts.Hybrid("cell", tick=1.0)
    hybrid.add_part("cell", cell)
    hybrid.add_part("size", lambda t, dt, v: {}, values={"V": 0.0, "u": 4.0})
    hybrid.drive("size.V", "cell.A")
    hybrid.divide("time == 2", partition={"size.*": "share", "cell.A": "copy"})
    result = run(hybrid, t_end=4.0, n=2)
    assert (result.values("size.V")[:, 1:] == 7).all()
    assert (result.values("size.u")[:, -1] == 2).all()


def exchanging():
    """A lattice that gets particles now and then, in cells that divide at different times."""
    lattice = ts.Lattice("box", shape=(6, 6, 6), spacing=1e-7, step=0.01)
    for name in ("P", "Q"):
        lattice.add_species(name)
        lattice.add_diffusion(name, 5e-14)
    lattice.place("P", count=40)
    lattice.add_reaction("P + P -> Q", rate=0.5, volume="site")
    genes = ts.Network("genes")
    genes.add_species("P", 40)
    genes.add_species("D", 0)
    genes.add_reaction("-> P", rate=2.0)
    genes.add_reaction("P ->", rate=0.02)
    genes.add_reaction("-> D", rate=0.5)
    hybrid = ts.Hybrid("cell", tick=0.25)
    hybrid.add_part("box", lattice)
    hybrid.add_part("genes", genes)
    hybrid.share("genes.P", "box.P")
    hybrid.divide("genes.D > generation", partition={"genes.D": "copy"})
    return hybrid


@pytest.mark.parametrize(
    ("model", "t_end"), ordinary([(exchanging, 5.0), (growing, 6.0)], (exchanging, 5.0))
)
def test_a_cell_is_the_same_among_any_number(model, t_end):
    made = model(counts=True) if model is growing else model()
    every = run(made, t_end=t_end, n=3)
    alone = run(made, t_end=t_end, n=1)
    assert len(every.divisions) > 0
    for name in every.quantities:
        assert (every.values(name)[:1] == alone.values(name)).all(), name

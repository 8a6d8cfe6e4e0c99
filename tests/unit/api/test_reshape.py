"""Hooks that give a lattice other site types: a cell of 85,000 particles that grows (H14)."""

from __future__ import annotations

import numpy as np
import pytest
from sampling import ordinary

import tauslab as ts
from tauslab.base.errors import ConfigError
from tauslab.store.results.digest import digest_total
from tauslab.store.results.lattice.digest import lattice_digest_lines

SHAPE, SPACING = (128, 64, 64), 1e-8
BALL = ts.shapes.sphere(
    shells={"shell": 1, "membrane": 1}, centre=(64.5e-8, 32.5e-8, 32.5e-8)
)  # of the centre of a site
NUMBERS = {"C": (73_400, "cytoplasm"), "P": (7_400, "shell"), "M": (4_200, "membrane")}


def cell(slots, scale=1, shape=SHAPE, radius=20.0, ball=BALL):
    made = ts.Lattice("cell", shape=shape, spacing=SPACING, slots=slots, step=5e-5)
    made.add_site_type("out")
    for name, mask in ball(made, radius=radius * SPACING).items():
        made.add_site_type(name, mask)
    made.add_species(*NUMBERS)
    for name in ("cytoplasm", "shell"):
        made.add_diffusion("C", 1e-13, within=name)
    made.add_diffusion("C", 1e-13, between=("cytoplasm", "shell"))
    made.add_diffusion("P", 1e-13, within="shell")
    made.add_diffusion("M", 1e-14, within="membrane")
    for name, (count, where) in NUMBERS.items():
        made.place(name, count=count // scale, site_type=where)
    return made


@pytest.mark.parametrize("slots", [pytest.param(16, marks=pytest.mark.validate), 8])
def test_a_cell_grows_site_by_site(slots):
    """Nobody goes farther than two sites; the last shape takes all at once."""
    message = []

    def grow(view):
        for radius, reach in ((21, 2), (22, 2), (23, 2), (24, 2), (25, 2), (20, 8)):
            actual = view.reshape(BALL(view, radius=radius * SPACING), reach=reach)
            table = view.counts(by="site_type")
            held = np.asarray(view.particles > 0).any(axis=-1)
            message.append(
                (table.tolist(), actual, bool((held & np.asarray(view.sites == 0)).any()))
            )

    ts.run(cell(slots), t_end=5e-5, hooks=[(1, grow)], seed=1, quiet=True, device="cpu").close()
    names = ["out", "membrane", "shell", "cytoplasm"]
    for table, actual, in_wall in message:
        by_type = {name: dict(zip("CPM", row, strict=True))
                   for name, row in zip(names, table, strict=True)}  # fmt: skip
        assert not in_wall
        assert by_type["out"] == {"C": 0, "P": 0, "M": 0}
        assert by_type["shell"]["P"] == 7_400
        assert by_type["membrane"] == {"C": 0, "P": 0, "M": 4_200}
        assert by_type["shell"]["C"] + by_type["cytoplasm"]["C"] == 73_400
        assert actual.waiting == 0


@pytest.mark.gpu
def test_devices_agree():
    ball = ts.shapes.sphere(shells={"shell": 1, "membrane": 1})

    def grow(view):
        radius = (6 + 0.3 * (view.step % 7)) * SPACING
        view.reshape(ball(view, radius=radius), particles={"C": "shell"}, reach=3)

    actual = []
    for engine in ("slots", "planes"):
        for device in ("cpu", "cuda"):
            model = cell(8, 20, (30, 28, 26), 6.0, ball)
            run = {"t_end": 50 * 5e-5, "hooks": [(2, grow)], "seed": 3, "frame_every": 10}
            with ts.run(model, device=device, engine=engine, quiet=True, **run) as result:
                actual.append(digest_total(lattice_digest_lines(result.path)))
    assert actual[0] == actual[1]
    assert actual[2] == actual[3]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"site_types": np.zeros((3, 3, 3), int)}, "site types are whole numbers"),
        ({"site_types": np.full((30, 28, 26), 9)}, "numbers of site types are 0 to 3"),
        ({"site_types": {"wall": np.zeros((30, 28, 26), bool)}}, "'wall' is not a site type"),
        ({"site_types": {"shell": np.zeros((30, 28, 26))}}, "takes a mask of the whole lattice"),
        ({"site_types": {}}, "no site left where C may be"),
        ({"reach": 17}, "reach = 17"),
        ({"particles": {"X": "stay"}}, "'X' is not a species"),
    ],
)
def test_what_is_refused(given, message):
    ball = ts.shapes.sphere(shells={"shell": 1, "membrane": 1})
    model = cell(8, 20, (30, 28, 26), 6.0, ball)

    def hook(view):
        given.setdefault("site_types", ball(view, radius=5.5 * SPACING))
        view.reshape(given["site_types"], **{k: v for k, v in given.items() if k != "site_types"})

    with pytest.raises(ConfigError, match=message):
        ts.run(model, t_end=5e-5, hooks=[(1, hook)], seed=1, quiet=True, device="cpu")


def genes(positions):
    """A small cell whose genes are at chosen sites; a rule of diffusion names all species."""
    ball = ts.shapes.sphere(shells={"membrane": 1})
    made = ts.Lattice("genes", shape=(16, 16, 16), spacing=SPACING, slots=8, step=1e-5)
    made.add_site_type("out")
    for name, mask in ball(made, radius=6e-8).items():
        made.add_site_type(name, mask)
    made.add_species("G", "GP", "P")
    made.add_diffusion("*", 1e-13, within="cytoplasm")
    made.add_reaction("G + P <-> GP", rate=(1e6, 100.0), unit="M^-1 s^-1")
    made.pin(["G", "GP"])
    made.pin("G", positions)
    made.place("P", count=150, site_type="cytoplasm")
    return made, ball


@pytest.mark.parametrize("engine", ordinary(["slots", "planes"], "slots"))
def test_pinned_particles_stay_where_they_are(engine, tmp_path):
    """Steps, reactions and shapes that leave them outside; the model's file keeps them pinned."""
    positions = [(8, 8, 8), (8, 8, 8), (4, 7, 9), (11, 6, 8), (8, 3, 7)]
    made, ball = genes(positions)
    again = ts.read(made.write(tmp_path / "genes.h5"))
    assert again.pinned == ["G", "GP"]
    seen = []

    def shrink(view):
        view.reshape(ball(view, radius=(6 - 0.5 * (view.step // 20)) * SPACING))
        kinds = np.asarray(view.particles)
        wanted = np.isin(kinds, [view.number("G") + 1, view.number("GP") + 1])
        seen.append((np.argwhere(wanted)[:, :3].tolist(), view.count("GP")))

    ts.run(again, t_end=0.002, hooks=[(20, shrink)], engine=engine, seed=2, quiet=True,
           device="cpu").close()  # fmt: skip
    assert all(where == sorted(map(list, positions)) for where, _ in seen)
    assert max(bound for _, bound in seen) > 0  # they react all the same

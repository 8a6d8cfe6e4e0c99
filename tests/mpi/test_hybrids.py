"""One lattice whose slabs are on several ranks, alone and as a part of a hybrid: the same bits."""

from __future__ import annotations

import pytest
from sampling import ordinary

_SPACE = """
import hashlib
import sys
import numpy as np
import tauslab as ts
from tauslab.decomposition.ranks.all_ranks import ranks
from tauslab.kernels.lattice import planes

engine = sys.argv[1]
planes.MANY_SITES, planes.LEAST_DENSITY = (0 if engine == "planes" else np.inf), 0
comm = ranks()

def space():
    box = ts.Lattice(
        "box", shape=(9, 6, 7), spacing=3e-8, slots=8, step=1e-4,
        boundary="periodic" if engine == "planes" else "reflecting",
    )
    z = np.indices(box.shape)[0]
    box.add_site_type("low", z < 5)
    box.add_site_type("high", z >= 5)
    box.add_species("A", "B")
    box.add_parameter("k", 60.0)
    box.add_diffusion("*", 1e-12)
    box.add_reaction("2 A -> B", rate=1e8, unit="M^-1 s^-1", name="bind")
    box.add_reaction("B -> 2 A", rate="k", name="part")
    box.place("A", count=1360, site_type="low")  # of 1,680 places: some wait
    box.place("A", count=1040, site_type="high")
    return box

def tell(name, told):
    found = comm.allgather(hashlib.sha256(told).hexdigest())
    if comm.rank == 0:
        print(name, *sorted(set(found)))
"""

_ENSEMBLE = (
    _SPACE
    + """
told = b""
with ts.Ensemble(space(), 1, seed=4, device="cpu") as one:
    for step in range(4):
        one.advance(0.001 * (step + 1))
        one.set(A=one.values("A") + 30 * step - 39, k=50.0 + step)
        told += one.counts.tobytes() + one.profile("A").tobytes() + one.profile("B", "y").tobytes()
        told += one.fired().tobytes() + one.observables["A_in_high"].tobytes()
    types = np.indices((9, 6, 7))[0] >= 4
    one.reshape(types.astype(np.uint8))
    one.take([0])
    one.advance(0.006)
    told += one.counts.tobytes() + one.sites_of_types().tobytes()
    one.save("one.h5")
    one.take([0, 0, 0])
    one.advance(0.007)
    told += one.counts.tobytes() + one.fired().tobytes()
with ts.Ensemble.load("one.h5", device="cpu") as again:
    again.advance(0.008)
    told += again.counts.tobytes() + again.profile("B").tobytes()
tell("digest", told)
"""
)


@pytest.mark.parametrize("engine", ordinary(["slots", "planes"], "slots"))
def test_one_lattice_of_an_ensemble_is_cut_between_ranks(mpirun, engine):
    digests = {
        line
        for n in (1, 3)
        for line in mpirun(n, ["-c", _ENSEMBLE, engine]).stdout.splitlines()
        if line.startswith("digest")
    }
    assert len(digests) == 1, digests
    assert len(digests.pop().split()) == 2  # all ranks have the same one


_HYBRID = (
    _SPACE
    + """
from tauslab.analysis.particles.store import StateCheckpoint
stops = int(sys.argv[2])
path = f"cell-{engine}-{comm.size}-{stops}.h5"
net = ts.Network("net")
net.add_species("A", 100)
net.add_parameter("k", 1.0)
net.add_reaction("A ->", rate="k")
net.add_reaction("-> A", rate=30000.0, name="born")
pool = ts.Network("pool")
pool.add_species("E", 50.0)
pool.add_rate("E", "900 - 10 * E")
cell = ts.Hybrid("cell", tick=0.001)
cell.add_part("space", space())
cell.add_part("net", net)
cell.add_part("pool", pool, method="ode", every=0.002)
cell.share("net.A", "space.A")
cell.drive("net.k", "0.1 * pool.E + space.volume(low) * 1e15")
cell.set_rate("space.part", "k * (1 + 0.01 * pool.E)")
cell.bill("space.fired(bind)", {"pool.E": 0.1})

def halves(z, y, x, E):
    low = z < 3e-8 * (4 + (E > 70))
    return {"low": low, "high": ~low}

cell.shape("space", ts.shapes.custom(halves, E="pool.E"), every=0.002)
usual, saved = StateCheckpoint.save, []

def save(self, kept, *, last=False):
    usual(self, kept, last=last)
    saved.append(1)
    if len(saved) == stops:
        raise KeyboardInterrupt

StateCheckpoint.save = save
given = dict(t_end=0.008, seed=3, device="cpu", pilot=2, n=1)
try:
    result = ts.run(cell, output=path, checkpoint_every=0, **given)
except KeyboardInterrupt:
    result = ts.run(cell, output=path, resume=True, **given)
tell("digest", result.digest().encode())
"""
)


@pytest.mark.parametrize(
    ("engine", "more"),
    ordinary(
        [(name, pair) for name in ("slots", "planes") for pair in ((2, 4), (3, 5))],
        ("slots", (3, 5)),
    ),
)
def test_slabs_of_a_hybrid_have_the_bits_of_a_whole_lattice(mpirun, engine, more):
    digests = {
        line
        for n, stops in ((1, 0), more)
        for line in mpirun(n, ["-c", _HYBRID, engine, str(stops)]).stdout.splitlines()
        if line.startswith("digest")
    }
    assert len(digests) == 1, digests
    assert len(digests.pop().split()) == 2


_CELLS = (("slots", 1), ("planes", 1), ("slots", 4))
_DIVIDING = (
    _SPACE
    + """
from tauslab.analysis.particles.store import StateCheckpoint
n, stops = int(sys.argv[2]), int(sys.argv[3])
path = f"divided-{engine}-{n}-{comm.size}.h5"
net = ts.Network("net")
net.add_species("A", 2400)
net.add_species("C", 301)
net.add_reaction("A -> 2 A", rate=20.0, name="grow")
cell = ts.Hybrid("cell", tick=0.001)
cell.add_part("space", space())
cell.add_part("net", net)
cell.share("net.A", "space.A")
cell.bill("net.fired(grow)", {"net.C": 1})

def halves(z, y, x):
    return {"low": z < 1.5e-7, "high": z >= 1.5e-7}

cell.shape("space", ts.shapes.custom(halves), every=0.002)
cell.divide("net.A >= 0 and age > 0.0035", follow="lineage" if n == 1 else "population")
usual, saved = StateCheckpoint.save, []

def save(self, kept, *, last=False):
    usual(self, kept, last=last)
    saved.append(1)
    if len(saved) == stops:
        raise KeyboardInterrupt

StateCheckpoint.save = save
given = dict(t_end=0.008, seed=3, device="cpu", pilot=0, n=n)
try:
    result = ts.run(cell, output=path, checkpoint_every=0, **given)
except KeyboardInterrupt:
    result = ts.run(cell, output=path, resume=True, **given)
assert len(result.divisions) >= n
tell("digest", result.digest().encode())
"""
)


@pytest.mark.parametrize(
    ("engine", "n", "more"),
    ordinary(
        [(*cells, more) for cells in _CELLS for more in ((2, 4), (3, 5))],
        ("slots", 4, (3, 5)),
    ),
)
def test_cells_divide_alike_on_ranks_and_after_a_stop(mpirun, engine, n, more):
    digests = {
        line
        for ranks, stops in ((1, 0), more)
        for line in mpirun(ranks, ["-c", _DIVIDING, engine, str(n), str(stops)]).stdout.splitlines()
        if line.startswith("digest")
    }
    assert len(digests) == 1, digests
    assert len(digests.pop().split()) == 2


_GROWING = """
import sys
import tauslab as ts
from tauslab.analysis.particles.store import StateCheckpoint
from tauslab.decomposition.ranks.all_ranks import ranks

stops = int(sys.argv[1])
ball = ts.shapes.sphere(area="1e-18 * lipids.L", shells={"membrane": 1})
space = ts.Lattice("space", shape=(20, 16, 16), spacing=1e-8, slots=8, step=1e-4)
space.add_site_type("outside")
for name, mask in ball(space, area=31_000e-18).items():
    space.add_site_type(name, mask)
space.add_species("C", "M")
space.add_diffusion("C", 1e-13, within="cytoplasm")
space.add_diffusion("M", 1e-13, within="membrane")
space.place("C", count=700, site_type="cytoplasm")
space.place("M", count=300, site_type="membrane")
lipids = ts.Network("lipids")
lipids.add_species("L", 31_000)
lipids.add_reaction("L -> 2 L", rate=30)
cell = ts.Hybrid("cell", tick=0.001)
cell.add_part("space", space)
cell.add_part("lipids", lipids)
cell.shape("space", ball, every=0.001)
usual, saved = StateCheckpoint.save, []

def save(self, kept, *, last=False):
    usual(self, kept, last=last)
    saved.append(1)
    if len(saved) == stops:
        raise KeyboardInterrupt

StateCheckpoint.save = save
given = dict(t_end=0.01, seed=3, device="cpu", pilot=0, output=f"grown-{ranks().size}.h5")
try:
    result = ts.run(cell, checkpoint_every=0, **given)
except KeyboardInterrupt:
    result = ts.run(cell, resume=True, **given)
for name, kind, count in (("C", "cytoplasm", 700), ("M", "membrane", 300)):
    assert result.values(f"space.{name}_in_{kind}")[0, -1] == count
found = set(ranks().allgather(result.digest()))
if ranks().rank == 0:
    print("digest", *found)
"""


@pytest.mark.parametrize(("ranks", "stops"), ordinary([(2, 4), (4, 6)], (4, 6)))
def test_particles_go_with_a_shape_alike_on_ranks_and_after_a_stop(mpirun, ranks, stops):
    """H14: of species with a place of their own; none is lost or left in a wall."""
    digests = {
        line
        for n, stop in ((1, 0), (ranks, stops))
        for line in mpirun(n, ["-c", _GROWING, str(stop)]).stdout.splitlines()
        if line.startswith("digest")
    }
    assert len(digests) == 1, digests
    assert len(digests.pop().split()) == 2


_WHOLE = """
import hashlib
import tauslab as ts
from tauslab.decomposition.ranks.all_ranks import ranks

space = ts.Lattice("space", shape=(5, 6, 7), spacing=1e-8, step=5e-5)
space.add_species("R", "M")
space.add_diffusion(["R", "M"], 1e-13)
space.add_object("rod", sites=[[0, 0, 0], [1, 0, 0]], follows="R", within="default")
space.add_reaction("M ->", rate=50)
space.place("R", count=2, site_type="default")
space.place("M", count=100, site_type="default")
net = ts.Network("net")
net.add_species("A", 1000)
net.add_reaction("A ->", rate=1)
cell = ts.Hybrid("cell", tick=0.001)
cell.add_part("space", space)
cell.add_part("net", net)
result = ts.run(cell, t_end=0.005, seed=1, pilot=0, n=1, device="cpu")
told = result.digest().encode()
with ts.Ensemble(space, 1, seed=4, device="cpu") as one:
    one.advance(0.005)
    told += one.counts.tobytes() + one.observables["M_in_default"].tobytes()
    one.take([0, 0])
    one.advance(0.006)
    told += one.counts.tobytes() + one.fired().tobytes()
found = set(ranks().allgather(hashlib.sha256(told).hexdigest()))
if ranks().rank == 0:
    print("digest", *found)
"""


def test_a_lattice_that_is_whole_on_a_rank_leaves_others_without_one(mpirun):
    """One with objects; a rank without lattices counts nothing."""
    alone, three = (
        [line for line in mpirun(n, ["-c", _WHOLE]).stdout.splitlines() if "digest" in line]
        for n in (1, 3)
    )
    assert alone == three
    assert len(alone[0].split()) == 2


_CHAINS = """
import hashlib
import sys
from chain_factory import CPU, cell
import tauslab as ts
from tauslab.decomposition.ranks.all_ranks import ranks

made, n = cell(), int(sys.argv[1])
if n > 1:
    made.dividing = type(made.dividing)(**{**vars(made.dividing), "follow": "population"})
seen = hashlib.sha256()

def look(view):
    seen.update(view.values("space.P").tobytes())
    for cell in range(n):
        seen.update(view.particles("space", "P", cell=cell).tobytes())
        seen.update(view.mask("space", "membrane", cell=cell).tobytes())
        seen.update(view.positions("dna", cell=cell).tobytes())

result = ts.run(
    made, t_end=4.5, seed=5, pilot=0, n=n, device=CPU, quiet=True, hooks=[(1.5, look)],
)
assert len(result.divisions)
found = set(ranks().allgather(result.digest() + seen.hexdigest()))
if ranks().rank == 0:
    print("digest", *found)
"""


@pytest.mark.parametrize("n", ordinary([1, 2], 2))
def test_chains_of_cells_are_the_same_on_any_ranks(mpirun, n):
    """One lattice is cut, and each rank has its chain; of several a daughter goes to a rank."""
    digests = {
        line
        for ranks in (1, 2)
        for line in mpirun(ranks, ["-c", _CHAINS, str(n)]).stdout.splitlines()
        if line.startswith("digest")
    }
    assert len(digests) == 1, digests
    assert len(digests.pop().split()) == 2

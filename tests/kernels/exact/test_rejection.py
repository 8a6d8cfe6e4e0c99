"""The selector `rssa`: thread, warp and block give the same bits, whatever a batch meets."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from emulation import EmulatedBackend
from engine_runs import compiler, recording
from quick_compiling import quick_flags
from sampling import ordinary

from tauslab.kernels.backends import BackendOptions, get_backend
from tauslab.kernels.ensemble.launch import MAX_STEPS, Launch
from tauslab.kernels.exact import rejection
from tauslab.kernels.exact.rejection import rejection_layout
from tauslab.kernels.exact.ssa import TableSsa
from tauslab.kernels.exact.table_network import LONGER, TEAMS, tables_of
from tauslab.kernels.network.lowering import lower
from tauslab.model.network.network import Network

MOST = 2**31 - 1
DONE, ABSORBED, OVERFLOWED, STEP_LIMIT, NOT_A_NUMBER = range(5)
ROWS = 4


@pytest.fixture(autouse=True)
def _compile_fast(monkeypatch):
    """The bits do not depend on how hard the compiler tries."""
    monkeypatch.setenv("TAUSLAB_CXXFLAGS", quick_flags())


@dataclass(frozen=True)
class Run:
    """A network, and what its trajectories are run with; `varying` has a value for each."""

    network: Network
    times: tuple[float, ...]
    limits: tuple[int, ...] = (MAX_STEPS,)
    varying: dict[str, np.ndarray] = field(default_factory=dict)
    firings: np.ndarray | None = None
    pilot: bool = False
    rows: int = ROWS

    def by(self, backend, team=0):
        """By step limit: counts, observables, final counts, status, events, and firings."""
        values = self.network.parameter_values()
        counts = {name: round(x) for name, x in self.network.initial_amounts(values).items()}
        lowered = lower(self.network, parameters=values, counts=counts, varying=self.varying)
        engine = TableSsa(
            backend, lowered, self.times, "rssa", team=team, firings=self.firings, pilot=self.pilot
        )
        constants = lowered.constant_rows(self.varying, self.rows) if self.varying else None
        initial = np.array([[counts[s] for s in lowered.species]], np.int32)
        launch = Launch(
            3, self.rows, backend.upload(initial.repeat(self.rows, 0) if self.varying else initial),
            backend.upload(np.zeros((1, 1)) if constants is None else constants), seed=11,
        )  # fmt: skip
        actual = [self._launched(backend, engine, lowered, launch, most) for most in self.limits]
        backend.close()
        return actual

    def _launched(self, backend, engine, lowered, launch, limit):
        buffers = recording(backend, engine, lowered, len(self.times), self.rows)
        stream = backend.stream()
        engine.start(replace(launch, max_steps=limit), buffers, stream)
        stream.record().wait()
        actual = [buffers.counts, buffers.reals, buffers.final_counts, buffers.status,
                 buffers.work[:1]]  # fmt: skip
        actual += [engine.firings] if self.pilot else []
        return [np.array(a.get() if hasattr(a, "get") else a) for a in actual]


def thread():
    return get_backend("cpu", BackendOptions(threads=1))


def agree(one, other):
    """Whether all arrays of all launches have the same bits."""
    return all(
        np.array_equal(a, b, equal_nan=True)
        for mine, its in zip(one, other, strict=True)
        for a, b in zip(mine, its, strict=True)
    )


def statuses(found):
    return [launch[3].tolist() for launch in found]


def crowded(seed=5, species=60) -> Network:
    """Large and small counts, so that candidates are taken at once, alone, and in vain."""
    rng = np.random.default_rng(seed)
    net = Network("crowded")
    for i in range(species):
        net.add_species(f"S{i}", int(rng.integers(0, 12) * 10 ** (i % 4)))
    names = list(net.species)
    net.add_species("never_read", 5)
    net.add_species("F", 30, fixed=True)
    net.add_parameter("each", 1.0)
    net.add_rule("total", " + ".join(names))
    while len(net.reactions) < 330:
        a, b, c, d = (names[k] for k in rng.integers(0, species, 4))
        kind = rng.integers(0, 5)
        if kind == 0:
            net.add_reaction(f"{a} -> {c} + {d}", rate="0.01 * each")
        elif kind == 1 and a != b:
            net.add_reaction(f"{a} + {b} -> {c} + {d}", rate=1e-5)
        elif kind == 2:
            net.add_reaction(f"2 {a} -> {c} + {d}", rate="1e-5 * each")
        elif kind == 3:
            net.add_reaction(f"-> {a}", rate=3.0)
        else:
            net.add_reaction(f"{a} + {b} -> {b} + {c} + 2 {d}", rate=1e-6)
    _add_the_rest(net, names, rng)
    return net


def _add_the_rest(net: Network, names: list[str], rng: np.random.Generator) -> None:
    """What a record does not hold, and what is read but never changed."""
    for _ in range(12):  # more than four species, or one that is read and does not change
        a, b, c, d, e, f = (names[k] for k in rng.permutation(len(names))[:6])
        net.add_reaction(f"{a} + {b} + {c} -> {d} + {e} + {f}", rate=1e-7)
        net.add_reaction(f"{a} -> {b} + {c} + {d} + {e} + {f}", rate=3e-3)
        net.add_reaction(f"{d} -> {d} + {a} + {b} + {c} + {e}", rate=1e-3)
    for a, b in rng.choice(names, (6, 2)):
        net.add_reaction(f"{a} -> {a} + never_read", rate="0.02 * F / 30")
        net.add_reaction(f"{b} -> {b}", rate=0.01)
        net.add_reaction(f"-> {a}", rate=0.0)
        net.add_reaction(f"F + {a} -> F", rate=1e-3)
    net.add_reaction("-> 999 S3", rate=2.0)
    net.add_reaction("-> 1001 S7", rate=2.0)
    net.add_reaction("70000 S7 -> S3", law="40 * (S7 > 72000)")
    net.add_reaction("3 S11 ->", rate=1e-9)
    net.add_reaction("2 S2 -> S1", law="0.01 * S2")  # needs two
    net.add_reaction("9 S15 ->", law="1e-4 * S15")
    net.add_reaction("S5 -> S6", law="0.3 * S5 * total / (500 + total)")


TIMES = (0.0, *np.linspace(0.03, 0.036, 30).tolist(), 0.09, 0.12)
LIMITS = (0, 1, 77, MAX_STEPS)
CROWDED = Run(crowded(), TIMES, LIMITS, {"each": np.array([0.0, 0.5, 1.0, 3.0])})


@pytest.fixture(scope="module")
def by_a_thread():
    """Runs by the CPU, each of them once."""
    actual = {}

    def of(name, run):
        if name not in actual:
            actual[name] = run.by(thread())
        return actual[name]

    return of


@pytest.mark.validate
@compiler
@pytest.mark.parametrize(
    ("team", "order"), ordinary([(8, 1), (32, 1), (32, -1), (128, 1), (128, -1)], (128, -1))
)
def test_runs_of_candidates_give_the_bits_of_a_thread(tmp_path, by_a_thread, team, order):
    """Limits that are no multiples of 32 too; between many sample times lanes are late."""
    expected = by_a_thread("crowded", CROWDED)
    assert [launch[4][0] for launch in expected[:3]] == [ROWS * most for most in LIMITS[:3]]
    assert expected[3][4][0] > 2500
    assert statuses(expected) == [[STEP_LIMIT] * ROWS] * 3 + [[DONE] * ROWS]
    assert len(set(expected[3][1][-1, 1:31, 0].tolist())) > 10
    run = CROWDED if team < 128 else replace(CROWDED, limits=(200,))
    expected = by_a_thread(team, run)
    assert agree(expected, run.by(EmulatedBackend(tmp_path, max(32, team), order), team))


def ring(species=20, seed=0) -> Network:
    """Counts walk near the ends of wide intervals, by records and by changes of six species."""
    rng = np.random.default_rng(seed)
    net = Network("ring")
    for i in range(species):
        net.add_species(f"S{i}", int(rng.integers(200, 900)))
    for i in range(species):
        net.add_reaction(f"S{i} -> S{(i + 1) % species}", rate=1.0)
        net.add_reaction(f"S{(i + 1) % species} -> S{i}", rate=1.0)
    for _ in range(30):
        a, b, c, d, e, f = (f"S{k}" for k in rng.permutation(species)[:6])
        net.add_reaction(f"{a} + {b} + {c} -> {d} + {e} + {f}", rate=2e-7)
    return net


RING = Run(ring(), (0.0, 0.3, 1.0))


@pytest.mark.validate
@compiler
@pytest.mark.parametrize("team", ordinary([8, 32], 32))
def test_who_sees_an_end_of_an_interval_makes_no_difference(tmp_path, by_a_thread, team):
    """Of 97,000 events a team takes most at once."""
    expected = by_a_thread("ring", RING)
    assert expected[0][4][0] > 80_000
    assert agree(expected, RING.by(EmulatedBackend(tmp_path, 32), team))


def sized(reactions: int) -> Network:
    """So many reactions, each with its own rate and product, of few species."""
    net = Network("sized")
    for i in range(8):
        net.add_species(f"S{i}", 40 * i)
    for j in range(reactions):
        net.add_reaction(f"S{j % 8} -> S{(j + 1 + j // 8) % 8}", rate=0.5 + j % 11)
    return net


@compiler
@pytest.mark.parametrize(
    ("reactions", "team", "trees"),
    ordinary(
        [(5, 8, 16), (32, 32, 16), (33, 8, 16), (529, 8, 16), (1056, 32, 1)],
        (1056, 32, 1),
    ),
)
def test_trees_of_every_height_give_the_bits_of_a_thread(
    tmp_path, monkeypatch, reactions, team, trees
):
    """A root alone; one level below it, two, three; ordered by firings that are given."""
    monkeypatch.setattr(rejection, "MOST_TREES", trees)
    firings = np.random.default_rng(reactions).integers(0, 5, reactions).astype(float)
    end = 60 / (5 * reactions)
    run = Run(sized(reactions), (0.0, end / 2, end), firings=firings)
    expected = run.by(thread())
    assert expected[0][4][0] > 1000
    assert agree(expected, run.by(EmulatedBackend(tmp_path, 32), team))


def vanishing() -> Network:
    """All die out, the last of them in a batch with many candidates."""
    net = Network("vanishing")
    for i in range(40):
        net.add_species(f"S{i}", 3 * i)
        net.add_reaction(f"S{i} ->", rate=1.0 + i % 3)
    return net


def near_most(molecules: int) -> Network:
    """Two counts so far below the largest possible, one of them read; and others that live."""
    net = Network("near_most")
    net.add_species("read", MOST - molecules)
    net.add_species("unread", MOST - molecules)
    net.add_species("Y", 50)
    net.add_reaction("read -> read + Y", rate=1e-9)
    net.add_reaction("-> read", rate=0.5)
    net.add_reaction("Y -> Y + unread", rate=0.01)
    for i in range(40):
        net.add_species(f"S{i}", 100)
        net.add_reaction(f"S{i} ->", rate=0.2)
    return net


def rooted() -> Network:
    """A law that is no number once R is below 90."""
    net = vanishing()
    net.add_species("R", 100)
    net.add_reaction("R ->", rate=0.5)
    net.add_reaction("-> R", law="0.01 * sqrt(R - 90)")
    return net


ENDS = {
    "absorbed": (Run(vanishing(), (0.0, 0.5, 50.0, 60.0)), {ABSORBED}),
    "overflow": (Run(near_most(2), (0.0, 0.5, 20.0)), {OVERFLOWED}),
    "just below": (Run(near_most(30), (0.0, 0.5, 4.0)), {DONE}),
    "no number": (Run(rooted(), (0.0, 0.1, 3.0)), {NOT_A_NUMBER}),
}


@compiler
@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", ordinary(ENDS, "overflow"))
def test_ends_of_trajectories_have_the_bits_of_a_thread(tmp_path, name):
    run, status = ENDS[name]
    expected = run.by(thread())
    assert set(expected[0][3].tolist()) == status
    if name == "absorbed":
        assert (expected[0][4] == ROWS * sum(3 * i for i in range(40))).all()
        assert (expected[0][0][:, 2:] == 0).all()
    if name == "just below":
        top = expected[0][0][:, -1, :2].max(0)
        assert (top > MOST - 30).all()
    actual = run.by(EmulatedBackend(tmp_path, 32), 8 if name == "absorbed" else 32)
    assert agree(expected, actual)


def test_tables_list_every_reader_and_put_frequent_reactions_first():
    """Readers by reactants, laws and what must be there; each once, in the order of the items."""
    net = Network("tables")
    for name in "ABCDE":
        net.add_species(name, 50)
    for equation, given in (
        ("A + B -> C", {"rate": 1.0}), ("2 A ->", {"rate": 1.0}), ("A -> A + E", {"rate": 1.0}),
        ("C ->", {"law": "D / (1 + A)"}), ("5 B ->", {"rate": 1.0}), ("-> E", {"rate": 1.0}),
        ("1001 A + B ->", {"law": "0.1 * A * (A > 1000)"}),
    ):  # fmt: skip
        net.add_reaction(equation, **given)
    counts = dict.fromkeys(net.species, 50)
    lowered = lower(net, parameters={}, counts=counts)
    book = tables_of(lowered, "rssa", np.array([5.0, 7, 9, 0, 7, 8, 1]))
    whole, _ = book.arrays()

    def table(name, size, width=1):
        return whole[book[f"AT_{name}"] :][: size * width].reshape(size, width).squeeze().tolist()

    long, many = LONGER, rejection.MANY_CHANGES
    order = table("ITEM", 7)
    assert order == [2, 5, 1, 4, 0, 6, 3]
    species = table("READERS", 6, 4)
    records = table("READER", species[-1][2], 4)
    own = [records[begin:end] for _, begin, end, _ in species]
    actual = [[order[item] for item, *_ in readers] for readers in own]
    assert actual == [[2, 1, 0, 6, 3], [4, 0, 6], [3], [3], [], []]
    exact, unread = rejection.EXACT, rejection.UNREAD
    assert [kind for kind, *_ in species] == [exact, exact, exact, exact, unread, unread]
    assert [kind for *_, kind in own[0]] == [1, 3, 2, long, long]
    assert [other for item, _, other, kind in own[0] if kind == 2] == [1]  # the other species
    assert [other for item, _, other, kind in own[1] if kind == 2] == [0]
    kinds = [table("RECORD", 7, 8)[item][0] % 8 for item in range(7)]
    assert kinds == [1, 0, 3, long, 2, many, long]


def test_intervals_are_wide_where_bounds_stay_above_zero_with_propensities():
    net = Network("wide")
    for name in "ABC":
        net.add_species(name, 50)
    net.add_reaction("4 A + B ->", rate=1.0)
    net.add_reaction("5 C ->", rate=1.0)
    lowered = lower(net, parameters={}, counts=dict.fromkeys(net.species, 50))
    book = tables_of(lowered, "rssa")
    kinds = book.arrays()[0][book["AT_READERS"] :][: 4 * 3 : 4].tolist()
    assert kinds == [rejection.WIDE, rejection.WIDE, rejection.EXACT]


@pytest.mark.validate
@compiler
def test_many_species_have_longer_records(tmp_path, monkeypatch):
    expected = RING.by(thread())
    monkeypatch.setattr(rejection, "MOST_SHORT", 0)
    assert agree(expected, RING.by(thread()))
    assert agree(expected, RING.by(EmulatedBackend(tmp_path, 32), 32))
    assert "#define WIDE_SPECIES 1" in (tmp_path / "model.h").read_text()


class Device:
    """What `rejection_layout` asks of a backend."""

    fast_memory, multiprocessors = 227 * 1024, 132


@pytest.mark.parametrize(
    ("team", "trajectories", "four", "two", "layout"),
    [
        (32, 4096, [6000, 2000], [3000, 2000], (4, 4, 2)),  # 16 at a time, 14,528 bytes each
        (32, 4096, [6000, 9000], [3000, 9000], (4, 4, 1)),
        (32, 4096, [18_000, 2000], [9000, 2000], (4, 2, 2)),
        (32, 4096, [36_000, 2000], [18_000, 2000], (3, 2, 1)),  # nothing of 16, but of 12
        (32, 4096, [80_000, 2000], [40_000, 2000], (4, 4, 0)),
        (32, 1024, [18_000, 2000], [9000, 2000], (2, 4, 2)),  # 8 are all that there are
        (32, 0, [6000, 2000], [3000, 2000], (4, 4, 2)),
        (128, 4096, [6000, 2000], [3000, 2000], (4, 4, 2)),
        (8, 4096, [6000, 2000], [3000, 2000], (2, 4, 0)),  # small teams have none
    ],
)
def test_few_trajectories_have_more_registers(team, trajectories, four, two, layout):
    assert rejection_layout({4: four, 2: two}, team, trajectories, Device()) == layout


@pytest.mark.validate
@compiler
def test_intervals_apart_from_counts_give_the_same_bits(tmp_path, monkeypatch):
    """Where shared memory has no room for all that is known of a species."""
    device = EmulatedBackend(tmp_path, 32)
    places = len(RING.network.species) + 1
    monkeypatch.setattr(device, "fast_memory", 16 * (512 + 8 * places + 100), raising=False)
    assert agree(RING.by(thread()), RING.by(device, 32))
    text = (tmp_path / "model.h").read_text()
    assert "constexpr i64 WORDS_OF_COUNT = 2;" in text
    assert "constexpr i64 SHARED_PARTS = 0;" not in text


@pytest.mark.validate
@compiler
def test_a_pilot_counts_the_same_on_every_device(tmp_path):
    """Firings of each reaction, candidates, bounds that were made again."""
    run = Run(ring(), (1e9,), (4000,), pilot=True)
    ((*_, events, counted),) = run.by(thread())
    firings, (candidates, bounds) = counted[:-2], counted[-2:]
    assert firings.sum() == events[0] == ROWS * 4000
    assert 1.01 * events[0] < candidates < 1.2 * events[0]
    assert 10 < bounds < events[0]
    ((*_, counted_by_a_warp),) = run.by(EmulatedBackend(tmp_path, 32), 32)
    assert np.array_equal(counted, counted_by_a_warp)


@pytest.mark.validate
@compiler
def test_a_pilot_near_the_largest_count_counts_the_same_on_every_device(tmp_path):
    """Where an interval would reach beyond it."""
    net = Network("clipped")
    net.add_species("X", MOST - 12)
    net.add_species("Y", 0)
    net.add_reaction("X -> X + Y", rate=1e-9)
    net.add_reaction("-> X", rate=10.0)
    net.add_reaction("X ->", rate=11.0 / MOST)
    for i in range(40):
        net.add_species(f"S{i}", 100)
        net.add_reaction(f"S{i} -> Y", rate=0.01)
    run = Run(net, (1e9,), (300,), pilot=True)
    ((*_, counted),) = run.by(thread())
    ((*_, counted_by_a_warp),) = run.by(EmulatedBackend(tmp_path, 32), 32)
    assert np.array_equal(counted, counted_by_a_warp)


@pytest.mark.gpu
@pytest.mark.parametrize("team", TEAMS)
@pytest.mark.parametrize("name", ["crowded", "ring", "sized", *ENDS])
def test_a_gpu_gives_the_bits_of_a_thread(by_a_thread, name, team):
    runs = {"crowded": CROWDED, "ring": RING, "sized": Run(sized(1056), (0.0, 0.05))}
    run = runs[name] if name in runs else ENDS[name][0]
    assert agree(by_a_thread(name, run), run.by(get_backend("cuda", BackendOptions()), team))


@pytest.mark.gpu
@pytest.mark.parametrize("team", TEAMS)
def test_a_pilot_on_a_gpu_counts_as_a_thread_does(by_a_thread, team):
    run = Run(ring(), (1e9,), (20_000,), pilot=True)
    expected = by_a_thread("pilot", run)
    assert agree(expected, run.by(get_backend("cuda", BackendOptions()), team))

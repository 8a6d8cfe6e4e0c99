"""A lattice over ranks: the same bits on any number, with any cut, halo and transport (T14)."""

from __future__ import annotations

import itertools
import json

import pytest
from places import TESTS
from sampling import ordinary

pytestmark = pytest.mark.mpi

PROGRAM = TESTS / "support" / "programs" / "halo_program.py"
MARKS = [6, 10, 16]  # steps of a batch: 32 together
NAMES = ("crowded", "absorbing", "typed", "held", "sparse")
FEW = ("crowded", "typed")
PERIODIC = ("crowded", "sparse")
DEEP = ("crowded", "typed", "held")
UNEVEN = {1: [0, 12], 2: [0, 3, 12], 3: [0, 1, 9, 12], 4: [0, 1, 2, 9, 12]}  # of 12 planes
THICK = {1: [0, 12], 2: [0, 8, 12], 3: [0, 3, 8, 12], 4: [0, 3, 6, 9, 12]}


def case(model, **more):
    return {"model": model, "marks": MARKS, **more}


@pytest.fixture
def told(mpirun):
    """What rank 0 tells of cases: ``told(3, cases)``."""

    def run(ranks, cases, device="cpu"):
        done = mpirun(ranks, [PROGRAM, json.dumps(cases), device])
        lines = [line for line in done.stdout.splitlines() if line.startswith("told ")]
        return json.loads(lines[0].removeprefix("told "))

    return run


@pytest.fixture(scope="module")
def expected():
    """Digest, counts and spills of each model on one rank, as they are first found."""
    return {}


def results(row):
    return {key: row[key] for key in ("digest", "counts", "spills")}


@pytest.mark.parametrize(
    ("ranks", "every"),
    ordinary([(3, False), (3, True), (1, True), (2, True), (4, True)], (3, False)),
)
def test_ranks_cuts_and_depths_do_not_matter(told, expected, ranks, every):
    """In an ordinary run two of the models, one of them with deep halos too."""
    names, deep = (NAMES, DEEP) if every else (FEW, FEW[:1])
    cases = [case(name, bounds=UNEVEN[ranks]) for name in names]
    cases += [case(name, bounds=THICK[ranks], options={"depth": 3}) for name in deep]
    if not every:
        alone = told(1, [case(name, bounds=UNEVEN[1]) for name in names])
        expected.update({name: results(row) for name, row in zip(names, alone, strict=True)})
    actual = told(ranks, cases)
    for name, row in zip((*names, *deep), actual, strict=True):
        assert results(row) == expected.setdefault(name, results(row)), name
    for name, one in zip(names, actual, strict=False):
        periodic = name in PERIODIC
        ways = [way for pair in one["transports"] for way in pair]
        if ranks > 1:
            assert ways.count("host") == 2 * (ranks - (not periodic))
            assert ways.count(None) == 2 * (not periodic)
        else:
            assert ways == ["self", "self"]
    assert expected["crowded"]["spills"][-1] > 2_000


def test_full_lists_and_transports_do_not_matter(told, expected):
    tight = {"capacity": 64, "room": 4, "depth": 2}
    roomy, actual, *others = told(
        3,
        [
            case("crowded"),
            case("crowded", options=tight),
            case("crowded", options={"transport": "mpi"}, pretend=True),
            case("crowded", options={**tight, "transport": "shared"}),
            case("crowded", options={"early": False}),
        ],
    )
    first = expected.setdefault("crowded", results(roomy))
    for row in (roomy, actual, *others):
        assert results(row) == first
    assert [row["transports"][1][0] for row in others] == ["mpi", "shared", "host"]
    assert all(ways == 3 * [2 * [ways[0][0]]] for ways in (row["transports"] for row in others))
    assert min(actual["capacities"]) > 64
    assert len(set(actual["capacities"])) == 1


def require_refusal(done, sentence):
    """All ranks refuse; the launcher may end one, or drop what it says, once another has left."""
    message = [line for line in done.stderr.splitlines() if "Error: " in line]
    assert message, done.stderr
    for line in message:
        assert f"DecompositionError: {sentence}" in line
    assert done.returncode != 0


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"transport": "peer"}, 'halo="peer": rank 0 cannot reach the device memory of rank 1'),
        ({"transport": "mpi"}, 'halo="mpi": this MPI does not say'),
        ({"transport": "pigeon"}, 'halo="pigeon": choose one of auto, peer, shared, host'),
        ({"depth": 7}, "a slab of 6 plane(s) is thinner than the halo, which is 7 deep"),
    ],
)
def test_what_is_not_possible_is_refused_on_every_rank(mpirun, options, sentence):
    cases = json.dumps([case("sparse", options=options)])
    done = mpirun(2, [PROGRAM, cases, "cpu"], check=False)
    require_refusal(done, sentence)


@pytest.mark.gpu
def test_an_mpi_that_does_not_know_devices_is_refused_on_gpus_too(mpirun):
    code = "import sys; from mpi4py import MPI; from tauslab.decomposition.halo import links as h; "
    requested = mpirun(1, ["-c", code + "sys.exit(h.mpi_takes_device_memory())"], check=False)
    cases = json.dumps([case("sparse", options={"transport": "mpi"})])
    done = mpirun(2, [PROGRAM, cases, "cuda"], check=False)
    if requested.returncode:
        assert done.returncode == 0
    else:
        require_refusal(done, 'halo="mpi": this MPI does not say')


@pytest.mark.gpu
@pytest.mark.parametrize("transport", ["peer", "shared", "host"])
def test_devices_and_transports_do_not_matter(told, transport):
    """Two processes, on two GPUs where there are as many; recorded launches and deep halos too."""
    (first,) = told(1, [case("crowded")])
    options = [{}, {"record": False}, {"early": False}, {"depth": 2}, {"capacity": 64}]
    cases = [case("crowded", options={"transport": transport, **more}) for more in options]
    cases += [case(name, options={"transport": transport}) for name in ("typed", "held")]
    actual = told(2, cases, "cuda")
    for row in actual[: len(options)]:
        assert results(row) == results(first)
        assert row["transports"] == [[transport] * 2] * 2
    others = told(1, [case("typed"), case("held")])
    assert [results(row) for row in actual[len(options) :]] == [results(row) for row in others]


@pytest.mark.gpu
def test_kernels_of_planes_that_wait_for_each_other_have_the_same_bits(told):
    """Two processes take whole batches in one launch each; on one GPU they run by turns.

    Warps have one species each, and then all.
    """
    names, own = ("crowded", "held"), {"planes": True, "marks": [3, 5]}
    expected = told(1, [{**case(name), **own} for name in names])
    own["options"] = {"transport": "peer"}
    cases = [
        {**case(name), **own, "wait": wait, "large": large}
        for large, wait, name in itertools.product((False, True), (True, False), names)
    ]
    actual = told(2, cases, "cuda")
    assert [results(row) for row in actual] == 4 * [results(row) for row in expected]

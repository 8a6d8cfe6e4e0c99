"""Parts of lattice runs: any cut gives the same file, and foreign parts are refused."""

from __future__ import annotations

import itertools

import h5py
import numpy as np
import pytest
from lattice_factory import STEP, empty_lattice
from sampling import ordinary

from tauslab.api.api import ranks
from tauslab.base.errors import ConfigError, InputFileError, StoppedEarly
from tauslab.base.files.seals import seal
from tauslab.base.files.text import put_attributes
from tauslab.kernels.lattice.state import WAITING, LatticeState, Samples
from tauslab.options.lattice import LatticeOptions, prepare_lattice
from tauslab.runner.lattice import loop as lattice_loop
from tauslab.runner.lattice import run as lattice
from tauslab.store.lattice import layout as lattice_layout
from tauslab.store.lattice.parts import HookState, Piece
from tauslab.store.lattice.writer import LatticeWriter
from tauslab.store.results.lattice.result import LatticeResult

SHAPE = (11, 3, 4)
CUTS = [(0, 11), (0, 4, 8, 11), (0, 1, 2, 3, 11), (0, 5, 6, 7, 9, 10, 11)]


def model():
    made = empty_lattice(SHAPE, {"A": 0.1}, slots=8)
    made.add_reaction("A ->", rate=1, name="decay")
    made.place("A", count=99)
    return made


def options(**given):
    given = {"t_end": 8 * STEP, "frame_every": 4, "seed": 5, "device": "cpu", "threads": 1,
             "quiet": True, **given}  # fmt: skip
    return LatticeOptions(**given)


def piece(state, number, begin, end, memory=None):
    """Planes of a state of the whole lattice."""
    plane = state.waiting["site"] // (SHAPE[1] * SHAPE[2])
    own = LatticeState(
        state.particles[begin:end], state.waiting[(plane >= begin) & (plane < end)], state.step,
        state.fired, state.spills, state.truncated,
    )  # fmt: skip
    hooks = HookState(np.array([[2.5]]), np.array([7]), memory or {})
    return Piece(0, number, begin, end, own, hooks)


def some_state(step, seed):
    rng = np.random.default_rng(seed)
    particles = rng.integers(0, 2, (*SHAPE, 8), np.uint8)
    waiting = np.zeros(30, WAITING)
    waiting["site"] = np.sort(rng.integers(0, np.prod(SHAPE), 30))
    waiting["age"], waiting["particle"] = np.arange(30), 1
    return LatticeState(particles, waiting, step, np.array([7]), 31, 3)


@pytest.fixture
def writer(tmp_path, monkeypatch):
    monkeypatch.setattr(lattice_layout, "_CHUNK_BYTES", 3 * SHAPE[1] * SHAPE[2] * 8)
    made = LatticeWriter(tmp_path / "out.h5", prepare_lattice(model(), options()), 5, threads=2)
    made.create()
    yield made
    made.close()


def write(writer, state, number, bounds, **more):
    for begin, end in itertools.pairwise(bounds):
        writer.write_piece(lambda a=begin, b=end: piece(state, number, a, b, **more))
    writer.sync()


def write_all_samples(writer):
    writer.open_counts()
    samples = len(prepare_lattice(model(), options()).times)
    nothing = [np.zeros((samples, *shape), np.int64) for shape in ((1, 1), (1,), (), (), ())]
    writer.write_samples(0, 0, Samples(*nothing))


@pytest.mark.parametrize("cut", ordinary(range(len(CUTS)), 1, 3))
def test_frames_of_any_cuts_are_joined(writer, cut):
    """Each frame is cut in another way, in chunks of three planes that slabs share."""
    states = [some_state(4 * number, number) for number in range(3)]
    for number, state in enumerate(states):
        write(writer, state, number, CUTS[(cut + number) % len(CUTS)])
    write(writer, some_state(99, 99), -1, CUTS[cut])
    write_all_samples(writer)
    writer.finish([{"host": "a", "steps": 3}])
    with h5py.File(writer.path) as file:
        assert file["lattice/particles"].chunks == (1, 3, 3, 4, 8)
        for number, state in enumerate(states):
            assert np.array_equal(file["lattice/particles"][number], state.particles)
        assert (file["lattice/sites"][...] == 0).all()
        assert file["progress/complete"][()] == 1
    with LatticeResult(writer.path) as result:
        assert result.profile == [{"host": "a", "rank": 0, "steps": 3}]
    assert list(writer.path.parent.iterdir()) == [writer.path]


def test_the_newest_whole_state_is_what_a_run_goes_on_from(writer):
    old, new = some_state(4, 1), some_state(6, 2)
    write_all_samples(writer)
    write(writer, some_state(0, 0), 0, CUTS[0])
    write(writer, old, 1, CUTS[1])
    write(writer, new, -1, CUTS[2], memory={"calls": 3})
    write(writer, new, -1, CUTS[3])  # two cuts of one step may lie there
    writer.write_piece(lambda: piece(some_state(7, 3), -1, 0, 10))  # a plane is missing
    writer.sync()
    complete, begun = writer.reopen_file()
    assert not complete
    assert (begun[0].step, begun[0].hooked) == (6, True)
    for bounds in CUTS:
        for begin, end in itertools.pairwise(bounds):
            state, hooks = writer.read_begun(begun[0], begin, end)
            expected = piece(new, -1, begin, end).state
            assert np.array_equal(state.particles, expected.particles)
            assert np.array_equal(state.waiting, expected.waiting)
            assert (state.step, state.fired.tolist(), state.spills, state.truncated) == (
                6,
                [7],
                31,
                3,
            )
            assert hooks.rates.tolist() == [[2.5]]
    writer.forget_checkpoints(0, 7)
    _, begun = writer.reopen_file()
    assert (begun[0].step, begun[0].hooked) == (4, False)


def replaced(name):
    """Break a part in one way."""

    def attribute(path, key, value):
        with h5py.File(path, "r+") as file:
            put_attributes(file, {key: value})
            del file["progress/sealed"], file["progress/seals"]
            seal(file, {"particles"})

    return {
        "seed": lambda path: attribute(path, "seed", np.uint64(6)),
        "model": lambda path: attribute(path, "model_sha256", "f" * 64),
        "kind": lambda path: attribute(path, "kind", "lattice model"),
        "name": lambda path: path.rename(path.with_name("mine.h5")),
    }[name]


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("seed", "is of another run: its seed is 6, not 5"),
        ("model", "is of another run: its model_sha256 is ffff"),
        ("kind", "is not a part of a lattice run"),
        ("name", "mine.h5 is not a part of a lattice run"),
    ],
)
def test_a_foreign_part_is_refused(tmp_path, monkeypatch, how, message):
    monkeypatch.setattr(lattice_loop, "_BATCH_SECONDS", 1e-9)  # a batch is a step
    path, requested = tmp_path / "out.h5", iter(range(99))
    chosen = options(output=path, frame_every=0)
    with pytest.raises(StoppedEarly):
        lattice.run_lattice(model(), chosen, ranks(), lambda: next(requested) > 2)
    (part,) = (tmp_path / "out.h5.parts").glob("*.h5")
    replaced(how)(part)
    before = path.read_bytes()
    with pytest.raises(InputFileError, match=message) as error:
        lattice.run_lattice(model(), options(output=path, frame_every=0, resume=True), ranks())
    assert error.value.exit_code == 2
    assert path.read_bytes() == before


class FakeRanks:
    """Four ranks, of which this is the last."""

    def __init__(self, others):
        self.others = others

    def allgather(self, value):
        return [(value[0], other) for other in self.others] + [value]


class FakeGpu:
    def identity(self):
        return "b"


def test_ranks_on_one_gpu_are_refused_unless_said():
    check = lattice._check_devices
    with pytest.raises(ConfigError, match=r"ranks 1, 3 on .* would share one GPU.*share=True"):
        check(FakeGpu(), FakeRanks(["a", "b", "c"]), options())
    check(FakeGpu(), FakeRanks(["a", "b", "c"]), options(share_gpu=True))
    check(FakeGpu(), FakeRanks(["a", "d", "c"]), options())

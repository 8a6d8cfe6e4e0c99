"""The batch simulator for inference."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import types
from contextlib import nullcontext

import numpy as np
import pytest

import tauslab as ts
from tauslab.base import copies


def turnover():
    """Birth at rate b, death at rate d: in the long run Poisson with mean b / d."""
    net = ts.Network("turnover")
    net.add_species("X", 0)
    net.add_parameter("b", 10.0)
    net.add_parameter("d", 1.0)
    net.add_reaction("-> X", rate="b")
    net.add_reaction("X ->", rate="d")
    return net


def test_shapes_and_seeds():
    def both(result):
        return np.stack([result.counts("X").mean(axis=1), result.counts("X").max(axis=1)], axis=1)

    theta = np.array([[10.0, 1.0], [100.0, 1.0], [0.0, 1.0]])
    simulate = ts.simulator(
        turnover(), ["b", "d"], both, t_end=10.0, points=11, device="cpu", seed=4
    )
    first, second = simulate(theta), simulate(theta)
    assert first.shape == (3, 2)
    assert first[2].tolist() == [0, 0]
    assert not np.array_equal(first, second), "every call draws anew"
    again = ts.simulator(turnover(), ["b", "d"], both, t_end=10.0, points=11, device="cpu", seed=4)
    assert np.array_equal(again(theta), first), "and the same calls give the same numbers"
    assert again(theta[1]).shape == (2,)
    assert np.array_equal(again(theta, seed=9), simulate(theta, seed=9))


def test_summaries_by_name_are_computed_on_the_device():
    theta = np.array([[10.0, 1.0], [100.0, 1.0], [0.0, 1.0]])
    names = ["maximum:X", "first-passage:X:5"]
    options = {"t_end": 10.0, "points": 11, "device": "cpu", "seed": 4}
    actual = ts.simulator(turnover(), ["b", "d"], names, **options)(theta)
    assert actual.shape == (3, 2)
    counts = ts.simulator(turnover(), ["b", "d"], lambda r: r.counts("X"), **options)(theta)
    assert np.array_equal(actual[:, 0], counts.max(axis=1))
    assert np.isnan(actual[2, 1]), "without births none passes 5"
    single = ts.simulator(turnover(), ["b", "d"], "maximum:X", **options)
    assert np.array_equal(single(theta), actual[:, :1])


def test_rejection_finds_the_rates_that_made_the_data():
    """Approximate Bayesian computation: b = 30, d = 2 from means over 50 trajectories at 5 times.

    1,500 sets from a uniform prior, the nearest 30 kept: the posterior means lie within 15 %.
    """
    rng = np.random.default_rng(7)
    simulate = ts.simulator(
        turnover(),
        ["b", "d"],
        lambda result: result.counts("X"),
        times=[0.2, 0.5, 1.0, 2.0, 4.0],
        device="cpu",
        seed=1,
    )

    def means(theta):
        repeated = simulate(np.repeat(np.atleast_2d(theta), 50, axis=0))
        return repeated.reshape(-1, 50, 5).mean(axis=1)

    truth = np.array([30.0, 2.0])
    observed = means(truth)
    theta = rng.uniform([5.0, 0.5], [60.0, 4.0], (1500, 2))
    distance = np.linalg.norm((means(theta) - observed) / np.sqrt(observed), axis=1)
    kept = theta[np.argsort(distance)[:30]]
    np.testing.assert_allclose(kept.mean(axis=0), truth, rtol=0.15)


def test_time_courses_keep_their_axes():
    options = {"times": [1.0, 2.0, 3.0], "device": "cpu", "seed": 4}
    simulate = ts.simulator(turnover(), ["b"], lambda r: r.counts(), **options)
    actual = simulate([[10.0], [20.0]])
    assert actual.shape == (2, 3, 1)
    flat = ts.simulator(turnover(), ["b"], lambda r: r.counts("X"), **options)([[10.0], [20.0]])
    assert np.array_equal(actual[..., 0], flat)
    assert simulate([10.0]).shape == (3, 1)
    assert simulate(np.empty((0, 1))).shape == (0, 3, 1)


def test_species_may_be_columns():
    net = turnover()
    simulate = ts.simulator(net, ["X"], times=[0.0], device="cpu", seed=0)
    assert simulate([[5.0], [7.0]]).tolist() == [[5.0], [7.0]]


def test_trajectories_that_ended_early_have_no_last_state():
    simulate = ts.simulator(turnover(), ["b"], times=[1.0], device="cpu", max_steps=20, seed=2)
    actual = simulate([[0.0], [1000.0]])
    assert actual[0] == 0
    assert np.isnan(actual[1]), "-1, which a file has there, would pass for a count"


def test_no_parameter_sets_and_single_numbers():
    """Samplers reject all that they proposed now and then."""
    simulate = ts.simulator(
        turnover(), ["b"], ["mean:X", "maximum:X"], t_end=2.0, device="cpu", seed=0
    )
    assert simulate(np.empty((0, 1))).shape == (0, 2)
    counts = ts.simulator(
        turnover(), ["b", "d"], lambda r: r.counts("X"), t_end=2.0, device="cpu", seed=0
    )
    assert counts(np.empty((0, 2))).shape == (0, 101)
    assert simulate(5.0).shape == simulate([5.0]).shape == (2,)


class Tensor:
    """What of PyTorch a simulator uses."""

    device = "there"
    dtype = np.float32

    def __init__(self, values):
        self.values = np.asarray(values)

    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("a tensor elsewhere, or with a gradient, is no array")

    def detach(self):
        return self

    def cpu(self):
        return self.values

    def is_floating_point(self):
        return self.values.dtype.kind == "f"


def as_tensor(values, dtype, device):
    return Tensor(np.asarray(values, dtype)), device


def test_tensors_give_tensors(monkeypatch):
    fake = types.SimpleNamespace(
        Tensor=Tensor, as_tensor=as_tensor, get_default_dtype=lambda: np.float16
    )
    monkeypatch.setitem(sys.modules, "torch", fake)
    options = {"times": [1.0], "device": "cpu", "seed": 3}
    theta = np.array([[10.0], [20.0]], np.float32)
    plain = ts.simulator(turnover(), ["b"], **options)(theta)
    assert isinstance(plain, np.ndarray)
    actual, device = ts.simulator(turnover(), ["b"], **options)(Tensor(theta))
    assert device == "there"
    assert actual.values.dtype == np.float32
    assert np.array_equal(actual.values, plain)
    simulate = ts.simulator(turnover(), ["b"], lambda r: Tensor(r.final("X")), **options)
    assert np.array_equal(simulate(theta), plain)
    whole, _ = simulate(Tensor(np.array([[10], [20]])))
    assert whole.values.dtype == np.float16, "counts would truncate summaries"


def test_tensors_of_pytorch():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    simulate = ts.simulator(turnover(), ["b"], "mean:X", t_end=1.0, device="cpu", seed=0)
    theta = torch.tensor([[10.0], [20.0]], requires_grad=True)
    actual = simulate(theta)
    assert actual.dtype == torch.float32
    assert actual.shape == (2, 1)
    assert not actual.requires_grad


def test_copies_draw_other_numbers_and_the_same_ones_again():
    """As workers get them: joblib and multiprocessing pickle a function for every piece of work."""

    def drawn():
        simulate = ts.simulator(turnover(), ["b"], times=[3.0], device="cpu", seed=6)
        first = pickle.loads(pickle.dumps(simulate))
        second = pickle.loads(pickle.dumps(simulate))
        nested = pickle.loads(pickle.dumps(first))
        return [s([[50.0]] * 8).ravel().tolist() for s in (simulate, first, second, nested, first)]

    actual = drawn()
    assert len({tuple(row) for row in actual}) == 5
    assert drawn() == actual
    simulate = ts.simulator(turnover(), ["b"], times=[3.0], device="cpu", seed=6)
    assert simulate([[50.0]] * 8).ravel().tolist() == actual[0], "copies leave the numbers alone"


def test_forks_draw_other_numbers(monkeypatch):
    """Samplers of pyABC fork: children must not repeat each other, nor their parent."""
    actual = []
    for process in (None, 1234, 4321):
        simulate = ts.simulator(turnover(), ["b"], times=[3.0], device="cpu", seed=6)
        if process is not None:
            monkeypatch.setattr(os, "getpid", lambda process=process: process)
        actual += [tuple(simulate([[50.0]] * 8).ravel()) for _ in range(2)]
    assert len(set(actual)) == 6


def test_workers_that_import_the_module_draw_other_numbers(monkeypatch):
    """Spawned workers make a simulator of a module anew: they must not repeat each other."""
    module = compile("made = make()", "models.py", "exec")
    imported = "__mp_main__"
    actual = []
    for worker in ((), (1,), (2,), (2, 1)):
        for name, seed in ((imported, 6), (imported, None), ("task", 6)):
            scope = {
                "__name__": name,
                "make": lambda seed=seed: ts.simulator(
                    turnover(), ["b"], times=[3.0], device="cpu", seed=seed
                ),
            }
            exec(module, scope)  # noqa: S102 - an import, as a worker does it
            monkeypatch.setattr(copies, "_worker", lambda worker=worker: worker)
            repeats = bool(worker) and name == imported and seed is not None
            message = pytest.warns(UserWarning, match="worker") if repeats else nullcontext()
            with message:
                numbers = tuple(scope["made"]([[50.0]] * 8).ravel())
            if seed is not None and name == imported:
                actual.append(numbers)
            elif seed is not None:
                assert numbers == actual[0], "what a task makes itself has the numbers of its seed"
    assert len(set(actual)) == 4


def test_the_number_of_a_worker(tmp_path):
    (tmp_path / "models.py").write_text(
        "from tauslab.base.copies import Origin\n"
        "origin = Origin(repeats=True)\n"
        "def others(_):\n"
        "    return origin.others(), Origin(repeats=True).others()\n"
    )
    program = tmp_path / "program.py"
    program.write_text(
        "import multiprocessing, models\n"
        "if __name__ == '__main__':\n"
        "    with multiprocessing.get_context('spawn').Pool(1) as pool:\n"
        "        print(models.others(0), pool.map(models.others, [0]))\n"
    )
    done = subprocess.run(
        [sys.executable, program], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split("\n")[0] == "((), ()) [((0, 1), ())]"


WORKERS = """
import multiprocessing, sys
import tauslab as ts
net = ts.Network("births")
net.add_species("X", 0)
net.add_parameter("k", 1.0)
net.add_reaction("-> X", rate="k")
simulate = ts.simulator(net, ["k"], times=[1.0], device="cpu", seed=1)
def count(rate):
    return simulate([rate]).tolist()[0]
if __name__ == "__main__":
    counts = [count(1e6)]
    for method in sys.argv[1:]:
        with multiprocessing.get_context(method).Pool(2) as pool:
            counts += pool.map(count, [1e6] * 4, chunksize=1)
    print("counts", *counts)
"""


def test_worker_processes_draw_other_numbers(tmp_path):
    """Of nine Poisson numbers of mean 1e6 two agree by chance for one seed of 100."""
    (tmp_path / "program.py").write_text(WORKERS)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", tmp_path / "program.py", "fork", "spawn"],
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    counts = done.stdout.splitlines()[-1].split()[1:]
    assert len({*counts}) == len(counts) == 9


def test_an_ensemble_of_particles_tells_of_its_copies(monkeypatch):
    with ts.Ensemble(turnover(), 8, seed=6, device="cpu") as particles:
        particles.advance(0.5)
        monkeypatch.setattr(os, "getpid", lambda: 1234)
        with pytest.warns(UserWarning, match="in every process"):
            particles.advance(1.0)
        particles.advance(1.5)


def test_a_simulator_says_what_it_is():
    simulate = ts.simulator(turnover(), "b, d", "mean:X", t_end=1.0, seed=None)
    assert isinstance(simulate, ts.Simulator)
    assert repr(simulate).startswith("<Simulator of turnover: theta [n, 2] (b, d) to mean:X, seed ")


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda: ts.simulator(turnover(), ["q"], times=[1.0]), "'q'"),
        (lambda: ts.simulator(turnover(), ["b"], times=[1.0], n=5), "n="),
        (lambda: ts.simulator(turnover(), ["b"], sweep={"d": [1]}), "sweep= is set by"),
        (lambda: ts.simulator(turnover(), ["b"], time=[1.0]), "time= is no option of a simulator"),
        (lambda: ts.simulator(turnover(), ["b", "b"]), "each once"),
        (lambda: ts.simulator(turnover(), []), "one column of theta or more"),
        (lambda: ts.simulator(turnover(), ["b"], seed=-1), "seed=-1 is not allowed"),
        (lambda: ts.simulator(turnover(), ["b"], t_end=1)([[1]], seed=1.5), "seed=1.5 is not"),
        (lambda: ts.simulator(turnover(), ["b"], t_end=1)({"b": 1}), "must be numbers, not {'b'"),
        (
            lambda: ts.simulator(ts.Lattice("cube", shape=(8, 8, 8), spacing=1e-8), ["b"]),
            "a network or its file, not <Lattice cube",
        ),
        (lambda: ts.simulator(turnover(), ["b"], times=[1.0])([[1.0, 2.0]]), "columns b"),
        (lambda: ts.simulator(turnover(), ["b"], "speed:X", times=[1.0]), "'speed'"),
        (lambda: ts.simulator(turnover(), ["b"], [], times=[1.0]), "one summary or more"),
        (lambda: ts.simulator(turnover(), ["b"], "mean:X", record="final"), "stands for record="),
        (
            lambda: ts.simulator(turnover(), ["b"], lambda _: [1.0], times=[1.0], device="cpu")(
                [[1.0], [2.0]]
            ),
            "1 rows for 2",
        ),
        (lambda: ts.simulator(turnover(), ["b"]), "no end time of its own"),
        (lambda: ts.simulator(turnover(), ["b"], times=[2, 1]), "times must increase"),
        (
            lambda: ts.simulator(turnover(), ["b"], lambda _: 3, times=[1], device="cpu")([1.0]),
            "for each of the 1 trajectories",
        ),
    ],
)
def test_bad_input(call, word):
    with pytest.raises(ts.ConfigError, match=word):
        call()


@pytest.mark.parametrize("first", [True, False])
def test_columns_do_not_depend_on_whether_a_fixed_amount_is_whole(first):
    net = ts.Network("held")
    for name in ("E", "X") if first else ("X", "E"):
        net.add_species(name, 0, fixed=name == "E")
    net.add_reaction("E -> E + X", rate=2.0)
    simulate = ts.simulator(net, ["E"], times=[1.0], seed=1, device="cpu")
    whole, held, one = simulate([[3.0], [4.0]]), simulate([[3.5], [4.0]]), simulate([3.5])
    place = 0 if first else 1
    assert whole.shape == held.shape == (2, 2)
    assert one[place] == 3.5
    assert whole[:, place].tolist() == [3.0, 4.0]
    assert held[:, place].tolist() == [3.5, 4.0]
    assert (held[:, 1 - place] % 1 == 0).all()

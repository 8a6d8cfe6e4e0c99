"""A finished run that goes on to a later time has the bits of one longer run."""

from __future__ import annotations

import numpy as np
import pytest

import tauslab as ts
from tauslab.cli.main import main
from tauslab.runner.ensemble.from_file import longer_times

RECORD = "trajectories,statistics,final,state,histogram:X:0:400:8"
SHORT, LONG = {"t_end": 2.0, "points": 5}, {"t_end": 5.0, "points": 11}
pytestmark = pytest.mark.filterwarnings("ignore:.*ended early")


def network() -> ts.Network:
    """Trajectories that die out, pass the largest count, reach the step limit, or go on."""
    net = ts.Network("fates")
    net.add_species("X", 4)
    net.add_species("Y", 2**31 - 40)
    net.add_parameter("birth", 1.0)
    net.add_reaction("X -> 2 X", rate="birth")
    net.add_reaction("X ->", rate=1.0)
    net.add_reaction("X -> X + 8 Y", rate=0.2)
    net.add_rule("half", "X / 2")
    return net


def ran(times, model=None, **options) -> ts.Result:
    options = {"record": RECORD, "seed": 5, "device": "cpu", "max_steps": 60} | options
    return ts.run(network() if model is None else model, **options, **times)


def events(result: ts.Result) -> int:
    return int(np.sum(result.data["profile/events"]))


@pytest.mark.parametrize("n", [5, 300])  # one trajectory at a time, and on SIMD lanes
@pytest.mark.parametrize("options", [{}, {"sweep": {"birth": [0.8, 1.1]}}], ids=["plain", "sweep"])
def test_an_extended_run_has_the_bits_of_a_longer_one(n, options, device):
    short, long = (ran(times, n=n, device=device, **options) for times in (SHORT, LONG))
    extended = ts.run(network(), extend=short, t_end=5, device=device)
    assert extended.digest() == long.digest()
    assert short.summaries == ()
    assert short.states == tuple(f"state:{name}" for name in ("X", "Y", "draws", "time"))
    assert events(extended) == events(long) - events(short)  # only the new part was simulated
    if n == 300 and not options:
        assert {*np.unique(short.status)} == {*np.unique(long.status)} == {0, 1, 2, 3}
        assert (short.status != long.status).any()


@pytest.mark.parametrize(
    ("options", "again"),
    [({"n": 4, "first": 90}, ()), ({"initial": {"X": [3, 0, 9]}}, ("initial",)),
     ({"n": 3, "set": {"birth": [0.7, 0.8, 0.9]}}, ("set",))],
)  # fmt: skip
def test_values_of_trajectories_are_given_again(options, again):
    short, long = ran(SHORT, **options), ran(LONG, **options)
    same = {name: options[name] for name in again}
    assert ts.run(network(), extend=short, t_end=5, device="cpu", **same).digest() == long.digest()
    if again:
        with pytest.raises(ts.ConfigError, match="of another model, or of other values"):
            ts.run(network(), extend=short, t_end=5, device="cpu")


@pytest.mark.parametrize("record", [RECORD, "statistics,state"])
def test_files_are_extended_step_by_step(tmp_path, record):
    model = network()
    model.write(tmp_path / "fates.toml")
    steps = [ran(SHORT, n=9, output=tmp_path / "2.h5", record=record, set={"birth": 0.9}).path]
    for end in (3, 5):
        name = str(tmp_path / f"{end}.h5")
        words = ["run", str(tmp_path / "fates.toml"), "--set", "birth=0.9", "--t-end", str(end)]
        assert (
            main([*words, "--extend", str(steps[-1]), "-o", name, "--device", "cpu", "--quiet"])
            == 0
        )
        steps.append(name)
    words = ["run", steps[-1], "--extend", steps[-1], "--t-end", "5.5", "-o", steps[-1]]
    assert main([*words, "--overwrite", "--quiet"]) == 2  # the file that is read stays
    assert main([*words[:-1], str(tmp_path / "last.h5"), "--device", "cpu", "--quiet"]) == 0
    (tmp_path / "last.h5").unlink()
    long = ran(LONG, n=9, record=record, set={"birth": 0.9})
    with ts.open(steps[-1]) as last:
        assert last.digest() == long.digest()
        last.data.verify()
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "2.h5",
        "3.h5",
        "5.h5",
        "fates.toml",
    ]


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"record": "trajectories"}, "no states to continue from"),
        ({"record": "trajectories,state,summary:mean:X"}, "summaries of whole trajectories"),
        ({"record": "trajectories", "method": "tau"}, "no states to continue from"),
        ({"record": "trajectories", "method": "ode", "n": 1}, "no states to continue from"),
    ],
)
def test_what_cannot_go_on_is_simulated_again(options, why):
    model = network()
    model.species["Y"] = 0
    short, long = ran(SHORT, model, **{"n": 7} | options), ran(LONG, model, **{"n": 7} | options)
    with pytest.warns(UserWarning, match=f"{why}.*: all of it is simulated again"):
        extended = ts.run(model, extend=short, t_end=5, device="cpu")
    assert extended.digest() == long.digest()


def test_other_jobs_are_refused(tmp_path):
    short = ran(SHORT, n=3, output=tmp_path / "short.h5")
    for options, why in (
        ({"t_end": 2}, "needs t_end= above 2"),
        ({"t_end": 5, "points": 11}, "needs t_end= above 2"),
        ({"t_end": 5.3}, "intervals of 0.5, of which t_end=5.3 is no multiple"),
        ({"times": [0, 3]}, "must begin with the 5 sample times"),
        ({"t_end": 5, "seed": 6}, "was made with seed=5"),
        ({"t_end": 5, "n": 4}, "was made with n=3"),
        ({"t_end": 5, "first": 9}, "was made with first=0"),
        ({"t_end": 5, "max_steps": 7}, "was made with max_steps="),
        ({"t_end": 5, "sweep": {"birth": [1]}}, "sweep= is as in"),
        ({"t_end": 5, "set": {"birth": 2}}, "of another model, or of other values"),
        ({"t_end": 5, "output": short.path, "overwrite": True}, "give another output="),
        ({"t_end": 5, "resume": True, "output": tmp_path / "x.h5"}, "leave out"),
    ):
        place = {k: options.pop(k) for k in ("output", "overwrite") if k in options}
        where = (
            {"output": ts.Output(place["output"], overwrite="overwrite" in place)} if place else {}
        )
        with pytest.raises(ts.ConfigError, match=why):
            ts.run(network(), extend=short, device="cpu", **where, **options)
    with pytest.raises(ts.ConfigError, match="takes a result or its path, not dict"):
        ts.run(network(), extend={}, t_end=5)
    with pytest.raises(ts.ConfigError, match='record="state" is of ssa with the selector linear'):
        ran(SHORT, n=3, method="tau")


def test_times_of_the_result_keep_their_bits():
    times = np.array([0.0, 0.1, 0.2, 0.3])
    longer = longer_times(times, None, 0.7, None)
    assert longer[:4].tolist() == times.tolist()
    assert longer[4:] == pytest.approx([0.4, 0.5, 0.6, 0.7])
    assert longer_times(times, [*times, 9], None, None)[-1] == 9

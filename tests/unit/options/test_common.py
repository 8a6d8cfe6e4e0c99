"""``--common``: points, rows and runs that share their random numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from generated_networks import cyclic_chain

import tauslab as ts
from tauslab.cli.main import main
from tauslab.store.results.digest import digest_lines, digest_total

TIMES = [0.0, 1.0, 3.0]


def turnover():
    net = ts.Network("turnover")
    net.add_species("X", 3)
    net.add_parameter("k", 5.0)
    net.add_reaction("-> X", rate="k")
    net.add_reaction("X ->", rate=1.0)
    return net


def total(result):
    return digest_total(digest_lines(result))


def run(device="cpu", **options):
    return ts.run(turnover(), times=TIMES, seed=1, device=device, common=True, **options)


def test_differences_of_points_vary_less():
    """Means within four standard errors, false alarm 2e-4; correlation far from 0."""
    x = run(n=2000, sweep={"k": [5.0, 5.2, 5.0]}).counts("X")[:, :, -1].astype(float)
    for row, k in ((0, 5.0), (1, 5.2)):
        exact = 3 * math.exp(-3) + k * (1 - math.exp(-3))
        assert abs(x[row].mean() - exact) < 4 * math.sqrt(exact / 2000)
    assert np.var(x[1] - x[0]) < 0.2 * (np.var(x[0]) + np.var(x[1]))
    assert (x[2] == x[0]).all()


def test_rows_and_runs_share_them_too():
    rows = run(n=3, set={"k": [5.0, 80.0, 5.0]}).counts("X")
    assert (rows[0] == rows[2]).all()
    assert rows[1, -1, ...] > rows[0, -1, ...]
    assert (run(n=3).counts("X")[0] == rows[0]).all()
    assert not (run(n=3).counts("X")[0] == run(n=3).counts("X")[1]).all()
    simulate = ts.simulator(turnover(), ["k"], times=[3.0], common=True, device="cpu", seed=0)
    actual = simulate([[5.0], [5.0], [5000.0]])
    assert actual[0] == actual[1] < actual[2]


def test_a_file_keeps_it(tmp_path):
    path, again = tmp_path / "a.h5", tmp_path / "again.h5"
    with run(n=20, output=path) as result:
        assert result.attributes["common"] == 1
        digest = total(result)
    with ts.run(turnover(), times=TIMES, n=20, device="cpu", output=path, resume=True) as result:
        assert total(result) == digest
    assert main(["run", str(path), "--quiet", "--device", "cpu", "-o", str(again)]) == 0
    with ts.open(again) as result:
        assert total(result) == digest
    with ts.run(turnover(), times=TIMES, n=20, seed=1, device="cpu") as plain:
        assert "common" not in plain.attributes
        assert total(plain) != digest


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "tau"}, 'common=True needs method="ssa", not tau'),
        ({"method": ts.SSA(selector="tree")}, "leave out selector="),
    ],
)
def test_what_is_refused(options, message):
    with pytest.raises(ts.ConfigError, match=message):
        run(n=2, **options)


def test_models_that_are_refused():
    net = turnover()
    net.add_event("dose", 1.0, {"X": 0})
    with pytest.raises(ts.ModelError, match=r"events.*common=True cannot run it"):
        ts.run(net, times=TIMES, n=2, common=True, device="cpu")
    with pytest.raises(ts.ConfigError, match="1 to 128 reactions, not 200"):
        ts.run(cyclic_chain(200), times=TIMES, n=2, common=True, device="cpu")


def digest(device):
    return total(run(device, n=300, sweep={"k": [5.0, 5.2]}))


def test_bits_stay_what_they_are():
    assert digest("cpu") == "45508b97240ee0453600fc32428b8eb77b1707dca8ed0b59e4d87e69ca368b1a"


@pytest.mark.gpu
def test_the_same_bits_on_a_gpu():
    assert digest("cuda") == digest("cpu")

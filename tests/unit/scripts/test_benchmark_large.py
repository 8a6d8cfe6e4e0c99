"""Cases of the benchmark of large networks, and the figures drawn from its file."""

from __future__ import annotations

import csv
import importlib

import pytest

from tauslab.runner.ensemble.choices import presimulation as piloting

benchmark = importlib.import_module("benchmark_large")
cases = importlib.import_module("large_cases")
plot = importlib.import_module("plot_large")


def test_the_lot_has_every_figure_and_says_its_seconds():
    text = benchmark.listed()
    assert all(name in text for name in [*cases.CASES, *benchmark.STARTS])
    lot = int(text.splitlines()[-1].split()[2])
    assert lot <= 420
    sizes = {work.size for work in cases.chains(quick=False)}
    assert sizes == {10**k for k in range(2, 7)}
    assert [work.size for work in cases.colloids(quick=False)] == [16, 32, 64, 128, 252, 512]


@pytest.mark.parametrize("favoured", [pytest.param(None, marks=pytest.mark.validate), "tree"])
def test_device_and_core_are_compared_by_the_fastest_selector_of_each(monkeypatch, favoured):
    """And by the one that the pilot chooses, which may be slow."""
    if favoured:
        monkeypatch.setattr(piloting, "selector_after", lambda *_: favoured)
    work = cases.Work("case", "random8", 300, 2, 200, core=2)
    monkeypatch.setattr(benchmark, "CORE_UPDATES", 100)
    monkeypatch.setattr(benchmark, "DEVICE_UPDATES", 60)
    monkeypatch.setattr(benchmark, "PILOT_EVENTS", 50)
    rows = list(benchmark.beside_a_core(work, "cpu", 1))
    assert {row.presimulation for row in rows} == {50}
    first = next(k for k, row in enumerate(rows) if row.case == "case-device")
    halves = rows[:first], rows[first:]
    for short, half in (("case-core", halves[0]), ("case-device", halves[1])):
        tried = [row for row in half if row.case == short]
        whole = [row for row in half if row.case == "case"]
        assert half == tried + whole
        assert [one.selector for one in tried] == list(cases.tabled())
        assert {row.events for row in tried} == {100 if short == "case-core" else 2 * 60}
        most = benchmark.CONTENDS * min(row.ns_per_update for row in tried)
        contenders = {row.selector for row in tried if row.ns_per_update < most}
        (chosen,) = (row.selector for row in whole if row.chosen)
        assert sorted(row.selector for row in whole) == sorted(contenders | {chosen})
        assert chosen == favoured or favoured is None
        assert {row.events for row in whole} == {400}
        assert whole[-1].trajectories_per_second == max(r.trajectories_per_second for r in whole)
    core, device = halves[0][-1], halves[1][-1]
    ratio = device.trajectories_per_second / core.trajectories_per_second
    assert device.times_one_core == pytest.approx(ratio, abs=0.051)


def test_a_start_is_taken_apart():
    row = benchmark.prepared("load", "multisite2", 288, 64, "cpu")
    assert (row.reactions, row.selector) == (288, "pdm")
    assert row.bytes_per_trajectory > 66 * 4
    assert row.compile_seconds > 0
    assert row.in_flight >= 1


def test_figures_of_the_file(tmp_path):
    rows = [
        benchmark.Row("chain", "chain", n, n, 64, "tree", 0, 0, "device", ns_per_update=n / 50)
        for n in (100, 1000)
    ]
    rows += [
        benchmark.Row("teams", "chain", 100, 100, 64, "tree", t, 0, "device", ns_per_update=1.0)
        for t in (1, 32)
    ]
    table = tmp_path / "table.csv"
    benchmark.write([benchmark.asdict(row) for row in rows], table)
    with table.open(newline="") as stream:
        read = list(csv.DictReader(stream))
    curve = {"cyclic chain": [[100.0, 1000.0], [2.0, 20.0]]}
    assert plot.by_network(read, ("chain",), "reactions") == curve
    assert plot.main([str(table), "-o", str(tmp_path)]) == 0
    assert sorted(path.name for path in tmp_path.glob("*.png")) == [
        "large-fig7.png", "large-fig9.png",
    ]  # fmt: skip

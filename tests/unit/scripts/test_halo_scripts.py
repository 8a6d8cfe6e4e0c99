"""The scripts that measure, draw and predict messages between slabs."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

WORK = 2e-10 * 256**3


@pytest.fixture
def predict(monkeypatch):
    import predict_halo

    return predict_halo


def rows_of(predict, machine):
    """What a machine that obeys the model would show."""
    for ranks in (1, 2, 4):
        for shape in ((256, 256, 256), (128, 128, 128), (512, 256, 256)):
            silent = replace(machine, inside=replace(machine.inside, latency=0, bandwidth=1e30))
            yield {"part": "strong", "shape": list(shape), "ranks": ranks, "slots": 16, "depth": 1,
                   "transport": "peer" if ranks > 1 else "self",
                   "ms_per_step": 1e3 * predict.step_seconds(machine, shape, ranks),
                   "ms_without_sending": 1e3 * predict.step_seconds(silent, shape, ranks),
                   }  # fmt: skip
    for name, link in (("peer", machine.inside), ("host", machine.between)):
        for size in (1 << 14, 1 << 17, 1 << 20, 1 << 24):
            yield {"part": "links", "transport": name, "ranks": 4, "bytes": size,
                   "microseconds": 1e6 * (link.latency + size / link.bandwidth),
                   "gigabytes_per_second": 1.0}  # fmt: skip


def test_a_machine_is_found_from_what_it_shows(predict, capsys):
    inside, host = predict.Way(8e-6, 1.5e11, 7e-6), predict.Way(9e-5, 6e9, 7e-6)
    machine = predict.Machine(3e-10, 2.5, 4e-5, 8, inside, host)
    found = {"rows": list(rows_of(predict, machine))}
    again, ways = predict.fitted(found, predict.Machine())
    assert again.site_seconds == pytest.approx(machine.site_seconds, rel=1e-6)
    assert again.edge_planes == pytest.approx(2.5, rel=1e-6)
    assert again.overhead == pytest.approx(4e-5, rel=1e-6)
    for name, way in (("peer", inside), ("host", host)):
        assert ways[name].latency == pytest.approx(way.latency)
        assert ways[name].bandwidth == pytest.approx(way.bandwidth)
        assert ways[name].launches == pytest.approx(7e-6)
    assert again.inside == ways["peer"]
    predict.compare(found, again, ways)
    for line in capsys.readouterr().out.splitlines()[1:]:
        measured, predicted = map(float, line.split(" | ")[-2:])
        assert predicted == pytest.approx(measured, abs=2e-3)


def test_steps_are_of_one_file_and_messages_of_another(predict):
    rows = list(rows_of(predict, predict.Machine()))
    steps = {"rows": [row for row in rows if row["part"] != "links"], "device": "this"}
    for row in steps["rows"]:
        row["transport"] = row["transport"].replace("peer", "none")
    both = predict.joined(steps, {"rows": rows, "device": "another"})
    assert both["device"] == "this"
    assert len(both["rows"]) == len(rows)
    again, ways = predict.fitted(both, predict.Machine(overhead=1.0))
    assert again.overhead == pytest.approx(predict.Machine().overhead)
    assert set(ways) == {"peer", "host"}


def test_one_slab_of_many_is_timed_alone(tmp_path, monkeypatch):
    import benchmark_slab

    for name, value in {
        "STRONG": ((32, 8, 32), (32, 16, 32)), "LARGE": (64, 8, 32), "WEAK": (8, 8, 32),
        "SMALL": ((16, 8, 32),),
    }.items():  # fmt: skip
        monkeypatch.setattr(benchmark_slab, name, value)
    path = tmp_path / "slabs.json"
    words = ["benchmark_slab.py", "--device", "cpu", "--repeat", "1", "--seconds", "0"]
    monkeypatch.setattr("sys.argv", [*words, "-o", str(path)])
    benchmark_slab.main()
    rows = json.loads(path.read_text())["rows"]
    assert all(row["ms_per_step"] > 0 for row in rows)
    assert {row["ranks"] for row in rows} == {1, 2, 4, 8}  # 8 planes at least
    assert {row["depth"] for row in rows if row["part"] == "depths"} == {1, 2, 4}
    assert {row["transport"] for row in rows if row["ranks"] > 1} == {"none"}


def test_messages_are_hidden_until_slabs_are_thin(predict):
    machine = predict.Machine(1e-10, 3, 0, 8, predict.Way(0, 1e12), predict.Way(1e-3, 1e12))
    plane = 1e-10 * 256 * 256
    hidden = predict.step_seconds(machine, (16 * 200, 256, 256), 16)
    assert hidden == pytest.approx(203 * plane)
    bare = predict.step_seconds(machine, (16 * 10, 256, 256), 16)
    assert bare == pytest.approx(13 * plane + 1e-3 + 2**20 / 1e12 - 7 * plane)
    assert predict.best_depth(machine, (16 * 200, 256, 256), 16) == 1
    depth = predict.best_depth(machine, (16 * 10, 256, 256), 16)
    assert depth > 1
    assert predict.step_seconds(machine, (160, 256, 256), 16, depth=depth) < 0.5 * bare


def test_figures_are_drawn(predict, tmp_path):
    pytest.importorskip("matplotlib")
    import benchmark_halo

    rows = list(rows_of(predict, predict.Machine()))
    spans = [{"name": name, "begin": 0.1 * i, "end": 0.1 * i + 0.1}
             for i, name in enumerate(("plane", "column", "edges", "sent", "arrived"))]  # fmt: skip
    rows.append({"part": "timeline", "shape": [8, 8, 8], "transport": "peer", "ranks": 2,
                 "spans": [spans, spans]})  # fmt: skip
    path = tmp_path / "halo.json"
    path.write_text(json.dumps({"device": "test", "ranks": 4, "rows": rows}))
    benchmark_halo.draw(path)
    names = {p.name for p in tmp_path.glob("*.png")}
    assert names == {"halo-links.png", "halo-scaling.png", "halo-timeline-peer.png"}


def test_spans_come_from_begins_and_ends(predict):
    del predict
    import benchmark_halo

    class Event:
        def __init__(self, at):
            self.at = at

        def seconds_since(self, earlier):
            return self.at - earlier.at

    marks = [("plane", 0, Event(1)), ("plane", 1, Event(2)), ("arrived", 1, Event(3)),
             ("edges", 0, Event(4)), ("edges", 1, Event(5)), ("sent", 1, Event(6)),
             ("arrived", 1, Event(9))]  # fmt: skip
    spans = benchmark_halo.spans_of(marks, Event(0))
    found = {(s["name"], s["begin"], s["end"]) for s in spans}
    assert found == {("plane", 1e3, 2e3), ("arrived", 0, 3e3), ("hops beside", 3e3, 4e3),
                     ("edges", 4e3, 5e3), ("sent", 5e3, 6e3), ("arrived", 6e3, 9e3)}  # fmt: skip

"""The scripts that measure ODE layouts: what they count, what their tables say."""

from __future__ import annotations

import csv
import json

import pytest
from places import SCRIPTS

import tauslab as ts
from tauslab.kernels.ode.lowering import lower_ode

COURSES = SCRIPTS.parent / "docs" / "benchmarks" / "h200-ode-figure5.csv"


@pytest.fixture
def scripts(monkeypatch):
    """The modules of the scripts by name."""
    names = ("ode_cases", "ode_measure", "ode_tables", "benchmark_ode", "plot_ode")
    return {name: __import__(name) for name in names}


def measured(scripts, case, layout, seconds, *, warps=1):
    """A measurement as a device would give it, of a tenth of the steps."""
    module, of = scripts["ode_measure"], scripts["ode_cases"].CASES[case]
    run = module.Run(of.trajectories, of.points // 10, of.substeps)
    name = "thread" if layout.layout == "auto" else layout.layout
    return module.Measured(case, layout, name, warps, f"{name} {warps}", run, seconds, 0, "same")


def cells(text, case):
    """The cells of the row of a case."""
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if f"| {case} |" in line]
    assert len(rows) == 1
    return rows[0]


def test_arithmetic_of_a_step(scripts):
    """In x' = k y - x x one of two products is fused: 2 instructions, 3 operations a stage.

    Two variables take 4 multiply-adds for the sum and 3 for the next states.
    """
    network = ts.Network("two")
    network.add_species("x", 1)
    network.add_species("y", 1)
    network.add_parameter("k", 0.5)
    network.add_rate("x", "k * y - x * x")
    network.add_rate("y", "x")
    system = lower_ode(network, parameters=network.parameter_values())
    work = scripts["ode_cases"].work_of_a_step(system)
    assert (work.instructions, work.operations) == (4 * 2 + 14, 4 * 3 + 2 * 14)


def test_cases_are_those_of_the_paper(scripts):
    cases = scripts["ode_cases"]
    assert [c.unknown for c in cases.MODELS] == [20, 40, 164]
    assert [c.steps for c in cases.MODELS] == [10_000, 50_000, 2_000_000]
    assert len(cases.PAPER) == 8
    assert not {case.name for case in cases.PAPER} & {case.name for case in cases.OTHERS}
    clock = cases.CASES["segmentation clock"]
    powers = cases.exponents(clock.network())
    assert powers
    system, priors = cases.equations(clock.name)
    assert len(priors.names) == 40
    assert not powers & set(priors.names)
    assert not any(node.kind == "pow" for node in system.graph.nodes)


@pytest.mark.parametrize(
    ("case", "scale", "points", "substeps"),
    [("EGF-NGF", 0.02, 2, 100), ("EGF-NGF", 1.0, 50, 100), ("EGF-NGF", 1e-9, 2, 1),
     ("segmentation clock", 0.02, 2, 500), ("thrombin", 0.02, 2, 2500),
     ("synthetic4", 0.03, 3, 1000)],
)  # fmt: skip
def test_runs_are_shortened_by_points_first(scripts, case, scale, points, substeps):
    run = scripts["ode_measure"].Run.of(scripts["ode_cases"].CASES[case], scale, None)
    assert (run.points, run.substeps) == (points, substeps)
    assert run.trajectories == scripts["ode_cases"].CASES[case].trajectories


def test_tables_compare_layouts(scripts):
    tables, layout = scripts["ode_tables"], scripts["ode_measure"].Layout
    found = [
        measured(scripts, "EGF-NGF", layout(), 0.2),
        measured(scripts, "EGF-NGF", tables.GLOBAL, 0.8),
        measured(scripts, "EGF-NGF", tables.THREAD, 0.2),
        measured(scripts, "EGF-NGF", tables.WARPS, 0.5, warps=4),
    ]
    text = {mode: make(found, 1e12) for mode, make in tables.TABLES.items()}
    row = cells(text["models"], "EGF-NGF")
    assert row[6:8] == ["2", "1.5e+06"]
    assert row[9:] == ["157", "78.6", "2"]
    assert len(text["synthetic"].splitlines()) == 2
    row = cells(text["table3"], "EGF-NGF")
    assert row[1:6] == ["8", "2", "5", "4", "4"]
    row = cells(text["choice"], "EGF-NGF")
    assert row[1:4] == ["3", "thread 1", "thread 1"]
    assert row[-1] == "0.0 %"
    slower = [measured(scripts, "EGF-NGF", layout(), 0.22), *found[1:]]
    slower[0] = slower[0].__class__(**{**vars(slower[0]), "told": "another"})
    assert cells(tables.TABLES["choice"](slower, None), "EGF-NGF")[-1] == "10.0 %"
    assert cells(text["peak"], "EGF-NGF")[-1].endswith(" %")


def test_runs_of_unlike_length_are_not_compared(scripts):
    tables, layout = scripts["ode_tables"], scripts["ode_measure"].Layout
    found = [
        measured(scripts, "EGF-NGF", asked, seconds)
        for asked, seconds in ((layout(), 0.3), (layout("thread"), 0.3), (tables.GLOBAL, 0.9))
    ]
    run = scripts["ode_measure"].Run(3_000_000, 100, 100)
    found.append(found[0].__class__(**{**vars(found[0]), "seconds": 2.5, "run": run}))
    assert cells(tables.TABLES["choice"](found, None), "EGF-NGF")[4:6] == ["0.3", "0.3"]
    assert cells(tables.TABLES["models"](found, None), "EGF-NGF")[6] == "2.5"


def test_layouts_that_differ_in_their_bits_are_named(scripts):
    layout = scripts["ode_measure"].Layout
    found = [measured(scripts, case, layout(), 1.0) for case in ("EGF-NGF", "thrombin")]
    differ = scripts["benchmark_ode"].of_different_bits
    assert differ(found) == []
    other = found[0].__class__(**{**vars(found[0]), "digest": "other"})
    assert differ([*found, other]) == ["EGF-NGF"]


def test_figures_are_drawn(scripts, tmp_path):
    pytest.importorskip("matplotlib")
    tables, layout = scripts["ode_tables"], scripts["ode_measure"].Layout
    found = [
        measured(scripts, case, asked, seconds, warps=warps)
        for case in ("EGF-NGF", "synthetic4")
        for asked, seconds, warps in (
            (layout(), 0.2, 1), (layout("thread"), 0.2, 1), (layout("warps", 4), 0.3, 4),
            (tables.GLOBAL, 0.9, 1),
        )
    ]  # fmt: skip
    tables.draw_figure5(found, tmp_path / "a.png")
    assert (tmp_path / "a.png").stat().st_size > 5000


def test_a_figure_is_drawn_from_the_table_in_the_docs(scripts, tmp_path):
    """What is computed of the part that was run agrees with the columns of whole runs."""
    pytest.importorskip("matplotlib")
    tables, plot = scripts["ode_tables"], scripts["plot_ode"]
    with COURSES.open(newline="") as file:
        rows = list(csv.DictReader(file))
    for one, row in zip(plot.read_courses(COURSES), rows, strict=True):
        assert tables.whole_run(one) == pytest.approx(float(row["seconds"]), rel=1e-3)
        rate = float(row["trajectories_per_second"])
        assert tables.per_second(one) == pytest.approx(rate, rel=1e-3)
    assert plot.main([str(COURSES), "-o", str(tmp_path / "a.png")]) == 0
    assert (tmp_path / "a.png").stat().st_size > 5000


def test_a_benchmark_runs_and_is_written(scripts, tmp_path, capsys):
    words = ["models", "peak", "--case", "EGF-NGF", "--device", "cpu", "--threads", "1",
             "--trajectories", "4", "--scale", "0.002", "--peak-flops", "1e11",
             "-o", str(tmp_path / "x")]  # fmt: skip
    assert scripts["benchmark_ode"].main(words) == 0
    assert "## peak" in capsys.readouterr().out
    found = json.loads((tmp_path / "x.json").read_text())
    assert found["settings"]["scale"] == 0.002
    one = found["measured"][0]
    assert (one["case"], one["failed"], one["seconds"] > 0) == ("EGF-NGF", 0, True)
    assert one["run"] == {"trajectories": 4, "points": 2, "substeps": 10}
    assert (tmp_path / "x.md").read_text().startswith("## models")


def test_parts_of_a_benchmark_become_one(scripts, tmp_path, monkeypatch):
    """Each device measured other systems; tables are those of one run."""
    run, modes = scripts["benchmark_ode"].main, ["models", "others", "peak"]
    of = ["--device", "cpu", "--threads", "1", "--scale", "0.002", "--trajectories", "4",
          "--peak-flops", "1e11", "--warps", "2"]  # fmt: skip
    cases, parts, rows = ("EGF-NGF", "p53"), [], []
    for case in cases:
        assert run([*modes, *of, "--case", case, "-o", str(tmp_path / case)]) == 0
        parts += ["--merge", str(tmp_path / f"{case}.json")]
        rows += json.loads((tmp_path / f"{case}.json").read_text())["measured"]
    monkeypatch.setattr(scripts["benchmark_ode"], "get_backend", None)  # nothing is measured
    assert run([*modes, *parts, "-o", str(tmp_path / "all")]) == 0
    assert json.loads((tmp_path / "all.json").read_text())["measured"] == rows
    for case in cases:
        texts = [(tmp_path / f"{name}.md").read_text() for name in (case, "all")]
        shown = [[line for line in text.splitlines() if f"| {case} |" in line] for text in texts]
        assert shown[0] == shown[1] != []
    part = json.loads((tmp_path / "p53.json").read_text())
    part["settings"]["precision"] = "double"
    (tmp_path / "p53.json").write_text(json.dumps(part))
    with pytest.raises(SystemExit, match="'double'"):
        run([*modes, *parts])

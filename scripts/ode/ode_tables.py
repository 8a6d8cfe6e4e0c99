"""Tables and figures of measured ODE ensembles, beside what the paper measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from ode_cases import (
    CASES,
    MODELS,
    OTHERS,
    PAPER,
    SYNTHETIC_CASES,
    UNFITTED,
    Case,
    equations,
    work_of_a_step,
)
from ode_measure import Layout, Measured

THREAD, WARPS, GLOBAL = Layout("thread"), Layout("warps"), Layout("global")


def whole_run(one: Measured) -> float:
    """Seconds of all trajectories and steps, in proportion."""
    case = CASES[one.case]
    return one.seconds * case.steps / one.steps * case.trajectories / one.run.trajectories


def per_second(one: Measured) -> float:
    """Whole trajectories per second."""
    return CASES[one.case].trajectories / whole_run(one)


def by_case(
    measured: Sequence[Measured],
    *needed: Layout,
    most: bool = False,
    cases: Sequence[Case] = PAPER,
) -> Iterator[tuple[Case, dict[Layout, Measured]]]:
    """Those of the cases that have all layouts measured in one run, the longest such run of each.

    With `most`, the run with the most layouts.
    """
    for case in cases:
        runs: dict[int, dict[Layout, Measured]] = {}
        for one in measured:
            if one.case == case.name:
                runs.setdefault(one.steps, {})[one.asked] = one
        able = {steps: own for steps, own in runs.items() if own.keys() >= set(needed)}
        if able:
            yield case, able[max(able, key=lambda steps: (most * len(able[steps]), steps))]


def table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A Markdown table; numbers with three digits."""
    lines = [f"| {' | '.join(header)} |", "|---" * len(header) + "|"]
    for row in rows:
        words = (f"{cell:.3g}" if isinstance(cell, float) else str(cell) for cell in row)
        lines.append(f"| {' | '.join(words)} |")
    return "\n".join(lines)


def whole_runs(measured: Sequence[Measured], cases: Sequence[Case]) -> str:
    """Seconds of whole runs with the automatic choice."""
    rows = []
    for case, found in by_case(measured, Layout(), cases=cases):
        one = found[Layout()]
        rows.append([
            case.name, len(equations(case.name)[0].variables), f"{case.trajectories:.3g}",
            f"{case.steps:.3g}", f"{100 * one.steps / case.steps:.3g} %",
            f"{one.layout} {one.warps}", whole_run(one), per_second(one), one.failed,
            case.heterogeneous, case.heterogeneous / whole_run(one), case.goal or "",
        ])  # fmt: skip
    header = ("system", "equations", "trajectories", "steps", "of them run", "layout, warps",
              "seconds", "trajectories/s", "not finite", "paper, s", "times faster",
              "goal, s")  # fmt: skip
    return table(header, rows)


def layouts_table(measured: Sequence[Measured], _: float | None) -> str:
    """The paper's table III: seconds of whole runs with each layout."""
    rows = []
    for case, found in by_case(measured, THREAD, GLOBAL):
        homogeneous = whole_run(found[GLOBAL])
        own = {layout: whole_run(found[layout])
               for layout in (THREAD, WARPS) if layout in found}  # fmt: skip
        rows.append([
            case.name, homogeneous, own[THREAD], own.get(WARPS, ""),
            found[WARPS].warps if WARPS in found else "", homogeneous / min(own.values()),
            case.homogeneous, case.heterogeneous, case.homogeneous / case.heterogeneous,
        ])  # fmt: skip
    header = ("system", "global memory, s", "thread, s", "warps, s", "C", "global over best",
              "paper: homogeneous, s", "heterogeneous, s", "ratio")  # fmt: skip
    return table(header, rows)


def choice_table(measured: Sequence[Measured], cases: Sequence[Case]) -> str:
    """What ``auto`` takes against the fastest of all; the paper lost 2.8 % at most."""
    rows = []
    for case, found in by_case(measured, Layout(), most=True, cases=cases):
        auto = found[Layout()]
        best = min(found.values(), key=lambda one: one.seconds)
        taken = [one for one in found.values() if one.told == auto.told]
        lost = min(one.seconds for one in taken) / best.seconds - 1  # the same kernel, twice
        if len(found) > 1:
            rows.append([
                case.name, len(found) - 1, f"{auto.layout} {auto.warps}",
                f"{best.layout} {best.warps}", auto.seconds, best.seconds,
                f"{100 * lost:.1f} %",
            ])  # fmt: skip
    header = ("system", "tried", "auto", "fastest", "auto, s", "fastest, s", "lost")
    return table(header, rows)


def peak_table(measured: Sequence[Measured], peak: float | None) -> str:
    """Operations that the equations need, per second, against the device's."""
    rows = []
    for case, found in by_case(measured, Layout()):
        one = found[Layout()]
        work = work_of_a_step(equations(case.name)[0])
        steps = one.run.trajectories * one.steps / one.seconds
        row: list[object] = [case.name, work.instructions, work.operations,
                             work.operations * steps / 1e12]  # fmt: skip
        if peak:
            row += [f"{100 * work.operations * steps / peak:.0f} %",
                    f"{100 * 2 * work.instructions * steps / peak:.0f} %"]  # fmt: skip
        rows.append(row)
    header = ["system", "instructions a step", "operations a step", "Tflop/s"]
    if peak:
        header += [f"of {peak / 1e12:.1f} Tflop/s", "of instructions"]
    return table(header, rows)


def courses_table(measured: Sequence[Measured], _: float | None) -> str:
    """Trajectories per second of every layout, as the figure draws them."""
    rows = [
        [one.case, one.layout, one.warps, per_second(one), whole_run(one)]
        for _, found in by_case(measured)
        for one in sorted(found.values(), key=lambda m: (m.layout, m.warps))
        if one.asked in (Layout(one.layout), Layout(one.layout, one.warps))
    ]
    header = ("system", "layout", "C", "trajectories/s", "whole run, s")
    return table(header, rows)


TABLES: Mapping[str, Callable[[Sequence[Measured], float | None], str]] = {
    "models": lambda measured, _: whole_runs(measured, MODELS),
    "synthetic": lambda measured, _: whole_runs(measured, SYNTHETIC_CASES),
    "figure5": courses_table,
    "table3": layouts_table,
    "choice": lambda measured, _: choice_table(measured, PAPER),
    "others": lambda measured, _: choice_table(measured, OTHERS),
    "unfitted": lambda measured, _: choice_table(measured, UNFITTED),
    "peak": peak_table,
}


def draw_figure5(measured: Sequence[Measured], path: Path) -> None:
    """Trajectories per second against C, a panel a system; the homogeneous layout as a line."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    cases = list(by_case(measured, Layout("thread")))
    if not cases:
        return
    columns = min(4, len(cases))
    figure, panels = plt.subplots(
        -(-len(cases) // columns), columns, squeeze=False, layout="constrained",
        figsize=(3.1 * columns, 2.6 * -(-len(cases) // columns)),
    )  # fmt: skip
    for panel in panels.flat[len(cases) :]:
        panel.axis("off")
    for panel, (case, found) in zip(panels.flat, cases, strict=False):
        spread = sorted(
            (one.warps, per_second(one))
            for layout, one in found.items()
            if layout == Layout("thread") or layout == Layout("warps", one.warps)
        )
        panel.plot(*zip(*spread, strict=True), "o-", ms=3, label="registers and shared memory")
        if GLOBAL in found:
            panel.axhline(per_second(found[GLOBAL]), color="C1", ls="--", label="global memory")
        if Layout() in found:
            auto = found[Layout()]
            panel.plot(auto.warps, per_second(auto), "*", color="C3", ms=9, label="auto")
        panel.set(title=case.name, xlabel="C, warps of a trajectory", ylim=(0, None))
    for row in panels:
        row[0].set_ylabel("trajectories / s")
    panels.flat[0].legend(fontsize="x-small")
    figure.savefig(path, dpi=120)
    plt.close(figure)

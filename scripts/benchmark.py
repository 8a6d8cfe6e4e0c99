"""Measure speed: a table of cases, medians of rounds, this source beside another in turns.

    python scripts/benchmark.py --list
    python scripts/benchmark.py --device cuda -o goals              # the groups that have goals
    python scripts/benchmark.py --device cpu --group cores --rounds 5
    python scripts/benchmark.py --device cuda --group "network sizes" --case chain --scale 0.1

    git worktree add /tmp/old COMMIT                                # beside another version
    python scripts/benchmark.py --device cuda --against /tmp/old/src --group "small lattices"

Each source has a process of its own, which stays. A round measures every row of a group with each
source, in an order that turns round each time; medians of the rounds count. What is timed has been
compiled before; groups that need it are warmed up by a round more. Another tree that has this program
measures with its own. Prints a table and writes OUTPUT.json with all rounds. The cases are in
`scripts/benchmarks/benchmark_cases.py`.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).resolve().parents[1]
for folder in ("benchmarks", "lattice"):
    sys.path.insert(1, str(ROOT / "scripts" / folder))
if TYPE_CHECKING:
    from benchmark_cases import Case
SOURCE = ROOT / "src"
Rows = dict[str, dict[str, list[float]]]  # rounds by row and source


def chosen(group: str, text: str, device: str) -> list[Case]:
    """Cases of a group whose names hold a text, and that a device can do."""
    from benchmark_cases import CASES

    of_group = [case for case in CASES.values() if case.group == group and text in case.name]
    return [case for case in of_group if case.device in {"", device}]


def serve(given: argparse.Namespace) -> None:
    """Measure the group, and the part of names, of each line of standard input; answer with rows."""
    from machine import Machine, finish_compiling

    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a run prints is no answer
    machine = Machine(given.device, given.threads, given.scale)
    for line in sys.stdin:
        group, _, text = line.strip().partition("\t")
        result: dict[str, float] = {}
        for case in chosen(group, text, given.device):
            now = case.measured(machine)
            print(*(f"{row}: {value:.4g} {case.unit}" for row, value in now.items()), sep="\n",
                  file=sys.stderr, flush=True)  # fmt: skip
            result |= now
        finish_compiling()
        print(json.dumps(result), file=answer, flush=True)


class Server:
    """A process that measures with one tree of sources."""

    def __init__(self, source: Path, given: argparse.Namespace) -> None:
        own = source.parent / "scripts" / "benchmark.py"
        program = own if own.exists() else Path(__file__)
        others = os.environ.get("PYTHONPATH", "")
        words = ["--serve", "--device", given.device]
        if given.scale != 1:
            words += ["--scale", str(given.scale)]
        if given.threads:
            words += ["--threads", str(given.threads)]
        self._process = subprocess.Popen(
            [sys.executable, str(program), *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True, env={**os.environ, "PYTHONPATH": f"{source}{os.pathsep}{others}"},
        )  # fmt: skip

    def measure(self, group: str, text: str) -> dict[str, float]:
        """The rows of a group."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(f"{group}\t{text}" if text else group, file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        if not answer:
            raise SystemExit(f"benchmark: {group} ended with an error")
        result: dict[str, float] = json.loads(answer)
        return result

    def close(self) -> None:
        """Let it end."""
        self._process.communicate()


def measured(sources: dict[str, Path], groups: list[str], given: argparse.Namespace) -> Rows:
    """Values of each row and source, one for each round."""
    from benchmark_cases import GROUPS

    rows: Rows = {}
    servers = {name: Server(source, given) for name, source in sources.items()}
    for group in groups:
        warm = int(GROUPS[group].cold)
        for turn in range(given.rounds + warm):
            for name in list(servers) if turn % 2 else list(servers)[::-1]:
                for row, value in servers[name].measure(group, given.case).items():
                    if turn >= warm:
                        rows.setdefault(row, {}).setdefault(name, []).append(value)
        print(f"{group}: measured", file=sys.stderr, flush=True)
        if given.output:
            write(rows, given.output)
    for server in servers.values():
        server.close()
    return rows


def case_of(row: str) -> tuple[Case | None, str]:
    """The case of a row, and which of its numbers it is."""
    from benchmark_cases import CASES

    name, _, part = row.rpartition("/") if row not in CASES else (row, "", "")
    return CASES.get(name), part


def page(rows: Rows) -> str:
    """A table: medians of the other source and of this one, the speed-up, the goal and the share reached."""
    lines = ["| work | unit | other source | this source | speed-up | goal | share of goal |",
             "|---|---|---|---|---|---|---|"]  # fmt: skip
    for name, by_source in rows.items():
        case, part = case_of(name)
        middle = {source: statistics.median(values) for source, values in by_source.items()}
        now, before = middle.get("now"), middle.get("before")
        if case is None or now is None:  # a row that the other tree alone has
            continue
        goal = None if part else case.goal
        gain = f"{now / before if case.more else before / now:.2f}" if before and now else ""
        share = goal and now and (now / goal if case.more else goal / now)
        about = ": ".join(filter(None, (case.about, part)))
        cells = (about, case.unit, "" if before is None else f"{before:.3g}", f"{now:.3g}", gain,
                 "" if goal is None else f"{goal:g}", f"{100 * share:.0f} %" if share else "")  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def write(rows: Rows, stem: Path) -> None:
    """Write all rounds."""
    whole = {}
    for name, by_source in rows.items():
        case, part = case_of(name)
        about = {k: getattr(case, k) for k in ("group", "about", "unit", "goal")} if case else {}
        whole[name] = about | {"part": part} | by_source
    stem.with_suffix(".json").write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")


def listed() -> str:
    """Groups, their devices and cases."""
    from benchmark_cases import CASES, GROUPS

    lines = []
    for name, group in GROUPS.items():
        cases = [case for case in CASES.values() if case.group == name]
        star = "*" * group.usual
        lines.append(
            f"{name}{star} ({', '.join(group.devices)}; {cases[0].unit}): {len(cases)} cases"
        )
        lines += [f"    {case.name}" for case in cases]
    return "\n".join([*lines, "* is measured where no group is named"])


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda")
    parser.add_argument("--against", type=Path, help="src of another tree, to take turns with")
    parser.add_argument("--group", action="append", help="only these rows")
    parser.add_argument("--case", default="", metavar="TEXT", help="only those that have it")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0, help="part of each case's work")
    parser.add_argument("--threads", type=int, default=0, help="of a CPU (all)")
    parser.add_argument("--list", action="store_true", help="say what there is")
    parser.add_argument("-o", "--output", type=Path, help="stem of the JSON file")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve(given)
        return
    from benchmark_cases import GROUPS

    if given.list:
        print(listed())
        return
    for group in given.group or ():
        if group not in GROUPS:
            parser.error(f"there is no group {group!r}, only {', '.join(GROUPS)}")
    usual = [k for k, group in GROUPS.items() if group.usual and given.device in group.devices]
    sources = {"now": SOURCE} | ({"before": given.against.resolve()} if given.against else {})
    rows = measured(sources, given.group or usual, given)
    if not rows:
        parser.error(f"no case of these groups on {given.device} has {given.case!r} in its name")
    print(page(rows))


if __name__ == "__main__":
    main()

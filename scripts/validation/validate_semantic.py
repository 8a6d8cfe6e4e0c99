"""Differential equations against the time courses of the SBML Test Suite's semantic cases.

FOLDER holds folders 00001, 00002, ... as in cases/semantic of github.com/sbmlteam/sbml-test-suite,
each with models, settings and expected results.

    python scripts/validation/validate_semantic.py FOLDER -o docs/validation/semantic.csv

writes a row for each case, a summary with a table of the suite's tags beside it (.md), and exits 1 if
a case is wrong. ``--before OTHER.csv`` compares with an earlier table, ``--peer OTHER.csv`` with another
program (`semantic_roadrunner.py` writes such a table), and ``--from TABLE.csv`` makes the summary of a
table that is there, without running anything. Of each case
the model of the highest level is read, and run by ``--method ode`` with a relative tolerance of
1e-9. A case passes if every quantity that it asks for meets the suite's rule at every time,

    abs(found - expected) <= absolute + relative * abs(expected),

with the case's own tolerances. It is refused if the model needs what no engine here has, which the
table names, and wrong if a number is outside, a quantity cannot be had, or there is no answer.

What results do not record (constants, hidden rules, rates of reactions) is asked for by rules that
are added to the network; a concentration is an amount divided by the size of its compartment.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import astuple, dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import tauslab as ts
from tauslab.formats.read import read_network
from tauslab.formats.sbml.document import open_document
from tauslab.formats.sbml.text import import_libsbml

FloatArray = npt.NDArray[np.float64]

LEVELS = ("l3v2", "l3v1", "l2v5", "l2v4", "l2v3", "l2v2", "l2v1")
RELATIVE_TOLERANCE = 1e-9
MOST_STEPS = 3_000_000
_ADDED = "asked_for_"
_TAGS = ("componentTags", "testTags", "packagesPresent")


@dataclass(frozen=True)
class Case:
    """A case of the suite; `expected` is f64 ``[time, quantity]``."""

    name: str
    model: Path
    times: FloatArray
    quantities: tuple[str, ...]
    concentrations: frozenset[str]
    expected: FloatArray
    absolute: float
    relative: float


@dataclass(frozen=True)
class Verdict:
    """A row of the table; `worst` is the largest difference in units of what is allowed."""

    case: str
    model: str
    verdict: str
    worst: float
    message: str


def tags_of(folder: Path) -> list[str]:
    """Component and test tags that the suite gives a case, in ``NNNNN-model.m``; none without it."""
    path = folder / f"{folder.name}-model.m"
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    found = [line.partition(":")[2] for line in lines if line.startswith(_TAGS)]
    return sorted({tag.strip() for text in found for tag in text.split(",") if tag.strip()})


def tag_table(
    folders: Sequence[Path],
    verdicts: Sequence[Verdict],
    before: dict[str, str],
    peer: tuple[str, dict[str, str]] = ("", {}),
) -> Iterator[str]:
    """Markdown of how many cases of each tag pass, by another program too if one is given."""
    of_tag: dict[str, list[Verdict]] = {}
    for folder, verdict in zip(folders, verdicts, strict=True):
        for tag in tags_of(folder):
            of_tag.setdefault(tag, []).append(verdict)
    if of_tag:
        name, by_peer = peer
        earlier = " passed before |" if before else ""
        other = f" {name} passes | does not |" if name else ""
        if name:
            counts = Counter(by_peer.values())
            wrong = counts["wrong"] + counts["error"] + counts["crash"]
            yield from ("", f"{name}, same cases and rule: {counts['pass']} pass, {wrong} do not.")
        yield from ("", f"| tag | cases |{earlier} pass | refused |{other}")
        yield f"|---|---|{'---|' if before else ''}---|---|{'---|---|' if name else ''}"
    for tag in sorted(of_tag):
        own = of_tag[tag]
        counts = Counter(v.verdict for v in own)
        passed = sum(before.get(v.case) == "pass" for v in own)
        told = f" {passed} |" if before else ""
        if name:
            theirs = Counter(by_peer.get(v.case) for v in own)
            other = f" {theirs['pass']} | {len(own) - theirs['pass']} |"
        yield f"| {tag} | {len(own)} |{told} {counts['pass']} | {counts['refused']} |{other}"


def verdicts_of(path: Path) -> dict[str, str]:
    """Verdict of every case in a table that an earlier run wrote."""
    with path.open(encoding="utf-8") as file:
        return {row["case"]: row["verdict"] for row in csv.DictReader(file)}


def peer_of(path: Path) -> tuple[str, dict[str, str]]:
    """Name of another program, and its verdict of every case."""
    with path.open(encoding="utf-8") as file:
        (_, name, *_), *rows = csv.reader(file)
    return name, {row[0]: row[1] for row in rows}


def verdicts_in(path: Path) -> list[Verdict]:
    """Rows of a table that an earlier run wrote."""
    with path.open(encoding="utf-8") as file:
        return [
            Verdict(r["case"], r["model"], r["verdict"], float(r["worst"]), r["message"])
            for r in csv.DictReader(file)
        ]


def folders_of(folder: Path, names: Sequence[str] = ()) -> list[Path]:
    """Folders of the cases, of `names` alone if there are any."""
    found = sorted(path for path in folder.glob("[0-9]" * 5) if path.is_dir())
    if missing := set(names) - {path.name for path in found}:
        raise SystemExit(f"{folder}: there is no case {min(missing)}")
    return [path for path in found if not names or path.name in names]


def read_case(folder: Path) -> Case:
    """Read settings and expected results of a case."""
    name = folder.name
    lines = (folder / f"{name}-settings.txt").read_text(encoding="utf-8").splitlines()
    pairs = (line.partition(":") for line in lines if ":" in line)
    settings = {key.strip(): value.strip() for key, _, value in pairs}
    with (folder / f"{name}-results.csv").open(encoding="utf-8") as file:
        header, *rows = [row for row in csv.reader(file) if row]
    quantities = tuple(word.strip() for word in header[1:] if word.strip())
    # Not np.loadtxt: some cases hold INF, -INF and NaN.
    table = np.array([[float(word) for word in row[: len(quantities) + 1]] for row in rows])
    models = (folder / f"{name}-sbml-{level}.xml" for level in LEVELS)
    model = next((path for path in models if path.exists()), None)
    if model is None:
        raise SystemExit(f"{folder}: there is no model of SBML level 2 or 3")
    wanted = settings.get("concentration", "").split(",")
    return Case(
        name,
        model,
        table[:, 0],
        quantities,
        frozenset(word.strip() for word in wanted if word.strip()),
        table[:, 1:],
        float(settings["absolute"]),
        float(settings["relative"]),
    )


def validate(folder: Path, device: Any = "cpu") -> Verdict:
    """Run a case and compare it."""
    case = read_case(folder)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = simulated(case, device)
    except ts.ModelError as error:
        reason = str(error).removeprefix(f"{case.model}: ")
        return Verdict(case.name, case.model.name, "refused", 0.0, reason)
    except ts.TauslabError as error:
        return Verdict(case.name, case.model.name, "wrong", np.inf, str(error))
    if missing := [name for name in case.quantities if name not in found]:
        message = f"{', '.join(missing)} cannot be had"
        return Verdict(case.name, case.model.name, "wrong", np.inf, message)
    differences = {
        name: difference(case, found[name], case.expected[:, k])
        for k, name in enumerate(case.quantities)
    }
    worst = max(differences, key=lambda name: differences[name], default="")
    size = differences.get(worst, 0.0)
    message = f"{worst} is outside the tolerance" if size > 1 else ""
    return Verdict(case.name, case.model.name, "wrong" if size > 1 else "pass", size, message)


def difference(case: Case, found: FloatArray, expected: FloatArray) -> float:
    """Largest difference over time, in units of what is allowed; infinite where one is NaN."""
    same = (found == expected) | (np.isnan(found) & np.isnan(expected))
    with np.errstate(all="ignore"):
        units = np.abs(found - expected) / (case.absolute + case.relative * np.abs(expected))
    units = np.where(same, 0.0, np.where(np.isnan(units), np.inf, units))
    return float(units.max(initial=0.0))


def simulated(case: Case, device: Any) -> dict[str, FloatArray]:
    """Course of every quantity that can be had, f64 ``[time]``."""
    network = read_network(case.model)
    asked = dict(ask_for(network, case))
    result = ts.run(
        network,
        n=1,
        times=case.times,
        method=ts.ODE(rtol=RELATIVE_TOLERANCE, atol=min(1e-12, case.absolute * 1e-3)),
        device=device,
        seed=1,
        max_steps=MOST_STEPS,
        record="trajectories",
    )
    found = {}
    for name, recorded in asked.items():
        found[name] = np.asarray(result.mean(recorded), np.float64)
        if name in case.concentrations:
            found[name] = found[name] / np.asarray(result.mean(f"{_ADDED}size_of_{name}"))
    return found


def ask_for(network: ts.Network, case: Case) -> Iterator[tuple[str, str]]:
    """Add rules for what is not recorded; yields each quantity and what it is recorded as."""
    compartments = compartments_of(case.model)
    for name in case.quantities:
        rule = network.rules.get(name)
        recorded = name
        if name not in network.species and (rule is None or not rule.recorded):
            recorded = f"{_ADDED}{name}"
            if name in network.parameters or rule is not None:
                network.add_rule(recorded, name)
            elif not add_rate_of(network, name, recorded):
                continue
        if name in case.concentrations:
            network.add_rule(f"{_ADDED}size_of_{name}", compartments[name])
        yield name, recorded


def add_rate_of(network: ts.Network, name: str, recorded: str) -> bool:
    """Add the rate of a reaction, with its reverse part; False if there is no such reaction."""
    terms = []
    for reaction in network.reactions:
        if reaction.name in (name, f"{name}_reverse"):
            sign = "+" if reaction.name == name else "-"
            part = f"{_ADDED}law_of_{reaction.name}"
            network.add_rule(part, reaction.law, recorded=False)
            terms.append(f"{sign} {part}")
    if terms:
        network.add_rule(recorded, f"0 {' '.join(terms)}")
    return bool(terms)


def compartments_of(model: Path) -> dict[str, str]:
    """Compartment of every species of a model, those of submodels included."""
    text = model.read_text(encoding="utf-8")
    document, _ = open_document(import_libsbml(), text, model)
    species = document.getModel().getListOfSpecies()
    return {s.getId(): s.getCompartment() for s in (species.get(i) for i in range(species.size()))}


def write_tables(
    path: Path, verdicts: Sequence[Verdict], seconds: float, tags: Sequence[str] = ()
) -> None:
    """Write the table, and a summary beside it with the lines of the table of tags."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(field.name for field in fields(Verdict))
        for verdict in verdicts:
            *row, worst, message = astuple(verdict)
            writer.writerow([*row, f"{worst:.2g}", message])
    text = summary(verdicts, seconds) + "".join(f"{line}\n" for line in tags)
    path.with_suffix(".md").write_text(text, encoding="utf-8")


def summary(verdicts: Sequence[Verdict], seconds: float) -> str:
    """Counts, what is refused, and what is wrong, as Markdown."""
    counts = Counter(verdict.verdict for verdict in verdicts)
    reasons = Counter(kind_of(v.message) for v in verdicts if v.verdict == "refused")
    took = f"; {seconds:.0f} s in all" if seconds else ""
    told = (
        f"{len(verdicts)} cases: {counts['pass']} pass, {counts['refused']} refused, "
        f"{counts['wrong']} wrong{took} (`scripts/validation/validate_semantic.py`, which "
        "states the rule)."
    )
    lines = [
        "# SBML Test Suite, semantic cases",
        "",
        told,
        "",
        "| refused for | cases |",
        "|---|---|",
        *(f"| {reason} | {count} |" for reason, count in reasons.most_common()),
    ]
    wrong = [v for v in verdicts if v.verdict == "wrong"]
    if wrong:
        lines += ["", "| wrong | by so many tolerances | message |", "|---|---|---|"]
        lines += [f"| {v.case} | {v.worst:.2g} | {v.message} |" for v in wrong]
    return "\n".join(lines) + "\n"


def kind_of(message: str) -> str:
    """What a model is refused for, without names of its own."""
    kinds = (
        *("events", "delays", "algebraic rules", "fast reactions", "package", "functions"),
        *("nothing to simulate", "no math", "kinetic law", "reversible", "missing"),
    )
    return next((kind for kind in kinds if kind in message), "else")


def main() -> int:
    """Validate all cases; 1 if one is wrong."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--cases", nargs="+", default=(), help="only these")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--jobs", type=int, default=1, help="processes (1)")
    parser.add_argument("-o", "--output", type=Path, default=Path("semantic.csv"))
    parser.add_argument("--before", type=Path, help="an earlier table, to compare with")
    parser.add_argument("--peer", type=Path, help="a table of another program")
    parser.add_argument("--from", dest="table", type=Path, help="run nothing: take this table")
    options = parser.parse_args()
    peer = ("", dict[str, str]()) if options.peer is None else peer_of(options.peer)
    before = {} if options.before is None else verdicts_of(options.before)
    began = time.perf_counter()
    folders = folders_of(options.folder, options.cases)
    if not folders:
        raise SystemExit(f"{options.folder}: there are no cases, folders of five digits")
    run = partial(validate, device=options.device)
    if options.table is not None:
        verdicts = verdicts_in(options.table)
        folders = [options.folder / verdict.case for verdict in verdicts]
        began = time.perf_counter()
    elif options.jobs == 1:
        verdicts = list(map(run, folders))
    else:
        with ProcessPoolExecutor(options.jobs) as pool:
            verdicts = list(pool.map(run, folders))
    tags = list(tag_table(folders, verdicts, before, peer))
    seconds = 0.0 if options.table is not None else time.perf_counter() - began
    write_tables(options.output, verdicts, seconds, tags)
    print(options.output.with_suffix(".md").read_text(encoding="utf-8"))
    return int(any(verdict.verdict == "wrong" for verdict in verdicts))


if __name__ == "__main__":
    sys.exit(main())

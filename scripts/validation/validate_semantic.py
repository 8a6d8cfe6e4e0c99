"""`ode` compared with the time courses of the SBML Test Suite's semantic cases.

``--files FOLDER`` contains folders 00001, 00002, ... as in cases/semantic of github.com/sbmlteam/sbml-test-suite,
each with models, settings and expected results. ``--peer TABLE.csv`` adds the verdicts of another program
(as in docs/validation/semantic-roadrunner.csv). The model of the highest level of each case is simulated
with a relative tolerance of 1e-9. A case passes if all its quantities meet the suite's criterion at all times,

    abs(found - expected) <= absolute + relative * abs(expected),

with the case's own tolerances. It is refused if tauslab rejects an element of the model as unsupported, and
wrong if a value is outside, a quantity is missing, or the run fails.

Rules added to the network record quantities that results do not contain (constants, hidden rules, rates of
reactions); a concentration is an amount divided by the size of its compartment.
"""

from __future__ import annotations

import csv
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from outcome import FAIL, Outcome, cells, table
from validate_dsmts import names_of, settings_of

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
    result = [line.partition(":")[2] for line in lines if line.startswith(_TAGS)]
    return sorted({tag.strip() for text in result for tag in text.split(",") if tag.strip()})


def peer_of(path: Path) -> tuple[str, dict[str, str]]:
    """Name of another program, and its verdict of every case."""
    with path.open(encoding="utf-8") as file:
        (_, name, *_), *rows = csv.reader(file)
    return name, {row[0]: row[1] for row in rows}


def folders_of(folder: Path, names: Sequence[str] = ()) -> list[Path]:
    """Folders of the cases, of `names` alone if there are any."""
    result = sorted(path for path in folder.glob("[0-9]" * 5) if path.is_dir())
    if missing := set(names) - {path.name for path in result}:
        raise SystemExit(f"{folder}: there is no case {min(missing)}")
    return [path for path in result if not names or path.name in names]


def read_case(folder: Path) -> Case:
    """Read settings and expected results of a case."""
    name = folder.name
    settings = settings_of(folder)
    with (folder / f"{name}-results.csv").open(encoding="utf-8") as file:
        header, *rows = [row for row in csv.reader(file) if row]
    quantities = tuple(names_of(",".join(header[1:])))
    # Not np.loadtxt: some cases hold INF, -INF and NaN.
    table = np.array([[float(word) for word in row[: len(quantities) + 1]] for row in rows])
    models = (folder / f"{name}-sbml-{level}.xml" for level in LEVELS)
    model = next((path for path in models if path.exists()), None)
    if model is None:
        raise SystemExit(f"{folder}: there is no model of SBML level 2 or 3")
    concentrations = frozenset(names_of(settings.get("concentration", "")))
    allowed = (float(settings["absolute"]), float(settings["relative"]))
    return Case(name, model, table[:, 0], quantities, concentrations, table[:, 1:], *allowed)


def validate(folder: Path, device: Any = "cpu") -> Verdict:
    """Run a case and compare it."""
    case = read_case(folder)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = simulated(case, device)
    except ts.ModelError as error:
        reason = str(error).removeprefix(f"{case.model}: ")
        return Verdict(case.name, case.model.name, "refused", 0.0, reason)
    except ts.TauslabError as error:
        return Verdict(case.name, case.model.name, "wrong", np.inf, str(error))
    if missing := [name for name in case.quantities if name not in result]:
        message = f"{', '.join(missing)} cannot be had"
        return Verdict(case.name, case.model.name, "wrong", np.inf, message)
    differences = {
        name: difference(case, result[name], case.expected[:, k])
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
    """Time course of every quantity that can be had, f64 ``[time]``."""
    network = read_network(case.model)
    requested = dict(ask_for(network, case))
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
    collected = {}
    for name, recorded in requested.items():
        collected[name] = np.asarray(result.mean(recorded), np.float64)
        if name in case.concentrations:
            collected[name] = collected[name] / np.asarray(result.mean(f"{_ADDED}size_of_{name}"))
    return collected


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


def kind_of(message: str) -> str:
    """Reason of a refusal, without names of the model."""
    kinds = (
        *("events", "delays", "algebraic rules", "fast reactions", "package", "functions"),
        *("nothing to simulate", "no math", "kinetic law", "reversible", "missing"),
    )
    return next((kind for kind in kinds if kind in message), "other")


def of_tags(
    folders: Sequence[Path], verdicts: Sequence[Verdict], peer: tuple[str, dict[str, str]]
) -> list[str]:
    """Lines of how many cases of each tag pass, by another program too if one is given."""
    of_tag: dict[str, list[Verdict]] = {}
    for folder, verdict in zip(folders, verdicts, strict=True):
        for tag in tags_of(folder):
            of_tag.setdefault(tag, []).append(verdict)
    name, theirs = peer
    rows = []
    for tag, own in sorted(of_tag.items()):
        counts = Counter(one.verdict for one in own)
        passed = sum(theirs.get(one.case) == "pass" for one in own)
        row = [tag, str(len(own)), str(counts["pass"]), str(counts["refused"])]
        rows.append(row + [str(passed), str(len(own) - passed)] * bool(name))
    heads = ["tag", "cases", "pass", "refused", *[f"{name}: pass", "fail"] * bool(name)]
    return table(heads, rows) if rows else []


def run(given: Any) -> Outcome:
    """Compare all cases."""
    peer = ("", dict[str, str]()) if given.peer is None else peer_of(Path(given.peer))
    if len(given.files) != 1:
        raise SystemExit("validate semantic needs --files FOLDER, with folders of five digits")
    folders = folders_of(given.files[0], given.cases)
    work = partial(validate, device="cpu" if given.device == "auto" else given.device)
    with ProcessPoolExecutor(given.jobs) as pool:
        verdicts = list(map(work, folders) if given.jobs == 1 else pool.map(work, folders))
    counts = Counter(one.verdict for one in verdicts)
    reasons = Counter(kind_of(one.message) for one in verdicts if one.verdict == "refused")
    about = f"{len(verdicts)} cases: {counts['pass']} pass, {counts['refused']} refused, {counts['wrong']} wrong."
    refused = [[kind, str(n)] for kind, n in reasons.most_common()]
    below = table(("reason of refusal", "cases"), refused) if refused else []
    rows = [[*cells(one, 2), FAIL if one.verdict == "wrong" else one.verdict] for one in verdicts]
    columns = {
        "case": "number in the suite",
        "model": "file that was read",
        "result": "pass, refused or wrong",
        "worst": "largest difference, in units of the tolerance",
        "message": "error message, or the quantity outside",
        "verdict": "pass, refused or FAIL",
    }
    return Outcome("SBML Test Suite, semantic cases", about, columns, rows,
                   [*below, "", *of_tags(folders, verdicts, peer)])  # fmt: skip

"""Describes a file with a dynamic Bayesian network, for people and for programs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tauslab.analysis.dbn.results.file import counted_blocks, load
from tauslab.analysis.dbn.results.network import DynamicNetwork
from tauslab.base.option_names import opt
from tauslab.options.values.texts import drawn

_SHOWN = 12
_SETTINGS = ("ode_solver", "substeps", "precision", "intervals", "sample")


def facts(path: Path) -> dict[str, Any]:
    """The facts that ``tauslab info --json`` prints."""
    network = load(path, unfinished=True)
    blocks = counted_blocks(path)
    return {
        "path": str(path),
        "complete": bool(blocks.all()),
        "blocks": {"counted": int(blocks.sum()), "all": len(blocks)},
        "trajectories": network.samples,
        "times": network.times.tolist(),
        "variables": list(network.variables),
        "parameters": list(network.parameters),
        "parents": {name: list(own) for name, own in network.structure.parents.items()},
        "intervals": {name: np.asarray(own).tolist() for name, own in network.edges.items()},
        "entries": {name: len(table.counts) for name, table in network.tables.items()},
        "not_finite": _not_finite(network),
        "outside": _outside(network),
        "attributes": dict(network.attributes) | _drawn(network),
    }


def _drawn(network: DynamicNetwork) -> dict[str, str]:
    held = network.attributes.get("sample")
    return {} if held is None else {"sample": "; ".join(drawn(str(held)))}


def lines(found: dict[str, Any]) -> list[str]:
    """The facts in lines for a reader."""
    attributes, times = found["attributes"], found["times"]
    parents = {name: len(own) for name, own in found["parents"].items()}
    hub = max(parents, key=lambda name: parents[name])
    entries = sum(found["entries"].values())
    what = f"dynamic Bayesian network of {found['trajectories']} trajectories"
    lines = [
        f"{found['path']}: {what}, seed {attributes.get('seed', '?')}",
        f"times: {len(times)} from {times[0]:g} to {times[-1]:g}",
        f"variables: {len(parents)} ({_listed(found['variables'])})",
        f"unknown parameters: {len(found['parameters'])} ({_listed(found['parameters'])})",
        f"tables: {entries} entries occur; at most {parents[hub]} parents ({hub})",
    ]
    lines += [f"{name}: {attributes[name]}" for name in _SETTINGS if attributes.get(name)]
    lines += _warnings(found)
    blocks = found["blocks"]
    if not found["complete"]:
        lines.append(
            f"unfinished: {blocks['counted']} of {blocks['all']} blocks are counted; "
            f"{opt('resume')} completes it"
        )
    return lines


def network_summary(network: DynamicNetwork, name: str) -> list[str]:
    """Lines for the user after a build."""
    entries = sum(len(table.counts) for table in network.tables.values())
    nodes = f"{len(network.variables)} variables, {len(network.parameters)} unknown parameters"
    what = f"{network.samples} trajectories, seed {network.attributes['seed']}"
    reported = network.attributes
    rate = reported["counted"] / max(1e-9, reported["seconds"])
    ranks = f"{reported['ranks']} ranks, " if reported["ranks"] > 1 else ""
    lines = [f"{name}: {what}, {nodes}, {len(network.times)} time points, {entries} entries"]
    speed = f"{rate:.3g} trajectories/s; {ranks}{reported['device']}"
    ready = f"ready after {reported['seconds_ready']:.2f} s"
    lines.append(f"  counted in {reported['seconds']:.2f} s ({speed}; {ready})")
    lines += [f"  layout {reported['layout']}"] if "layout" in reported else []
    result = {"not_finite": _not_finite(network), "outside": _outside(network)}
    return lines + _warnings(result | {"trajectories": network.samples})


def _warnings(found: dict[str, Any]) -> list[str]:
    lines = []
    if found["not_finite"]:
        lines.append(
            f"{found['not_finite']} of {found['trajectories']} trajectories did not stay finite: "
            f"from there on they are in no table; more {opt('substeps')}, or steps that adapt, may "
            "help"
        )
    most = sorted(found["outside"].items(), key=lambda item: -item[1])[:_SHOWN]
    if most:
        reported = ", ".join(f"{name} {share:.2g} %" for name, share in most)
        lines.append(
            f"values outside their range, counted in the first or last interval: {reported}"
        )
    return lines


def _not_finite(network: DynamicNetwork) -> int:
    """Trajectories with a value that is not finite."""
    return max(int(network.outside[name][:, 2].max()) for name in network.variables)


def _outside(network: DynamicNetwork) -> dict[str, float]:
    """Per cent of a node's values that lay outside its range, where there are any."""
    result = {}
    for name in network.structure.names:
        outside, counts = network.outside[name][:, :2].sum(), network.marginals[name].sum()
        if outside:
            result[name] = 100.0 * float(outside) / float(counts)
    return result


def _listed(names: list[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")

"""Describes a lattice file, for people and for programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tauslab.base.option_names import opt
from tauslab.model.lattice.diagnosis.time_step import truncation_text
from tauslab.options.sweep import span_of
from tauslab.store.results.lattice.recorded import RecordedLattice
from tauslab.store.results.lattice.tables import span

_SHOWN = 8
_RANKS_SHOWN = 16


def facts(result: RecordedLattice) -> dict[str, Any]:
    """The facts that ``tauslab info --json`` prints."""
    attributes = {
        name: value.item() if isinstance(value, np.generic) else value
        for name, value in result.attributes.items()
    }
    return {
        "path": str(result.path),
        "complete": result.complete,
        "written_by": list(result.written_by),
        "unfinished": result.unfinished,
        "samples": len(result.times),
        "t_end": float(result.times[-1]) if len(result.times) else 0.0,
        "frames": len(result.frame_times),
        **_sweep_facts(result),
        "replicas": result.n_replicas,
        "truncated_passes": result.truncated_passes,
        "most_waiting": result.most_waiting,
        "species": list(result.species),
        "attributes": attributes,
        "profile": result.profile,
    }


def _sweep_facts(result: RecordedLattice) -> dict[str, Any]:
    """Values, seeds and passes of the points of a sweep; nothing without one."""
    if not result.swept:
        return {}
    return {
        "points": {name: values.tolist() for name, values in result.points.items()},
        "points_seed": result.data["points/seed"][()].tolist(),
        "points_passes": {
            name: result.data[f"points/{name}_substeps"][()].tolist()
            for name in ("diffusion", "reaction")
        },
    }


def spanned(numbers: Sequence[int]) -> str:
    """A number, or the smallest and the largest."""
    low, high = min(numbers), max(numbers)
    return f"{low}" if low == high else f"{low} to {high}"


def lines(known: dict[str, Any]) -> list[str]:
    """The facts in lines for a reader."""
    attributes = known["attributes"]
    step = float(attributes["step"])
    hops, reactions = (
        spanned(known.get("points_passes", {}).get(name, [attributes[f"{name}_substeps"]]))
        for name in ("diffusion", "reaction")
    )
    passes = f"passes of hops in each: {hops}, of reactions: {reactions}"
    points = [
        f"sweep: {name} {len(set(values))} values from {min(values):g} to {max(values):g}"
        for name, values in known.get("points", {}).items()
    ]
    names = ", ".join(known["species"][:12]) + (", ..." if len(known["species"]) > 12 else "")
    waiting = known["most_waiting"]
    replicas = f"{known['replicas']} replica{'s' if known['replicas'] > 1 else ''}"
    until = f" to t = {known['t_end']:g} s" if known["samples"] else ""
    engine = attributes.get("engine", "slots")
    lines = [
        f"{known['path']}: a lattice run, written by tauslab {', '.join(known['written_by'])}",
        f"model: sha256 {attributes['model_sha256'][:16]}",
        f"method: rdme in {engine}, seed {attributes['seed']}, {replicas}",
        f"steps: {attributes['steps']} of {step:g} s, {passes}",
        f"samples: {known['samples']}{until}, frames: {known['frames']}",
        *points,
        f"species: {len(known['species'])} ({names})",
        *([f"waiting for a slot: {waiting:,} at most"] if waiting is not None else []),
        f"command: {attributes['command']}",
        *([f"hooks: {hooks}"] if (hooks := attributes.get("hooks", "none")) != "none" else []),
    ]
    lost = truncation_text(known["truncated_passes"])
    lines += [] if lost is None else [f"warning: {lost}"]
    lines += profile_lines(known["profile"])
    left = f"unfinished: {known['unfinished']}; {opt('resume')} completes it"
    lines.append("complete" if known["complete"] else left)
    number, first = (int(attributes.get(name, 0)) for name in ("all_replicas", "first_replica"))
    if known["replicas"] < number:
        local = f"{span_of('replica', first, known['replicas'])} of {number}"
        lines.append(f"incomplete array: {local}; tauslab merge joins the files of its tasks")
    return lines


def profile_lines(profile: Sequence[Mapping[str, Any]]) -> list[str]:
    """Ranks of the run's last part: planes, how these travelled, milliseconds a step."""
    if len(profile) < 2:
        return []
    each = f"{len(profile)} ranks, halo {profile[0]['halo_depth']} deep"
    lines = [f"ranks: {each}, {profile[0]['cuts']} new cuts"]
    lines += [
        f"  rank {row['rank']} on {row['host']}: group {row['group']}, planes "
        f"{row['begin']}-{row['end'] - 1}, halo below {row['below']}, above {row['above']}, "
        f"{row['ms_per_step']:.3g} ms a step; {row['device']}"
        for row in profile[:_RANKS_SHOWN]
    ]
    more = len(profile) - _RANKS_SHOWN
    return lines + ([f"  and {more} more ranks"] if more > 0 else [])


def lattice_summary(result: RecordedLattice) -> list[str]:
    """Lines for the user after a run."""
    attributes = result.attributes
    number = int(attributes["steps"])
    steps = f"{_several(number, 'step')} to t = {number * float(attributes['step']):g} s"
    if number % int(attributes["count_every"]):
        steps += f" (counted last at t = {result.times[-1]:g} s)"
    frames = _several(len(result.frame_times), "frame")
    if result.swept:
        each = f" of {result.n_replicas} replicas" if result.n_replicas > 1 else ""
        steps = f"{result.n_points} point{'s' if result.n_points > 1 else ''}{each}, {steps}"
    lines = [f"{result.path}: {steps}, seed {attributes['seed']}, {frames}"]
    hops, reactions = (int(attributes[f"{name}_substeps"]) for name in ("diffusion", "reaction"))
    if reactions > 1:
        of_hops = "1 pass of hops" if hops == 1 else f"{hops} passes of hops"
        lines.append(f"  a step has {of_hops} and {reactions} of reactions")
    lines += [f"  {name}: {_ends(result, name)}" for name in result.species[:_SHOWN]]
    if len(result.species) > _SHOWN:
        lines.append(f"  and {len(result.species) - _SHOWN} more species")
    return lines


def _several(number: int, name: str) -> str:
    return f"{number} {name}" + ("s" if number != 1 else "")


def _ends(result: RecordedLattice, name: str) -> str:
    """Particles at the start and at the end; of a sweep the smallest and largest."""
    first, last = (result.counts(name)[..., at] for at in (0, -1))
    if result.whole_sweep:
        return f"{span(first)} -> {span(last)}"
    return f"{first} -> {last}"

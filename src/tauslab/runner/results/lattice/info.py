"""Describes a lattice file, for people and for programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tauslab.runner.results.lattice.recorded import RecordedLattice

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
        "samples": len(result.times),
        "t_end": float(result.times[-1]),
        "frames": len(result.frame_times),
        "replicas": result.n_replicas,
        "species": list(result.species),
        "attributes": attributes,
        "profile": result.profile,
    }


def lines(found: dict[str, Any]) -> list[str]:
    """The facts in lines for a reader."""
    attributes = found["attributes"]
    step = float(attributes["step"])
    passes = (
        f"passes of hops in each: {attributes['diffusion_substeps']}, "
        f"of reactions: {attributes['reaction_substeps']}"
    )
    names = ", ".join(found["species"][:12]) + (", ..." if len(found["species"]) > 12 else "")
    lines = [
        f"{found['path']}: a lattice run, written by tauslab {attributes['tauslab_version']}",
        f"model: sha256 {attributes['model_sha256'][:16]}",
        f"method: rdme, seed {attributes['seed']}, {found['replicas']} replicas",
        f"steps: {attributes['steps']} of {step:g} s, {passes}",
        f"samples: {found['samples']} to t = {found['t_end']:g} s, frames: {found['frames']}",
        f"species: {len(found['species'])} ({names})",
        f"command: {attributes['command']}",
    ]
    lines += profile_lines(found["profile"])
    lines.append("complete" if found["complete"] else "unfinished; --resume completes it")
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
    steps = f"{attributes['steps']} steps to t = {result.times[-1]:g} s"
    frames = f"{len(result.frame_times)} frames"
    lines = [f"{result.path}: {steps}, seed {attributes['seed']}, {frames}"]
    hops, reactions = (int(attributes[f"{name}_substeps"]) for name in ("diffusion", "reaction"))
    if reactions > 1:
        of_hops = "1 pass of hops" if hops == 1 else f"{hops} passes of hops"
        lines.append(f"  a step has {of_hops} and {reactions} of reactions")
    lines += [
        f"  {name}: {result.counts(name)[0]} -> {result.counts(name)[-1]}"
        for name in result.species[:_SHOWN]
    ]
    if len(result.species) > _SHOWN:
        lines.append(f"  and {len(result.species) - _SHOWN} more species")
    return lines

"""What a lattice file holds, for people and for programs."""

from __future__ import annotations

from typing import Any

import numpy as np

from tauslab.runner.lattice_result import LatticeResult

_SHOWN = 8


def lattice_result_facts(result: LatticeResult) -> dict[str, Any]:
    """What ``tauslab info --json`` prints."""
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
    }


def told_lines(found: dict[str, Any]) -> list[str]:
    """The facts in lines for a reader."""
    attributes = found["attributes"]
    step = float(attributes["step"])
    passes = (
        f"{attributes['diffusion_substeps']} passes of hops and "
        f"{attributes['reaction_substeps']} of reactions in each"
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
    lines.append("complete" if found["complete"] else "unfinished; --resume completes it")
    return lines


def lattice_summary(result: LatticeResult) -> list[str]:
    """Lines for the user after a run."""
    attributes = result.attributes
    steps = f"{attributes['steps']} steps to t = {result.times[-1]:g} s"
    frames = f"{len(result.frame_times)} frames"
    lines = [f"{result.path}: {steps}, seed {attributes['seed']}, {frames}"]
    lines += [
        f"  {name}: {result.counts(name)[0]} -> {result.counts(name)[-1]}"
        for name in result.species[:_SHOWN]
    ]
    if len(result.species) > _SHOWN:
        lines.append(f"  and {len(result.species) - _SHOWN} more species")
    return lines

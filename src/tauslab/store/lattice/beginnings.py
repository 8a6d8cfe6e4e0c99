"""The place where each replica of an unfinished lattice run goes on, with nothing missing before.

What a write error, a crash or a hand took of frames and samples is computed again: a replica goes
on from its last state before the first gap.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tauslab.base.option_names import warn
from tauslab.options.lattice import LatticeTask
from tauslab.store.lattice.parts import Begun, PartName, whole_states

IN_FLIGHT = 2  # frames that are copied, compressed and written at a time
_MOST_NAMED = 4  # replicas in a warning


@dataclass(frozen=True)
class _Gap:
    """The first thing that a run lacks, and the last step of the engine before it."""

    what: str
    last: float
    expected: bool  # in a run that was only interrupted


def beginnings(
    task: LatticeTask,
    path: Path,
    samples: Sequence[int],
    parts: Sequence[PartName],
    damaged: Sequence[PartName],
) -> dict[int, Begun]:
    """For each run its last state before which no frame and no sample is missing.

    A run without one begins at t = 0. A warning says which runs go back, and why.

    Parameters
    ----------
    path
        The file of the run.
    samples
        For each run, how many samples from the first on are whole.
    parts, damaged
        Parts that are whole, and parts that are not.
    """
    states = whole_states(parts, task.lattice.shape[0])
    begun: dict[int, Begun] = {}
    reasons = {part.replica: f"{part.path.name} is damaged" for part in damaged}
    for run in range(task.runs):
        own = states.get(run, [])
        gap = _first_gap(task, run, own, samples[run])
        usable = [state for state in own if state.step <= gap.last]
        if usable:
            begun[run] = usable[-1]
        if len(usable) < len(own) or not gap.expected:
            reasons.setdefault(run, f"{gap.what} is missing")
    _warn_of_gaps(task, path, reasons, begun)
    return begun


def _first_gap(task: LatticeTask, run: int, states: Sequence[Begun], samples: int) -> _Gap:
    every_sample = task.count_every * task.passes_of(run)
    sampled = samples * every_sample if samples < task.samples else math.inf
    every_frame = task.options.frame_every * task.passes_of(run)
    kept = {state.step for state in states if not state.hooked}
    frame = next((n for n in range(task.frames) if n * every_frame not in kept), task.frames)
    if frame == task.frames or sampled <= frame * every_frame:
        return _Gap(f"sample {samples}", sampled - 1, expected=True)
    # A run waits for a frame before it begins with the one after the next.
    written = (samples - 1) * every_sample > (frame + IN_FLIGHT) * every_frame
    return _Gap(f"frame {frame}", frame * every_frame - 1, expected=not written)


def _warn_of_gaps(
    task: LatticeTask, path: Path, reasons: Mapping[int, str], begun: Mapping[int, Begun]
) -> None:
    said = []
    for run, reason in list(reasons.items())[:_MOST_NAMED]:
        point, replica = task.place(run)
        called = f"replica {replica}" + (f" of point {point}" if task.sweep else "")
        step = begun[run].step // task.passes_of(run) if run in begun else 0
        said.append(f"{called} goes back to step {step} of {task.steps}, since {reason}")
    if len(reasons) > _MOST_NAMED:
        said.append(f"{len(reasons) - _MOST_NAMED} more replicas go back")
    if said:
        warn(f"{path}: {'; '.join(said)}")

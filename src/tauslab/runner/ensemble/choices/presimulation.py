"""The pilot of a large network: it orders its tables, and may choose how reactions are found.

One rank or worker runs it for all. It counts work and never times it, so the choice is a function
of model, options and seed; a selector that is given, or that a file holds, stays as it is.
"""

from __future__ import annotations

from dataclasses import replace

from tauslab.kernels.backends import Backend
from tauslab.kernels.exact.pilot import run_pilot
from tauslab.kernels.exact.selectors import Pilot, selector_after
from tauslab.options.methods import SSA, with_choices
from tauslab.runner.ensemble.task import NetworkTask


def piloted(task: NetworkTask, backend: Backend) -> Pilot | None:
    """Run the task's pilot on this device; None for a task without a pilot."""
    if not task.presimulation or not isinstance(task.options.method, SSA):
        return None
    assert task.options.seed is not None
    return run_pilot(
        backend,
        task.lowered,
        (task.initial[:1], task.constants[:1]),
        seed=task.options.seed,
        events=task.presimulation,
    )


def with_pilot(task: NetworkTask, pilot: Pilot | None, *, tell: bool) -> NetworkTask:
    """The task with the selector that its pilot shows to be faster; says so with `tell`.

    From here on the choice stands in the options, as if it had been given.
    """
    options, method = task.options, task.options.method
    if pilot is None or not isinstance(method, SSA) or method.selector is not None:
        return task
    selector = selector_after(task.lowered, task.selector, pilot)
    if selector == task.selector:
        return task
    if tell and options.verbose and not options.quiet:
        candidates, bounds = pilot.work
        counted = f"{candidates:.3g} candidates and {bounds:.2g} bounds an event in the pilot"
        print(f"selector: {selector} ({counted})", flush=True)
    chosen = replace(options, method=with_choices(method, selector=selector))
    return replace(task, options=chosen)

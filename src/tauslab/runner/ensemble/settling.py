"""What a run takes over from the file that it goes on with, and a seed."""

from __future__ import annotations

import secrets
from dataclasses import replace

from tauslab.runner.options.ensemble import Options
from tauslab.runner.output.writers.resume import existing_attribute, existing_text, require_free
from tauslab.runner.ranks.mpi import Communicator
from tauslab.runner.ranks.on_root import on_root


def require_output(options: Options, comm: Communicator) -> None:
    """Refuse an output that cannot be, before anything is compiled or tried. Collective."""
    path = options.output
    if path is not None:
        keep = {"overwrite": options.overwrite, "resume": options.resume}
        on_root(comm, lambda: require_free(path, **keep))


def with_seed(options: Options, comm: Communicator) -> Options:
    """The options with a seed: the one given, that of the run to resume, or one drawn."""
    if options.seed is not None:
        return options
    output = options.output
    stored: int | None = None
    if options.resume and output is not None:
        stored = on_root(comm, lambda: existing_attribute(output, "seed"))
    return replace(options, seed=comm.bcast(secrets.randbits(64)) if stored is None else stored)


def settled(options: Options, comm: Communicator) -> Options:
    """The options with a seed, and with the choices of the run to resume. Collective."""
    return with_seed(_with_check(_with_choices(options, comm), comm), comm)


def _with_check(options: Options, comm: Communicator) -> Options:
    """The options with the check after leaps that the run to resume has."""
    output = options.output
    if (
        not options.resume
        or output is None
        or options.post_leap_check
        or options.method in ("ssa", "ode")
    ):
        return options
    stored = on_root(comm, lambda: existing_text(output, "post_leap_check"))
    return replace(options, post_leap_check=stored is not None)


def _with_choices(options: Options, comm: Communicator) -> Options:
    """The options with the choices of the run to resume, where they are not given."""
    output = options.output
    if options.method_left_open and options.resume and output is not None:
        stored = on_root(comm, lambda: existing_text(output, "method"))
        options = replace(options, method=stored) if stored in ("ssa", "tau") else options
    if options.method == "auto" and options.selector is not None:
        options = replace(options, method="ssa")  # the only method that has selectors
    if options.method in ("tau", "ode") or not options.resume or output is None:
        return options
    selector = on_root(comm, lambda: existing_text(output, "selector"))
    events = on_root(comm, lambda: existing_text(output, "presimulation"))
    if options.presimulation is None and selector is not None:
        options = replace(options, presimulation=int(events or 0))
    if options.selector is None and selector is not None:
        options = replace(options, selector=selector, method="ssa", post_leap_check=False)
    return options

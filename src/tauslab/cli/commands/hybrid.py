"""``tauslab run`` and ``tauslab check`` of a hybrid in TOML."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from tauslab.analysis.hybrids.hybrid import Hybrid
from tauslab.analysis.hybrids.reading import read_hybrid
from tauslab.analysis.hybrids.run import run_hybrid
from tauslab.base.errors import ConfigError
from tauslab.base.option_names import opt
from tauslab.cli.options import given_options
from tauslab.cli.particles.answering import device_of
from tauslab.cli.tools import warnings_on_stderr
from tauslab.decomposition.ranks.all_ranks import ranks
from tauslab.decomposition.ranks.on_root import on_root
from tauslab.decomposition.ranks.stopping import stopping_at_checkpoints
from tauslab.options.hybrid import HybridFlags, HybridKeywords
from tauslab.options.keywords import MoleculesFlag, NetworkKeywords, TimeLimitFlag
from tauslab.options.methods import METHOD_CLASSES
from tauslab.options.places import ExecutorFlags, Output

_TAKEN = ("t_end", "n", "seed", "resume", "device", "quiet")


def run_hybrid_file(arguments: argparse.Namespace) -> None:
    """Read a hybrid, run it, write the result, print it.

    Raises
    ------
    ConfigError
        An option is given that a hybrid does not have.
    """
    comm = ranks()
    others = (MoleculesFlag, TimeLimitFlag, ExecutorFlags, *METHOD_CLASSES)
    requested = given_options(arguments, NetworkKeywords, *others)
    if wrong := [name for name in requested if name not in _TAKEN]:
        raise ConfigError(f"{opt(wrong[0])}: {arguments.model} is a hybrid: leave it out")
    given: dict[str, Any] = {
        k: requested[k] for k in ("t_end", "n", "seed", "resume") if k in requested
    }
    given |= given_options(arguments, HybridFlags)
    path = arguments.output or Path(f"{arguments.model.stem}.h5")
    output = Output(path, overwrite=arguments.overwrite)
    given |= {"output": output, "device": device_of(arguments), "quiet": arguments.quiet}
    keywords = HybridKeywords(**given)
    with warnings_on_stderr(comm.rank), stopping_at_checkpoints(comm, path):
        result = run_hybrid(read_hybrid(arguments.model), keywords, comm)

    def say() -> None:
        if arguments.json:
            print(json.dumps({"file": str(path), **result.facts()}, indent=2))
        elif not arguments.quiet:
            print("\n".join([*result.lines(), str(path)]))

    on_root(comm, say)


def hybrid_facts(path: Path) -> tuple[dict[str, Any], list[str]]:
    """The report of ``tauslab check`` on a hybrid, as a dictionary and as lines."""
    made: Hybrid = read_hybrid(path)
    steps = made.intervals()
    parts = {name: steps[name].step * made.tick / 2 for name in made.parts}
    lines = [f"{made.name}: a hybrid with tick {made.tick:g}"]
    lines += [f"part {name}: every {every:g}" for name, every in parts.items()]
    result = {"model": made.name, "tick": made.tick, "every": parts, "links": made.check()}
    return result, [*lines, *made.check()]

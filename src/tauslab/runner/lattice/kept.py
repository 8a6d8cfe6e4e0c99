"""The preparation of a lattice run, kept for the next run of the same model and options.

It stays beside its model while that lives. Sites and given positions are compared by what they
hold, all other parts of the model as objects: a part that is another object counts as a change.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any
from weakref import WeakKeyDictionary

from tauslab.base.option_names import listening, warn
from tauslab.model.lattice.canonical import positions_sha256
from tauslab.model.lattice.data import LatticeData
from tauslab.model.lattice.lattice import Lattice
from tauslab.options.lattice import LatticeOptions, LatticeTask, hook_name, prepare_lattice
from tauslab.runner.ensemble.kept import Content, listed

# Without what says that no site is left out: that was so when the task was made, and stays so.
_PARTS = [one.name for one in fields(LatticeData) if one.name not in {"sites", "_outside"}]


@dataclass(frozen=True)
class _Request:
    """A model and options, which decide the preparation.

    Attributes
    ----------
    arrays
        Digests of sites and given positions.
    options
        Without hooks, which may hold the model; `hooks` are their intervals and names.
    """

    content: Content
    arrays: tuple[str, ...]
    options: LatticeOptions
    hooks: tuple[tuple[int, str], ...]

    def same(self, other: _Request) -> bool:
        """Return whether both are answered by the same preparation."""
        equal = (self.arrays, self.options, self.hooks) == (
            other.arrays, other.options, other.hooks,
        )  # fmt: skip
        return equal and self.content.same(other.content)


@dataclass(frozen=True)
class _PreparedTask:
    """The parts of a task without its model, which would live as long as they; its warnings."""

    request: _Request
    parts: dict[str, Any]
    canonical: str
    messages: list[str | Warning]


_kept: WeakKeyDictionary[Lattice, _PreparedTask] = WeakKeyDictionary()
os.register_at_fork(after_in_child=_kept.clear)


def kept_task(model: Lattice, options: LatticeOptions) -> LatticeTask:
    """`prepare_lattice`, or the same of what the last run of the model prepared."""
    if options.sweep is not None:
        return prepare_lattice(model, options)
    plain = replace(
        options, seed=None, quiet=None, output=None, overwrite=False, resume=False, command="",
        hooks=(),
    )  # fmt: skip
    hooks = tuple((every, hook_name(hook)) for every, hook in options.hooks)
    content, given = Content.of_kinds(_kinds(model)), model.placements
    arrays = [positions_sha256(one.positions) for one in given if one.positions is not None]
    request = _Request(content, (model.sites.sha256, *arrays), plain, hooks)
    held = _kept.get(model)
    if held is None or not held.request.same(request):
        with listening() as messages:
            task = prepare_lattice(model, options)
        parts = {one.name: getattr(task, one.name) for one in fields(task)}
        del parts["model"], parts["options"]
        _kept[model] = _PreparedTask(request, parts, task.canonical, messages)
        return task
    for sentence in held.messages:
        warn(sentence)
    task = LatticeTask(model=model, options=options, **held.parts)
    task.__dict__["canonical"] = held.canonical
    return task


def _kinds(model: Lattice) -> Iterator[list[object]]:
    """Parts of a lattice, and those of parts that could be changed in place."""
    for name in _PARTS:
        yield listed(getattr(model, name))
    for reaction in model.reactions:
        yield listed(reaction.reactants)
        yield listed(reaction.products)
    for boundary in model.boundary.values():
        yield listed(boundary.concentrations)

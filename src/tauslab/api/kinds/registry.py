"""The kinds of result files, by what a file holds."""

from __future__ import annotations

import os
from importlib import import_module

from tauslab.api.kinds.kind import Kind
from tauslab.store.checking.opening import METHOD_OF_DBNS, METHOD_OF_LATTICES, OTHER_KINDS, kind_of

_HOMES = {METHOD_OF_LATTICES: "lattices", METHOD_OF_DBNS: "networks"}


def kind_at(path: str | os.PathLike[str]) -> Kind:
    """The kind of a result file, by the method that it names; an ensemble where it names none.

    Its module is imported now.
    """
    method = kind_of(path)
    home = _HOMES.get(method or "", "analyses" if method in OTHER_KINDS else "ensembles")
    module = import_module(f"tauslab.api.kinds.{home}")
    kind: Kind = module.KINDS[method] if home == "analyses" else module.KIND
    return kind

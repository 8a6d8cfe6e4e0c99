"""Which kind a result file is of."""

from __future__ import annotations

import os

from tauslab.api.kinds.arrays import ARRAYS
from tauslab.api.kinds.kind import Kind
from tauslab.api.kinds.recorded import DBN, ENSEMBLE, LATTICE
from tauslab.store.checking.opening import METHOD_OF_DBNS, METHOD_OF_LATTICES, kind_of

# Every other method is one of ensembles.
KINDS = {METHOD_OF_LATTICES: LATTICE, METHOD_OF_DBNS: DBN, **ARRAYS}


def kind_at(path: str | os.PathLike[str]) -> Kind:
    """The kind of a result file, by the method that it names; an ensemble where it names none."""
    return KINDS.get(kind_of(path) or "", ENSEMBLE)

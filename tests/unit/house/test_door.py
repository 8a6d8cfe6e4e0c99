"""The door: methods that show or write by packages above their own, and nothing else."""

from __future__ import annotations

import re

import pytest
from places import ROOT

import tauslab
from tauslab.base.door import behind_door

DOOR = tauslab._FACES


def test_the_door_leads_to_what_shows_and_what_writes():
    assert sorted(DOOR) == [
        "Lattice.plot",
        "Lattice.view",
        "LatticeResult.movie",
        "LatticeResult.plot",
        "LatticeResult.view",
        "Network.check",
        "Network.to_antimony",
        "Network.to_sbml",
        "Result.plot",
    ]


def test_each_entry_is_used_by_its_method():
    texts = (path.read_text() for path in (ROOT / "src" / "tauslab").rglob("*.py"))
    used = [name for text in texts for name in re.findall(r'behind_door\("([\w.]+)"\)', text)]
    assert sorted(used) == sorted(DOOR)


@pytest.mark.parametrize("method", DOOR)
def test_each_entry_is_a_public_method_and_a_function(method):
    owner, _, name = method.partition(".")
    assert callable(getattr(getattr(tauslab, owner), name))
    module, _, function = DOOR[method].partition(":")
    actual = behind_door(method)
    assert (actual.__module__, actual.__name__) == (module, function)

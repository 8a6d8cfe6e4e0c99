"""Every engine has the bits that it had, and so the laws that tests/statistics has looked at.

A change that is to move bits, or to add a dataset to results, writes the file anew, and then
`-m validate` holds all laws against exact ones:

    python tests/support/bits/machine_bits.py --kernels > tests/support/engine_digests.txt

without the lines of `LEFT_OUT`.
"""

from __future__ import annotations

import machine_bits
import pytest
from places import TESTS

LEFT_OUT = {"ssa common", "sweep", "sobol", "lhs"}  # long; or points of SciPy, which may change
EXPECTED = dict(
    line.split(maxsplit=1)[::-1]
    for line in (TESTS / "support" / "engine_digests.txt").read_text().splitlines()
)
LONG = "tau functions"  # to compile, and its engine is that of "tau"
AS_USERS = ("ssa small", "tau", "ode dopri5", "rdme planes")  # compiled with the flags of all users


def test_every_case_has_a_digest():
    assert EXPECTED.keys() == {"polymer", *machine_bits.CASES} - LEFT_OUT


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.validate) if name == LONG else name
        for name in machine_bits.CASES
        if name not in LEFT_OUT
    ],
)
def test_an_engine_has_the_bits_that_it_had(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    if name in AS_USERS:
        monkeypatch.delenv("TAUSLAB_CXXFLAGS", raising=False)
    assert list(machine_bits.digests([name], tmp_path)) == [(name, EXPECTED[name])]


def test_a_chain_has_the_bits_that_it_had():
    assert machine_bits.chain_digest() == EXPECTED["polymer"]

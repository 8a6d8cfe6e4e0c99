"""What the host computes has the same bits whatever the processor, NumPy, libm and Python."""

from __future__ import annotations

import math
import os
import subprocess
import sys

import host_bits
import numpy as np
import pytest
from places import TESTS

from tauslab.model.expressions.array_math import apply
from tauslab.model.expressions.expression import FUNCTIONS
from tauslab.model.expressions.host_math import value_of
from tauslab.runner.ensemble.choices.method_choice import _in_turn

# As x86-64 and aarch64 gave them. SciPy's points may change with SciPy.
DIGESTS = TESTS / "support" / "host_digests.txt"
_OF_SCIPY = "designs"


def simd_of_numpy() -> list[str]:
    """What NumPy can choose from here, beyond what it always needs."""
    core = pytest.importorskip("numpy._core._multiarray_umath")
    return [f for f in core.__cpu_dispatch__ if core.__cpu_features__.get(f)]


@pytest.fixture(scope="module")
def here() -> dict[str, str]:
    return dict(host_bits.host_lines())


def test_the_host_computes_the_same_bits_on_every_machine(here):
    expected = dict(line.split()[::-1] for line in DIGESTS.read_text().splitlines())
    assert {name: here[name] for name in expected} == expected
    assert here.keys() - expected.keys() == {_OF_SCIPY}


def test_implementations_that_numpy_picks_by_the_processor_change_nothing(here):
    features = simd_of_numpy()
    if not features:
        pytest.skip("NumPy has only one implementation for this processor")
    plain = {**os.environ, "NPY_DISABLE_CPU_FEATURES": " ".join(features)}
    done = subprocess.run(
        [sys.executable, host_bits.__file__],
        env=plain, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert dict(line.split()[::-1] for line in done.stdout.splitlines()) == here


@pytest.mark.parametrize("name", [n for n, count in FUNCTIONS.items() if count == 1])
def test_functions_of_arrays_are_those_of_numbers(name):
    given = np.array([*host_bits.SPECIAL, *np.arange(1.0, 30.0), 0.125])
    expected = [value_of(name, x) for x in given.tolist()]
    assert same_bits(apply(name, given), np.array(expected))


@pytest.mark.parametrize("name", [n for n, count in FUNCTIONS.items() if count == 2])
def test_functions_of_two_arrays_are_those_of_numbers(name):
    a, b = (x.ravel() for x in np.meshgrid(host_bits.SPECIAL, host_bits.SPECIAL))
    expected = [value_of(name, *pair) for pair in zip(a.tolist(), b.tolist(), strict=True)]
    assert same_bits(apply(name, a, b), np.array(expected))


def same_bits(a, b) -> bool:
    nan = np.isnan(a) & np.isnan(b)
    return bool(np.all(nan | (a.view(np.int64) == b.view(np.int64))))


def test_terms_are_added_in_turn():
    """Python 3.12 keeps what `sum` rounds off, earlier ones do not; NumPy's sum goes in pairs."""
    terms = np.array([1.0, *[2.0**-53] * 4096])
    assert _in_turn(terms) == 1.0
    assert terms.sum() > 1.0 < math.fsum(terms)
    assert _in_turn(terms[:0]) == 0.0

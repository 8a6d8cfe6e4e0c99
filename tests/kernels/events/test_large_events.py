"""Events by the selectors of tables: known laws, and the same bits for every size of a team."""

from __future__ import annotations

import numpy as np
import pytest
from emulation import EmulatedBackend
from engine_runs import compiler, simulate
from event_models import crowd
from sampling import ordinary

from tauslab.kernels.backends import BackendOptions, get_backend
from tauslab.kernels.exact.selectors import SELECTORS

OF_TABLES = SELECTORS[1:]
WAYS = [(team, order) for team in (8, 32, 128) for order in (1, -1)]


@compiler
@pytest.mark.parametrize(("team", "order"), ordinary(WAYS, (8, 1), (128, -1)))
@pytest.mark.parametrize("selector", OF_TABLES)
def test_warps_and_blocks_give_the_bits_of_a_thread(tmp_path, selector, team, order):
    times = [0.0, 0.2, 0.4, 0.7]
    cpu = get_backend("cpu", BackendOptions(threads=1))
    expected = simulate(cpu, crowd(), times, 4, selector)
    assert not expected[3].any()
    assert expected[4][0] > 150
    device = EmulatedBackend(tmp_path, max(32, team), order)
    found = simulate(device, crowd(), times, 4, selector, team)
    for one, other in zip(expected, found, strict=True):
        assert np.array_equal(one, other)

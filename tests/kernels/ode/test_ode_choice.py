"""Which layout is taken on a device with warps."""

from __future__ import annotations

import numpy as np
import pytest
from measure_equations import equations
from ode_probe import clock, system_of

from tauslab.kernels.ode.layouts import alone, layout_of, spread
from tauslab.model.network.network import Network


def decays(n: int) -> Network:
    model = Network("wide")
    for i in range(n):
        model.add_species(f"X{i}", 1.0)
        model.add_rate(f"X{i}", f"-X{i}")
    return model


@pytest.mark.parametrize("warps", [1, 2, 5])
def test_equations_are_spread_evenly(warps):
    layout = spread(system_of(clock()), 1, warps)
    assert (layout.name, layout.warps) == ("warps", warps)
    assert layout.name in str(layout)
    assert sum(layout.groups, ()) == tuple(range(16))
    assert max(map(len, layout.groups)) - min(map(len, layout.groups)) <= 1


@pytest.mark.parametrize(
    ("name", "warps"),
    [("EGF-NGF", 1), ("thrombin", 1), ("synthetic3", 1), ("synthetic1", 2), ("other150", 2)],
)
def test_equations_that_want_too_many_registers_are_spread(name, warps):
    """As is the fastest in docs/benchmarks/ode.md."""
    assert layout_of(equations(name)[0], "single").warps == warps


def test_constants_that_registers_cannot_hold_go_to_shared_memory():
    model = Network("many")
    for i in range(100):
        model.add_parameter(f"k{i}", 1.0)
        model.add_species(f"X{i}", 1.0)
        model.add_rate(f"X{i}", f"-k{i} * X{i}")
    few, many = (system_of(model, varying=[f"k{i}" for i in range(n)]) for n in (5, 100))
    assert not alone(few, 1).shared_constants
    layout = alone(many, 1)
    assert layout.shared_constants
    assert layout.entry == "ode_threads"
    assert layout.bytes_of_a_block == 4 * 100 * layout.width
    assert layout.blocks * layout.width >= 32


def test_constants_without_room_in_shared_memory_stay_in_registers():
    model = Network("coupled")
    for i in range(32):
        model.add_species(f"X{i}", 1.0)
    for i, j in np.ndindex(32, 32):
        model.add_parameter(f"k{i}_{j}", 1.0)
    for i in range(32):
        model.add_rate(f"X{i}", " - ".join(f"k{i}_{j} * X{j}" for j in range(32)))
    system = system_of(model, varying=list(model.parameters))
    for actual in (alone(system, 2), layout_of(system, "double"), layout_of(system, "double", 20)):
        assert (actual.entry, actual.shared_constants, actual.planes) == ("ode_rk4", False, 0)


def test_what_shared_memory_cannot_hold_is_not_spread():
    wide = system_of(decays(700))
    assert not spread(wide, 2, 2).blocks
    assert layout_of(wide, "double").name == "thread"


def test_threads_that_have_their_trajectories_alone_count():
    for planes in (0, 20):
        layout = layout_of(system_of(clock()), "single", planes)
        assert (layout.name, layout.planes) == ("thread", planes)

"""Which layout is taken on a device with warps."""

from __future__ import annotations

import numpy as np
import pytest
from measure_equations import equations
from ode_probe import clock, system_of

from tauslab.base.errors import ConfigError
from tauslab.kernels.ode.layouts import Counting, layout_of
from tauslab.kernels.ode.settings import OdeSettings
from tauslab.model.network.network import Network


def settings(**given):
    return OdeSettings("rk4", **{"precision": "single", **given})


def decays(n: int) -> Network:
    model = Network("wide")
    for i in range(n):
        model.add_species(f"X{i}", 1.0)
        model.add_rate(f"X{i}", f"-X{i}")
    return model


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, ("thread", 1)),
        ({"layout": "warps"}, ("warps", 2)),
        ({"layout": "warps", "warps": 5}, ("warps", 5)),
        ({"warps": 1}, ("warps", 1)),
        ({"layout": "global"}, ("global", 1)),
    ],
)
def test_what_is_asked_for_is_taken(given, expected):
    layout = layout_of(system_of(clock()), settings(**given))
    assert (layout.name, layout.warps) == expected
    assert layout.name in str(layout)
    assert sum(layout.groups, ()) == tuple(range(16)) * bool(layout.groups)
    assert max(map(len, layout.groups), default=0) - min(map(len, layout.groups), default=0) <= 1


@pytest.mark.parametrize(
    ("name", "warps"),
    [("EGF-NGF", 1), ("thrombin", 1), ("synthetic3", 1), ("synthetic1", 2), ("other150", 2)],
)
def test_equations_that_want_too_many_registers_are_spread(name, warps):
    """As is the fastest in docs/benchmarks/ode.md."""
    assert layout_of(equations(name)[0], settings()).warps == warps


def test_constants_that_registers_cannot_hold_go_to_shared_memory():
    model = Network("many")
    for i in range(100):
        model.add_parameter(f"k{i}", 1.0)
        model.add_species(f"X{i}", 1.0)
        model.add_rate(f"X{i}", f"-k{i} * X{i}")
    few, many = (system_of(model, varying=[f"k{i}" for i in range(n)]) for n in (5, 100))
    assert not layout_of(few, settings(layout="thread")).shared_constants
    layout = layout_of(many, settings(layout="thread"))
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
    for layout in ("auto", "thread"):
        found = layout_of(system, settings(precision="double", layout=layout))
        assert (found.entry, found.shared_constants) == ("ode_rk4", False)
    with pytest.raises(ConfigError, match='counting="inside" needs more shared memory'):
        layout_of(system, settings(precision="double"), Counting("inside", 20))


def test_what_cannot_be_is_refused():
    with pytest.raises(ConfigError, match="there are 16 equations to spread"):
        layout_of(system_of(clock()), settings(warps=17))
    wide = system_of(decays(700))
    with pytest.raises(ConfigError, match="needs more shared memory"):
        layout_of(wide, settings(layout="warps", warps=4, precision="double"))
    assert layout_of(wide, settings(precision="double")).name == "thread"


def test_threads_that_have_their_trajectories_alone_count():
    system = system_of(clock())
    for where, planes in (("auto", 20), ("inside", 20), ("after", 0)):
        layout = layout_of(system, settings(), Counting(where, 20))
        assert (layout.name, layout.planes) == ("thread", planes)
    assert layout_of(system, settings(warps=2), Counting("auto", 20)).planes == 0
    for given in ({"layout": "warps"}, {"layout": "global"}, {"warps": 2}):
        with pytest.raises(ConfigError, match='counting="inside" needs layout="thread"'):
            layout_of(system, settings(**given), Counting("inside", 20))

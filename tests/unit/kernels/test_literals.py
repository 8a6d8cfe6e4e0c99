"""Long numbers of laws, which exact kernels of a GPU keep in registers."""

from __future__ import annotations

import re

from tauslab.kernels.backends.cuda import CudaBackend
from tauslab.kernels.network.codegen import unrolled_header
from tauslab.kernels.network.lowering import LoweredNetwork, lower
from tauslab.model.network.network import Network

STYLE = CudaBackend.style


def lowered(net: Network, varying: tuple[str, ...] = ()) -> LoweredNetwork:
    counts = {name: round(x) for name, x in net.initial_amounts(net.parameter_values()).items()}
    return lower(net, parameters=net.parameter_values(), counts=counts, varying=varying)


def laws(header: str) -> list[str]:
    """What propensities are, in order."""
    return re.findall(r"same<Count>\((.*)\);", header)


def network() -> Network:
    net = Network("numbers")
    net.add_species("X", 5)
    net.add_parameter("k", 0.7)
    net.add_reaction("-> X", rate=0.1)
    net.add_reaction("X ->", rate=2.5)
    net.add_reaction("2 X -> X", rate="k")
    net.add_reaction("X -> 2 X", law="0.3 * X / (2 + X^0.1)")
    return net


def test_long_numbers_follow_the_constants():
    header = unrolled_header(lowered(network(), ("k",)), STYLE, literals=8)
    assert "constexpr int N_LITERALS = 2;" in header
    assert "LITERALS = {{0.1, 0.3}}" in header
    source, decay, pair, growth = laws(header)
    assert source == "c[1]"  # behind k
    assert decay.startswith("2.5 * ")
    assert "c[0]" in pair
    assert "c[2]" in growth
    assert "0.1" not in growth


def test_other_kernels_have_their_numbers_in_the_text():
    header = unrolled_header(lowered(network()), STYLE)
    assert "constexpr int N_LITERALS = 0;" in header
    assert laws(header)[0] == "0.1"


def test_only_some_are_kept():
    net = Network("many")
    net.add_species("X", 5)
    for i in range(20):
        net.add_reaction("-> X", rate=0.1 + i)
    header = unrolled_header(lowered(net), STYLE, literals=8)
    assert "constexpr int N_LITERALS = 8;" in header
    assert laws(header)[7:9] == ["c[7]", "8.1"]

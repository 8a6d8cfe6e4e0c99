"""The CUDA kernels of ODE ensembles compile without a GPU; what registers cannot hold is little."""

from __future__ import annotations

import pytest
from cuda_usage import (
    A_FEW,
    NEWEST,
    OLDER,
    REGISTERS,
    Usage,
    compile_quickly,
    compile_usage,
    require_nvrtc,
)
from ode_probe import DATA, clock, system_of
from sampling import ordinary

import tauslab as ts
from tauslab.formats.sbml.reader import read_sbml
from tauslab.kernels.backends.base import KernelSource, Program
from tauslab.kernels.backends.cache import csrc_texts
from tauslab.kernels.backends.cpu import CpuBackend
from tauslab.kernels.ode.codegen import ode_header
from tauslab.kernels.ode.codegen_parts import jacobian_functions
from tauslab.kernels.ode.engine import FILES, with_layout
from tauslab.kernels.ode.jacobian import jacobian
from tauslab.kernels.ode.layouts import alone, spread
from tauslab.model.network.network import Network


@pytest.fixture(scope="module", autouse=True)
def _nvrtc():
    require_nvrtc()


def usage_of(file: str, header: str, architecture: str = "sm_90") -> tuple[int, int, int, int]:
    usage: Usage = compile_usage(file, csrc_texts() | {"model.h": header}, architecture)
    (numbers,) = usage.values()
    print(f"{file}: {numbers[3]} registers, {numbers[0]} bytes of local memory")
    return numbers


@pytest.mark.validate
@pytest.mark.parametrize("precision", ordinary(["single", "double"], "double"))
def test_steps_of_rk4_stay_in_registers(precision):
    network = read_sbml(DATA / "sbml" / "BIOMD0000000033.xml")
    header = ode_header(system_of(network), precision=precision)
    stack, stores, loads, registers = usage_of("ode/rk4.cc", header)
    assert max(stack, stores, loads) <= A_FEW
    assert registers <= (144 if precision == "single" else 240)


def test_varying_inputs_need_local_memory_only_where_they_are_drawn():
    system = system_of(clock(), varying=sorted(clock().parameters)[:5])
    stack, stores, _, _ = usage_of("ode/rk4.cc", ode_header(system, precision="single"), "sm_75")
    assert stack <= 8 * (len(system.inputs) + 1) + 16
    assert stores == 0


@pytest.mark.validate
def test_equations_spread_over_warps():
    system = system_of(clock())
    header = ode_header(system, more=with_layout(spread(system, 2, 4)))
    stack, stores, loads, registers = usage_of("ode/blocks/warps.cc", header)
    assert max(stack, stores, loads) <= A_FEW
    assert registers <= 128


@pytest.mark.parametrize(
    "choose",
    [
        pytest.param(lambda one: spread(one, 1, 4), marks=pytest.mark.validate),
        lambda one: alone(one, 1, 42),
    ],
    ids=["warps", "counting"],
)
def test_what_integrates_in_blocks_spills_nothing(choose):
    system = system_of(clock(), recorded=clock().species)
    choice = choose(system)
    header = ode_header(system, precision="single", more=with_layout(choice), wide=False)
    stack, stores, loads, registers = usage_of(FILES[choice.entry], header)
    assert max(stack, stores, loads) <= A_FEW
    assert registers * max(128, choice.threads_of_a_block) <= 65536


def test_steps_that_adapt():
    network = Network("oscillator")
    network.add_species("x", 1.0)
    network.add_species("y", 0.0)
    network.add_rate("x", "y + sqrt(1 + x * x)")
    network.add_rate("y", "(1 - x * x) * y - x * time")
    system = system_of(network)
    actual = jacobian(system)
    header = ode_header(system, more=lambda _, writer: jacobian_functions(actual, writer))
    variables = len(system.variables)
    for file, arrays in (("ode/dopri5.cc", 8), ("ode/rosenbrock.cc", 9)):
        stack, *_ = usage_of(file, header)
        assert stack <= 8 * (arrays + 4) * (variables + 1) + 512


@pytest.mark.parametrize("file", ["ode/dopri5.cc", "ode/rosenbrock.cc"])
def test_equations_that_look_back_compile(file):
    network = Network("back")
    network.add_species("x", "cos(time)")
    network.add_parameter("tau", 1)
    network.add_rate("x", "-delay(x, tau) * delay(x, 1 + x * x) ^ 1.5")
    system = system_of(network, varying=["tau"])
    actual = jacobian(system)
    header = ode_header(system, more=lambda _, writer: jacobian_functions(actual, writer))
    compile_quickly(file, csrc_texts() | {"model.h": header})


def test_parts_of_long_functions_compile():
    network = Network("parts")
    for name in "xyz":
        network.add_species(name, 1.0)
        network.add_rate(name, f"if(x > y and time < 2, x * y / (1 + z), exp(-{name})) + x * y * z")
    system = system_of(network)
    actual = jacobian(system)
    whole, parts = (
        ode_header(system, longest=n, more=lambda _, writer: jacobian_functions(actual, writer))
        for n in (1000, 5)
    )
    assert "ode_rates_0" not in whole
    assert "ode_rates_0" in parts
    assert "ode_jacobian_0" in parts
    compile_quickly("ode/rosenbrock.cc", csrc_texts() | {"model.h": parts})


@pytest.mark.parametrize(
    "architecture", ["", *OLDER, pytest.param(NEWEST, marks=pytest.mark.validate)]
)
def test_triggers_and_the_events_that_particles_keep_compile(monkeypatch, architecture):
    sources: list[KernelSource] = []
    compiled = CpuBackend.compile

    def kept(backend: CpuBackend, source: KernelSource) -> Program:
        sources.append(source)
        return compiled(backend, source)

    monkeypatch.setattr(CpuBackend, "compile", kept)
    network = Network("burst")
    network.add_species("X", 10)
    network.add_reaction("-> X", rate=3.0)
    network.add_event("cut", trigger="X >= 20", assignments={"X": "X / 2"}, delay=1.5, priority=2)
    network.add_event("dose", 2.5, {"X": "X + 5"})
    particles = ts.Ensemble(network, 2, seed=1, method="ode", device="cpu")
    particles.advance(0.5)
    of_equations = {one.file: one for one in sources if one.file.startswith("ode/")}
    assert "ode/dopri5.cc" in of_equations
    for file, source in of_equations.items():
        texts = csrc_texts() | dict(source.generated)
        if not architecture:
            compile_quickly(file, texts)
            continue
        usage = compile_usage(file, texts, architecture)
        print(file, usage)
        assert all(registers <= REGISTERS for *_, registers in usage.values())

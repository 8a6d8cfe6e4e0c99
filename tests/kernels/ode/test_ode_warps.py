"""Equations of a trajectory spread over warps give the same bits as one trajectory per thread."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from emulation import EmulatedBackend
from ode_mixed import TIMES, network
from ode_probe import DATA, Course, integrate, system_of
from sampling import ordinary

from tauslab.formats.sbml.reader import read_sbml
from tauslab.kernels.backends import BackendOptions, get_backend
from tauslab.kernels.ode import codegen as ode_codegen
from tauslab.kernels.ode.codegen import count_constants, ode_header
from tauslab.kernels.ode.engine import with_layout
from tauslab.kernels.ode.layouts import OdeLayout, spread
from tauslab.kernels.ode.settings import OdeSettings


def both(
    folder: Path,
    choice: OdeLayout,
    precision: str,
    order: int = 1,
    blocks: int = 1,
    **options: Any,
) -> tuple[Course, Course]:
    """Courses by threads of the CPU and by emulated warps, with a varying parameter."""
    settings = OdeSettings("rk4", substeps=7, precision=precision)
    system = system_of(network(), varying=("k",))
    inputs = np.linspace(0.2, 1.0, 45)[:, None]
    cpu = get_backend("cpu", BackendOptions(threads=1))
    one = integrate(cpu, system, TIMES, settings, inputs, **options)
    cpu.close()
    threads = choice.threads_of_a_block if choice.in_blocks else 32
    emulated = EmulatedBackend(folder, threads, order, blocks)
    two = integrate(emulated, system, TIMES, settings, inputs, choice=choice, **options)
    emulated.close()
    return one, two


def assert_equal(one: Course, two: Course) -> None:
    assert one.status.tolist() == two.status.tolist()
    assert set(one.status.tolist()) == {0, 4}  # the root of a negative number ends some
    for a, b in zip(one.arrays, two.arrays, strict=True):
        assert a.tobytes() == b.tobytes()
    assert int(one.work[0]) == int(two.work[0])


@pytest.mark.parametrize(
    ("warps", "precision", "order", "blocks"),
    ordinary(
        [(2, "double", 1, 2), (3, "single", -1, 1), (8, "double", -1, 1)], (3, "single", -1, 1)
    ),
)
def test_warps_give_the_bits_of_threads(tmp_path, warps, precision, order, blocks):
    system = system_of(network(), varying=("k",))
    choice = spread(system, 1 if precision == "single" else 2, warps)
    one, two = both(tmp_path, choice, precision, order, blocks)
    assert_equal(one, two)
    assert np.isfinite(one.samples[one.status == 0]).all()


@pytest.mark.parametrize(
    ("width", "precision", "columns", "order", "blocks"),
    [(64, "double", True, -1, 1), (32, "single", False, 1, 2)],
)
def test_constants_in_shared_memory_change_no_bit(
    tmp_path, width, precision, columns, order, blocks
):
    """Of 32 or 64 trajectories a block, stored by row or by quantity, more than once in a block."""
    system = system_of(network(), varying=("k",))
    words = 1 if precision == "single" else 2
    size = 4 * words * width * count_constants(system)
    choice = OdeLayout((), width, 1, size, shared_constants=True)
    assert choice.entry == "ode_threads"
    assert_equal(*both(tmp_path, choice, precision, order, blocks, columns=columns))


def test_stages_with_one_text_give_the_same_bits(backend, monkeypatch):
    solutions = []
    for longest in (0, 10**6):
        monkeypatch.setattr(ode_codegen, "LONG_STEP", longest)
        system = system_of(network(), varying=("k",))
        inputs = np.linspace(0.2, 1.0, 9)[:, None]
        solutions.append(integrate(backend, system, TIMES, OdeSettings("rk4", substeps=7), inputs))
    assert_equal(*solutions)


@pytest.mark.parametrize("name", ["BIOMD0000000033", "BIOMD0000000088", "BIOMD0000000201"])
def test_a_block_has_memory_for_all_constants(name):
    """Those of events and recorded quantities too."""
    system = system_of(read_sbml(DATA / "sbml" / f"{name}.xml"))
    choice = spread(system, 2, 3)
    header = ode_header(system, more=with_layout(choice))
    constants = int(re.search(r"N_CONSTANTS = (\d+)", header)[1])
    assert choice.bytes_of_a_block >= 8 * 32 * (2 * len(system.variables) + constants)

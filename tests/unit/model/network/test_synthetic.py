"""Synthetic systems of equations: the operations of the paper's table, bounded courses."""

from __future__ import annotations

import numpy as np
import pytest
from sampling import ordinary
from scipy.integrate import solve_ivp
from synthetic_equations import SYNTHETIC, synthetic_equations

from tauslab.model.expressions.expression import Call, symbols, to_text
from tauslab.model.network.canonical import model_sha256

SYMBOLS = {"add": "+-", "sub": "+-", "neg": "+-", "mul": "*", "div": "/"}


def operations(network):
    """Operations in the right-hand sides of all equations, as written."""
    actual = dict.fromkeys(("+-", "*", "/"), 0)
    for tree in network.rates.values():
        left = [tree]
        while left:
            node = left.pop()
            if isinstance(node, Call):
                actual[SYMBOLS[node.function]] += 1
                left.extend(node.arguments)
    return actual


def lengths(network):
    """Terms of each equation: signs outside brackets, and one."""
    actual = []
    for tree in network.rates.values():
        outside, depth = 1, 0
        for letter in to_text(tree):
            depth += (letter == "(") - (letter == ")")
            outside += depth == 0 and letter in "+-"
        actual.append(outside)
    return np.array(actual)


@pytest.mark.parametrize("number", SYNTHETIC)
@pytest.mark.parametrize("seed", [0, 7])
def test_operations_are_those_of_the_paper(number, seed):
    size, network = SYNTHETIC[number], synthetic_equations(number, seed=seed)
    assert len(network.species) == len(network.rates) == size.equations
    assert len(network.parameters) == size.parameters
    assert operations(network) == {
        "+-": size.additions, "*": size.multiplications, "/": size.divisions,
    }  # fmt: skip
    read = {name for tree in network.rates.values() for name in symbols(tree)}
    assert set(network.parameters) <= read, "every parameter is read"


@pytest.mark.parametrize("number", ordinary(SYNTHETIC, *list(SYNTHETIC)[2:]))
def test_courses_stay_in_bounds_and_move(number):
    network, size = synthetic_equations(number), SYNTHETIC[number]
    times = np.linspace(0.0, network.t_end, 6)
    texts = ", ".join(to_text(tree) for tree in network.rates.values())
    code = compile(f"[{texts}]", "equations", "eval")
    values = network.parameter_values()
    names = list(network.species)

    def rates(_, x):
        return eval(code, {}, values | dict(zip(names, x.tolist(), strict=True)))  # noqa: S307

    start = [network.initial_amounts()[name] for name in names]
    solution = solve_ivp(rates, (0.0, times[-1]), start, "RK23", times, rtol=1e-4, atol=1e-7).y.T
    assert solution.min() > -1e-5
    most = 1.0 if number != 2 else solution[0].sum()
    assert solution.max() < most + 1e-5
    assert np.abs(solution[1] - solution[0]).max() > 0.1
    assert np.abs(solution[-1] - solution[-2]).max() > 1e-3, "it moves until its end"
    fastest = 100.0 / network.t_end * lengths(network).max() * max(1.0, solution.max())
    assert fastest * size.step < 1.0, "steps of the paper are stable"


def test_a_system_is_a_pure_function_of_its_seed():
    """Pinned: another platform, or another NumPy, must give the same."""
    digests = [model_sha256(synthetic_equations(4, seed=seed)) for seed in (0, 0, 1)]
    assert digests[0] == digests[1] != digests[2]
    assert digests[0].startswith("5a6829cb772e")

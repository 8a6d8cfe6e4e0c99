"""Algorithms of the Kinetic Simulation Algorithm Ontology (KiSAO), and our methods for them."""

from __future__ import annotations

from collections.abc import Mapping

from tauslab.base.errors import ConfigError
from tauslab.options.methods import ODE, SSA, TauLeaping
from tauslab.options.values.texts import whole_number

# Exact algorithms sample the same distribution, and integrators solve the same equations within
# their tolerances: so one method stands for all of a kind.
EXACT = {
    "KISAO:0000015": "Gillespie first reaction algorithm",
    "KISAO:0000027": "Gibson-Bruck next reaction algorithm",
    "KISAO:0000029": "Gillespie direct algorithm",
    "KISAO:0000038": "sorting stochastic simulation algorithm",
    "KISAO:0000051": "Bortz-Kalos-Lebowitz algorithm",
    "KISAO:0000241": "Gillespie-like method",
    "KISAO:0000329": "constant-time kinetic Monte Carlo algorithm",
}
LEAPS = {
    "KISAO:0000039": "tau-leaping method",
    "KISAO:0000040": "Poisson tau-leaping method",
    "KISAO:0000048": "adaptive explicit-implicit tau-leaping method",
    "KISAO:0000084": "nonnegative Poisson tau-leaping method",
}
EQUATIONS = {  # those that control their error: a fixed step is part of a result
    "KISAO:0000019": "CVODE",
    "KISAO:0000033": "Rosenbrock method",
    "KISAO:0000071": "LSODE",
    "KISAO:0000086": "Fehlberg method",
    "KISAO:0000087": "Dormand-Prince method",
    "KISAO:0000088": "LSODA",
    "KISAO:0000089": "LSODAR",
    "KISAO:0000094": "Livermore solver",
    "KISAO:0000288": "backward differentiation formula",
    "KISAO:0000304": "Radau method",
    "KISAO:0000321": "Cash-Karp method",
    "KISAO:0000433": "CVODE-like method",
    "KISAO:0000435": "embedded Runge-Kutta 5(4) method",
    "KISAO:0000436": "Dormand-Prince 8(5,3) method",
    "KISAO:0000496": "CVODES",
    "KISAO:0000535": "VODE",
    "KISAO:0000560": "LSODA/LSODAR hybrid method",  # which COPASI writes for its LSODA
}
_RELATIVE, _ABSOLUTE = "KISAO:0000209", "KISAO:0000211"
_EPSILON, _SEED = "KISAO:0000228", "KISAO:0000488"
# How other programs get within their tolerances (orders, steps, iterations, linear solvers, a model
# reduced by its conservation laws): no result means these.
_IGNORED = {
    f"KISAO:0000{number}"
    for number in (
        216, 219, 220, 415, 467, 475, 476, 477, 478, 479, 480, 481, 484, 485, 542, 543, 559, 571,
    )
}  # fmt: skip


def method_of(
    algorithm: str, parameters: Mapping[str, str], where: str
) -> tuple[SSA | TauLeaping | ODE, int | None]:
    """Method for an algorithm with its parameters, and the seed among these.

    Raises
    ------
    ConfigError
        There is none, or a parameter is not known.
    """
    algorithm, parameters = _spelt(algorithm), {_spelt(k): v for k, v in parameters.items()}
    if algorithm not in {**EXACT, **LEAPS, **EQUATIONS}:
        why = f"the algorithm {algorithm} is none of ours" if algorithm else "no algorithm is given"
        raise ConfigError(
            f"{where}: {why}; exact: "
            f"{', '.join(EXACT)}; leaps: {', '.join(LEAPS)}; equations: {', '.join(EQUATIONS)}"
        )
    seed: int | None = None
    told: dict[str, float] = {}
    for key, text in parameters.items():
        if key == _SEED:
            seed = whole_number(text)
            if seed is None:
                raise ConfigError(f"{where}: {key}: the seed {text!r:.80} is no whole number")
        elif key in (_RELATIVE, _ABSOLUTE, _EPSILON):
            told[key] = _number(text, f"{where}: {key}")
        elif key not in _IGNORED:
            raise ConfigError(f"{where}: the algorithm parameter {key} is not known")
    if algorithm in EXACT:
        return SSA(), seed
    if algorithm in LEAPS:
        return (TauLeaping(epsilon=told[_EPSILON]) if _EPSILON in told else TauLeaping()), seed
    return ODE(rtol=told.get(_RELATIVE, 1e-6), atol=told.get(_ABSOLUTE, 1e-9)), seed


def algorithm_of(method: SSA | TauLeaping | ODE, solver: str) -> str:
    """KiSAO term of the algorithm that ran, for BioSimulators; `solver` is that of equations."""
    if isinstance(method, ODE):
        return f"KISAO_{'0000033' if solver == 'rosenbrock' else '0000087'}"
    return f"KISAO_{'0000029' if isinstance(method, SSA) else '0000084'}"


def _spelt(identifier: str) -> str:
    """``KISAO_0000019`` as ``KISAO:0000019``."""
    return identifier.replace("KISAO_", "KISAO:")


def _number(text: str, where: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ConfigError(f"{where}: {text!r} is no number") from None

"""How equations are integrated: what was given, made into `OdeSettings`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tauslab.kernels.ode.engine import OdeSettings
from tauslab.model.errors import ConfigError

_OF_DEVICES = ("layout", "warps", "memory_warps", "balance")


def integration(method: str | None, default: str = "auto", **given: Any) -> OdeSettings:
    """Settings from what was given, by the names of `OdeSettings`; None is the same as nothing.

    The solver is ``rk4`` where `substeps` are given, else `default`.

    Raises
    ------
    ConfigError
        A choice that is not allowed, or one that the method or the solver does not have.
    """
    own = {name: value for name, value in given.items() if value is not None}
    if method != "ode":
        _refuse_choices(own)
        return OdeSettings()
    name = own.pop("solver", None) or ("rk4" if "substeps" in own else default)
    if name == "auto" != default:
        raise ConfigError("--ode-solver auto is a choice of runs: use dopri5, rosenbrock or rk4")
    if "substeps" in own and name != "rk4":
        raise ConfigError(f"--substeps are those of --ode-solver rk4, not of {name}")
    if name == "rk4" and {"rtol", "atol"} & own.keys():
        raise ConfigError("--rtol and --atol need steps that adapt: --ode-solver dopri5")
    return OdeSettings(name, **own)


def _refuse_choices(own: Mapping[str, object]) -> None:
    """Refuse choices that are those of ``ode``; double precision is everyone's."""
    for name, value in own.items():
        if (name, value) != ("precision", "double"):
            option = f"ode-{name}" if name in ("solver", *_OF_DEVICES) else name
            raise ConfigError(f"--{option.replace('_', '-')} needs --method ode")


def told_integration(arguments: Mapping[str, Any], default: str = "auto") -> OdeSettings:
    """Settings from a command's arguments; `default` as `integration` has it."""
    names = {name: name for name in ("substeps", "rtol", "atol", "precision")}
    names |= {name: f"ode_{name}" for name in ("solver", *_OF_DEVICES)}
    given = {name: arguments[option] for name, option in names.items()}
    return integration(arguments["method"], default, **given)

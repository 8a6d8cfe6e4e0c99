"""Outputs of which derivatives are estimated, and the two sides of a finite difference."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tauslab.base.arrays import FloatArray
from tauslab.base.errors import ConfigError, one_of
from tauslab.base.option_names import assigned, opt
from tauslab.model.expressions.expression import Expression, Number, symbols
from tauslab.model.expressions.infix import as_expression
from tauslab.model.network.network import Network
from tauslab.model.network.parts import Rule
from tauslab.options.values.texts import some
from tauslab.runner.ensemble.initial import require_followed
from tauslab.runner.ensemble.task import with_settings

DIFFERENCES = ("centred", "forward", "backward")
DEFAULT_STEP = 0.02  # of a parameter's value


@dataclass(frozen=True)
class Step:
    """A parameter, or an initial amount, with its value and the values of the two sides."""

    name: str
    value: float
    high: float
    low: float

    @property
    def width(self) -> float:
        """The divisor of a difference of outputs."""
        return self.high - self.low

    @property
    def difference(self) -> str:
        """The place of the sides: ``centred``, ``forward`` or ``backward``."""
        if self.low == self.value:
            return "forward"
        return "backward" if self.high == self.value else "centred"


def chosen_names(network: Network, names: Sequence[str] | None) -> tuple[str, ...]:
    """Names of parameters and species as given; by default all parameters that are numbers but 0.

    Raises
    ------
    ConfigError
        A name that the model does not have, or twice, or none at all.
    """
    if names is None:
        trees = network.parameters
        names = [n for n, t in trees.items() if isinstance(t, Number) and t.value != 0]
    for name in names:
        if name not in network.parameters and name not in network.species:
            raise ConfigError(
                f"{opt('parameters')}: {name!r} is neither a parameter nor a species of "
                f"{network.name}; it has {some([*network.parameters, *network.species])}"
            )
    if not names or len(set(names)) < len(names):
        raise ConfigError(f"{opt('parameters')}: one name or more, each once")
    require_followed(network, names, names, "parameters")
    return tuple(names)


def steps_of(
    network: Network, names: Sequence[str], step: float | Mapping[str, float], difference: str
) -> tuple[Step, ...]:
    """Both sides for every name.

    Parameters
    ----------
    step
        A part of each value; or steps by name, in units of the parameter, where others take 2 %.
    difference
        One of `DIFFERENCES`. Centred ones of an amount that would fall below 0 are forward.

    Raises
    ------
    ConfigError
        A step that is not allowed, or that gives initial amounts which are not whole.
    """
    one_of("difference", difference, DIFFERENCES)
    own = dict(step) if isinstance(step, Mapping) else {}
    for name in own:
        if name not in names:
            raise ConfigError(
                f"{opt('step', key=name)}: it is not among the parameters {', '.join(names)}"
            )
    part = DEFAULT_STEP if isinstance(step, Mapping) else step
    if not (isinstance(part, int | float) and 0 < part < 1):
        raise ConfigError(
            f"{assigned('step')}{part!r} is not allowed: a fraction above 0 and below 1"
        )
    parameters = network.parameter_values()
    amounts = network.initial_amounts(parameters)
    result = []
    for name in names:
        is_amount = name in network.species
        value = amounts[name] if is_amount else parameters[name]
        width = _width(name, value, part, own.get(name), is_amount=is_amount)
        result.append(_sides(name, value, width, difference, is_amount=is_amount))
        _require_whole(network, result[-1])
    return tuple(result)


def side_rows(
    network: Network, steps: Sequence[Step], conditions: Mapping[str, FloatArray] | None = None
) -> dict[str, FloatArray]:
    """Values ``[2 * condition * step]`` of every name: of each step the high side, then the low.

    A name that an expression of another one defines follows its steps.
    `conditions` are values of other names ``[condition]``; without any there is one.
    """
    held = conditions or {}
    shape = (len(next(iter(held.values()), (0,))), len(steps), 2)
    rows = {name: np.broadcast_to(v[:, None, None], shape).ravel() for name, v in held.items()}
    sides = [_values(network, step.name, at) for step in steps for at in (step.high, step.low)]
    for step in steps:
        column = np.array([values[step.name] for values in sides]).reshape(shape[1:])
        rows[step.name] = np.broadcast_to(column, shape).ravel()
    return rows


def _width(name: str, value: float, part: float, given: float | None, *, is_amount: bool) -> float:
    if given is not None:
        whole = not is_amount or given == math.floor(given)
        if not (isinstance(given, int | float) and math.isfinite(given) and given > 0 and whole):
            kind = "a whole number of molecules" if is_amount else "a finite number"
            raise ConfigError(f"step of {name}: {given!r} is not allowed: {kind} above 0")
        return float(given)
    if is_amount:
        return max(1.0, float(round(part * value)))
    if value == 0:
        raise ConfigError(
            f"{name} is 0, and a fraction of 0 is no step: give one, for example "
            f"{assigned('step', key=name)}0.01"
        )
    return abs(value) * part


def _sides(name: str, value: float, width: float, difference: str, *, is_amount: bool) -> Step:
    low = value if difference == "forward" else value - width
    high = value if difference == "backward" else value + width
    # Amounts end at 0, and so do rates: a parameter does not change its sign.
    if low < 0 <= value:
        if difference == "backward":
            raise ConfigError(f"{name}: a step of {width:g} below {value:g} ends below 0")
        low, high = value, value + width
    if is_amount and (value != math.floor(value) or high > 2**31 - 1):
        raise ConfigError(f"{name}: the initial amount is {value:g}, not a count")
    step = Step(name, value, high, low)
    if not step.width > 0 or (difference == "centred" and value in (low, high) and low == high):
        raise ConfigError(f"step of {name}: {value:g} plus {width:g} is the same number")
    return step


def _require_whole(network: Network, step: Step) -> None:
    """Refuse steps that rounding of initial amounts would change."""
    above, below = (_values(network, step.name, at) for at in (step.high, step.low))
    for name in network.species:
        high, low = above[name], below[name]
        if high != low and not (high.is_integer() and low.is_integer()):
            raise ConfigError(
                f"{step.name}: its step changes the initial amount of {name} to {low:g} and "
                f"{high:g}: give a {assigned('step', key=step.name)}... with which they are whole"
            )


def _values(network: Network, name: str, value: float) -> dict[str, float]:
    """All parameters and initial amounts, where one of them has a value."""
    moved = with_settings(network, {name: value})
    parameters = moved.parameter_values()
    return parameters | moved.initial_amounts(parameters)


def chosen_outputs(network: Network, outputs: Sequence[str] | None) -> tuple[str, ...]:
    """Texts as given; by default all species that reactions change.

    Raises
    ------
    ConfigError
        There is none, or one occurs twice.
    """
    if outputs is None:
        outputs = [name for name, species in network.species.items() if not species.fixed]
    iterates = isinstance(outputs, Iterable) and not isinstance(outputs, str)
    result = tuple(outputs) if iterates else ()
    if not (iterates and all(isinstance(one, str) for one in result)):
        raise ConfigError(f"{opt('outputs')}: give names or expressions, not {outputs!r:.60}")
    if not result or len(set(result)) < len(result):
        raise ConfigError(f"{opt('outputs')}: one name or expression or more, each once")
    return result


def with_outputs(network: Network, outputs: Sequence[str]) -> tuple[Network, tuple[str, ...]]:
    """A copy of the network with a recorded rule for each output, and the names of these.

    Raises
    ------
    ConfigError
        An output has a name that the model does not have.
    """
    known = {*network.species, *network.rules, *network.parameters}
    rules = {n: replace(rule, recorded=False) for n, rule in network.rules.items()}
    names = []
    for number, text in enumerate(outputs):
        tree: Expression = as_expression(text)
        unknown = sorted(symbols(tree) - known)
        if unknown:
            raise ConfigError(
                f"{opt('outputs')}: {text!r} has {unknown[0]!r}, which is neither a species nor an "
                f"observable nor a parameter of {network.name}; it has {some(sorted(known))}"
            )
        name = f"sensitivity_output_{number}"
        while name in known:
            name += "_"
        names.append(name)
        rules[name] = Rule(name, tree)
    return replace(network, rules=rules), tuple(names)

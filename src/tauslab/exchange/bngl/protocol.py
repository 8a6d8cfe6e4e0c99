"""The actions of a .bngl file, with the meaning that they have in BioNetGen 2.9 (BNGAction.pm).

A simulation starts from the amounts where the last one ended, each trajectory from its own. Amounts
that no simulation has reached are expressions, which follow later changes of parameters.
"""

from __future__ import annotations

import copy
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tauslab.api.api import run_ensemble
from tauslab.base.arrays import FloatArray
from tauslab.base.errors import ConfigError, ModelError
from tauslab.formats.bionetgen.generate import Action
from tauslab.formats.bionetgen.lines import pairs, plain_value
from tauslab.model.expressions.expression import Expression, Number, call
from tauslab.model.expressions.host_math import evaluate
from tauslab.model.expressions.infix import parse
from tauslab.model.network.network import Network
from tauslab.options.methods import ODE, SSA
from tauslab.options.values.sample_times import even_times

Amount = Expression | FloatArray  # of a species: one for all trajectories, or [trajectory]

_TIMES = ("t_start", "t_end", "n_steps", "n_output_steps", "sample_times")
_OF_SIMULATIONS = {
    *_TIMES, "method", "suffix", "prefix", "continue", "seed", "atol", "rtol", "steady_state",
}  # fmt: skip
_OF_SCANS = {
    "parameter", "par_min", "par_max", "n_scan_pts", "par_scan_vals", "log_scale", "reset_conc",
}  # fmt: skip
# Options of printing and of solvers: accepted, without effect.
_WITHOUT_EFFECT = {
    "sparse", "verbose", "print_CDAT", "print_functions", "print_net", "print_end",
    "print_n_species_active", "save_progress", "get_final_state", "parallel", "num_cores",
}  # fmt: skip
_METHODS = ("ode", "cvode", "ssa")
_IGNORED = {
    "visualize", "writeModel", "writeNetwork", "writeSBML", "writeXML", "writeFile", "writeMfile",
    "writeMexFile", "writeMDL", "writeLatex",
}  # fmt: skip
_ARGUMENT = re.compile(r"""\s*("[^"]*"|'[^']*'|[^,"']+)\s*(?:,|\Z)""")
_PLAIN_NAME = re.compile(r"[\w .+-]+")  # of a file, or a part of one
_MOLECULE = re.compile(r"(@\w+::?)?(\w+)(?:\((.*)\))?\Z")


@dataclass
class Report:
    """Columns by name, ``[trajectory, time]``; of a scan ``[trajectory, point]``.

    Attributes
    ----------
    base
        The name that its action gives; a later one of the same gets a number in `name`.
    """

    name: str
    columns: dict[str, FloatArray]
    base: str


class Protocol:
    """Runs actions on a network.

    Parameters
    ----------
    network
        As BioNetGen generated it; its labels are the patterns of the species.
    n
        Number of trajectories. Equations that start from one state are integrated once.
    seed
        Seed from which each simulation gets its own; None draws one.
    options
        Of `tauslab.run`: ``device``.

    Attributes
    ----------
    reports
        Of what ran, in the order of the file.
    notes
        Actions that had no effect.
    """

    def __init__(
        self, network: Network, n: int, seed: int | None, options: Mapping[str, Any]
    ) -> None:
        self._network, self._n, self._options = copy.copy(network), n, options
        self.seed = secrets.randbits(64) if seed is None else seed
        self.reports: list[Report] = []
        self.notes: list[str] = []
        self._state: dict[str, Amount] = self._initial()
        self._states: dict[str, dict[str, Amount]] = {}
        self._parameters: dict[str, dict[str, Expression]] = {}
        self._time, self._runs = 0.0, 0
        self._species = {_normal(label): name for name, label in network.labels.items()}
        self._species |= {name: name for name in network.species if name not in self._species}
        shown = [name for name, rule in network.rules.items() if rule.recorded]
        self._columns = shown or [*network.species]
        self._actions: dict[str, Callable[[list[str]], None]] = {
            "simulate": self._simulate,
            "simulate_ode": lambda given: self._simulate(given, "ode"),
            "simulate_ssa": lambda given: self._simulate(given, "ssa"),
            "parameter_scan": self._scan,
            "setConcentration": self._set_amount,
            "addConcentration": lambda given: self._set_amount(given, adds=True),
            "setParameter": self._set_parameter,
            "saveConcentrations": lambda given: self._states.update(
                {_label(given): {**self._state}}
            ),
            "resetConcentrations": self._reset_amounts,
            "saveParameters": lambda given: self._parameters.update(
                {_label(given): {**self._network.parameters}}
            ),
            "resetParameters": self._reset_parameters,
        }

    def run(self, actions: Sequence[Action]) -> None:
        """Run the actions.

        Raises
        ------
        ConfigError
            An action, an argument of one, or a species is not known; nothing later has run.
        """
        known = self._actions.keys() | _IGNORED
        for action in actions:  # before the first of them takes its time
            if action.name not in known:
                raise ConfigError(
                    f"line {action.line}: {action.name} is not supported in a protocol; "
                    f"{', '.join(self._actions)} are"
                )
        for action in actions:
            if action.name in _IGNORED:
                self.notes.append(f"line {action.line}: {action.name} has no effect")
                continue
            try:
                self._actions[action.name](_arguments(action.arguments))
            except (ConfigError, ModelError) as error:
                raise ConfigError(f"line {action.line}: {action.name}: {error}") from None

    def _initial(self) -> dict[str, Amount]:
        return {name: one.initial for name, one in self._network.species.items()}

    # ---------------------------------------------------------------- values

    def _set_amount(self, given: list[str], *, adds: bool = False) -> None:
        pattern, text = _two(given, '"A(b)", 100')
        name = self._species.get(_normal(pattern))
        if name is None:
            some = ", ".join([*self._network.labels.values()][:5])
            raise ConfigError(f"{pattern} is not a species of the network, such as {some}")
        value = parse(text)
        if adds:
            before = self._state[name]
            if isinstance(before, np.ndarray):
                self._state[name] = before + self._number(text)
                return
            value = call("add", before, value)
        evaluate(value, self._network.parameter_values())  # it may use parameters only
        self._state[name] = value

    def _set_parameter(self, given: list[str]) -> None:
        name, text = _two(given, '"k", 0.1')
        self._require_parameter(name)
        self._network.parameters[name] = parse(text)
        self._network.parameter_values()

    def _require_parameter(self, name: str) -> None:
        if name not in self._network.parameters:
            raise ConfigError(f"{name!r} is not a parameter of the network")

    def _reset_amounts(self, given: list[str]) -> None:
        label = _label(given)
        if label and label not in self._states:
            raise ConfigError(f"no concentrations are saved as {label!r}")
        self._state = dict(self._states.get(label) or self._initial())

    def _reset_parameters(self, given: list[str]) -> None:
        label = _label(given)
        if label not in self._parameters:
            raise ConfigError(f"no parameters are saved as {label!r}")
        self._network.parameters = dict(self._parameters[label])

    def _number(self, text: str) -> float:
        return float(evaluate(parse(plain_value(text) or text), self._network.parameter_values()))

    # ---------------------------------------------------------------- simulations

    def _simulate(self, given: list[str], method: str = "") -> None:
        options = _options(given, _OF_SIMULATIONS, method)
        name = self._name(options)
        goes_on = self._number(options.get("continue", "0")) != 0
        times, start = self._times(options, goes_on=goes_on)
        rows = self._run(options, times - start)
        self._state, self._time = rows.state, float(times[-1])
        time = np.broadcast_to(times, (rows.n, len(times)))
        self._report(name, {"time": time, **rows.columns}, goes_on=goes_on)

    def _scan(self, given: list[str]) -> None:
        options = _options(given, _OF_SIMULATIONS | _OF_SCANS)
        parameter = options.get("parameter", "")
        self._require_parameter(parameter)
        name, values = self._name(options, parameter), self._scanned(options)
        times, start = self._times(options, goes_on=False)
        resets = self._number(options.get("reset_conc", "1")) != 0
        begin, ends = dict(self._state), list[dict[str, FloatArray]]()
        if resets and not any(isinstance(one, np.ndarray) for one in begin.values()):
            rows = self._run(options, times - start, {parameter: values})
            ends = [
                {name: own[point, :, -1] for name, own in rows.columns.items()}
                for point in range(len(values))
            ]
        else:
            for value in values:
                self._network.parameters[parameter] = Number(float(value))
                rows = self._run(options, times - start)
                ends.append({name: own[:, -1] for name, own in rows.columns.items()})
                self._state = dict(begin) if resets else rows.state
        self._network.parameters[parameter] = Number(float(values[-1]))  # as BioNetGen leaves it
        self._time = float(times[-1])
        columns = {name: np.stack([end[name] for end in ends], axis=-1) for name in self._columns}
        axis = np.broadcast_to(values, (len(ends[0][self._columns[0]]), len(values)))
        self._report(name, {parameter: axis, **columns}, goes_on=False)

    def _scanned(self, options: Mapping[str, str]) -> FloatArray:
        ends = [options.get(name) for name in ("par_min", "par_max", "n_scan_pts")]
        if None in ends:
            if "par_scan_vals" not in options:
                raise ConfigError("give par_min, par_max and n_scan_pts, or par_scan_vals")
            return self._list(options["par_scan_vals"])
        low, high, count = (self._number(str(text)) for text in ends)
        if count < 2 or count != int(count):
            raise ConfigError("n_scan_pts is a whole number from 2 on")
        if self._number(options.get("log_scale", "0")) == 0:
            return np.linspace(low, high, int(count))
        if low <= 0 or high <= 0:
            raise ConfigError("log_scale needs par_min and par_max above 0")
        return np.geomspace(low, high, int(count))

    def _list(self, text: str) -> FloatArray:
        if not (text.startswith("[") and text.endswith("]") and text[1:-1].strip()):
            raise ConfigError(f"{text!r} is not a list such as [0,1,5]")
        return np.array([self._number(part) for part in text[1:-1].split(",")])

    def _times(self, options: Mapping[str, str], *, goes_on: bool) -> tuple[FloatArray, float]:
        """Times of samples, the first of which is the start."""
        start = self._number(options.get("t_start", repr(self._time if goes_on else 0.0)))
        if goes_on and start != self._time:
            raise ConfigError(f"it continues at {self._time:g}, so t_start cannot be {start:g}")
        if start and any(feature.kind == "time" for feature in self._network.features):
            raise ConfigError(f"the network uses the time: a start at {start:g} is not supported")
        steps = options.get("n_steps", options.get("n_output_steps"))
        if steps is None and "sample_times" in options:
            listed = self._list(options["sample_times"])
            ends = [self._number(options["t_end"])] if "t_end" in options else []
            times = np.unique([start, *listed[listed > start], *ends])
        elif "t_end" not in options:
            raise ConfigError("t_end is not given")
        else:
            count = self._number(steps or "1")
            if not 1 <= count <= 1e7 or count != int(count):
                raise ConfigError("n_steps is a whole number from 1 to 10000000")
            times = even_times(start, self._number(options["t_end"]), int(count) + 1)
        if not times[-1] > start:
            raise ConfigError(f"t_end must be above {start:g}, where it starts")
        return times, start

    def _name(self, options: Mapping[str, str], otherwise: str = "") -> str:
        """Name of a report, a part of a file's name: no option may lead out of the folder."""
        given = {key: options.get(key, "").strip("\"'") for key in ("prefix", "suffix")}
        for key, text in given.items():
            if text and not (_PLAIN_NAME.fullmatch(text) and text.strip(" .")):
                raise ConfigError(
                    f"the {key} {text!r:.80} is not a plain file name: letters, digits, spaces "
                    "and _ . + - belong there"
                )
        parts = (given["prefix"] or self._network.name, given["suffix"] or otherwise)
        return "_".join(filter(None, parts))

    def _report(self, name: str, columns: dict[str, FloatArray], *, goes_on: bool) -> None:
        """Add a report; of a continuation rows to the last one of its name, without the start.

        A scan has no times that could go on.
        """
        earlier = next(
            (one for one in reversed(self.reports) if one.base == name and "time" in one.columns),
            None,
        )
        if goes_on and earlier is not None:
            n = max(len(own) for own in (columns["time"], earlier.columns["time"]))
            for key, own in columns.items():
                parts = (earlier.columns[key], own[:, 1:])
                both = [np.broadcast_to(part, (n, part.shape[1])) for part in parts]
                earlier.columns[key] = np.concatenate(both, axis=1)
            return
        taken, number = {one.name for one in self.reports}, 2
        given = name
        while name in taken:
            name, number = f"{given}_{number}", number + 1
        self.reports.append(Report(name, columns, given))

    def _run(
        self,
        options: Mapping[str, str],
        times: FloatArray,
        sweep: Mapping[str, FloatArray] | None = None,
    ) -> _Rows:
        """Simulate from the state, for `sweep` at each of its points."""
        network = copy.copy(self._network)
        arrays = {name: one for name, one in self._state.items() if isinstance(one, np.ndarray)}
        for name, one in self._state.items():
            if not isinstance(one, np.ndarray):
                network.species[name] = replace(network.species[name], initial=one)
        equations = options["method"] != "ssa"
        method: SSA | ODE = SSA()
        if equations:
            rtol, atol = (self._number(options.get(key, "1e-8")) for key in ("rtol", "atol"))
            method = ODE(rtol=rtol, atol=atol)
        n = max([1, *map(len, arrays.values())]) if equations else self._n
        self._runs += 1
        drawn = np.random.SeedSequence(self.seed, spawn_key=(self._runs,))
        seed = int(drawn.generate_state(1, np.uint64)[0])
        if "seed" in options:
            seed = int(self._number(options["seed"]))
        result = run_ensemble(
            network, times=times, n=n, method=method, seed=seed, sweep=sweep,
            record="trajectories",
            set={name: np.broadcast_to(one, n) for name, one in arrays.items()}, **self._options,
        )  # fmt: skip
        rows = result.to_xarray()
        result.close()
        if (ended := int((rows["status"].to_numpy() > 1).sum())) > 0:
            raise ConfigError(f"{ended} trajectories ended before t_end")
        amounts = rows["amounts" if "amounts" in rows else "counts"].astype(float)
        columns = {}
        for name in self._columns:
            values = (
                amounts.sel(species=name)
                if name in network.species
                else (rows["observables"].sel(observable=name))
            )
            columns[name] = np.asarray(values.to_numpy(), np.float64)
        state: dict[str, Amount] = {}
        if sweep is None:
            last = amounts.isel(time=-1).transpose("species", "trajectory").to_numpy()
            names = map(str, amounts["species"].to_numpy())
            state = {
                name: own if n > 1 else Number(float(own[0]))
                for name, own in zip(names, last, strict=True)
            }
        return _Rows(n, columns, state)


@dataclass(frozen=True)
class _Rows:
    """Columns ``[(point,) trajectory, time]`` of a run, and the state in which it ended."""

    n: int
    columns: dict[str, FloatArray]
    state: dict[str, Amount]


# -------------------------------------------------------------------- arguments


def _arguments(text: str) -> list[str]:
    """Arguments of an action; options ``{key=>value,...}`` are one."""
    text = text.strip()
    if text.startswith("{") and text.endswith("}"):
        return [text]
    result, at = [], 0
    while at < len(text):
        match = _ARGUMENT.match(text, at)
        if match is None:
            raise ConfigError(f"cannot read {text[at:]!r:.80}")
        result.append(match[1].strip().strip("\"'"))
        at = match.end()
    return result


def _two(given: list[str], example: str) -> tuple[str, str]:
    if len(given) != 2:
        raise ConfigError(f"give a name and a value, as in ({example})")
    return given[0], given[1]


def _label(given: list[str]) -> str:
    if len(given) > 1:
        raise ConfigError("give one label or none")
    return given[0] if given else ""


def _options(given: list[str], known: set[str], method: str = "") -> dict[str, str]:
    """The options of a simulation by name, with a method that is supported."""
    if len(given) > 1 or (given and not given[0].startswith("{")):
        raise ConfigError("give {name=>value,...}")
    result = {
        key: plain_value(text) or text for key, text in pairs(given[0][1:-1] if given else "")
    }
    if unknown := [key for key in result if key not in known | _WITHOUT_EFFECT]:
        raise ConfigError(f"{unknown[0]!r} is not supported")
    result["method"] = method or result.get("method", "")
    if result["method"] not in _METHODS:
        raise ConfigError(f"the method {result['method']!r} is not supported; ode and ssa are")
    return result


def _normal(pattern: str) -> str:
    """A species as text that is the same however the components of one molecule are ordered."""
    text = re.sub(r"\s|\$", "", pattern)
    match = _MOLECULE.match(text)
    if match is None:
        return text
    components = ",".join(sorted((match[3] or "").split(",")))
    return f"{(match[1] or '').replace('::', ':')}{match[2]}({components})"

"""Methods that make trajectories: a word, or an object with the settings of one method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar, get_args

from tauslab.base.errors import ConfigError, one_of
from tauslab.base.option_names import opt
from tauslab.kernels.events.tables import DELAY_QUEUE, MOST_DELAYED
from tauslab.kernels.exact.selectors import SELECTORS, Selector
from tauslab.kernels.exact.table_network import TEAMS
from tauslab.kernels.ode.settings import PRECISIONS, SOLVERS, OdeSettings
from tauslab.options.values.checks import number, whole
from tauslab.options.values.definition import (
    Stored,
    check_values,
    declared,
    definitions,
    option,
    settings,
    taken,
)
from tauslab.options.values.texts import count, names

MethodWord: TypeAlias = Literal["ssa", "tau", "auto", "ode", "hybrid", "cle"]
Solver: TypeAlias = Literal["auto", "rk4", "dopri5", "rosenbrock"]
Precision: TypeAlias = Literal["double", "single"]

METHODS: tuple[str, ...] = get_args(MethodWord)
DEFAULT_METHOD: MethodWord = "ssa"  # exact: leaps are for users who ask for them
DEFAULT_EPSILON = 0.03
DEFAULT_MANY = 100.0
MARKS = ("jump", "ode", "langevin")
_OF_EQUATIONS = "needs {ode}"
_OF_HYBRIDS = "marks reactions of a hybrid: use {hybrid}"


def _check_team(option: str, threads: object) -> None:
    """Refuse a number of threads that no kernel is made for."""
    if threads not in (0, *TEAMS):
        allowed = ", ".join(map(str, TEAMS))
        raise ConfigError(f"{opt(option, threads)} is not allowed; allowed are {allowed}")


def _check_selector(option: str, selector: object) -> None:
    """Refuse a selector that is not known."""
    if selector == "cr":  # of files and commands of earlier versions
        raise ConfigError(
            f"{opt(option, 'cr')} is not in this version: use tree or pdm. They draw other "
            "trajectories of the same distribution, so a file with cr can be neither completed nor "
            f"added to: give another {opt('output')}"
        )
    one_of(option, selector, SELECTORS)


@dataclass(frozen=True, kw_only=True)
class _Checked:
    """Settings that are checked one by one."""

    def __post_init__(self) -> None:
        """Check the values."""
        check_values(self)


@declared
@dataclass(frozen=True, kw_only=True)
class _Pilot(_Checked):
    """Settings of exact simulation of large networks."""

    team: int = option(
        0, "GPU threads per trajectory: 1, 8, 32 or 128 (automatic)", flag="--team",
        metavar="N", type=int,
        elsewhere="is of exact simulation: use it with {ssa} or auto", check=_check_team,
        doc="Large networks: number of GPU threads per trajectory, 1, 8, 32 or 128; 0: automatic. "
        "Does not change results.",
    )  # fmt: skip
    presimulation: int | None = option(
        None, "number of events of the pilot of large networks (automatic)",
        flag="--presimulation", metavar="N", type=count,
        stored=Stored(absent=0, follows="selector"),
        elsewhere="is of exact simulation: use it with {ssa} or auto", check=whole(0, 2**31 - 1),
        doc="Large networks: number of events of the pilot that orders reactions and may choose "
        "the selector; 0: no pilot. By default automatic.",
    )  # fmt: skip


@declared
@dataclass(frozen=True, kw_only=True)
class _Steps(_Checked):
    """Settings of leaps, and of other steps whose length follows from rates."""

    epsilon: float = option(
        DEFAULT_EPSILON, "bound on the relative change of rates in a leap (0.03)",
        flag="--epsilon", group="method", type=float,
        metavar="E", stored=Stored(always=True),
        elsewhere="is the error of leaps: use it with {tau} or auto",
        check=number(lambda epsilon: 0 < epsilon <= 1, "above 0, at most 1"),
        doc="Bound on the expected relative change of every propensity in a leap.",
    )  # fmt: skip


@declared
@dataclass(frozen=True, kw_only=True)
class _Leaps(_Steps):
    """Settings of leaps."""

    post_leap_check: bool = option(
        False, "reject leaps that changed a species too much",
        flag="--post-leap-check", group="method",
        action="store_true", stored=Stored(),
        elsewhere="has nothing to check with {method}: use it with tau or auto",
        doc="Reject leaps in which a species changed by more than `epsilon` allows, and repeat "
        "them with half the length: more accurate and slower.",
    )  # fmt: skip


@settings
@dataclass(frozen=True, kw_only=True)
class SSA(_Pilot):
    """Exact stochastic simulation, the default."""

    word: ClassVar[MethodWord] = "ssa"
    selector: Selector | None = option(
        None, "algorithm by which ssa selects the next reaction (automatic)", flag="--selector",
        group="method",
        choices=SELECTORS, stored=Stored(always=True), check=_check_selector,
        elsewhere="is a choice of exact simulation: use {ssa}",
        doc="Algorithm that selects the next reaction, ``linear``, ``tree``, ``pdm`` or ``rssa`` "
        "(docs/large-networks.md). All sample the same distribution. By default automatic.",
    )  # fmt: skip

    delay_queue: int = option(
        DELAY_QUEUE, "maximum number of pending delayed reactions (1024)",
        flag="--delay-queue", metavar="N",
        type=count, stored=Stored(), check=whole(1, MOST_DELAYED),
        elsewhere="is of delayed reactions, which exact simulation has: use {ssa}",
        doc="Maximum number of pending delayed reactions and of stored changes for delays in "
        "formulas, 16 bytes each. If more are needed, the trajectory ends with status "
        "``delay_queue``.",
    )  # fmt: skip


@settings
@dataclass(frozen=True, kw_only=True)
class TauLeaping(_Leaps):
    """Tau-leaping with step control: approximate, and faster if many molecules react often."""

    word: ClassVar[MethodWord] = "tau"


@settings
@dataclass(frozen=True, kw_only=True)
class Auto(_Leaps, _Pilot):
    """Leaps if they are clearly faster and a pilot shows a small error; otherwise exact.

    `Result.method` is the choice, `Result.approximate` describes the approximation.
    """

    word: ClassVar[MethodWord] = "auto"


Patterns: TypeAlias = str | Sequence[str]


def _check_patterns(option: str, given: object) -> None:
    """Refuse what is no name or pattern, or several of them."""
    listed = names(given) if isinstance(given, str) else given
    texts = isinstance(listed, Sequence) and all(isinstance(one, str) and one for one in listed)
    if given != "" and not texts:
        raise ConfigError(f"{opt(option)}: names of reactions are expected, not {given!r:.60}")


@declared
@dataclass(frozen=True, kw_only=True)
class _Judged(_Steps):
    """Settings of methods that estimate their error by exact trajectories."""

    pilot: int = option(
        1000, "number of trajectories of the pilot that estimates errors (1000)", flag="--pilot",
        metavar="N", type=count,
        elsewhere="judges hybrids: use it with {hybrid} or cle", check=whole(0, 2**20),
        doc="Number of trajectories of a pilot before a run of 100 or more. They are simulated "
        "with this method and exactly, and the result reports the differences; 0: no pilot.",
    )  # fmt: skip


@settings
@dataclass(frozen=True, kw_only=True)
class Langevin(_Judged):
    """The chemical Langevin equation: real amounts with Gaussian noise.

    The error of means is of second order in the step; amounts do not become negative. See
    docs/partitioned.md.
    """

    word: ClassVar[MethodWord] = "cle"


@settings
@dataclass(frozen=True, kw_only=True)
class Partitioned(_Judged):
    """Reactions as jumps, equations or Langevin noise: see docs/partitioned.md.

    A reaction that no pattern matches is simulated as a jump while there are few molecules, and
    with Langevin noise while it fires often and there are many. With only jumps and equations, the
    tolerance of the integrator is the only error.

    Examples
    --------
    >>> import tauslab as ts
    >>> ts.Partitioned(ode=["make_*", "decay"], jump="*").marks()
    {'jump': ('*',), 'ode': ('make_*', 'decay')}
    """

    word: ClassVar[MethodWord] = "hybrid"
    jump: Patterns = option(
        "", "reactions simulated as discrete events",
        flag="--jump", group="method", metavar="NAMES",
        stored=Stored(), elsewhere=_OF_HYBRIDS, check=_check_patterns,
        doc="Reactions simulated as discrete events: names, in which ``*`` matches any characters; "
        "``*`` alone selects all reactions that no other pattern matches.",
    )  # fmt: skip
    langevin: Patterns = option(
        "", "reactions with Gaussian noise", flag="--langevin", group="method", metavar="NAMES",
        stored=Stored(), elsewhere=_OF_HYBRIDS, check=_check_patterns,
        doc="Reactions by the chemical Langevin equation; patterns as for `jump`.",
    )  # fmt: skip
    many: float = option(
        DEFAULT_MANY, "minimum number of molecules of a Langevin reaction (100)", flag="--many",
        group="method", type=float, metavar="X", stored=Stored(), elsewhere=_OF_HYBRIDS,
        check=number(lambda many: 10 <= many < 2**31, "10 or more, below 2^31"),
        doc="A reaction that no pattern matches has Langevin noise if there are at least this "
        "many molecules of each species that it changes. Below half of this number it is a jump "
        "again.",
    )  # fmt: skip
    ode: Patterns = option(
        "", "reactions simulated by rate equations", flag="--as-ode", group="method",
        metavar="NAMES", stored=Stored(), elsewhere=_OF_HYBRIDS, check=_check_patterns,
        doc="Reactions that are terms of the rate equations; patterns as for `jump`.",
    )  # fmt: skip

    def __post_init__(self) -> None:
        """Check the values, and make one text of patterns, as a file holds them."""
        super().__post_init__()
        for kind in MARKS:
            given = getattr(self, kind)
            object.__setattr__(self, kind, given if isinstance(given, str) else ",".join(given))

    def marks(self) -> dict[str, tuple[str, ...]]:
        """Patterns by kind of reaction."""
        given = {kind: str(getattr(self, kind)) for kind in MARKS}
        return {kind: names(text) for kind, text in given.items() if text}


@settings
@dataclass(frozen=True, kw_only=True)
class ODE:
    """Ordinary differential equations, whose amounts are real numbers; see docs/ode.md."""

    word: ClassVar[MethodWord] = "ode"
    solver: Solver | None = option(
        None, "solver of ode (auto; with --substeps rk4; for dbn dopri5)", flag="--ode-solver",
        group="method", choices=SOLVERS, stored=Stored(always=True), elsewhere=_OF_EQUATIONS,
        doc="``rk4``: fixed steps; ``dopri5``: adaptive; ``rosenbrock``: adaptive, for stiff "
        "equations; ``auto``: one of the last two, chosen by a pilot. By default ``rk4`` with "
        "`substeps`, else ``auto``; ``dopri5`` for `tauslab.dbn`.",
    )  # fmt: skip
    substeps: int | None = option(
        None, "number of rk4 steps between samples (10)", flag="--substeps", group="method",
        type=int, metavar="R", stored=Stored(always=True, follows="solver"),
        elsewhere=_OF_EQUATIONS,
        doc="``rk4``: steps between samples (10).",
    )  # fmt: skip
    rtol: float | None = option(
        None, "relative tolerance (1e-6)", flag="--rtol", group="method", type=float,
        metavar="E", stored=Stored(always=True, follows="solver"), elsewhere=_OF_EQUATIONS,
        doc="Adaptive solvers: relative tolerance (1e-6).",
    )  # fmt: skip
    atol: float | None = option(
        None, "absolute tolerance (1e-9)", flag="--atol", group="method", type=float,
        metavar="E", stored=Stored(always=True, follows="solver"), unit="that of amounts",
        elsewhere=_OF_EQUATIONS,
        doc="Adaptive solvers: absolute tolerance (1e-9).",
    )  # fmt: skip
    precision: Precision | None = option(
        None, "floating-point precision of ode (double)", flag="--precision", group="method",
        choices=sorted(PRECISIONS), stored=Stored(always=True), elsewhere=_OF_EQUATIONS,
        doc="``double`` (default) or ``single``.",
    )  # fmt: skip
    delay_history: int | None = option(
        None, "integration steps stored for delays (4096)", flag="--delay-history", metavar="N",
        type=count, stored=Stored(), elsewhere=_OF_EQUATIONS,
        doc="Equations with delays: integration steps that are stored, 24 bytes each and 40 per "
        "delayed variable; a longer delay ends a trajectory with status ``delay_history``.",
    )  # fmt: skip

    def __post_init__(self) -> None:
        """Check that the choices go together."""
        self.settings("dopri5" if self.solver is None else "auto")

    def settings(self, default: str = "auto") -> OdeSettings:
        """For the engine; `default` is the solver where neither it nor `substeps` are given."""
        given = {one.name: getattr(self, one.name) for one in fields(self)}
        own = {name: value for name, value in given.items() if value is not None}
        try:
            return _integration(default, own)
        except (TypeError, ValueError) as error:
            if isinstance(error, ConfigError):
                raise
            shown = ", ".join(f"{name}={value!r}" for name, value in own.items())
            raise ConfigError(f"{shown}: one of these has a wrong type") from None

    def settled(self, default: str = "auto") -> ODE:
        """Return the settings with all given that decides numbers; None for other solvers' own."""
        result = self.settings(default)
        own = ("substeps",) if result.solver == "rk4" else ("rtol", "atol")
        return replace(self, **{n: getattr(result, n) for n in ("solver", "precision", *own)})


def _integration(default: str, own: dict[str, Any]) -> OdeSettings:
    name = own.pop("solver", None) or ("rk4" if "substeps" in own else default)
    if name == "auto" != default:
        raise ConfigError(f"{opt('solver', 'auto')} is not possible: use dopri5, rosenbrock or rk4")
    if "substeps" in own and name != "rk4":
        raise ConfigError(f"{opt('substeps')} is for {opt('solver', 'rk4')}, not for {name}")
    if name == "rk4" and {"rtol", "atol"} & own.keys():
        raise ConfigError(
            f"{opt('rtol')} and {opt('atol')} need steps that adapt: {opt('solver', 'dopri5')}"
        )
    return OdeSettings(name, **own)


Method: TypeAlias = SSA | TauLeaping | Auto | ODE | Partitioned | Langevin
M = TypeVar("M", bound=SSA | TauLeaping | Auto | ODE | Partitioned | Langevin)
METHOD_CLASSES: tuple[type[Method], ...] = (SSA, TauLeaping, Auto, ODE, Partitioned, Langevin)


def method_of(given: MethodWord | Method | None) -> Method:
    """The settings of a method: themselves, or the defaults of the method that a word names.

    Raises
    ------
    ConfigError
        It is neither.
    """
    if isinstance(given, METHOD_CLASSES):
        return given
    return method_class(DEFAULT_METHOD if given is None else given)()


def method_class(word: object) -> type[Method]:
    """The settings of the method that a word names; a ConfigError where there is none."""
    one_of("method", word, METHODS)
    return next(one for one in METHOD_CLASSES if one.word == word)


def given_in(method: Method) -> dict[str, Any]:
    """Options of a method that have not their defaults, by field."""
    values = {one.name: (getattr(method, one.name), one.default) for one in fields(method)}
    return {name: value for name, (value, default) in values.items() if value != default}


def method_with(word: str, given: Mapping[str, Any]) -> Method:
    """The method with the options of methods that are `given`, by field.

    Raises
    ------
    ConfigError
        Another method's option that this one refuses.
    """
    if word == Auto.word and "selector" in given:
        word = SSA.word  # the only method that has selectors
    kind = method_class(word)
    own = {one.name for one in fields(kind)}
    for result, one in definitions(*METHOD_CLASSES):
        # Double precision is everyone's.
        foreign = result.name in given and result.name not in own
        if (
            foreign
            and one.elsewhere
            and (result.name, given[result.name]) != ("precision", "double")
        ):
            named = {method: opt("method", method) for method in METHODS}
            why = one.elsewhere.format(method=opt("method", word), **named)
            raise ConfigError(f"{opt(result.name)} {why}")
    return kind(**{name: value for name, value in given.items() if name in own})


def method_as_in(attributes: Mapping[str, Any], word: str, given: Mapping[str, Any]) -> Method:
    """`method_with`; what is not given is as in the file of a run of that method.

    Parameters
    ----------
    attributes
        Attributes of the file's root.
    """
    if attributes.get("method") != word:
        return method_with(word, given)
    return method_with(word, {**taken(attributes, given, method_class(word)), **given})


def with_choices(method: M, **chosen: Any) -> M:
    """The method with options that were chosen for it, in place of None."""
    same = all(getattr(method, name) == value for name, value in chosen.items())
    return method if same else replace(method, **chosen)


def turned_into(word: str, method: Method) -> Method:
    """Another method with the options that both have."""
    kind = method_class(word)
    names = {one.name for one in fields(kind)} & {one.name for one in fields(method)}
    return kind(**{name: getattr(method, name) for name in names})

"""Functions that take the fields of a dataclass of options as keywords, also for type checkers."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from functools import cache, wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar, overload

from tauslab.base.errors import briefly
from tauslab.base.unknown import too_many_placed, unknown_keyword
from tauslab.options.methods import METHOD_CLASSES
from tauslab.options.places import CPU, GPU, Dask, Output
from tauslab.options.python_values import whole
from tauslab.options.values.definition import definitions, with_options
from tauslab.options.values.texts import count

if TYPE_CHECKING:
    from tauslab.analysis.hybrids.hybrid import Hybrid
    from tauslab.analysis.hybrids.result import HybridResult
    from tauslab.model.lattice.lattice import Lattice
    from tauslab.model.network.network import Network
    from tauslab.options.keywords import Numbers, Table
    from tauslab.options.places import Device, Name
    from tauslab.store.results.lattice.result import LatticeResult
    from tauslab.store.results.result import Result

T = TypeVar("T")
M_contra = TypeVar("M_contra", contravariant=True)
R_co = TypeVar("R_co", covariant=True)
P = ParamSpec("P")
Q = ParamSpec("Q")
H = ParamSpec("H")

_SETTINGS: dict[type, str] = {
    **dict.fromkeys(METHOD_CLASSES, "method"), CPU: "device", GPU: "device", Dask: "executor",
    Output: "output",
}  # fmt: skip
# Flags of the command that are no keywords, and what has their place in Python.
_OF_COMMAND = {
    "max_time": "until= or max_steps=",
    "ode_solver": "method=ts.ODE(solver=...)",
    "as_ode": "method=ts.Partitioned(ode=...)",
    "json": "the attributes of the result",
    "molecules": "ts.in_molecules(model)",
    "amounts": "ts.in_molecules(model, ...)",
    "net_laws": "ts.with_net_laws(model)",
    "scheduler": "executor=ts.Dask(...)",
}


class RunFunction(Protocol[P, Q, H]):
    """The type of `tauslab.run`: the keywords depend on the kind of model.

    A file may hold any.  Keywords that only one kind has say which result comes; with keywords
    that several have, a type checker knows no more than that it is one of them.
    """

    @overload
    def __call__(self, model: Network, *args: P.args, **options: P.kwargs) -> Result: ...

    @overload
    def __call__(self, model: Lattice, *args: Q.args, **options: Q.kwargs) -> LatticeResult: ...

    @overload
    def __call__(self, model: Hybrid, *args: H.args, **options: H.kwargs) -> HybridResult: ...

    @overload
    def __call__(
        self,
        model: Name,
        *,
        t_end: float | None = ...,
        seed: int | None = ...,
        set: Mapping[str, float] | None = ...,
        sweep: Mapping[str, str | tuple[float, float] | Numbers] | None = ...,
        design: tuple[str, int] | str | None = ...,
        table: Table | None = ...,
        task: str | tuple[int, int] | None = ...,
        device: Device = ...,
        output: Name | Output | None = ...,
        resume: bool = ...,
        extend: Any = ...,
        quiet: bool | None = ...,
        comm: Any = ...,
    ) -> Result | LatticeResult | HybridResult: ...

    @overload
    def __call__(self, model: Name, *args: P.args, **options: P.kwargs) -> Result: ...

    @overload
    def __call__(self, model: Name, *args: Q.args, **options: Q.kwargs) -> LatticeResult: ...

    @overload
    def __call__(self, model: Name, *args: H.args, **options: H.kwargs) -> HybridResult: ...


class OfModel(Protocol[M_contra, P, R_co]):
    """The type of a function of a model with the keywords of a dataclass."""

    def __call__(self, model: M_contra, *args: P.args, **options: P.kwargs) -> R_co:
        """Call it."""
        ...


def chosen(
    keywords: type[T], options: dict[str, Any], what: str, settable: Iterable[str] = (),
    elsewhere: Mapping[str, str] | None = None,
) -> T:  # fmt: skip
    """An object of the class `keywords` with these options; 1e3 stands for 1000 where it counts.

    `settable` are the names in the model that the keyword ``set`` takes, for hints; `elsewhere` is
    where keywords that others have belong.

    Raises
    ------
    UnknownKeyword
        One that it does not have; the message says where it belongs, or which may be meant.
    """
    allowed, counted = _names_of(keywords)  # type: ignore[arg-type]
    for name in options:
        if name not in allowed:
            raise unknown_keyword(
                name, allowed, what, _SETTINGS, settable, {**_OF_COMMAND, **(elsewhere or {})}
            )
    return keywords(**{k: whole(v) if k in counted else v for k, v in options.items()})


@cache
def _names_of(keywords: type) -> tuple[list[str], list[str]]:
    """Names of its fields, and of those that count something."""
    counted = [one.name for one, reported in definitions(keywords) if reported.type is count]
    return [one.name for one in fields(keywords)], counted


def runs(
    network: Callable[P, object], lattice: Callable[Q, object], hybrid: Callable[H, object]
) -> Callable[[Callable[..., Any]], RunFunction[P, Q, H]]:
    """Type a function as `RunFunction`, with the keywords of `network`, `lattice`, `hybrid`."""
    return lambda function: _documented(function, network, lattice, hybrid)


def takes(
    keywords: Callable[P, object],
) -> Callable[[Callable[Concatenate[M_contra, ...], R_co]], OfModel[M_contra, P, R_co]]:
    """Type a function of a model as one with the fields of `keywords` as its keywords."""
    return lambda function: _documented(function, keywords)


def _documented(function: Callable[..., Any], *classes: Callable[..., object]) -> Any:
    """Write the keywords of dataclasses into signature and docstring."""
    own = inspect.signature(function)
    result = {n: one for n, one in own.parameters.items() if one.kind is not one.VAR_KEYWORD}
    for made in classes:
        for name, one in inspect.signature(made).parameters.items():
            result.setdefault(name, one.replace(kind=one.KEYWORD_ONLY))
    placed = sum(one.kind is one.POSITIONAL_OR_KEYWORD for one in own.parameters.values())

    @wraps(function)
    def wrapped(*args: Any, **options: Any) -> Any:
        __tracebackhide__ = True
        if len(args) > placed:
            raise too_many_placed(f"ts.{function.__name__}", list(result.values()))
        return briefly(f"ts.{function.__name__}", function, args, options)

    wrapped.__signature__ = own.replace(parameters=list(result.values()))  # type: ignore[attr-defined]
    kinds = [made for made in classes if isinstance(made, type)]
    wrapped.__doc__ = with_options(function.__doc__ or "", *kinds)
    return wrapped

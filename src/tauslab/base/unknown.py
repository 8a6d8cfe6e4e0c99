"""Keywords that a function, and attributes that a result does not have: errors with a hint."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from functools import wraps
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, ParamSpec, TypeVar

from tauslab.base.errors import UnknownKeyword, briefly

P = ParamSpec("P")
R = TypeVar("R")

_MOST_NAMED = 12  # keywords in a message
_END, _NUMBER = ("t_end", "times"), ("n", "replicas")
# What users type for a keyword or an attribute, by habit or from other programs.
_CALLED = {
    "t_end": ("times", "t"), "times": ("t", "t_end"), "time": ("times", "t", "t_end"),
    "t": ("times", "t_end"), "t_eval": ("times",), "time_points": ("times",),
    "t_max": _END, "tmax": _END, "t_span": _END, "tspan": _END, "duration": _END,
    "end_time": _END, "t_stop": _END,
    "n": ("cells", "runs", "samples", "replicas"), "particles": ("n",), "replicas": ("n",),
    "repeats": _NUMBER,
    "trajectories": ("counts", *_NUMBER), "n_trajectories": _NUMBER, "num_trajectories": _NUMBER,
    "number_of_trajectories": _NUMBER, "nsim": _NUMBER,
    "n_runs": _NUMBER, "nruns": _NUMBER, "n_sims": _NUMBER, "dt": ("points", "step"),
    "timestep": ("step",), "time_step": ("step",),
    **dict.fromkeys(("latticeSpacing", "lattice_spacing", "h"), ("spacing",)),
    "nsteps": ("points",), "n_points": ("points",), "runs": _NUMBER, "N": _NUMBER,
    "path": ("output",), "file": ("output",), "filename": ("output",),
    "set": ("parameters",), "parameters": ("set",), "params": ("set", "parameters"),
    "n_threads": ("threads",), "num_threads": ("threads",), "nthreads": ("threads",),
    **dict.fromkeys(("n_jobs", "workers", "cores", "processes", "ncpus"), ("threads",)),
    "steps": ("points",), "n_steps": ("points",), "init": ("initial", "set"), "initial": ("set",),
    "initial_conditions": ("initial", "set"), "initial_values": ("initial", "set"),
    "gpu": ("device",), "cpu": ("device",), "algorithm": ("method",), "random_seed": ("seed",),
    "rng": ("seed",), "verbose": ("quiet",), "progress": ("quiet",),
    "k": ("rate",), "constant": ("rate",), "rate_constant": ("rate",), "rate_law": ("law", "rate"),
    "law": ("rate",), "propensity": ("law",),
    "initial_value": ("initial",), "initial_amount": ("initial",),
    "reactants": ("equation",), "products": ("equation",), "stoichiometry": ("equation",),
    "count": ("initial",), "D": ("coefficient",), "when": ("trigger",), "condition": ("trigger",),
    "var": ("variance",), "sd": ("std",), "std": ("sd",), "stdev": ("std", "sd"),
    **dict.fromkeys(("se", "stderr", "standard_error", "error"), ("sem",)),
    "names": ("species",), "species_names": ("species",), "noise": ("cv", "fano"),
    "fano_factor": ("fano",), "CV": ("cv",), "average": ("mean",), "average_ensemble": ("mean",),
    "cov": ("to_pandas",), "covariance": ("to_pandas",), "corr": ("to_pandas",),
    "correlation": ("to_pandas",), "at": ("sel", "time"), "sel": ("at",), "head": ("to_pandas",),
    **dict.fromkeys(("df", "to_df", "dataframe", "to_dataframe", "as_dataframe"), ("to_pandas",)),
    "to_csv": ("to_pandas",), "export": ("to_pandas", "to_xarray", "save"),
    **dict.fromkeys(("write", "to_file", "to_hdf5"), ("save",)), "to_netcdf": ("to_xarray",),
    "xarray": ("to_xarray",), "to_numpy": ("counts", "values"),
    "hist": ("histogram",), "median": ("quantile",), "add_region": ("add_site_type",),
    "report": ("check",), "simulate": ("run",), "load": ("open", "read"), "load_model": ("read",),
    "load_sbml": ("read",), "read_sbml": ("read",), "Model": ("Network", "Lattice"),
}  # fmt: skip


def unknown_keyword(
    name: str, allowed: Iterable[str], what: str, homes: Mapping[type, str] = MappingProxyType({}),
    settable: Iterable[str] = (), elsewhere: Mapping[str, str] | None = None,
) -> UnknownKeyword:  # fmt: skip
    """The error of a keyword `name` that `what` does not have.

    Parameters
    ----------
    allowed
        The keywords that it has.
    homes
        Classes of settings, whose fields are often given beside them, and the keyword of each.
    settable
        Names in the model that the keyword ``set`` takes.
    elsewhere
        Where it belongs, by keyword.
    """
    allowed = list(allowed)
    near = nearest(name, allowed)
    hint = f": did you mean {' or '.join(f'{one}=' for one in near)}?" if near else ""
    for word in (name, *_CALLED.get(name, ())):
        if of := [one.__name__ for one in homes if word in {result.name for result in fields(one)}]:
            takes = next(kw for one, kw in homes.items() if one.__name__ == of[0])
            hint = ": it belongs to " + " and ".join(f"ts.{one}({word}=...)" for one in of)
            hint += f", for {takes}=" * (takes in allowed)
            break
    if elsewhere is not None and name in elsewhere:
        hint = f": use {elsewhere[name]}"
    if name in settable:
        hint = f': set={{"{name}": ...}} gives it a value'
    return UnknownKeyword(f"{name}= is no option of {what}{hint}")


class Hinting:
    """An object that names the attribute that may be meant where it does not have one."""

    # Attributes of other programs, and what has their place.
    _ELSEWHERE: ClassVar[Mapping[str, str]] = {}

    if not TYPE_CHECKING:  # to a type checker every attribute would be there

        def __getattr__(self, name: str) -> Any:
            """Raise an `AttributeError` with a hint, or the one of a property that failed."""
            __tracebackhide__ = True
            try:
                return object.__getattribute__(self, name)
            except AttributeError as error:
                if name.startswith("_") or error.name != name or error.obj is not self:
                    raise
                near = nearest(name, [one for one in dir(self) if not one.startswith("_")])
                hint = f": did you mean {' or '.join(near)}?" if near else ""
                hint = f": use {self._ELSEWHERE[name]}" if name in self._ELSEWHERE else hint
            sentence = f"{type(self).__name__!r} object has no attribute {name!r}{hint}"
            raise AttributeError(sentence, name="", obj=None)  # Python adds hints to named ones


def nearest(name: str, known: Sequence[str]) -> list[str]:
    """Return the known names that may be meant, the likeliest first.

    >>> nearest("t_end", ["n", "t"]), nearest("sede", ["seed", "n"]), nearest("xyz", ["n"])
    (['t'], ['seed'], [])
    """
    called = [one for one in (name, *_CALLED.get(name, ())) if one in known]
    return called or difflib.get_close_matches(name, known, n=1)


def checks_keywords(function: Callable[P, R]) -> Callable[P, R]:
    """`function`, which refuses a keyword that it does not have by `unknown_keyword`."""
    known = inspect.signature(function).parameters.values()
    if any(one.kind is one.VAR_KEYWORD for one in known):
        return function
    allowed = [one.name for one in known if one.name != "self"]
    placed = sum(one.kind is one.POSITIONAL_OR_KEYWORD for one in known)
    what = "ts." + function.__qualname__.removesuffix(".__init__")

    @wraps(function)
    def checked(*args: P.args, **options: P.kwargs) -> R:
        __tracebackhide__ = True
        for name in options:
            if name not in allowed:
                raise unknown_keyword(name, allowed, what)
        if len(args) > placed:
            raise too_many_placed(what, list(known))
        return briefly(what, function, args, options)

    return checked


def too_many_placed(what: str, known: Sequence[inspect.Parameter]) -> UnknownKeyword:
    """The error of a call of `what` with too many positional arguments."""
    first = [
        one.name for one in known if one.kind is one.POSITIONAL_OR_KEYWORD and one.name != "self"
    ]
    others = [f"{one.name}=" for one in known if one.kind is one.KEYWORD_ONLY]
    named = ", ".join(others[:_MOST_NAMED]) + ", ..." * (len(others) > _MOST_NAMED)
    return UnknownKeyword(
        f"{what} takes only {' and '.join(first) or 'nothing'} by position"
        + f"; give the others by name: {named}" * bool(named)
    )

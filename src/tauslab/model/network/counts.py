"""Amounts as counts of molecules, and names in messages."""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence

from tauslab.base.errors import ModelError
from tauslab.base.option_names import assigned, opt, said

MOST = 2**31 - 1
_ROOM = 1e6  # molecules that a suggested compartment leaves the species that has most


def round_counts(
    amounts: Mapping[str, float],
    compartments: Mapping[str, tuple[str, float]] | None = None,
    warn: Callable[[str], object] = warnings.warn,
    varied: Sequence[str] = (),
) -> dict[str, int]:
    """Whole molecules from amounts, half to even, with one warning that names what changed.

    Parameters
    ----------
    amounts
        Initial amounts by species.
    compartments
        Name and size of the compartment of a species, for the hint where its amount is too large.
    warn
        Takes the warning.
    varied
        Species of which another row has an amount that is not whole, to be named as well.

    Raises
    ------
    ModelError
        An amount does not fit into 31 bits.
    """
    counts = {name: round(amount) for name, amount in amounts.items()}
    changed = [name for name, amount in amounts.items() if counts[name] != amount]
    changed += varied
    for name, count in counts.items():
        if count > MOST:
            known = (compartments or {}).get(name)
            raise ModelError(
                f"species {name}: initial amount {count} is above {MOST}{_smaller(count, known)}"
            )
    if changed:
        text = "initial amounts that are not whole were rounded"
        if not any(counts.values()) and not varied:
            text = (
                "all initial amounts are below a molecule and were rounded to 0 (amounts in moles "
                f"need {opt('molecules')})"
            )
        warn(f"{text}: {some(dict.fromkeys(changed))}")
    return counts


def _smaller(count: int, compartment: tuple[str, float] | None) -> str:
    """The option that helps against so large an amount: a smaller compartment, or equations."""
    fewer = said(
        f"{opt('amounts', 'F')}, without {opt('molecules')}, counts F of each unit",
        "ts.in_molecules(model, F) with a small number F counts F molecules for each unit",
    )
    if compartment is None or not compartment[1] > 0:
        return f"; {fewer}, and {opt('method', 'ode')} has no such limit"
    name, size = compartment
    return (
        "; a smaller compartment may hold fewer: "
        f"{assigned('set', key=name)}{size * _ROOM / count:.0e}, {fewer}, and "
        f"{opt('method', 'ode')} has no such limit"
    )


def some(names: Mapping[str, object], limit: int = 8) -> str:
    """The first few of many names.

    >>> some({"A": 1, "B": 2, "C": 3}, limit=2)
    'A, B, ... (3 in all)'
    """
    shown = ", ".join(list(names)[:limit])
    return shown + (f", ... ({len(names)} in all)" if len(names) > limit else "") or "none"


def no_parameter(name: str, species: Iterable[str], changed: Iterable[str] = ()) -> str:
    """The end of a message about `name`, which is no parameter: what to do where it is a species.

    `changed` are parameters that events change.

    >>> no_parameter("k", ["k"])
    '; it is a species: give its initial amount a parameter, k0: add_species("k", "k0")'
    >>> no_parameter("k", ["k"], ["k"])
    '; an event changes it: give its value at the start a parameter, k0: add_parameter("k", "k0")'
    """
    if name not in species:
        return ""
    if name in changed:
        return (
            f"; an event changes it: give its value at the start a parameter, {name}0: "
            f'add_parameter("{name}", "{name}0")'
        )
    return (
        f"; it is a species: give its initial amount a parameter, {name}0: "
        f'add_species("{name}", "{name}0")'
    )


def meant(name: object, known: Iterable[str]) -> str:
    """The end of a message about `name`, which is not known: the nearest name that is.

    >>> meant("k_of", ["k_on", "k_off"])
    ": did you mean 'k_off'?"
    >>> meant("t", ["X", "time"])
    ": the time is 'time'"
    >>> meant("Z", ["X"])
    ''
    """
    if not isinstance(name, str):
        return ""
    names = list(known)
    if name == "t" and "time" in names:
        return ": the time is 'time'"
    near = difflib.get_close_matches(name, names, n=1)
    near += [one for one in names if one.lower() == name.lower()]
    return f": did you mean {near[0]!r}?" if near else ""

"""Amounts as counts of molecules, and names in messages."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

from tauslab.model.errors import ModelError


def round_counts(amounts: Mapping[str, float]) -> dict[str, int]:
    """Whole molecules from amounts, half to even, with one warning that names what changed.

    Raises
    ------
    ModelError
        An amount does not fit into 31 bits.
    """
    counts = {name: round(amount) for name, amount in amounts.items()}
    changed = [name for name, amount in amounts.items() if counts[name] != amount]
    for name, count in counts.items():
        if count > 2**31 - 1:
            raise ModelError(f"species {name}: initial amount {count} is above 2147483647")
    if changed:
        text = "initial amounts that are not whole were rounded"
        if not any(counts.values()):
            text = (
                "all initial amounts are below a molecule and were rounded to 0 (amounts in moles "
                "need --molecules)"
            )
        warnings.warn(f"{text}: {some(dict.fromkeys(changed))}", stacklevel=2)
    return counts


def some(names: Mapping[str, object], limit: int = 8) -> str:
    """The first few of many names.

    >>> some({"A": 1, "B": 2, "C": 3}, limit=2)
    'A, B, ... (3 in all)'
    """
    shown = ", ".join(list(names)[:limit])
    return shown + (f", ... ({len(names)} in all)" if len(names) > limit else "") or "none"

"""The error of leaps, in the words that every result made by leaps carries."""

from __future__ import annotations

from tauslab.base.option_names import opt

# What docs/tau-leaping.md measures on its models at the default epsilon, and what `auto` asks for.
MEAN_TOLERANCE = 0.01  # relative, of means
SD_TOLERANCE = 0.03  # relative, of standard deviations

OF_SAMPLING = "the confidence interval is that of sampling alone and does not hold the leaps' error"


def approximation_of_kinds(kinds: str, judged: str = "") -> str:
    """Describe the error of a run with reactions of such `kinds`, which are no events.

    `judged` is what a pilot says of it.
    """
    return (
        f"made with {kinds}, whose error does not shrink with n: docs/partitioned.md; "
        + (f"{judged}; " if judged else "")
        + f"{opt('method', 'ssa')} is exact"
    )


def approximation(epsilon: float) -> str:
    """Describe the error of a run of tau-leaping with this `epsilon`."""
    return (
        f"made by leaps (epsilon {epsilon:g}), whose error does not shrink with n: "
        f"docs/tau-leaping.md; {opt('method', 'ssa')} is exact"
    )

"""A check that counts alone say what happens next, so that a process may begin in any state."""

from __future__ import annotations

from tauslab.base.errors import ModelError
from tauslab.model.network.network import Network

_MORE_THAN_COUNTS = ("event", "timed event", "state event", "rate rule", "time", "delay",
                     "delayed reaction", "draw")  # fmt: skip


def require_counts_only(
    network: Network, what: str, instead: str = "simulate the model with ts.run"
) -> None:
    """Refuse events, equations, delays and rate laws that depend on time.

    Parameters
    ----------
    what
        Who needs it, as the message calls it.
    instead
        The end of the message: a method that supports such a model.

    Raises
    ------
    ModelError
        Names the first element.
    """
    named = [(f.element, f.kind) for f in network.features if f.kind in _MORE_THAN_COUNTS]
    named += [(f"event {event.name}", "event") for event in network.events]
    named += [(f"rate rule for {name}", "rate rule") for name in network.rates]
    if named:
        element, kind = named[0]
        raise ModelError(
            f"{network.name}: {element}: {what} does not support elements of this kind ({kind}); "
            + instead
        )

"""Partition of reactions: single events, or flows of real amounts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from tauslab.base.errors import ConfigError
from tauslab.base.option_names import opt
from tauslab.model.network.network import Network

REST = "*"
KINDS = ("jump", "ode", "langevin", "auto")


@dataclass(frozen=True)
class Partition:
    """The kind of each reaction, one of `KINDS`, in the order of the network.

    A ``jump`` changes counts by whole numbers at random times; ``ode`` adds its rate to the
    equations of what it changes, ``langevin`` also the noise of its firings; ``auto`` is a jump or
    of ``langevin``, as counts and rates of the moment say.
    """

    kinds: tuple[str, ...]

    @property
    def is_exact(self) -> bool:
        """Return whether reactions are jumps and equations alone, which are integrated exactly."""
        return not {"langevin", "auto"} & set(self.kinds)

    def described(self) -> str:
        """Say how many reactions are no events, by kind; empty if none is."""
        reported = {
            "ode": "by equations",
            "langevin": "by the Langevin equation",
            "auto": "by the Langevin equation where molecules are many",
        }
        counted = {kind: self.kinds.count(kind) for kind in reported}
        of = f"of {len(self.kinds)} reactions"
        return " and ".join(f"{n} {of} {reported[kind]}" for kind, n in counted.items() if n)

    def integrated(self, network: Network) -> list[str]:
        """Names of the reactions simulated by rate equations beside exact events."""
        pairs = zip(network.reactions, self.kinds, strict=True)
        return [reaction.name for reaction, kind in pairs if self.is_exact and kind == "ode"]


def partition_of(network: Network, marks: Mapping[str, Sequence[str]]) -> Partition:
    """Find the kind of each reaction; one that no pattern names is ``auto``.

    Parameters
    ----------
    marks
        Patterns of names of reactions by kind, such as ``make_*``; ``*`` alone means all that no
        other pattern names.

    Raises
    ------
    ConfigError
        A pattern names no reaction, or a reaction has two kinds.
    """
    resting = [kind for kind, patterns in marks.items() if REST in patterns]
    if len(resting) > 1:
        raise ConfigError(f"{opt(resting[0], REST)} and {opt(resting[1], REST)} exclude each other")
    result: dict[str, str] = {}
    names = [reaction.name for reaction in network.reactions]
    for kind, patterns in marks.items():
        for pattern in (one for one in patterns if one != REST):
            named = [name for name in names if fnmatchcase(name, pattern)]
            if not named:
                raise ConfigError(
                    f"{opt(kind, pattern)}: no reaction of {network.name} has such a name"
                )
            for name in named:
                if result.setdefault(name, kind) != kind:
                    raise ConfigError(
                        f"reaction {name} is marked {result[name]} and {kind}: choose one"
                    )
    rest = resting[0] if resting else "auto"
    return Partition(tuple(result.get(name, rest) for name in names))

"""The fields of a network, without the methods that build and check it.

`Network`, the class that users see, adds those.  What `Network.write` needs works on the fields
alone and so lies below that class.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from tauslab.model.expressions.expression import Expression
from tauslab.model.network.parts import Event, Feature, Reaction, Rule, Species, TimedEvent


@dataclass(repr=False)
class NetworkData:
    """What a network consists of; `Network` says what each field means."""

    name: str = "network"
    species: dict[str, Species] = field(default_factory=dict)
    parameters: dict[str, Expression] = field(default_factory=dict)
    reactions: list[Reaction] = field(default_factory=list)
    rules: dict[str, Rule] = field(default_factory=dict)
    rates: dict[str, Expression] = field(default_factory=dict)
    events: list[TimedEvent | Event] = field(default_factory=list)
    features: list[Feature] = field(default_factory=list)
    t_end: float | None = None
    source_path: Path | None = field(default=None, compare=False)
    source_text: str | None = field(default=None, compare=False, repr=False)
    source_digest: str | None = field(default=None, compare=False)
    notes: list[str] = field(default_factory=list, compare=False)
    labels: dict[str, str] = field(default_factory=dict)
    molecules_per_unit: float | None = field(default=None, compare=False)
    amount_unit: str = field(default="molecules", compare=False)
    time_unit: str = field(default="", compare=False)
    count_unit: str = field(default="molecules", compare=False)
    _reaction_names: set[str] = field(default_factory=set, init=False, repr=False, compare=False)

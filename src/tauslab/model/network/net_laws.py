"""Reactions that go forwards and backwards by the sign of their one law."""

from __future__ import annotations

from dataclasses import replace

from tauslab.model.expressions.expression import Expression, Number, call
from tauslab.model.expressions.reversible import SignAnalysis
from tauslab.model.network.network import Feature, Network, Reaction, require_network

KIND = "net law"


def with_net_laws(network: Network) -> Network:
    """Return the model with reactions that run backwards while their rate is negative.

    A net rate v, as in many metabolic models, may be negative. Each such reaction ``R`` becomes
    two: ``R`` with the propensity max(v, 0), and the reverse reaction ``R_backwards`` with max(-v,
    0) (docs/sbml.md). Reactions whose rate is provably nonnegative, and delayed reactions, stay
    unchanged.

    Raises
    ------
    ModelError
        A parameter has no value.
    ConfigError
        `network` is none.

    Examples
    --------
    >>> import tauslab as ts
    >>> net = ts.Network("exchange")
    >>> net.add_species("A", 10)
    >>> net.add_species("B", 0)
    >>> net.add_reaction("A -> B", law="tanh(A - B)", name="R")
    >>> [(reaction.name, dict(reaction.products)) for reaction in ts.with_net_laws(net).reactions]
    [('R', {'B': 1}), ('R_backwards', {'A': 1})]
    """
    require_network(network, "with_net_laws")
    signs = SignAnalysis(_counts(network), network.parameter_values(), network.rule_expressions())
    known = {reaction.name for reaction in network.reactions}
    features = [f for f in network.features if f.kind != "reversible"]
    reactions = []
    for reaction in network.reactions:
        if reaction.delay is not None or signs.never_negative(reaction.law):
            reactions.append(reaction)
            continue
        back = f"{reaction.name}_backwards"
        while back in known:
            back += "_"
        reactions += _both(reaction, back)
        message = "it runs forwards while its rate is positive, and backwards while it is negative"
        features.append(Feature(KIND, f"reaction {reaction.name}", message))
    result = replace(network, features=features)
    result.reactions = reactions
    return result


def _both(reaction: Reaction, back: str) -> list[Reaction]:
    def part(tree: Expression | None, *, negated: bool) -> Expression | None:
        if tree is None:
            return None
        return call("max", call("neg", tree) if negated else tree, Number(0.0))

    forward, backward = (part(reaction.law, negated=negated) for negated in (False, True))
    limits = [part(reaction.limit, negated=negated) for negated in (False, True)]
    assert forward is not None
    assert backward is not None
    return [
        replace(reaction, law=forward, limit=limits[0]),
        Reaction(back, reaction.products, reaction.reactants, backward, limits[1]),
    ]


def _counts(network: Network) -> dict[str, object]:
    """Species that are never negative: counts, not what rules or events give any value."""
    signed = set(network.rates)
    for event in network.events:
        signed.update(n for n in event.assignments if network.species[n].compartment is None)
    return {name: species for name, species in network.species.items() if name not in signed}

"""Outputs of which derivatives are asked: species, observables and expressions of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tauslab.base.errors import ConfigError
from tauslab.base.option_names import opt
from tauslab.model.expressions.expression import Expression, symbols
from tauslab.model.expressions.infix import as_expression
from tauslab.model.network.network import Network
from tauslab.model.network.parts import Rule
from tauslab.options.values.texts import some


def chosen_outputs(network: Network, outputs: Sequence[str] | None) -> tuple[str, ...]:
    """Texts as given; by default all species that reactions change.

    Raises
    ------
    ConfigError
        There is none, or one occurs twice.
    """
    found = outputs
    if found is None:
        found = [name for name, species in network.species.items() if not species.fixed]
    if not found or len(set(found)) < len(found):
        raise ConfigError(f"{opt('outputs')}: one name or expression or more, each once")
    return tuple(found)


def with_outputs(network: Network, outputs: Sequence[str]) -> tuple[Network, tuple[str, ...]]:
    """A copy of the network with a recorded rule for each output, and the names of these.

    Raises
    ------
    ConfigError
        An output has a name that the model does not have.
    """
    known = {*network.species, *network.rules, *network.parameters}
    rules = {n: replace(rule, recorded=False) for n, rule in network.rules.items()}
    names = []
    for number, text in enumerate(outputs):
        tree: Expression = as_expression(text)
        unknown = sorted(symbols(tree) - known)
        if unknown:
            raise ConfigError(
                f"{opt('outputs')}: {text!r} has {unknown[0]!r}, which is neither a species nor an "
                f"observable nor a parameter of {network.name}; it has {some(sorted(known))}"
            )
        name = f"sensitivity_output_{number}"
        while name in known:
            name += "_"
        names.append(name)
        rules[name] = Rule(name, tree)
    return replace(network, rules=rules), tuple(names)

"""Features that a model needs and a method may lack, and the report of ``tauslab check``."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace

from tauslab.base.errors import ConfigError, ModelError
from tauslab.base.option_names import assigned, opt
from tauslab.model.expressions.expression import Call, Expression, Number, substitute, symbols, walk
from tauslab.model.expressions.host_math import evaluate
from tauslab.model.expressions.mass_action import MassAction, recognise
from tauslab.model.network.diagnosis.events import events_that_never_fire, events_true_at_start
from tauslab.model.network.diagnosis.narrow_windows import narrow_windows
from tauslab.model.network.network import Feature, Network, Reaction
from tauslab.model.network.partition import REST
from tauslab.model.network.past import pasts_read, unkept_past
from tauslab.model.network.text import (
    event_facts,
    event_lines,
    reaction_lines,
    rule_lines,
    short_text,
    shortened,
)

# Kinds of feature (see `tauslab.model.network.network.Feature`) that each method can honour.
SUPPORTED: Mapping[str, frozenset[str]] = {
    "ssa": frozenset(
        ("timed event", "state event", "rate rule", "time", "draw", "delayed reaction", "net law",
         "delay")
    ),
    "tau": frozenset(("timed event", "state event", "rate rule", "time", "draw", "net law")),
    "ode": frozenset(
        ("timed event", "state event", "rate rule", "time", "reversible", "mole", "mass",
         "scaled unit", "concentration", "stoichiometry", "conversion factor", "rate of change",
         "net law", "delay", "delayed reaction")
    ),
    "hybrid": frozenset(("timed event", "state event", "rate rule", "time", "draw", "net law")),
    "cle": frozenset(("net law",)),
}  # fmt: skip

REPORTED = ("ssa", "tau", "ode")  # of which refusals in a report speak: the others are made of them
_MOST_REACTIONS = 12  # that are listed
# How amounts in another unit can be counted, and what else helps.
_HINTS = {
    "reversible": ("net_laws",),
    "mole": ("molecules", "amounts"),
    "scaled unit": ("molecules", "amounts"),
    "mass": ("amounts",),
}

# How a message calls many of a kind; another kind is called by its name.
_PLURAL = {
    "event": "events",
    "timed event": "events",
    "state event": "events",
    "rate rule": "rate rules",
    "algebraic rule": "algebraic rules that do not solve",
    "rate of change": "rates of change in formulas (rateOf)",
    "delay": "delays",
    "delayed reaction": "delays of reactions",
    "time": "rates that depend on time",
    "function": "functions outside the known ones",
    "draw": "random numbers in formulas",
    "mole": "amounts in mole",
    "mass": "amounts in units of mass",
    "scaled unit": "units of more or less than one molecule",
    "reversible": "reversible rate laws that do not split",
    "fast reaction": "fast reactions",
    "stoichiometry": "stoichiometries that are not whole constants",
    "conversion factor": "conversion factors",
    "package": "required SBML packages",
    "compartment": "sizes that a rule moves, under a rate rule,",
    "name": "names that mean two things",
    "missing value": "missing values",
    "values per trajectory": "values per trajectory, which the file does not hold,",
    "concentration": "concentrations in place of numbers of molecules",
}


def _hint_of(kind: str) -> str:
    """Return the options that help a model with a feature of that kind; empty if none does."""
    ways = {
        "net_laws": f"{opt('net_laws')} runs them backwards while their rate is negative",
        "molecules": f"{opt('molecules')} converts them",
        "amounts": f"{opt('amounts', 'counts')} reads them as counts",
    }
    return "; " + ", ".join(ways[one] for one in _HINTS[kind]) if kind in _HINTS else ""


def require_support(network: Network, method: str, *, noise_of: str | None = None) -> None:
    """Refuse a model that `method` cannot simulate as it is meant.

    Parameters
    ----------
    noise_of
        The method that simulates some reactions by `method`, ``cle``, and none need it.

    Raises
    ------
    ModelError
        Names the first element that is not supported.
    ConfigError
        `method` is not known.
    """
    if method == "tau" and network.counts_nothing():
        where = f"{network.source_path}: " if network.source_path is not None else ""
        raise ModelError(
            f"{where}rate rules are not supported by tau in a model without reactions, where "
            f"nothing leaps; {opt('method', 'ssa')} or ode can run it"
        )
    unkept = unkept_past(network)
    refused = [f for f in network.features if method in _refusing_in(unkept, f, [method])]
    if refused:
        first = _explained(network, refused[0], [method])
        name = f"{network.source_path}: " if network.source_path is not None else ""
        more = f" (and {len(refused) - 1} more, see tauslab check)" if len(refused) > 1 else ""
        hints = _hint_of(first.kind)
        if first.kind == "missing value" and not first.element.startswith("reaction"):
            hints = f"; {assigned('set', key=first.element.split()[-1])}VALUE gives one"
        able = [other for other in REPORTED if _can_run(network, other)]
        if noise_of is not None and _can_run(network, noise_of):
            hints += f"; {opt('jump', REST)} simulates all reactions as events"
        if able:
            *first_ones, last = [opt("method", able[0]), *able[1:]]
            hints += f"; {' or '.join(filter(None, [', '.join(first_ones), last]))} can run it"
        by = "" if noise_of is None else " beside reactions by the Langevin equation"
        raise ModelError(
            f"{name}{first.element}: {_PLURAL.get(first.kind, first.kind)} are not supported "
            f"by {noise_of or method}{by}; {first.message}{more}{hints}"
        )


def require_method(network: Network, method: str | None) -> None:
    """Refuse a model as it stands in its file, for the exit code of ``tauslab check``.

    Parameters
    ----------
    method
        Which shall run it; None for any. Only ``ode`` itself may have negative rate constants.

    Raises
    ------
    ModelError
        The method, or every method, cannot run it.
    ConfigError
        `method` is not known.
    """
    able, wanted = _methods(network), "ssa" if method == "auto" else method
    if wanted is not None and wanted not in SUPPORTED:
        raise ConfigError(f"{method!r} is not a method; methods: {', '.join(SUPPORTED)}")
    if able:
        check_rates(network, network.parameter_values(), negative=wanted == "ode")
    if wanted in able or (able and wanted is None):
        return
    require_support(network, wanted or "ssa")
    values = network.parameter_values()
    check_rates(network, values, negative=wanted == "ode")
    network.initial_amounts(values)
    raise ModelError(f"{network.name} cannot be run by {method or 'any method'}")


def without_missing(network: Network, names: Collection[str]) -> Network:
    """The network without what is said of values of `names`, missing or drawn: they are given."""
    given = {f"{kind} {name}" for kind in ("parameter", "compartment", "species") for name in names}
    settled = ("missing value", "draw")
    features = [f for f in network.features if f.kind not in settled or f.element not in given]
    return network if features == network.features else replace(network, features=features)


def refusing(feature: Feature, methods: list[str] | None = None) -> list[str]:
    """Return the methods, of all or of `methods`, that cannot honour a feature."""
    for method in methods or ():
        if method not in SUPPORTED:
            raise ConfigError(f"{method!r} is not a method; methods: {', '.join(SUPPORTED)}")
    return [name for name in methods or REPORTED if feature.kind not in SUPPORTED[name]]


def _refusing_in(
    unkept: str | None, feature: Feature, methods: list[str] | None = None
) -> list[str]:
    """Return methods that refuse a feature; `unkept` is why ``ssa`` cannot keep the past."""
    result = refusing(feature, methods)
    looks = feature.kind == "delay" and "ssa" in (methods or REPORTED)
    return ["ssa", *result] if looks and unkept is not None else result


def _explained(network: Network, feature: Feature, methods: list[str]) -> Feature:
    """A feature that `methods` refuse, with the reason of ``ssa`` where it is one of them.

    A parameter whose value is drawn is a fixed species, and called a parameter here.
    """
    kind, _, name = feature.element.partition(" ")
    held = feature.kind == "draw" and kind == "species" and name in network.species
    if held and network.species[name].fixed:
        return replace(feature, element=f"parameter {name}")
    unkept = unkept_past(network)
    if unkept is None or feature.kind != "delay" or "ssa" not in methods:
        return feature
    return replace(feature, message=f"{feature.message}, and {unkept}")


def _can_run(network: Network, method: str) -> bool:
    if method == "tau" and network.counts_nothing():
        return False
    unkept = unkept_past(network)
    return not any(_refusing_in(unkept, feature, [method]) for feature in network.features)


def mass_action_reactions(
    network: Network, constants: Collection[str] = ()
) -> list[tuple[Reaction, MassAction | None]]:
    """Every reaction with its mass-action form, rules unfolded; None for a general law.

    Species of `constants` count as parameters.
    """
    rules = network.rule_expressions()
    species = network.species.keys() - set(constants)
    forms = [
        (reaction, recognise(substitute(reaction.law, rules), species))
        for reaction in network.reactions
    ]
    if not any(feature.kind == "time" for feature in network.features):
        return forms
    return [  # a rate constant that the time moves is none
        (reaction, None if form and "time" in symbols(form.constant) else form)
        for reaction, form in forms
    ]


def check_rates(
    network: Network, parameter_values: Mapping[str, float], *, negative: bool = False
) -> None:
    """Refuse mass-action constants that are infinite, not a number or, unless allowed, negative.

    Parameters
    ----------
    negative
        Allow negative ones: equations know rates that are negative, such as the reverse parts of
        what BioNetGen makes of SBML; events do not.

    Raises
    ------
    ModelError
        Names the reaction and the value.
    """
    known: dict[Expression, float] = {}
    for reaction, form in mass_action_reactions(network):
        if form is None:
            continue
        if form.constant not in known:
            known[form.constant] = evaluate(form.constant, parameter_values)
        value = known[form.constant]
        if not (math.isfinite(value) and (negative or value >= 0)):
            allowed = "finite" if negative else "finite and 0 or more"
            back = _may_be_negative(form.constant) and -math.inf < value < 0
            hint = f"; {opt('net_laws')} lets the reaction run backwards" if back else ""
            file = f"{network.source_path}: " if network.source_path is not None else ""
            raise ModelError(
                f"{file}reaction {reaction.name}: its rate constant is {value:g}; it must be "
                f"{allowed}{hint}"
            )


def _may_be_negative(constant: Expression) -> bool:
    """Return whether a constant is a difference: a negative number alone is a mistake."""
    below = (
        node.value < 0
        if isinstance(node, Number)
        else isinstance(node, Call) and node.function in ("neg", "sub")
        for node in walk(constant)
    )
    return bool(symbols(constant)) and any(below)


def report(network: Network) -> list[str]:
    """Return lines on what the model holds and what stands in the way of running it."""
    moved = len(network.set_by_events())
    lines = [
        (
            f"model {network.name}: {_count(len(network.species) - moved, 'species', 'species')}, "
            f"{_count(len(network.reactions), 'reaction')}, "
            f"{_count(len(network.parameters) + moved, 'parameter')}, "
            f"{_count(len(network.rules), 'rule')}"
            + (f", {_count(len(network.rates), 'rate rule')}" if network.rates else "")
            + (f", {_count(len(network.events), 'event')}" if network.events else "")
        )
    ]
    lines += _report_laws(network)
    lines += ["reactions:", *reaction_lines(network, _MOST_REACTIONS)] if network.reactions else []
    lines += rule_lines(network, _MOST_REACTIONS)
    lines += event_lines(network, _MOST_REACTIONS)
    lines += _report_species(network)
    lines += _report_names(network)
    if network.t_end is not None:
        lines.append(f"end time in the file: {network.t_end:g}")
    unkept = unkept_past(network)
    for feature in network.features:
        refused = _refusing_in(unkept, feature)
        if refused:
            f = _explained(network, feature, refused)
            kind = _PLURAL.get(f.kind, f.kind)
            lines.append(f"{f.element}: {kind} ({f.message}), refused by {', '.join(refused)}")
    if looked := pasts_read(network):
        lines.append(f"looks back at: {shortened(looked)}; ssa lets each change wait so long")
    if network.counts_nothing():
        lines.append("nothing reacts: ssa and ode integrate the equations, and nothing is drawn")
    lines += _report_events(network)
    lines += [f"note: {note}" for note in network.notes]
    able = _methods(network)
    if "hybrid" in able and "cle" not in able:
        able[able.index("hybrid")] += f" with {opt('jump', REST)}"
    lines.append(f"methods that can run it: {', '.join(able) or 'none'}")
    return lines


def check_facts(network: Network) -> dict[str, object]:
    """Return the facts of `report`, for programs."""
    forms = mass_action_reactions(network)
    unkept = unkept_past(network)
    return {
        "name": network.name,
        "species": list(network.species),
        "fixed_species": [name for name, s in network.species.items() if s.fixed],
        "reactions": len(network.reactions),
        "mass_action": sum(form is not None for _, form in forms),
        "parameters": list(network.parameters),
        "set_by_events": network.set_by_events(),
        **{
            key: {name: value if math.isfinite(value) else None for name, value in own.items()}
            for key, own in _known_values(network).items()
        },
        "rules": list(network.rules),
        "rates": {name: short_text(tree) for name, tree in network.rates.items()},
        "events": [event_facts(event) for event in network.events],
        "observables": _observables(network),
        "labels": dict(network.labels),
        "t_end": network.t_end,
        "features": [
            {
                "kind": f.kind,
                "element": f.element,
                "message": f.message,
                "refused_by": _refusing_in(unkept, f),
            }
            for f in network.features
        ],
        "notes": list(network.notes),
        "methods": _methods(network),
    }


def _methods(network: Network) -> list[str]:
    """Methods that can run a network as it stands."""
    some = SUPPORTED if network.reactions else REPORTED
    known = [method for method in some if _can_run(network, method)]
    try:
        network.initial_amounts(negative=True)
    except ModelError:  # `report` says it: no run begins
        return []
    if not network.species:
        return [m for m in known if m != "tau" and network.rules]
    below = _negative(network) or _backwards(network)
    return [m for m in known if m == "ode" or not below]


def _negative(network: Network) -> list[str]:
    """Species that start with less than nothing."""
    amounts = _known_values(network).get("initial_amounts", {})
    if network.counts_nothing():
        return []
    moved = set(network.rates).union(*(event.assignments for event in network.events))
    return [name for name, amount in amounts.items() if amount < -0.5 and name not in moved]


def _backwards(network: Network) -> list[str]:
    """Reactions whose rate constant is below 0, which equations alone know."""
    try:
        values = network.parameter_values()
        forms = mass_action_reactions(network)
        return [one.name for one, form in forms if form and evaluate(form.constant, values) < 0]
    except ModelError:  # `report` says it
        return []


def _known_values(network: Network) -> dict[str, dict[str, float]]:
    """Initial amounts and values of parameters, where they can be computed."""
    try:
        values = network.parameter_values()
        amounts = network.initial_amounts(values, negative=True)
    except ModelError:
        return {}
    return {"initial_amounts": dict(amounts), "values": dict(values)}


def _report_laws(network: Network) -> list[str]:
    forms = mass_action_reactions(network, network.set_by_events())
    orders = Counter(sum(form.orders.values()) for _, form in forms if form is not None)
    lines = []
    if orders:
        parts = ", ".join(f"{orders[order]} of order {order}" for order in sorted(orders))
        lines.append(f"mass action: {parts}")
    general = [reaction.name for reaction, form in forms if form is None]
    if general:
        lines.append(f"general rate laws ({len(general)}): {shortened(general)}")
    return lines


def _report_species(network: Network) -> list[str]:
    lines = []
    moved = network.set_by_events()
    fixed = [n for n, species in network.species.items() if species.fixed and n not in moved]
    if fixed:
        lines.append(f"fixed species: {shortened(fixed)}")
    used = {species.compartment for species in network.species.values()}
    try:
        values = network.parameter_values()
        amounts = network.initial_amounts(values, negative=True)
    except ModelError as error:
        return [*lines, f"values cannot be computed: {error}"]
    counts = {name: amount for name, amount in amounts.items() if name not in moved}
    changed = {name: amounts[name] for name in moved}
    lines = [f"species: {_values(counts)}", f"parameters: {_values(values)}", *lines]
    if changed:
        lines.insert(2, f"parameters that events change: {_values(changed)}")
    volumes = [f"{name} = {values[name]:g}" for name in network.parameters if name in used]
    if negative := _negative(network):
        lines.append(f"negative amounts, for ode alone: {shortened(negative)}")
    if backwards := _backwards(network):
        lines.append(f"negative rate constants, for ode alone: {shortened(backwards)}")
    if volumes:
        lines.append(f"volumes: {shortened(volumes)}")
    real = {*network.constant_species(), *network.real_species()}
    rounded = [
        f"{name} = {amount:g} -> {round(amount)}"
        for name, amount in amounts.items()
        if round(amount) != amount and name not in real
    ]
    if rounded:
        lines.append(f"initial amounts that are rounded: {shortened(rounded)}")
    return lines


def _report_events(network: Network) -> list[str]:
    """Return sentences on events that never fire and narrow windows, likely not meant."""
    end = math.inf if network.t_end is None else network.t_end
    try:
        values = network.parameter_values()
        never = events_that_never_fire(network, values, end=end)
        windows = narrow_windows(network, values, seen=True)
        return never + events_true_at_start(network, values) + windows
    except ModelError:  # said above, or by a run
        return []


def _report_names(network: Network) -> list[str]:
    """Return lines on observables, and on the patterns of species that have a number as name."""
    observables = _observables(network)
    lines = [f"observables: {shortened(observables)}"] if observables else []
    known = network.labels.items()
    labels = [f"{name} is {label}" for name, label in known if label not in (name, f"{name}()")]
    return lines + ([f"patterns: {shortened(labels)} ({opt('json')}: all)"] if labels else [])


def _observables(network: Network) -> list[str]:
    return [name for name, rule in network.rules.items() if rule.recorded]


def _values(values: Mapping[str, float]) -> str:
    return shortened([f"{name} = {value:g}" for name, value in values.items()]) or "none"


def _count(number: int, one: str, many: str | None = None) -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"

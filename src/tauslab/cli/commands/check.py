"""``tauslab check``: what a model holds, and which methods can run it."""

from __future__ import annotations

import argparse
import json

from tauslab.base.errors import ConfigError
from tauslab.cli.pipes import model_given
from tauslab.cli.tools import warnings_on_stderr
from tauslab.formats import read as readers
from tauslab.model.lattice.diagnosis.check import lattice_facts, lattice_report
from tauslab.model.lattice.lattice import Lattice
from tauslab.model.lattice.parts import MAX_HOP
from tauslab.model.network.diagnosis.check import check_facts, require_method
from tauslab.model.network.molecules import as_chosen
from tauslab.model.network.net_laws import with_net_laws
from tauslab.options.lattice import set_parameters
from tauslab.options.values.texts import assignments
from tauslab.runner.ensemble.choices.method_choice import description


def process_check(arguments: argparse.Namespace) -> None:
    """``tauslab check``: what the model holds, and which methods can run it."""
    if arguments.model.suffix.lower() == ".toml" and readers.is_hybrid_file(arguments.model):
        from tauslab.cli.commands.hybrid import hybrid_facts

        if arguments.method is not None:
            raise ConfigError(
                f"{arguments.model} holds a hybrid, whose parts have methods: leave out --method"
            )
        facts, message = hybrid_facts(arguments.model)
        print(json.dumps(facts, indent=2) if arguments.json else "\n".join(message))
        return
    with warnings_on_stderr(), model_given(arguments):
        model = readers.read(arguments.model)
    if isinstance(model, Lattice):
        if arguments.method is not None:
            raise ConfigError(
                f"{arguments.model} holds a lattice, which has one method: leave out --method"
            )
        given = assignments(arguments.set)
        max_hop = MAX_HOP if arguments.max_hop is None else arguments.max_hop
        chosen = (model, max_hop, set_parameters(model, given))
        result, lines = lattice_facts(*chosen), lattice_report(*chosen)
    elif arguments.set or arguments.max_hop is not None:
        raise ConfigError(f"{arguments.model} holds no lattice, which --set and --max-hop need")
    else:
        model = as_chosen(model, arguments.molecules, arguments.amounts)
        model = with_net_laws(model) if arguments.net_laws else model
        result, lines = check_facts(model), description(model)
    print(json.dumps(result, indent=2) if arguments.json else "\n".join(lines))
    if not isinstance(model, Lattice):
        require_method(model, arguments.method)

"""``tauslab run MODEL.bngl --protocol``: the actions of the file, as reports."""

from __future__ import annotations

import argparse
from collections.abc import Collection
from pathlib import Path, PurePosixPath

from tauslab.base.errors import ConfigError, OutputError
from tauslab.base.option_names import opt
from tauslab.decomposition.ranks.all_ranks import ranks
from tauslab.exchange.bngl.protocol import Protocol
from tauslab.exchange.sedml.document import OutputData
from tauslab.exchange.sedml.reports import REPORTS, write_outputs
from tauslab.formats.bionetgen.generate import read_with_actions

# Options of the run that actions cannot give.
_HONOURED = ("n", "device", "seed", "output", "overwrite", "quiet", "protocol")


def run_protocol(arguments: argparse.Namespace, given: Collection[str]) -> list[str]:
    """Run the actions of a file; returns a line for each report.

    Parameters
    ----------
    given
        Names of the options that the command gives.

    Raises
    ------
    ConfigError
        An option is given that actions state, an action is not supported, or several ranks run.
    OutputError
        The reports cannot be written, or are there already.
    """
    path, folder = arguments.model, arguments.output or Path(arguments.model.stem)
    if others := [name for name in given if name not in _HONOURED]:
        raise ConfigError(f"{opt(others[0])} is not for a protocol, whose actions say what to run")
    if ranks().size > 1:
        raise ConfigError(f"{path}: protocols run on one rank")
    if not arguments.overwrite and (folder / REPORTS).exists():
        raise OutputError(f"{folder / REPORTS} exists; {opt('overwrite')} replaces it")
    network, actions = read_with_actions(path)
    options = {"device": arguments.device} if "device" in given else {}
    protocol = Protocol(network, arguments.n or 1, arguments.seed, options)
    try:
        protocol.run(actions)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None
    if not protocol.reports:
        raise ConfigError(f"{path}: none of its actions simulates")
    computed = []
    for one in protocol.reports:
        sets = tuple((name, name, name) for name in one.columns)
        data = [own if len(own) > 1 else own[0] for own in one.columns.values()]
        output = OutputData("SedReport", one.name, sets)
        computed.append((PurePosixPath(path.name), one.name, output, data))
    try:
        lines = write_outputs(folder, computed)
    except OSError as error:
        raise OutputError(f"{folder} cannot be written: {error.strerror or error}") from None
    return [*lines, f"seed {protocol.seed}", *protocol.notes]

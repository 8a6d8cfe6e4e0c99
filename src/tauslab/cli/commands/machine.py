"""Commands about this machine: doctor, bench."""

from __future__ import annotations

import argparse
import json

from tauslab.base.errors import ConfigError
from tauslab.cli.bench import CASES, run_case, table
from tauslab.cli.doctor.report import doctor_json, doctor_report
from tauslab.decomposition.ranks.all_ranks import ranks
from tauslab.decomposition.ranks.launcher import launched_rank
from tauslab.decomposition.ranks.mpi import Communicator


def process_doctor(arguments: argparse.Namespace) -> None:
    """``tauslab doctor``: what this machine offers; of ranks that do not meet, first what it can.

    Raises
    ------
    ConfigError
        The ranks did not find each other.
    """
    try:
        comm, failure = ranks(), None
    except ConfigError as error:
        if launched_rank() > 0:
            raise
        comm, failure = Communicator(), error
    tell = doctor_json if arguments.json else doctor_report
    found = tell(comm, arguments.folder)
    if comm.rank == 0:
        print(json.dumps(found, indent=2) if isinstance(found, dict) else "\n".join(found))
    if failure is not None:
        raise failure


def process_bench(arguments: argparse.Namespace) -> None:
    """``tauslab bench``: known models, timed."""
    comm = ranks()
    for name in arguments.case or ():
        if name not in CASES:
            raise ConfigError(f"--case {name} is not known; cases: {', '.join(CASES)}")
    measured = [
        run_case(
            CASES[name],
            comm,
            device=arguments.device,
            threads=arguments.threads,
            scale=arguments.scale,
            repeat=arguments.repeat,
        )
        for name in arguments.case or CASES
    ]
    if comm.rank == 0:
        print(json.dumps(measured, indent=2) if arguments.json else "\n".join(table(measured)))

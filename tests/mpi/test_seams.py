"""Features together: the digest of a plain run, or one sentence; never a traceback, nothing left.

Every method meets half of these on one rank, the others on two.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytestmark = pytest.mark.mpi

TOGETHER = [
    "sweep+statistics+resume",
    "sweep+append+parts+resume",
    "sweep+species+compress+max-time",
    "species+compress+append+resume",
    "statistics+parts+append",
    "until+compress+resume+max-time",
    "until+statistics+species+resume",
    "until+parts",
]
LATTICES = [
    "hooks+replicas+resume+checkpoint",
    "frames+hop+resume+depth",
    "hooks+frames+counts+resume+rebalance",
]
NO_SWEEP = "--until needs the same values for all trajectories, so no sweep"
NOT_BOTH = "--append and --until exclude each other"
NOT_ODE = "--append and --until need --method ssa, tau or auto, not ode"
NOT_DASK = "--executor dask excludes --append and --until: leave it out"


def wanted(case: str) -> tuple[list[int], str]:
    """Exit codes and outcome of a case."""
    method, _, names = case.partition(":")
    features = names.split("+")
    first = [0] if "append" in features else []
    refusals = {
        NOT_ODE: method == "ode" and ("append" in features or "until" in features),
        NOT_BOTH: "append" in features and "until" in features,
        NO_SWEEP: "sweep" in features and "until" in features,
        NOT_DASK: "dask" in features,
    }
    told = [f"tauslab: {text}" for text, refused in refusals.items() if refused]
    again = [75] if "resume" in features else []
    if told:
        return [*first, *(2 for _ in again), 2], "\n".join([told[0]] * (len(again) + 1))
    return [*first, *again, 0], "same"


@pytest.mark.parametrize("n_ranks", [1, 2])
def test_features_together(mpirun, n_ranks):
    cases = [
        f"{method}:{names}"
        for index, method in enumerate(("ssa", "tau", "fine", "ode"))
        for names in TOGETHER[(index + n_ranks) % 2 :: 2]
    ]
    cases += [f"rdme:{names}" for names in LATTICES]
    cases += ["ssa:until+append", "tau:sweep+until", "ssa:dask+append", "fine:dask+until"]
    program = Path(__file__).with_name("seams_program.py")
    done = mpirun(n_ranks, [program, *cases])
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [case for case, *_ in found] == cases
    wrong = [
        (case, codes, told) for case, codes, told in found if (codes, told.strip()) != wanted(case)
    ]
    assert not wrong


def test_all_ranks_write_one_file_whatever_else_is_asked(mpirun, parallel_h5py):
    together = ("sweep+resume", "append+species+resume", "statistics+compress+append", "until")
    cases = [f"tau:mpio+{names}" for names in together]
    program = Path(__file__).with_name("seams_program.py")
    done = mpirun(2, [program, *cases], env=parallel_h5py)
    for line in done.stdout.splitlines():
        case, codes, told = json.loads(line)
        assert (codes, told) == wanted(case), case
    assert len(done.stdout.splitlines()) == len(cases)

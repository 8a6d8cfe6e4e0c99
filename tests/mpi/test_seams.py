"""Features together: the digest of a plain run, or one sentence; never a traceback, nothing left.

A combination meets one method on two ranks.  With ``-m validate`` every method meets all
combinations: half of them on one rank, the others on two.
"""

from __future__ import annotations

import json
from itertools import zip_longest

import pytest
from places import TESTS

pytestmark = pytest.mark.mpi

TOGETHER = [
    "sweep+statistics+resume",
    "sweep+append+parts+resume",
    "sweep+species+compress+max-time",
    "species+compress+append+resume",
    "statistics+parts+append",
    "until+compress+resume+max-time",
    "until+statistics+species+resume",
    "until+limit+parts+resume",
    "until+limit+compress+species",
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
    refusals = {
        NOT_ODE: method == "ode" and ("append" in features or "until" in features),
        NOT_BOTH: "append" in features and "until" in features,
        NO_SWEEP: "sweep" in features and "until" in features,
        NOT_DASK: "dask" in features,
    }
    message = [f"tauslab: {text}" for text, refused in refusals.items() if refused]
    ends = {"append": 0, "limit": 0, "resume": 75}  # of commands before the last
    codes = [code for feature, code in ends.items() if feature in features] + [0]
    if not message:
        return codes, "same"
    made = 1 if "append" in features else 0  # the result that is to be added to
    refused = len(codes) - made
    return [*codes[:made], *[2] * refused], "\n".join([message[0]] * refused)


def as_wanted(case: str, codes: list[int], told: str, *, in_time: bool) -> bool:
    """Whether it came out so; without `in_time` a run may end before a rank is asked to stop."""
    expected, text = wanted(case)
    if not in_time:
        pairs = zip_longest(expected, codes)
        expected = [0 if pair == (75, 0) else pair[0] for pair in pairs]
    return codes == expected and told.strip() == text


@pytest.mark.parametrize("n_ranks", [1, 2])
@pytest.mark.validate  # a minute of runs
@pytest.mark.parametrize("stride", [4, 2])
def test_features_together(mpirun, n_ranks, stride):
    cases = [
        f"{method}:{names}"
        for index, method in enumerate(("ssa", "tau", "fine", "ode"))
        for names in TOGETHER[(index + n_ranks * stride // 2) % stride :: stride]
    ]
    cases += [f"rdme:{names}" for names in LATTICES]
    cases += ["ssa:until+append", "tau:sweep+until", "ssa:dask+append", "fine:dask+until"]
    program = TESTS / "support" / "programs" / "seams_program.py"
    done = mpirun(n_ranks, [program, *cases], timeout=400)
    actual = [json.loads(line) for line in done.stdout.splitlines()]
    assert [case for case, *_ in actual] == cases
    wrong = [case for case in actual if not as_wanted(*case, in_time=n_ranks == 1)]
    assert not wrong
    requested = sum(75 in wanted(case)[0] for case in cases)
    assert sum(75 in codes for _, codes, _ in actual) > requested / 2


def test_all_ranks_write_one_file_whatever_else_is_asked(mpirun, parallel_h5py):
    together = ("sweep+resume", "append+species+resume", "statistics+compress+append")
    cases = [f"tau:mpio+{names}" for names in together]
    program = TESTS / "support" / "programs" / "seams_program.py"
    done = mpirun(2, [program, *cases], env=parallel_h5py)
    for line in done.stdout.splitlines():
        assert as_wanted(*json.loads(line), in_time=False), line
    assert len(done.stdout.splitlines()) == len(cases)

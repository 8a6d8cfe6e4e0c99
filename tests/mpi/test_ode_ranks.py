"""ODE ensembles give the same bits on any number of ranks."""

from __future__ import annotations

import pytest
from places import TESTS

from tauslab.store.results.digest import digest_lines
from tauslab.store.results.open import open_result

pytestmark = pytest.mark.mpi

MODEL = TESTS / "data" / "sbml" / "lotka_volterra.xml"
RUN = ["-m", "tauslab", "run", MODEL, "--t-end", "2", "--points", "3", "--seed", "5", "-n", "41",
       "--threads", "1", "--method", "ode", "--substeps", "20",
       "--record", "trajectories,statistics,sampled,final"]  # fmt: skip


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_ranks_do_not_change_the_bits(mpirun, tmp_path, device, monkeypatch):
    """Ranks may share a GPU."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")  # of several they would take one each
    more = ["--sample", "c1=uniform(9,11)", "--device", device]
    actual = []
    for ranks in (1, 3):
        path = tmp_path / f"{ranks}.h5"
        mpirun(ranks, [*RUN, *more, "--block", str(ranks), "-o", path])
        with open_result(path) as result:
            assert (result.status == 0).all()
            actual.append(digest_lines(result, None))
    assert actual[0] == actual[1]
    assert "summary/sampled:c1" in [name for name, _ in actual[0]]


def test_bad_input_is_one_sentence(mpirun, tmp_path):
    words = ["--device", "cpu", "--sample", "nothing=uniform(0,1)", "-o", tmp_path / "x.h5"]
    done = mpirun(2, [*RUN, *words], check=False)
    assert done.returncode == 2
    assert done.stderr.count("--sample nothing: neither a parameter nor a species") == 1

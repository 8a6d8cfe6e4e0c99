"""Files of every kind by an earlier version: each opens, and is plotted, exported, completed.

`tests/data/earlier` has them. A digest is what it was.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

import tauslab as ts
from tauslab.api.kinds.registry import kind_at
from tauslab.base.errors import InputFileError
from tauslab.cli.main import main
from tauslab.store.results.digest import digest_total

DATA = Path(__file__).parents[3] / "data" / "earlier"
ONE = {"seed": 1, "device": "cpu"}
TIMES = np.linspace(0, 1, 3)
ALL = "trajectories,statistics,final,histogram:X:0:20:4,summary:mean:X"

WHOLE = {
    "samples": "f0776c74aa5e21abdaeb2e1f7e1c8d181cb0aa30af80d4fb4b384d2386a889a7",
    "sums": "4257db07a40438b8cbfdbb1b129d7328f1b3f7ffc258031cee995102fe343b86",
    "equations": "fd90c5bc197d636c5436000148c10bc17fd1a6d899e0cd3f962223eaa933717c",
    "lattice": "d89b16f65a7a002c6ebe0ed19fc53a7f153385990ae48230e170e805b5a5e79b",
    "dbn": "7496c2cddab2dc5681bd51286dc6031c8716243bafeaebc124b098b25dbdb172",
    "filtered": "9cbc28ce6a68fbbdac209e3d4ddc29c115bbfc6422ccdcbb68dc8df3661abb32",
    "weighted": "4184e551136c553ed06c4881160553aeb5f11f7bfb3fef706e4190996eb2e643",
    "splitting": "cc8f449ef474743ad90a1a344cd32b69a8e167aa5433c4856acffb6e32e3d586",
    "derivatives": "713abce0b4819aed29f9438b016688ae84636ac79eef181c8f8f00fe2d0a64d8",
    "population": "d2353802908f7c9dc4b59290a2b5b788d87c7b73e20121d0deb690631c175f11",
    "derivatives_earlier": "7623eaca64d7c6471a8246586f0d35c15a375f98adaa4b43a3932e14a681a934",
    "hybrid": "711e12ae44efecdce6828be45bcb23f9ee3e17936e411dcdeeee12625e47a61c",
    "abc": "3f86903ed766b90a360d6ab9e8d7a940b7654f1465e55952796d41e534126e6c",
    "chain": "249124df27de944c51989f28ce28e639c11b8984e9f8f3e8ed53a840e1048d5d",
    "cme": "4cce46daa5c8ebf62bf377b5e5c87425577583543f05ca835cc4c4a5e0090284",
    "smc2": "0bc6716bd6be603ea9335686972e6f67fdeec90bd5ea4843e281e64ec640f29f",
    "parts": "fb09eb46ddab0f1a3ac074bdf3955f4a4a3280d836628cc108ddadddcea5b2c2",
    "population_earlier": "9070445dca9a2883cab922c0ed616f9f1fbe3d713ec956663cae228464020432",
}


def immigration():
    net = ts.Network("immigration")
    net.add_species("X", 4)
    net.add_parameter("k", 10.0)
    net.add_reaction("-> X", rate="k")
    net.add_reaction("X ->", rate=0.5)
    return net


def lattice():
    made = ts.Lattice("earlier", shape=(2, 2, 2), spacing=1e-8, step=1e-3, t_end=4e-3,
                      boundary="periodic", slots=8)  # fmt: skip
    made.add_species("A", "B")
    made.add_diffusion("*", 1e-15)
    made.add_reaction("A -> B", rate=100.0)
    made.place("A", count=6)
    return made


# How a run goes on, and the digest of what it then is.
GROWN = {
    "sums_begun": (
        lambda path: ts.run(immigration(), n=8, block=1, times=TIMES, record="statistics",
                            output=path, resume=True, **ONE),
        "dd8a271514b150af09e0583a1bc36f328c99cab30c3abc0a49d19afb2348f085",
    ),
    "lattice_begun": (
        lambda path: ts.run(lattice(), output=path, frame_every=2, resume=True, **ONE),
        "195c510bc158df337f850af558805070112b2622dfc5b327d80fd14ae34b4ada",
    ),
    "samples": (
        lambda path: ts.run(immigration(), times=TIMES, append=4, record=ALL, output=path, **ONE),
        "e4ef09ba6db63a435a2d691622fe6e48f0d73ffe0ce7b9282de1e2f502a26f4c",
    ),
    "sums": (
        lambda path: ts.run(immigration(), times=TIMES, append=4, record="statistics",
                            sweep={"k": [5.0, 10.0]}, output=path, **ONE),
        "1840e964e517bbfe9cf3b3cea0a01019efa72ebf798b85b12a1544ffae40dd5c",
    ),
}  # fmt: skip


def digest(path):
    return digest_total(kind_at(path).digest(path, None))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", WHOLE)
def test_a_result_is_read_drawn_and_exported(name, tmp_path, capsys):
    path = DATA / f"{name}.h5"
    assert digest(path) == WHOLE[name]
    assert main(["info", str(path)]) == 0
    assert main(["plot", str(path), "-o", str(tmp_path / "a.png")]) == 0
    assert main(["export", str(path), "-o", f"{tmp_path}/a{kind_at(path).suffix}"]) == 0
    capsys.readouterr()


@pytest.mark.parametrize("name", GROWN)
def test_a_run_goes_on(name, tmp_path):
    go_on, expected = GROWN[name]
    shutil.copytree(DATA, tmp_path, dirs_exist_ok=True)
    path = tmp_path / f"{name}.h5"
    go_on(path).close()
    assert digest(path) == expected


def test_a_filter_goes_on(tmp_path):
    data = {"time": np.array([0.5, 1.0]), "X": np.array([5, 7])}
    given = {"set": {"k": np.linspace(5.0, 12.0, 8)}, "observe": {"X": "poisson"}, "n": 8}
    path = shutil.copy(DATA / "filter_state.h5", tmp_path)
    actual = ts.particle_filter(immigration(), data, **given, checkpoint=path, **ONE)
    assert (
        actual.log_likelihood
        == ts.particle_filter(immigration(), data, **given, **ONE).log_likelihood
    )


def test_a_checkpoint_is_no_result():
    with pytest.raises(InputFileError, match=r"a checkpoint: repeat .* with checkpoint=.*state"):
        ts.open(DATA / "filter_state.h5")
    with pytest.raises(InputFileError, match=r"Ensemble\.save wrote Ensemble\.load reads"):
        ts.open(DATA / "filter_state.h5")


def test_what_is_absent_is_refused_in_a_sentence():
    with (
        ts.open(DATA / "sums.h5") as result,
        pytest.raises(InputFileError, match="no /statistics/sumcube_lo: an earlier version"),
    ):
        result.skewness("X")
    with (
        ts.open(DATA / "lattice.h5") as result,
        pytest.raises(InputFileError, match=r"no /waiting: tauslab 0\.1\.0 \(bits 2\) wrote it"),
    ):
        result.waiting  # noqa: B018

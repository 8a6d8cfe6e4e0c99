"""``tauslab precompile``: a run afterwards compiles nothing."""

from __future__ import annotations

import pytest
from cuda_usage import require_nvrtc
from places import ROOT

from tauslab.cli.main import main
from tauslab.kernels.backends import CudaTarget, cache, cuda_target
from tauslab.runner import precompile

SCHLOGL = str(ROOT / "examples" / "schlogl.xml")
CUBE = str(ROOT / "examples" / "michaelis_menten_cube.toml")


@pytest.fixture(autouse=True)
def _empty_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TAUSLAB_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def compilations():
    """How many files compilers have begun."""
    begun: list[bool] = []
    cache.listeners.append(begun.append)
    yield lambda: sum(begun)
    cache.listeners.remove(begun.append)


@pytest.mark.parametrize(
    ("verb", "words"),
    [
        ("run", [SCHLOGL, "--t-end", "1", "-n", "100", "--record", "statistics"]),
        *(
            ("run", [SCHLOGL, "--t-end", "1", "-n", "3", "--method", method])
            for method in ("tau", "auto", "ode")
        ),
        ("rdme", [CUBE, "--t-end", "0.001"]),
    ],
)
def test_a_run_afterwards_compiles_nothing(verb, words, capsys, compilations):
    words = [*words, "--device", "cpu", "--seed", "1"]
    assert main(["precompile", *words]) == 0
    made = compilations()
    assert made > 0
    files = "1 kernel file" if made == 1 else f"{made} kernel files"
    assert f"{files} compiled" in capsys.readouterr().out
    assert main([verb, *words, "--quiet"]) == 0
    assert compilations() == made
    assert main(["precompile", verb, *words]) == 0
    assert "0 kernel files compiled" in capsys.readouterr().out


def test_kernels_for_any_number_of_trajectories(compilations):
    words = [SCHLOGL, "--t-end", "0.1", "--device", "cpu", "--threads", "2", "--seed", "1",
             "--record", "statistics"]  # fmt: skip
    assert main(["precompile", *words]) == 0
    made = compilations()
    for n in ("1", "10", "1000"):
        assert main(["run", *words, "-n", n, "--quiet", "--overwrite"]) == 0
    assert compilations() == made


def test_a_gpu_of_another_machine_needs_nvrtc(monkeypatch, capsys):
    monkeypatch.setattr(cuda_target, "supported_architectures", list)
    assert main(["precompile", "--arch", "90", SCHLOGL, "--t-end", "1"]) == 1
    assert "needs CuPy with NVRTC: pip install" in capsys.readouterr().err


def test_kernels_for_an_architecture_need_no_device(tmp_path, capsys):
    require_nvrtc()
    words = [SCHLOGL, "--t-end", "1", "-n", "1e6", "--record", "statistics"]
    assert main(["precompile", "--arch", "90", "--ranks", "10", *words]) == 0
    assert capsys.readouterr().out.startswith("sm_90: 2 kernel files compiled")
    assert len(list((tmp_path / "cache").rglob("*.cubin"))) == 2
    assert main(["precompile", "--arch", "90", *words]) == 0
    assert capsys.readouterr().out.startswith("sm_90: 0 kernel files compiled")


def test_pilots_run_on_the_cpu_for_another_device(capsys, monkeypatch):
    require_nvrtc()
    compiled = []
    monkeypatch.setattr(precompile, "_alternatives", lambda task: compiled.append(task) or ())
    words = [SCHLOGL, "--t-end", "1", "-n", "3", "--method", "auto", "--seed", "1"]
    assert main(["precompile", "--arch", "90", *words]) == 0
    assert len(compiled) == 1


def test_an_unknown_architecture_is_refused(capsys):
    require_nvrtc()
    assert main(["precompile", "--arch", "5", SCHLOGL, "--t-end", "1"]) == 2
    assert "compiles for no architecture 5: it knows" in capsys.readouterr().err


def test_a_model_is_wanted(capsys):
    assert main(["precompile", "--arch", "90"]) == 2
    assert "give a model" in capsys.readouterr().err


def test_the_target_has_all_that_a_backend_has():
    from tauslab.kernels.backends.base import Backend

    wanted = {name for name in (*vars(Backend), *Backend.__annotations__) if name[:1] != "_"}
    target = CudaTarget.__new__(CudaTarget)
    assert not {n for n in wanted if not hasattr(target, n)} - {"multiprocessors", "fast_memory"}

"""Which engine a run has, how it is asked for, and what its file says."""

from __future__ import annotations

import pytest
from lattice_run_factory import digest, model, run

import tauslab as ts
from tauslab.base.errors import ConfigError, ModelError, StoppedEarly


def engine_in(path) -> str:
    with ts.open(path) as result:
        return str(result.attributes["engine"])


def test_a_run_has_the_engine_that_is_asked_for(tmp_path):
    actual = {}
    for engine in ("auto", "planes", "slots"):
        path = tmp_path / f"{engine}.h5"
        run(path, engine=engine).close()
        actual[engine] = engine_in(path), digest(path)
    assert actual["auto"] == actual["planes"]
    assert actual["planes"][0] == "planes"
    assert actual["slots"][0] == "slots"
    assert actual["slots"][1] != actual["planes"][1]


def test_a_hook_that_does_nothing_changes_no_bit(tmp_path):
    run(tmp_path / "a.h5", hooks=[(50, lambda _: None)]).close()
    run(tmp_path / "b.h5").close()
    assert engine_in(tmp_path / "a.h5") == "planes"
    assert digest(tmp_path / "a.h5") == digest(tmp_path / "b.h5")


def test_what_planes_lack_is_named():
    lattice = model()
    lattice.add_species(*(f"S{i}" for i in range(6)))
    with pytest.raises(ModelError, match="planes have at most 8 species, and here are 9"):
        run(lattice=lattice, engine="planes")


def test_a_run_goes_on_with_the_engine_that_it_began_with(tmp_path):
    whole, path = tmp_path / "whole.h5", tmp_path / "a.h5"
    run(whole, engine="slots").close()
    requested = iter(range(100))
    with pytest.raises(StoppedEarly):
        run(path, engine="slots", stop=lambda: next(requested) > 1)
    with pytest.raises(ConfigError, match="begun in slots"):
        run(path, resume=True, engine="planes")
    run(path, resume=True).close()
    assert digest(path) == digest(whole)


@pytest.mark.validate
def test_a_sweep_goes_on_with_the_engines_that_it_began_with(tmp_path):
    points = {"sweep": {"k": [100.0, 800.0]}}
    for engine in ("slots", "auto"):
        whole, path = tmp_path / f"{engine}.h5", tmp_path / f"{engine} stopped.h5"
        run(whole, engine=engine, **points).close()
        asked = iter(range(100))
        with pytest.raises(StoppedEarly):
            run(path, engine=engine, stop=lambda asked=asked: next(asked) > 8, **points)
        run(path, resume=True, **points).close()
        assert (engine_in(path), digest(path)) == (engine, digest(whole))

"""Files say which versions of the program wrote them."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace

import h5py
import numpy as np
import pytest
from pairs_factory import run
from sample_job import digest, sample_job
from sampling import ordinary

import tauslab as ts
from tauslab._version import BITS_VERSION as NOW
from tauslab.runner.ensemble import task
from tauslab.store.format import versions
from tauslab.store.results.info import describe
from tauslab.store.results.open import open_result
from tauslab.store.writers.admission import warn_of_other_bits
from tauslab.store.writers.parts import PartsOptions

VIEW = PartsOptions(segment_bytes=750, merge_bytes=0)
OWN = versions.this_program()
DATA = Path(__file__).parents[3] / "data"


def writers_in(path):
    with open_result(path) as result:
        return versions.writers_of(result.data)


@pytest.mark.parametrize(
    ("first", "then", "parts"),
    ordinary([(1, 1, None), (2, 2, None), (1, 2, None), (2, 1, VIEW)], (1, 1, None), (2, 1, VIEW)),
)
def test_a_resumed_file_names_both_versions(tmp_path, monkeypatch, first, then, parts):
    job, path = sample_job(), tmp_path / "a.h5"
    with monkeypatch.context() as other:
        other.setattr(versions, "__version__", "0.0.9")
        job.run(path, first, stop_after=2)
        old = versions.this_program()
    assert writers_in(path) == (old,)
    job.run(path, then, resume=True, parts=parts)
    assert writers_in(path) == (old, OWN)
    job.run(tmp_path / "b.h5", 1)
    assert digest(path) == digest(tmp_path / "b.h5")


def test_a_file_that_an_earlier_version_began_is_completed(tmp_path):
    """It has no list of versions; `sample_job` began it by the version before such lists."""
    job, path = sample_job(), tmp_path / "a.h5"
    shutil.copy(DATA / "ensembles" / "earlier_begun.h5", path)
    with h5py.File(path) as file:  # NumPy's powers differ in the last bit between processors
        written = np.repeat(file["progress/blocks"][:] != 0, 3)[: job.layout.n]
        job.arrays["observables"][written] = file["observables"][:][written]
    job.run(path, resume=True)
    job.run(tmp_path / "b.h5")
    assert digest(path) == digest(tmp_path / "b.h5")
    assert writers_in(path) == ()


def test_an_enlarged_file_names_both_versions_and_other_bits_are_reported(tmp_path, monkeypatch):
    path = tmp_path / "a.h5"
    with monkeypatch.context() as earlier:
        earlier.setattr(versions, "BITS_VERSION", NOW - 1)
        run(n=4, output=path, record="final").close()
    run(n=4, output=tmp_path / "b.h5", record="final").close()
    with monkeypatch.context() as other:
        other.setattr(versions, "BITS_VERSION", NOW + 1)
        run(append_to=6, output=path).close()  # of ensembles no bits changed
        other.setitem(versions.BITS_SINCE, "ensemble", NOW + 1)
        with pytest.warns(UserWarning, match=f"bits of version {NOW}"):
            run(append_to=8, output=tmp_path / "b.h5").close()
    both = tuple(f"{ts.__version__} (bits {bits})" for bits in (NOW - 1, NOW + 1))
    assert writers_in(path) == both
    with open_result(path) as result:
        assert result.attributes["bits_version"] == NOW - 1  # of the first block
        assert ", ".join(writers_in(path)) in describe(result)[0]


def test_a_run_until_a_precision_keeps_the_version_of_its_first_block(tmp_path, monkeypatch):
    path, until = tmp_path / "a.h5", "mean(X) rel 1e-9"
    with monkeypatch.context() as earlier:
        earlier.setattr(versions, "BITS_VERSION", NOW - 1)
        with pytest.warns(UserWarning, match="was not met"):
            run(n=4, until=until, output=path).close()
    with pytest.warns(UserWarning, match="was not met"):
        run(n=8, until=until, output=path, resume=True).close()
    with h5py.File(path) as file:
        assert file.attrs["bits_version"] == NOW - 1


def test_a_stopped_run_of_other_bits_is_completed_with_a_warning(tmp_path, monkeypatch):
    job, path = sample_job(), tmp_path / "a.h5"
    job.run(path, stop_after=2)
    monkeypatch.setattr(versions, "BITS_VERSION", NOW + 1)
    monkeypatch.setitem(versions.BITS_SINCE, "ensemble", NOW + 1)
    with pytest.warns(UserWarning, match=f"bits of version {NOW}"):
        job.run(path, resume=True)


def test_rates_that_follow_the_time_have_other_bits_since_they_are_thinned(tmp_path, monkeypatch):
    path, net = tmp_path / "a.h5", ts.Network("forced")
    net.add_species("X", 5)
    net.add_reaction("-> X", law="1 + sin(time)")
    chosen = {"times": [1.0], "seed": 1, "device": "cpu"}
    with monkeypatch.context() as earlier:
        earlier.setattr(versions, "BITS_VERSION", 4)
        ts.run(net, **chosen, n=4, output=path).close()
    with pytest.warns(UserWarning, match="bits of version 4"):
        ts.run(net, device="cpu", append_to=6, output=path).close()


@pytest.mark.parametrize("law", ["piecewise(1, X < 2, -X)", "1 - X"])
def test_equations_with_conditions_have_other_bits_since_version_9(
    tmp_path, monkeypatch, recwarn, law
):
    path, net = tmp_path / "a.h5", ts.Network("switched")
    net.add_species("X", 0.5)
    net.add_species("Y", 0)
    net.add_rate("X", law)
    net.add_reaction("-> Y", rate=1.0)
    with ts.run(net, times=[1.0], device="cpu", method="ode") as result:
        assert (versions.CONDITIONS in result.attributes) == ("<" in law)
    with monkeypatch.context() as earlier:
        earlier.setattr(versions, "BITS_VERSION", 8)
        ts.run(net, times=[1.0], seed=1, device="cpu", n=4, output=path).close()
    ts.run(net, device="cpu", append_to=6, output=path).close()
    message = [str(one.message) for one in recwarn]
    assert any("bits of version 8" in one for one in message) == ("<" in law)


@pytest.mark.parametrize("law", ["exp(-(V - 5)^2)", "1", "exp(-(time - p)^2)"])
def test_clocks_have_other_bits_since_version_10(tmp_path, monkeypatch, recwarn, law):
    path, net = tmp_path / "a.h5", ts.Network("clocked")
    net.add_species("V", 0)
    net.add_species("X", 0)
    net.add_parameter("p", 1)
    net.add_rate("V", "1")
    net.add_reaction("-> X", law=law)
    each = {"sweep": {"p": [1, 2]}} if "p)" in law else {}  # whose pulses move
    with ts.run(net, times=[1.0], device="cpu", method="ode", **each) as result:
        assert (versions.CLOCKS in result.attributes) == (law != "1")
    with monkeypatch.context() as earlier:
        earlier.setattr(versions, "BITS_VERSION", 9)
        ts.run(net, times=[1.0], seed=1, device="cpu", n=4, output=path, **each).close()
    ts.run(net, device="cpu", append_to=6, output=path).close()
    message = [str(one.message) for one in recwarn]
    assert any("bits of version 9" in one for one in message) == (law != "1")


@pytest.mark.parametrize(
    ("equations", "since", "event"),
    [("ode", 13, False), ("ode", 1, True), ("langevin", 9, False)],
)
def test_hybrids_have_other_bits_since_their_jumps_happen_so(equations, since, event, recwarn):
    net = ts.Network("gene")
    net.add_species("G", 1)
    net.add_species("M", 0)
    net.add_reaction("G -> G + M", rate=5, name="make")
    net.add_reaction("G ->", rate=0.1)
    if event:
        net.add_event("wash", time=0.5, assignments={"M": "0"})
    method = ts.Partitioned(**{equations: "make"}, jump="*", pilot=0)
    made = ts.run(net, method=method, times=[1.0], n=1, seed=1, device="cpu").attributes
    for before in range(1, NOW + 1):
        recwarn.clear()
        held = {**made, versions.BITS: before}
        warn_of_other_bits(Path("a.h5"), held, SimpleNamespace(attributes=made))
        assert [f"version {before}," in str(one.message) for one in recwarn] == (
            [True] if before < since else []
        )


@pytest.mark.parametrize("law", ["exp(-((X - 5) / 0.01)^2)", "if(X > 5, 1, 0)"])
def test_narrow_pulses_of_amounts_have_other_bits_since_version_12(law):
    net = ts.Network("fall")
    net.add_species("X", 10)
    net.add_species("Y", 0)
    net.add_reaction("X ->", law="1.0", name="fall")
    net.add_reaction("-> Y", law=law)
    for method in ("ode", ts.Partitioned(ode="fall", jump="*", pilot=0)):
        result = ts.run(net, times=[9.0], n=1, seed=1, device="cpu", method=method)
        assert result.attributes["conditions"] == (versions.PULSES if "exp" in law else "1")
        held = {k: v for k, v in result.attributes.items() if k != "conditions"}
        with pytest.warns(UserWarning, match="its trajectories are of both"):
            warn_of_other_bits(Path("a.h5"), held, SimpleNamespace(attributes=result.attributes))


@pytest.mark.validate
@pytest.mark.parametrize("integrated", [True, False])
def test_networks_that_are_thinned_only_now_are_enlarged_with_a_warning(
    tmp_path, monkeypatch, recwarn, integrated
):
    """Earlier programs integrated such rates in networks of 128 reactions or more."""
    path, net = tmp_path / "a.h5", ts.Network("forced")
    net.add_species("X", 5)
    net.add_reaction("-> X", law="1 + sin(time)")
    with monkeypatch.context() as then:
        if integrated:
            then.setattr(task, "LARGEST_WITH_EVENTS", 0)
        ts.run(net, times=[1.0], seed=1, device="cpu", n=4, output=path).close()
    ts.run(net, device="cpu", append_to=6, output=path).close()
    message = [str(one.message) for one in recwarn]
    assert any(f"bits of version {NOW}" in one for one in message) == integrated


@pytest.mark.parametrize("fixed", [True, False])
def test_pulses_that_unchanged_species_move_have_other_bits_since_version_16(
    tmp_path, monkeypatch, recwarn, fixed
):
    path, net = tmp_path / "a.h5", ts.Network("moved")
    net.add_species("S", 2, fixed=fixed)
    net.add_species("X", 0)
    net.add_reaction("-> X", law="100 * exp(-((time - 3 * S) / 0.05)^2)")
    given = {"seed": 1, "device": "cpu", "method": "tau", "output": path}
    with monkeypatch.context() as earlier:
        earlier.setattr(versions, "BITS_VERSION", 15)
        ts.run(net, times=[7.0], n=4, **given).close()
    ts.run(net, device="cpu", append_to=6, output=path).close()
    assert any("bits of version 15" in str(one.message) for one in recwarn) == (not fixed)


@pytest.mark.parametrize("triggered", [True, False])
def test_events_at_times_beside_triggers_have_other_bits_since_version_18(
    tmp_path, monkeypatch, recwarn, triggered
):
    path, net = tmp_path / "a.h5", ts.Network("mixed")
    net.add_species("X", 0)
    net.add_reaction("-> X", rate=1.0)
    net.add_event("first", time=0.5, assignments={"X": "X + 1"})
    if triggered:
        net.add_event("second", trigger="time > 0.6", assignments={"X": "2 * X"})
    with monkeypatch.context() as earlier:
        earlier.setattr(versions, "BITS_VERSION", 17)
        ts.run(net, times=[1.0], seed=1, device="cpu", n=4, output=path).close()
    ts.run(net, device="cpu", append_to=6, output=path).close()
    assert any("bits of version 17" in str(one.message) for one in recwarn) == triggered

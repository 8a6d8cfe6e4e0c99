"""Many filters and chains at once, and those that were ended and go on."""

from __future__ import annotations

import math
import shutil

import h5py
import numpy as np
import pytest
from reference_ensembles import case, course, network

import tauslab as ts
from tauslab.analysis.filters.filtering import ParticleFilters
from tauslab.analysis.filters.walk import Walk

NAN = math.nan


def births():
    net = ts.Network("births")
    net.add_species("X", 10)
    net.add_parameter("k", 4.0)
    net.add_parameter("sd", 2.0)
    net.add_parameter("wide", "2 * sd")
    net.add_reaction("-> X", rate="k")
    net.add_reaction("X ->", rate=0.2)
    return net


DATA = {"time": [0.0, 1.5, 3.0, 4.5, 7.0], "X": [10.0, 14.5, NAN, 12.0, 15.0]}
OBSERVE = {"X": "normal(sd=2.5)"}


def filters(values=None, n=40, **given):
    given = {"observe": OBSERVE, "seed": 3, "device": "cpu", "set": values, **given}
    return ts.particle_filters(births(), DATA, n=n, **given)


@pytest.mark.parametrize("given", [
    {}, {"resample": "multinomial", "threshold": 1.0}, {"initial": {"X": "poisson(9)"}},
])  # fmt: skip
def test_each_has_the_bits_that_it_has_alone(given):
    rates = [0.5, 4.0, 300.0, 3.0]
    many = filters({"k": rates, "sd": 1.5}, states=True, **given)
    later = filters({"k": rates[2:], "sd": 1.5}, number=2, **given)
    assert (later.log_likelihood == many.log_likelihood[2:]).all()
    for number, rate in enumerate(rates):
        alone = ts.particle_filter(
            births(), DATA, observe=OBSERVE, n=40, seed=3,
            set={"k": 4.0 if number == 1 else np.full(40, rate), "sd": 1.5},
            device="cpu", number=number, **given,
        )  # fmt: skip
        assert (alone.terms == many.terms[number]).all()
        assert np.array_equal(alone.mean, many[number].mean, equal_nan=True)
        assert np.array_equal(alone.sd, many[number].sd, equal_nan=True)
        assert (alone.effective_size == many.effective_size[number]).all()
    assert len(many) == 4
    assert many.log_likelihood[1] > many.log_likelihood[0]
    assert many.to_xarray()["mean"].dims == ("filter", "time", "species")


def test_their_mean_is_the_likelihood():
    """400 filters of 50 particles: four standard errors of their mean, a false alarm 0.006 %."""
    actual = case("immigration_death_normal")
    data, observe, initial = course(actual)
    many = ts.particle_filters(
        network(actual), data, observe=observe, initial=initial, n=50, filters=400, seed=2,
        device="cpu",
    )  # fmt: skip
    ratios = np.exp(many.log_likelihood - actual["exact"])
    assert abs(ratios.mean() - 1) < 4 * ratios.std() / math.sqrt(400)
    assert np.isnan(many.mean).all()


def test_one_that_has_no_likelihood_leaves_the_others():
    data = {"time": [1.0, 2.0, 3.0], "X": [10, 30, 2]}
    many = ts.particle_filters(
        births(), data, observe={"X": "binomial(p=0.9)"}, n=20, seed=1, device="cpu",
        set={"k": [0.0, 40.0, 0.0]}, states=True,
    )  # fmt: skip
    assert many.log_likelihood[[0, 2]].tolist() == [-math.inf] * 2
    assert math.isfinite(many.log_likelihood[1])
    assert np.isnan(many.mean[0, 1:]).all()
    assert np.isfinite(many.mean[1]).all()
    none = ts.particle_filters(
        births(), data, observe={"X": "binomial(p=0.9)"}, n=20, filters=2, seed=1, device="cpu",
        set={"k": 0.0},
    )  # fmt: skip
    assert none.log_likelihood.tolist() == [-math.inf] * 2


def test_parameters_of_a_noise_that_follow_from_others():
    """`wide` is 2 sd, of each filter its own."""
    named = filters({"sd": [1.0, 2.5, 4.0]}, observe={"X": "normal(wide)"})
    for number, sd in enumerate((2.0, 5.0, 8.0)):
        alone = filters({}, filters=1, number=number, observe={"X": f"normal({sd})"})
        assert alone.log_likelihood[0] == named.log_likelihood[number]


def test_what_cannot_be():
    for given, message in (
        ({"set": {"k": 1.0}}, "the number of filters"),
        ({"set": {"k": [1.0, 2.0]}, "filters": 3}, "2 and 3"),
        ({"set": {"k": [1.0]}, "number": 2**40}, "number"),
        ({"set": {"k": [1.0]}, "resample": "best"}, "systematic"),
        ({"set": {"k": [1.0]}, "n": 0}, "n"),
        ({"set": {"k": [1.0]}, "quantiles": [0.5, 1.0]}, "quantiles=1 .* 0.999999"),
        ({"set": {"k": [1.0]}, "observe": lambda *_: np.full(40, NAN)}, "particle 0 is nan"),
    ):
        with pytest.raises(ts.ConfigError, match=message):
            filters(**given)
    with pytest.raises(ts.ConfigError, match="particle_filters"):
        ts.particle_filter(births(), DATA, observe=OBSERVE, n=9, set={"k": [1, 2]})
    with pytest.raises(ts.DeviceError, match="TiB on the device"):
        filters({}, filters=10**6, n=10**6)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"k": [1, 2, -3, -4]}, r"row 2 \(k = -3\): reaction R1: its rate constant is -3"),
        ({"k": [1, NAN, 3], "sd": 1.0}, r"row 1 \(k = nan\): parameter k cannot be nan"),
        ({"k": [1, 2, 3, math.inf]}, r"row 3 \(k = inf\)"),
        ({"k": [1, 2], "sd": [-1, 2]}, r"row 0 \(k = 1, sd = -1\): observe X: sd of normal"),
        ({"X": [1, 2, 3e9]}, r"row 2 \(X = 3e\+09\): species X: initial amount"),
        ({"K": [1, 2]}, r"set\['K'\]: births has no .*sd, wide; species: X; .*mean 'k'"),
        ({"k": [[1, 2], [3, 4]]}, r"one per filter, not an array of shape \(2, 2\)"),
        ({"k": []}, r"one per filter, not an array of shape \(0,\)"),
    ],
)
def test_a_bad_row_is_named(parameters, message):
    with pytest.raises((ts.ConfigError, ts.ModelError), match=message):
        filters(parameters, observe={"X": "normal(sd)"})


def test_what_is_wrong_with_all_rows_names_none():
    with pytest.raises(ts.ConfigError, match=r"^observe X: sd of normal cannot be -1$"):
        filters({"k": [1, 2], "sd": -1.0}, observe={"X": "normal(sd)"})


def test_a_row_that_overflows_has_no_likelihood():
    net = ts.Network("growth")
    net.add_species("X", 10)
    net.add_parameter("k", 0.1)
    net.add_reaction("X -> 2 X", rate="k")
    actual = ts.particle_filters(
        net, {"time": [1.0, 2.0], "X": [11, 12]}, observe={"X": "normal(3)"}, n=20, seed=1,
        set={"k": [0.1, 40.0, 0.2]}, method="tau", device="cpu", states=True,
    )  # fmt: skip
    assert np.isfinite(actual.log_likelihood).tolist() == [True, False, True]
    assert np.isfinite(actual.mean[[0, 2]]).all()


def test_noises_go_with_their_particles(tmp_path, monkeypatch):
    """Parameters of the noise are copied as those of the model: the likelihood is a mean over them.

    Nothing moves, so that it is exact but for what systematic resampling rounds.
    """
    net = ts.Network("still")
    net.add_species("X", 10)
    net.add_parameter("sd", 1.0)
    net.add_parameter("wide", "2 * sd")
    net.add_reaction("X ->", rate=1e-12)
    data = {"time": [1, 2, 3, 4], "X": [10, 10.5, 8, 11]}
    sds = np.repeat([1.0, 4.0], 1000)
    given = {"n": 2000, "seed": 1, "device": "cpu", "threshold": 1.0, "set": {"sd": sds}}
    for noise, factor in (("normal(sd)", 1.0), ("normal(wide)", 2.0)):
        z = (np.array(data["X"])[:, None] - 10) / (factor * sds)
        exact = np.exp(-0.5 * z**2).prod(axis=0) / (factor * sds) ** 4 / (2 * np.pi) ** 2
        actual = ts.particle_filter(net, data, observe={"X": noise}, **given)
        assert actual.log_likelihood == pytest.approx(math.log(exact.mean()), abs=1e-3)
    again = {**given, "observe": {"X": "normal(wide)"}, "checkpoint": tmp_path / "n.h5"}
    with monkeypatch.context() as patch:
        ending(patch, ParticleFilters, "_step", 3)
        with pytest.raises(EndedError):
            ts.particle_filter(net, data, **again, checkpoint_every=0)
    assert (ts.particle_filter(net, data, **again).terms == actual.terms).all()


@pytest.mark.parametrize("method", ["ssa", "ode"])
def test_noises_by_amounts_at_the_start_go_on(tmp_path, monkeypatch, method):
    """Copied particles keep the noise of the one that began: it is no longer in the ensemble."""
    net = births()
    given = {
        "observe": {"X": "normal(X)"}, "n": 8, "seed": 3, "device": "cpu", "threshold": 1.0,
        "method": method, "set": {"X": np.arange(1.0, 9)},
    }  # fmt: skip
    whole = ts.particle_filter(net, DATA, **given)
    given |= {"checkpoint": tmp_path / "n.h5", "checkpoint_every": 0}
    with monkeypatch.context() as patch:
        ending(patch, ParticleFilters, "_step", 3)
        with pytest.raises(EndedError):
            ts.particle_filter(net, DATA, **given)
    old = tmp_path / "old.h5"
    shutil.copy(tmp_path / "n.h5", old)
    with h5py.File(old, "r+") as file:
        del file["more/constant_X"]
    with pytest.raises(ts.InputFileError, match="old"):
        ts.particle_filter(net, DATA, **given | {"checkpoint": old})
    actual = ts.particle_filter(net, DATA, **given)
    assert actual.terms.tolist() == whole.terms.tolist()


def test_means_only_where_they_are_wanted():
    given = {"observe": OBSERVE, "n": 50, "seed": 1, "device": "cpu"}
    whole = ts.particle_filter(births(), DATA, **given)
    plain = ts.particle_filter(births(), DATA, **given, states=False)
    assert plain.terms.tolist() == whole.terms.tolist()
    assert np.isnan(plain.mean).all()
    assert np.isfinite(whole.mean).all()


class EndedError(Exception):
    """A process that is killed."""


def ending(monkeypatch, kind, name, after):
    """Let the method of a class fail at its call `after`."""
    usual, calls = getattr(kind, name), []

    def step(self, *given):
        calls.append(1)
        if len(calls) > after:
            raise EndedError
        return usual(self, *given)

    monkeypatch.setattr(kind, name, step)


@pytest.mark.parametrize("rows", [1, 3])
def test_filters_that_were_ended_go_on(tmp_path, monkeypatch, rows):
    given = {"states": True, "initial": {"X": "poisson(9)"}, "quantiles": [0.1, 0.9]}
    whole = filters({"k": [3.0, 5.0, 80.0]}, **given)
    given |= {"checkpoint": tmp_path / "f.h5", "checkpoint_every": 0}
    with monkeypatch.context() as patch:
        ending(patch, ParticleFilters, "_step", rows)
        with pytest.raises(EndedError):
            filters({"k": [3.0, 5.0, 80.0]}, **given)
        again = [rows]
    for _ in range(2):  # it goes on, and what is finished is given at once
        with monkeypatch.context() as patch:
            ending(patch, ParticleFilters, "_step", 5 - again.pop() if again else 0)
            actual = filters({"k": [3.0, 5.0, 80.0]}, **given)
        for name in ("terms", "mean", "sd", "effective_size", "log_likelihood", "quantiles"):
            assert np.array_equal(getattr(actual, name), getattr(whole, name), equal_nan=True)
    for more in ({"set": {"k": [3.0, 5.0, 81.0]}}, {"quantiles": [0.1, 0.8]}):
        with pytest.raises(ts.ConfigError, match="begun with another model"):
            filters(**{"set": {"k": [3.0, 5.0, 80.0]}, **given, **more})
    (tmp_path / "f.h5").write_bytes(b"none")
    with pytest.raises(ts.InputFileError, match="is not an HDF5"):
        filters({"k": [3.0, 5.0, 80.0]}, **given)


def chains(**given):
    given = {"n": 10, "chains": 3, "steps": 14, "warm_up": 32, "seed": 5, "device": "cpu", **given}
    priors = {"k": "loguniform(0.5,20)", "sd": "uniform(0.5,6)"}
    return ts.pmmh(births(), DATA, priors, observe={"X": "normal(wide)"}, **given)


def test_chains_side_by_side(tmp_path, monkeypatch):
    many = chains(start={"k": [2.0, 4.0, 8.0]})
    assert many.values.shape == (3, 14, 2)
    assert many["k"].shape == many.log_likelihood.shape == many.accepted.shape == (3, 14)
    assert not (many.values[1] == many.values[2]).all()
    assert math.isnan(many.effective_size("k"))  # a chain never moved in its 14 steps
    assert many.to_xarray()["k"].dims == ("chain", "step")
    file = {"checkpoint": tmp_path / "c.h5", "checkpoint_every": 0}
    file["start"] = {"k": [2.0, 4.0, 8.0]}
    for steps in (27, 9):  # in the warm-up, where the proposal adapts, and after it
        with monkeypatch.context() as patch:
            ending(patch, Walk, "_move", steps)
            with pytest.raises(EndedError):
                chains(**file)
    assert (chains(**file).values == many.values).all()
    longer = chains(**{**file, "steps": 17})
    assert (longer.values[:, :14] == many.values).all()
    assert longer.values.shape == (3, 17, 2)
    with pytest.raises(ts.ConfigError, match="one per chain"):
        chains(chains=2, start={"k": [1, 2, 3]})
    with pytest.raises(ts.ConfigError, match="begun with another"):
        chains(**{**file, "n": 16})


def test_chains_end_at_a_target(tmp_path):
    given = {"warm_up": 20, "steps": 400, "checkpoint": tmp_path / "c.h5"}
    actual = chains(target_ess=20.0, **given)
    steps = actual.accepted.shape[1]
    assert 50 <= steps < 400
    assert steps % 25 == 0
    for name in ("k", "sd"):
        assert actual.effective_size(name) > 15  # 20 on the scale of the walk
        assert actual.rhat(name) < 1.06
        assert actual.quantile(name, 0) <= actual.mean(name) <= actual.quantile(name, 1)
        assert actual.sd(name) > 0
    again = chains(target_ess=20.0, **given)  # from the file, at once
    assert again.digest() == actual.digest()
    more = chains(**{**given, "steps": steps + 5})
    assert (more.values[:, :steps] == actual.values).all()
    with pytest.warns(UserWarning, match="target_ess=1e\\+06"):
        chains(target_ess=1e6, **{**given, "steps": steps + 5})


def test_chains_tell_how_they_mix(capsys):
    chains(warm_up=6, steps=44, quiet=False)
    assert "50/50 steps (100 %)" in (message := capsys.readouterr().err)
    assert "effective size" in message
    assert "R-hat" in message


def test_chains_as_arviz_takes_them():
    actual = chains(warm_up=0, steps=6)
    groups = actual.to_arviz(DATA)
    assert groups["posterior"]["k"].dims == ("chain", "draw")
    assert (groups["posterior"]["k"].values == actual["k"]).all()
    assert (groups["sample_stats"]["lp"].values == actual.log_likelihood).all()
    seen = groups["observed_data"]["X"].values.tolist()
    assert seen == pytest.approx(DATA["X"], nan_ok=True)


@pytest.mark.gpu
def test_the_same_bits_on_a_gpu():
    rates = np.linspace(1, 8, 50)
    actual = [filters({"k": rates}, states=True, device=device) for device in ("cpu", "cuda")]
    assert (actual[0].terms == actual[1].terms).all()
    assert np.array_equal(actual[0].mean, actual[1].mean, equal_nan=True)


class Guessing(ParticleFilters):
    """Filters that launch copies before they know whether they want them, as on a GPU."""

    guesses = True
    made, used = 0, 0

    def begin(self):
        super().begin()
        self._guesses = self.guesses

    def _resample_ahead(self):
        super()._resample_ahead()
        if self._ahead is not None:
            ancestors = self._particles.ancestors_on_host(self._ahead[0])
            assert ((ancestors >= 0) & (ancestors < self._particles.n)).all()
            Guessing.made += 1

    def resample(self, going):
        ahead = self._ahead
        super().resample(going)
        Guessing.used += ahead is not None and self._resampled


def filling():
    """Particles above 12 have a negative propensity, and end."""
    net = ts.Network("fills")
    net.add_species("X", 5)
    net.add_reaction("-> X", law="0.1 * (13 - X)")
    net.add_reaction("-> X", rate=0.01)
    return net


def absorbed():
    net = ts.Network("decay")
    net.add_species("X", 3)
    net.add_reaction("X ->", rate=0.4)
    return net


# Model, sizes below which particles are resampled, and the least and most that are in vain.
AHEAD = {
    "always": (births, 1.0, {}, 0, 0), "sometimes": (births, 0.7, {}, 1, 4),
    "ended": (filling, 1.0, {}, 0, 9), "absorbed": (absorbed, 0.9, {}, 0, 9),
    "values of each": (births, 0.9, {"set": {"k": np.linspace(2, 6, 200)}}, 0, 9),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:.*ended before a row")
@pytest.mark.parametrize("name", AHEAD)
def test_copies_that_are_launched_ahead_have_the_same_bits(name, monkeypatch):
    model, threshold, given, least, most = AHEAD[name]
    data = {"time": np.arange(1.0, 13.0), "X": [12, 13, 11, 9, 12, 14, 10, 9, 12, 11, 10, 12]}
    monkeypatch.setattr("tauslab.api.inference.particles.ParticleFilters", Guessing)
    actual = []
    for guesses in (False, True):
        monkeypatch.setattr(Guessing, "guesses", guesses)
        Guessing.made = Guessing.used = 0
        result = ts.particle_filter(
            model(), data, observe={"X": "normal(sd=3)"}, n=200, seed=4, device="cpu",
            threshold=threshold, **given,
        )  # fmt: skip
        actual.append((result.terms, result.mean, result.sd, result.effective_size))
    for one, other in zip(*actual, strict=True):
        assert np.array_equal(one, other, equal_nan=True)
    assert Guessing.used > 0
    assert least <= Guessing.made - Guessing.used <= most


def test_copies_are_launched_ahead_of_what_no_particle_can_give(monkeypatch):
    monkeypatch.setattr("tauslab.api.inference.particles.ParticleFilters", Guessing)
    data = {"time": [1.0, 2.0, 3.0, 4.0], "X": [4, 6, 500, 7]}
    actual = []
    for guesses in (False, True):
        monkeypatch.setattr(Guessing, "guesses", guesses)
        Guessing.made = 0
        result = ts.particle_filters(
            births(), data, observe={"X": "binomial(0.5)"}, n=60, seed=4, device="cpu",
            threshold=1.0, set={"k": [3.0, 500.0]},
        )  # fmt: skip
        actual.append(result.terms.tolist())
    assert actual[0] == actual[1]
    assert np.isfinite(result.log_likelihood).tolist() == [False, True]
    assert Guessing.made > 1

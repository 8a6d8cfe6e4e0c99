"""Options of a run: what is read, and what is refused in one sentence."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from tauslab import ConfigError
from tauslab.options.ensemble import Options
from tauslab.options.record import HistogramSpec, Record
from tauslab.options.values.sample_times import even_times, sample_times
from tauslab.options.values.texts import assignments, read_times

TIMES = np.array([0.0, 1.0])


def test_record_reads_words_and_histograms():
    record = Record.parse("statistics,final,histogram:X:0:800:100")
    assert record == Record(
        statistics=True, final=True, histograms=(HistogramSpec("X", 0.0, 800.0, 100),)
    )
    assert Record.parse(["trajectories"]) == Record(trajectories=True)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "''"),
        ("trajectory", "trajectory"),
        ("histogram:X", "histogram:SPECIES:LO:HI:BINS"),
        ("histogram:X:5:5:10", "LO must be less"),
        ("histogram:X:0:inf:10", "finite"),
        ("histogram:X:0:nan:10", "LO must be less"),
        ("histogram:X:0:10:0", "bins"),
        ("histograms:X:0:10:4", "histograms"),
    ],
)
def test_record_refuses(text, word):
    with pytest.raises(ConfigError, match=word.replace("(", r"\(")):
        Record.parse(text)


def test_sample_times_include_both_ends():
    assert sample_times(None, 10.0, 5).tolist() == [0, 2.5, 5, 7.5, 10]
    assert len(sample_times(None, 10.0)) == 101
    assert sample_times(None, None, 2, model_t_end=4.0).tolist() == [0, 4]
    assert sample_times([0.5, 3]).tolist() == [0.5, 3.0]  # 0 is not added


@pytest.mark.parametrize("end", [0.7, 2.5, 3.0, 58.0, 70.0, 72.0, 1e-3])
def test_even_times_are_the_numbers_that_a_user_writes(end):
    for count in (2, 11, 101, 121, 1001):
        written = [float(Fraction(str(end)) * k / (count - 1)) for k in range(count)]
        assert even_times(0.0, end, count).tolist() == written
    assert even_times(1.0, 58.0, 58).tolist() == list(range(1, 59))
    assert (even_times(0.0, np.pi, 9) == np.linspace(0.0, np.pi, 9)).all()  # too many digits


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ((None, 0.0), "t_end="),
        ((None, -1.0), "t_end="),
        ((None, float("nan")), "t_end="),
        ((None, float("inf")), "t_end="),
        ((None, 1.0, 1), "points="),
        ((None,), "t_end=10"),
        (([1.0, 1.0],), "increase"),
        (([2.0, 1.0],), "number 2"),
        (([-1.0, 1.0],), "-1"),
        (([0.0, float("nan")],), "nan"),
        (([],), "one or more"),
        ((["a"],), "numbers"),
        (([0.0, 1.0], 5.0), "not both"),
    ],
)
def test_sample_times_refuse(arguments, word):
    with pytest.raises(ConfigError, match=word):
        sample_times(*arguments)


def test_times_file(tmp_path):
    path = tmp_path / "times.txt"
    path.write_text("# seconds\n0\n0.5  # half\n\n1e1\n")
    assert read_times(path).tolist() == [0.0, 0.5, 10.0]
    path.write_text("0\nhalf\n")
    with pytest.raises(ConfigError, match=r"times.txt.: line 2: 'half'"):
        read_times(path)
    path.write_text("1\n1\n")
    with pytest.raises(ConfigError, match=r"times.txt.: .*increase"):
        read_times(path)
    with pytest.raises(ConfigError, match="No such file"):
        read_times(tmp_path / "none.txt")


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"n": 0}, "n=0"),
        ({"n": 2**41}, "n="),
        ({"seed": -1}, "seed="),
        ({"seed": 2**64}, "seed="),
        ({"block": 0}, "block="),
        ({"max_steps": 0}, "max_steps="),
        ({"threads": -1}, "threads="),
        ({"device": "tpu"}, "tpu"),
        ({"species": ()}, "species="),
        ({"resume": True}, "resume=True"),
        ({"set": {"k": float("nan")}}, "k cannot be nan"),
        ({"set": {"k": np.ones(3)}}, r"k: give one value or one per trajectory \(1000\)"),
    ],
)
def test_options_refuse(settings, word):
    with pytest.raises(ConfigError, match=word):
        Options(times=TIMES, **settings)


def test_values_by_name_may_come_from_a_file(tmp_path):
    path = tmp_path / "values.csv"
    path.write_text("# measured\nk1, 0.5\nA = 20  # molecules\n\n")
    assert assignments(["k1=3", f"@{path}", "A=7"]) == {"k1": 3.0, "A": 7.0}
    path.write_text("k1,0.5\nk2\n")
    with pytest.raises(ConfigError, match=r"values.csv.*: line 2: 'k2' is not NAME=VALUE"):
        assignments([f"@{path}"])
    with pytest.raises(ConfigError, match=r"set=.*none.csv.: this file cannot be read"):
        assignments([f"@{tmp_path / 'none.csv'}"])

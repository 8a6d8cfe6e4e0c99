"""What is said of other programs is judged by a rule, and counted by one."""

from __future__ import annotations

import conventions
import first_picture
import numpy as np
import pytest


def test_the_exact_mean_is_that_of_the_master_equation():
    """By the first two terms of its series: pairs of A, then what the first has taken away."""
    a = conventions.RATE * conventions.MOLECULES * (conventions.MOLECULES - 1)
    left = conventions.RATE * 98 * 97
    for factor in (0.5, 1.0):
        first = factor * a
        second = first * factor * (left - a) / 2
        assert conventions.exact(factor) == pytest.approx(first + second, rel=1e-3)


def test_counts_are_judged():
    rng = np.random.default_rng(1)
    for factor, law in ((1.0, "k x (x - 1)"), (0.5, "c x (x - 1) / 2"), (0.75, "neither")):
        counts = rng.poisson(conventions.exact(factor), 2000)
        assert conventions.judged(counts) == law


def test_ours_is_half():
    name, _, counts = conventions.by_tauslab(2000)
    assert name.startswith("tauslab")
    assert conventions.judged(counts) == "c x (x - 1) / 2"


@pytest.mark.parametrize("program", conventions.PROGRAMS[:-1], ids=lambda made: made.__name__)
@pytest.mark.validate
def test_the_others_take_what_the_pages_say(program):
    try:
        _, _, counts = program(2000)
    except ImportError as error:
        pytest.skip(str(error))
    assert conventions.judged(counts) == "k x (x - 1)"


def test_statements_are_counted_within_loops_too():
    assert first_picture.statements("a = 1\nfor b in c:\n    d = 2\n    e(b)\n") == 4


def test_every_job_of_ours_is_shorter_than_that_of_others():
    for job in first_picture.JOBS:
        texts = {name: first_picture.program(name, job) for name in first_picture.PACKAGES}
        sizes = {name: first_picture.statements(text) for name, text in texts.items() if text}
        assert sizes["tauslab"] == min(sizes.values())


def test_a_job_draws_a_picture(tmp_path):
    pytest.importorskip("matplotlib")
    text = first_picture.program("tauslab", "one")
    assert first_picture.seconds(text, tmp_path, tmp_path / "cache") > 0

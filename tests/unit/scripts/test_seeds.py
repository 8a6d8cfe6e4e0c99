"""Answers to many seeds: in processes, kept from run to run, within a time."""

from __future__ import annotations

import time

import pytest
from sampling import ordinary
from seeds import answers


def half(name, seed):
    return [name, seed / 2]


def slow(seed):
    time.sleep(0.05)
    return seed


@pytest.mark.parametrize("jobs", [1, 2])
def test_answers_are_those_of_all_keys_in_order(jobs):
    requested = [("a", 1), ("b", 2), ("a", 3)]
    assert answers(half, requested, jobs=jobs) == {key: half(*key) for key in requested}


def test_what_is_kept_is_not_asked_again(tmp_path):
    keep = tmp_path / "keep.jsonl"
    first = answers(half, [("a", 1)], keep=keep)
    with keep.open("a", encoding="utf-8") as file:
        file.write('[["a", 2], "kept"]\n[["a", 3], "cu')
    actual = answers(half, [("a", 1), ("a", 2), ("a", 3)], keep=keep)
    assert actual == {**first, ("a", 2): "kept", ("a", 3): ["a", 1.5]}
    assert len(keep.read_text(encoding="utf-8").splitlines()) == 3


@pytest.mark.parametrize("jobs", ordinary([1, 2], 1))
def test_after_the_time_no_seed_begins(jobs):
    actual = answers(slow, [(seed,) for seed in range(1000)], jobs=jobs, seconds=0.3)
    assert len(actual) < 1000
    assert actual == {(seed,): seed for (seed,) in actual}

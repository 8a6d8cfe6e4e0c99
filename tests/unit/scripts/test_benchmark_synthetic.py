"""The script that times random synthetic models: every test is a model, the figures add up."""

from __future__ import annotations

import json

import pytest

import tauslab as ts


@pytest.fixture
def script(monkeypatch):
    import benchmark_synthetic

    return benchmark_synthetic


def test_the_eight_tests_are_those_of_the_paper(script):
    """35 reactions of 33 species, and 80 of 80."""
    assert [t.number for t in script.TESTS] == list(range(1, 9))
    for test in script.TESTS:
        network = ts.random_network(
            species=test.species, reactions=test.reactions, initial=test.initial, rates=test.rates
        )
        assert (len(network.reactions), len(network.species)) in {(35, 33), (80, 80)}


@pytest.mark.validate
def test_a_small_run_of_two_tests(script, tmp_path, capsys):
    path = tmp_path / "synthetic.json"
    options = ["--models", "2", "-n", "4", "--t-end", "0.05", "--method", "auto", "--device", "cpu",
               "--max-steps", "50000"]  # fmt: skip
    assert script.main(["--test", "3", "--test", "5", *options, "-o", str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    assert {line.count("|") for line in lines} == {11}
    rows = json.loads(path.read_text())
    assert [row["test"] for row in rows] == [3, 5]
    for row in rows:
        mean, spread = row["compute"]
        assert 0 < mean < row["wall"][0]
        assert spread > 0
        assert 0 <= row["given_up"] <= 8
        assert row["leaped"] == 0, "too little work to compile leaps for"

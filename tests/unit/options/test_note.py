"""``--note``: an option of one field, which all that options do knows from its definition."""

from __future__ import annotations

import pytest

import tauslab as ts
from tauslab.cli.main import main

NOTE = "pulse at 5 min, \N{GREEK SMALL LETTER MU} = 2"


def run(**options):
    net = ts.Network("decay")
    net.add_species("X", 20)
    net.add_reaction("X ->", rate=1.0)
    return ts.run(net, times=[0.0, 1.0], seed=5, n=20, device=ts.CPU(threads=1), **options)


def test_a_file_keeps_it_through_all_that_is_done_to_the_file(tmp_path, capsys):
    path, again = tmp_path / "a.h5", tmp_path / "again.h5"
    run(note=NOTE, output=path).close()
    run(output=path, resume=True).close()
    run(output=path, resume=True, note="another").close()  # the numbers are the same: not refused
    assert main(["info", str(path)]) == 0
    assert f"note = {NOTE}" in capsys.readouterr().out
    assert main(["run", str(path), "--quiet", "--device", "cpu", "-o", str(again)]) == 0
    with ts.open(again) as result:
        assert result.attributes["note"] == NOTE


def test_a_file_without_one_is_as_before(tmp_path):
    with run(output=tmp_path / "a.h5") as result:
        assert "note" not in result.attributes
    with run(output=tmp_path / "b.h5", note=None, first_point=None) as result:
        assert "note" not in result.attributes


def test_the_command_line_has_it(tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(["run", "--help"])
    assert "--note TEXT" in capsys.readouterr().out


@pytest.mark.parametrize("note", ["two\nlines", "x" * 1001, 7])
def test_what_is_no_line_is_refused(note):
    with pytest.raises(ts.ConfigError, match="note=: a line of at most 1000 characters"):
        run(note=note)

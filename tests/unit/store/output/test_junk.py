"""Another program writes over the file of a run, or removes it: a sentence that names it."""

from __future__ import annotations

import os

import numpy as np
import pytest
from pairs_factory import pairs

from tauslab.api.api import ranks
from tauslab.base.errors import OutputError
from tauslab.options.ensemble import Options
from tauslab.options.record import Record
from tauslab.runner.ensemble.entry import run_network


def overwrite(path, start, data):
    with path.open("r+b") as file:
        file.seek(start)
        file.write(data)


HARM = {
    "zeros": lambda path: overwrite(path, 0, bytes(path.stat().st_size)),
    "cut": lambda path: os.truncate(path, path.stat().st_size // 2),
    "inside": lambda path: overwrite(path, 900, np.random.default_rng(1).bytes(3000)),
    "gone": lambda path: path.unlink(),
}


@pytest.mark.usefixtures("one_block_launches")
@pytest.mark.parametrize("harm", HARM)
def test_a_file_that_is_harmed_while_it_is_written_is_named(tmp_path, harm):
    path, requested = tmp_path / "a.h5", []
    options = Options(
        np.array([0.0, 1.0, 2.0]), seed=3, device="cpu", output=path, n=60, block=20, quiet=True,
        record=Record.parse("trajectories,statistics"),
    )  # fmt: skip

    def stop():
        requested.append(1)
        if len(requested) == 2:
            HARM[harm](path)
        return False

    with pytest.raises(OutputError, match=r"a\.h5"):
        run_network(pairs(), options, ranks(), stop)

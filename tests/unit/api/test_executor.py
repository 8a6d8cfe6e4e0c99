"""Who runs an ensemble is chosen above MPI ranks and Dask workers alike."""

from __future__ import annotations

import subprocess
import sys


def test_a_run_on_ranks_loads_nothing_of_dask():
    program = (
        "import sys, tauslab as ts\n"
        "from tauslab.cli import main\n"
        "loaded = [name for name in sys.modules if name.startswith('tauslab.runner.dask.')]\n"
        "assert not loaded, loaded\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)

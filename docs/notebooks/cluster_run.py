# %% [markdown]
# # A run on a cluster
#
# A run on a cluster needs a batch script, and a result file that can be completed after a time limit. This notebook shows both without a cluster. Commands are written as in a shell; the function `run` executes them.

# %%
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

folder = Path(tempfile.mkdtemp())
model = folder / "gene.toml"
model.write_text("""
t_end = 50
[species]
M = 0
[[reactions]]
equation = "-> M"
rate = 4
[[reactions]]
equation = "M ->"
rate = 0.5
""")


def run(command: str) -> str:
    words = [sys.executable, "-m", *shlex.split(command)]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout


# %% [markdown]
# The batch script for four nodes with eight GPUs each:

# %%
script = run(
    "tauslab slurm --nodes 4 --gpus-per-node 8 -- run gene.toml -n 1e8 --record statistics"
)
print("\n".join(line for line in script.splitlines() if line.startswith(("#SBATCH", '"${launch'))))

# %% [markdown]
# A smaller run of the same kind, on this machine. On 32 GPUs its digest would be the same.

# %%
small = run("tauslab run gene.toml -n 2000 --seed 1 -o gene.h5 --quiet")
print(run("tauslab digest gene.h5").splitlines()[-1])

# %% [markdown]
# `--append` adds trajectories to a finished file. The result is the same as if all had been requested at the start.

# %%
more = run("tauslab run gene.toml --append 1000 -o gene.h5 --quiet")
whole = run("tauslab run gene.toml -n 3000 --seed 1 -o whole.h5 --quiet")
grown, at_once = (run(f"tauslab digest {name}.h5").splitlines()[-1] for name in ("gene", "whole"))
print(grown == at_once)
assert grown == at_once

# %% [markdown]
# `--resume` completes a run that stopped at its time limit, on any number of MPI ranks: [clusters](../clusters.md).

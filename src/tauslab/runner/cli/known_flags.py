"""Options of ``tauslab run`` and ``rdme``: a slip is seen before anything is imported.

Written by ``scripts/docs/reference.py``.
"""

from __future__ import annotations

KNOWN = frozenset((
    "--amounts", "--append", "--append-to", "--atol", "--block", "--checkpoint-every",
    "--checkpoint-steps", "--common", "--compress", "--count-every", "--cross-check",
    "--dask-tls-ca", "--dask-tls-cert", "--dask-tls-key", "--delay-history", "--delay-queue",
    "--design", "--device", "--epsilon", "--executor", "--first", "--first-point",
    "--frame-every", "--halo", "--halo-depth", "--help", "--json", "--max-hop", "--max-steps",
    "--max-time", "--method", "--molecules", "--mpi-hint", "--net-laws", "--note",
    "--ode-balance", "--ode-layout", "--ode-memory-warps", "--ode-solver", "--ode-warps",
    "--output", "--overwrite", "--points", "--post-leap-check", "--precision",
    "--presimulation", "--quiet", "--rebalance-every", "--record", "--replicas", "--resume",
    "--rtol", "--sample", "--sbatch", "--scheduler", "--seed", "--selector", "--set",
    "--share-gpu", "--slabs", "--species", "--substeps", "--sweep", "--t-end", "--table",
    "--team", "--threads", "--times", "--until", "--verbose", "--workers", "--writer", "-h",
    "-n", "-o",
))  # fmt: skip

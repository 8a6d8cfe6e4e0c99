"""Writes a result in memory to a file, as its run would have."""

from __future__ import annotations

from pathlib import Path

from tauslab.base.errors import ConfigError, OutputError
from tauslab.options.values.result_name import require_result_name
from tauslab.store.format.statistics import stored_accumulators
from tauslab.store.hdf5.disk import Disk
from tauslab.store.results.ensemble_data import EnsembleData
from tauslab.store.targets import require_place
from tauslab.store.writers.join import ResultPiece, join_files


def save_result(
    result: EnsembleData, path: Path, *, overwrite: bool = False, compress: int = 0
) -> Path:
    """See `Result.save`."""
    if result.path is not None:
        raise ConfigError(f"{result.path} holds this result already: copy the file")
    if result.layout is None:
        raise ConfigError("this result was not made by a run: there is nothing to save it from")
    if not 0 <= compress <= 9:
        raise ConfigError(f"compress = {compress}: a level of gzip is 1 to 9, or 0 for none")
    require_result_name(path)
    require_place(path)
    if not result.saves:  # all ranks have the same result: the first writes
        return path
    if path.exists() and not overwrite:
        raise OutputError(f"{path} exists; overwrite=True replaces it")
    piece = ResultPiece(result.data, result.n)
    totals = stored_accumulators(result.layout, result.data)
    run = str(result.attributes["run"])
    join_files(path, result.layout, [piece], totals, run, Disk(), compress, whole=True)
    return path

"""Refusal of names of tables and pictures for results."""

from __future__ import annotations

from pathlib import Path

from tauslab.base.errors import ConfigError
from tauslab.base.option_names import opt, said

_TABLES = (".csv", ".tsv", ".txt", ".xls", ".xlsx", ".parquet", ".json", ".npy", ".npz")
_PICTURES = (".png", ".pdf", ".svg", ".jpg", ".gif")


def require_result_name(path: Path) -> None:
    """Refuse the name of a table or a picture as that of a result, and say how to get one.

    Raises
    ------
    ConfigError
        Names the two commands, or the two calls.
    """
    suffix = path.suffix.lower()
    if suffix not in _TABLES + _PICTURES:
        return
    result, table = path.with_suffix(".h5"), path.with_suffix(".csv")
    if suffix in _PICTURES:
        then = said(f"tauslab plot {result} -o {path}", f'result.plot(path="{path}")')
    else:
        then = said(f"tauslab export {result} -o {table}", f'result.to_pandas().to_csv("{table}")')
    raise ConfigError(
        f"{opt('output', path)}: a result is an HDF5 file: "
        f"give {opt('output', result)}, then {then}"
    )

"""Commands that read a result: info, digest, merge, plot, export."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from tauslab.api.kinds.kind import MOVIE, View
from tauslab.api.kinds.registry import kind_at
from tauslab.base.errors import ConfigError, InputFileError, TauslabError
from tauslab.base.files.opening import reading
from tauslab.cli.pipes import STANDARD, printed_table
from tauslab.cli.tools import making_new
from tauslab.options.values.result_name import require_result_name
from tauslab.options.values.texts import names
from tauslab.store.targets import require_no_input


def process_info(arguments: argparse.Namespace) -> None:
    """``tauslab info``: what a result file holds."""
    kind = kind_at(arguments.file)
    if arguments.json:
        print(json.dumps(kind.facts(arguments.file), indent=2))
    else:
        print("\n".join(kind.lines(arguments.file)))


def process_digest(arguments: argparse.Namespace) -> None:
    """``tauslab digest``: SHA-256 per dataset, the total last; of several files the totals."""
    from tauslab.store.results.digest import digest_total

    lines = {path: _digests(path, arguments.species) for path in arguments.files}
    totals = {path: digest_total(of_file) for path, of_file in lines.items()}
    facts = [{"datasets": dict(lines[path]), "total": totals[path]} for path in lines]
    if arguments.json:
        several = {str(path): own for path, own in zip(lines, facts, strict=True)}
        print(json.dumps(several if len(arguments.files) > 1 else facts[0], indent=2))
    elif len(arguments.files) > 1:
        print("\n".join(f"{total} {path}" for path, total in totals.items()))
    else:
        ((path, own),) = lines.items()
        print("\n".join(f"{digest} {name}" for name, digest in [*own, ("total", totals[path])]))
    if len(set(totals.values())) > 1:
        raise TauslabError("these results differ")


def _digests(path: Path, species: str | None) -> list[tuple[str, str]]:
    with reading(path, InputFileError):
        kind, chosen = kind_at(path), names(species) if species else None
        if chosen and not kind.parts:
            View(species=tuple(chosen)).require_known((), path, kind.noun)
        return list(kind.digest(path, chosen))


def process_merge(arguments: argparse.Namespace) -> None:
    """``tauslab merge``: one file in place of a view of parts, or of the files of an array."""
    from tauslab.cli.merge import NOTHING_TO_MERGE, merge, merge_points
    from tauslab.cli.merge_lattices import merge_replicas
    from tauslab.store.results.lattice.result import is_lattice_result

    files, output = arguments.files, arguments.output
    if output is None and (len(files) > 1 or arguments.incomplete):
        raise ConfigError("several files are merged into a new one: give it by -o FILE")
    if output is None:
        with reading(files[0], InputFileError):
            if is_lattice_result(files[0]):
                raise ConfigError(
                    f"{files[0]} is the one file of a lattice run: {NOTHING_TO_MERGE}"
                )
            print(merge(files[0], arguments.compress))
        return
    require_result_name(output)
    require_no_input(output, files)
    with making_new(output, overwrite=arguments.overwrite), reading(files[0], InputFileError):
        join = merge_replicas if is_lattice_result(files[0]) else merge_points
        print(join(files, output, arguments.compress, incomplete=arguments.incomplete))


def process_plot(arguments: argparse.Namespace) -> None:
    """``tauslab plot``: a picture of a result file, by default named after it and the kind."""
    path = arguments.output or arguments.file.with_suffix(_picture_suffix(arguments.kind))
    with making_new(path, overwrite=arguments.overwrite):
        kind, view = kind_at(arguments.file), _view(arguments)
        view.require_known(kind.of_pictures, arguments.file, kind.noun)
        kind.plot(arguments.file, path, view)
    print(path)


def _picture_suffix(kind: str | None) -> str:
    if kind == MOVIE:
        return ".gif"
    return ".png" if kind in (None, "auto") else f".{kind}.png"


def process_export(arguments: argparse.Namespace) -> None:
    """``tauslab export``: tables, frames of a lattice for ParaView or napari, networks as BIF."""
    kind, view = kind_at(arguments.file), _view(arguments)
    view.require_known(kind.of_tables, arguments.file, kind.noun)
    if arguments.output == STANDARD:
        with printed_table(kind.suffix) as path:
            kind.export(arguments.file, path, view)
        return
    path = arguments.output or arguments.file.with_suffix(kind.suffix)
    with making_new(path, overwrite=arguments.overwrite):
        kind.export(arguments.file, path, view)
    print(path)


def _view(arguments: argparse.Namespace) -> View:
    """Part of a result that the options of ``plot`` or ``export`` choose."""
    given = {k: v for k, v in vars(arguments).items() if k in View.__dataclass_fields__}
    return View(**given | {"species": names(arguments.species) if arguments.species else ()})

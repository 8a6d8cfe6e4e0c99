"""Commands that read a result: info, digest, merge, plot, report, export."""

from __future__ import annotations

import argparse
import json

from tauslab.api.kinds.kind import MOVIE, View
from tauslab.api.kinds.registry import kind_at
from tauslab.base.errors import ConfigError
from tauslab.base.files.drafts import write_whole
from tauslab.cli.pipes import STANDARD, printed_table
from tauslab.cli.tools import making_new
from tauslab.options.values.texts import names


def process_info(arguments: argparse.Namespace) -> None:
    """``tauslab info``: what a result file holds."""
    kind = kind_at(arguments.file)
    if arguments.json:
        print(json.dumps(kind.facts(arguments.file), indent=2))
    else:
        print("\n".join(kind.lines(arguments.file)))


def process_digest(arguments: argparse.Namespace) -> None:
    """``tauslab digest``: SHA-256 per dataset, the total last."""
    from tauslab.store.results.digest import digest_total

    kind, chosen = kind_at(arguments.file), names(arguments.species) if arguments.species else None
    if chosen and not kind.parts:
        View(species=tuple(chosen)).require_known((), arguments.file, kind.told)
    lines = kind.digest(arguments.file, chosen)
    total = digest_total(lines)
    if arguments.json:
        print(json.dumps({"datasets": dict(lines), "total": total}, indent=2))
    else:
        print("\n".join(f"{digest} {name}" for name, digest in [*lines, ("total", total)]))


def process_merge(arguments: argparse.Namespace) -> None:
    """``tauslab merge``: one file in place of a view of parts."""
    from tauslab.cli.merge import merge

    print(merge(arguments.file, arguments.compress))


def process_plot(arguments: argparse.Namespace) -> None:
    """``tauslab plot``: a picture of a result file."""
    suffix = ".gif" if arguments.kind == MOVIE else ".png"
    path = arguments.output or arguments.file.with_suffix(suffix)
    with making_new(path, overwrite=arguments.overwrite):
        kind, view = kind_at(arguments.file), _view(arguments)
        view.require_known(kind.of_pictures, arguments.file, kind.told)
        kind.plot(arguments.file, path, view)
    print(path)


def process_report(arguments: argparse.Namespace) -> None:
    """``tauslab report``: a page of HTML about a result file."""
    path = arguments.output or arguments.file.with_suffix(".html")
    if path.suffix.lower() not in (".html", ".htm"):
        raise ConfigError(f"{path}: a report is written as .html")
    with making_new(path, overwrite=arguments.overwrite):
        write_whole(path, kind_at(arguments.file).report(arguments.file))
    print(path)


def process_export(arguments: argparse.Namespace) -> None:
    """``tauslab export``: tables, frames of a lattice for ParaView or napari, networks as BIF."""
    kind, view = kind_at(arguments.file), _view(arguments)
    view.require_known(kind.of_tables, arguments.file, kind.told)
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

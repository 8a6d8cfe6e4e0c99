"""One page of HTML about a result: model, settings, numbers, pictures, and where they come from.

The page holds its pictures and needs no other file, no script and no network.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tauslab.base.errors import TauslabError
from tauslab.base.html import definitions, escape, folded, table
from tauslab.formats import read as readers
from tauslab.model.lattice.describe import lattice_html
from tauslab.model.lattice.lattice import Lattice
from tauslab.model.network.network import Network
from tauslab.model.network.text import network_html
from tauslab.store.results.digest import Lines, digest_lines, digest_total
from tauslab.store.results.info import described, span_text
from tauslab.store.results.lattice.digest import lattice_digest_lines
from tauslab.store.results.lattice.recorded import RecordedLattice
from tauslab.store.results.lattice.tables import span
from tauslab.store.results.result import Result
from tauslab.store.results.samples import foremost, has_samples
from tauslab.views.ensemble import plot_result
from tauslab.views.figures import apart
from tauslab.views.lattice import plot_lattice

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST_ROWS = 50
_DIGESTED = 1 << 30  # bytes of a file: of a larger one the digest is left to `tauslab digest`
_DPI = 110
_STYLE = """
:root { color-scheme: light; }
body { font: 15px/1.5 system-ui, sans-serif; color: #1b1b1b; background: #fff; margin: 0 auto;
  padding: 1rem 1.25rem 4rem; max-width: 62rem; }
h1 { font-size: 1.6rem; margin: 1rem 0 .2rem; } h2 { font-size: 1.15rem; margin: 2rem 0 .4rem;
  border-bottom: 1px solid #d8d8d8; padding-bottom: .2rem; }
section { overflow-x: auto; } img { max-width: 100%; height: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th { font-weight: 600; } summary { cursor: pointer; margin: .4rem 0; }
pre { background: #f5f5f5; padding: .6rem .8rem; white-space: pre-wrap; overflow-wrap: anywhere; }
.facts td { overflow-wrap: anywhere; } .rows td { white-space: nowrap; } .note { color: #8a4b00; }
""".strip()

Section = tuple[str, str]  # a heading and HTML


def page(title: str, subtitle: str, sections: Sequence[Section]) -> str:
    """The whole page; a section without content is left out."""
    body = "".join(
        f"<section><h2>{escape(heading)}</h2>{inner}</section>"
        for heading, inner in sections
        if inner
    )
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>"
        f"<body><h1>{escape(title)}</h1><p>{escape(subtitle)}</p>{body}</body></html>\n"
    )


def ensemble_report(result: Result) -> str:
    """The page about an ensemble.

    Raises
    ------
    ConfigError
        No matplotlib.
    """
    pictures = [_picture("what was recorded", lambda: plot_result(result))]
    if not result.swept and len(result.times) > 1 and result.n > 1:
        for caption, kind in (("means", "mean"), ("distributions at the end", "histogram")):
            pictures.append(_picture(caption, partial(plot_result, result, kind)))
    at = f"{result.times[-1]:g} {result.time_unit}".rstrip()
    at += f" ({result.unfinished})" if result.unfinished else ""
    points = f" at each of {result.n_points:,} points" if result.swept else ""
    subtitle = f"{result.n:,} trajectories{points} by {result.method}, seed {result.seed}"
    numbers = f"Numbers at t = {at}", _part(lambda: _numbers(result))
    file = {k: v for k, v in described(result) if k not in _ELSEWHERE}
    return _page_of_run(
        result, subtitle, pictures, numbers, lambda: digest_lines(result), definitions(file)
    )


_ELSEWHERE = ("choices", "command", "method")


def lattice_report(result: RecordedLattice) -> str:
    """The page about a lattice run.

    Raises
    ------
    ConfigError
        No matplotlib.
    """
    pictures = [_picture("particles over time", lambda: plot_lattice(result))]
    if len(result.frame_times) and not result.whole_sweep:
        for caption, kind in (("the last frame", "slice"), ("along the longest axis", "kymograph")):
            pictures.append(_picture(caption, partial(plot_lattice, result, kind)))
    rows = []
    several = result.n_replicas > 1
    for name in result.species[:_MOST_ROWS] if len(result.times) else ():
        counts = result.samples_of(name)
        means = np.atleast_1d(result.mean(name)[..., -1])
        mean = [span_text(means)] if several else []
        rows.append((name, span(counts[..., 0]), span(counts[..., -1]), *mean))
    header = ("species", "at the start", "at the end", *(["mean of replicas"] if several else []))
    numbers = table(header, rows, more=len(result.species) - _MOST_ROWS)
    replicas = f"{result.n_replicas} replicas, " if several else ""
    replicas = f"{result.n_points} points, {replicas}" if result.swept else replicas
    subtitle = f"a lattice run, {replicas}seed {result.seed}"
    lines = partial(lattice_digest_lines, result.path)
    return _page_of_run(result, subtitle, pictures, ("Particles", numbers), lines)


def _page_of_run(
    result: Result | RecordedLattice,
    subtitle: str,
    pictures: Sequence[str],
    numbers: Section,
    lines: Callable[[], Lines],
    file: str = "",
) -> str:
    path, attributes = result.path, result.attributes
    assert path is not None
    digest = "none before the run is complete"
    if result.complete:
        small = path.stat().st_size <= _DIGESTED
        digest = digest_total(lines()) if small else "tauslab digest gives it"
    return page(
        path.name,
        subtitle,
        [
            ("State", _state(result.unfinished)),
            ("Pictures", "".join(pictures)),
            numbers,
            ("Model", _part(lambda: _model(path))),
            ("Settings", _settings(attributes)),
            ("Provenance", _provenance(path, attributes, digest)),
            ("File", file),
        ],
    )


def _state(unfinished: str) -> str:
    """A note that a run is unfinished; nothing where it is complete."""
    if not unfinished:
        return ""
    note = f"This run is unfinished: the page shows what is there so far, {unfinished}."
    return f'<p class="note">{escape(note)}</p>'


def _part(make: Callable[[], str]) -> str:
    """A part of the page, or why it is not there."""
    try:
        return make()
    except TauslabError as error:
        return f'<p class="note">{escape(error)}</p>'


def _picture(caption: str, draw: Callable[[], Figure]) -> str:
    def image() -> str:
        buffer = BytesIO()
        with apart():
            figure = draw()
        figure.savefig(buffer, format="png", dpi=_DPI)
        data = base64.b64encode(buffer.getvalue()).decode()
        width = round(96 * figure.get_figwidth())
        return (
            f'<figure style="margin: 0 0 1.5rem"><img alt="{escape(caption)}" width="{width}" '
            f'src="data:image/png;base64,{data}"></figure>'
        )

    return f"<h3>{escape(caption)}</h3>{_part(image)}"


def _numbers(result: Result) -> str:
    """Mean, deviation and quantiles at the last sample time; of a sweep, their ranges."""
    rows: list[Sequence[str]] = []
    with_quantiles = result.n > 1
    for name in foremost(result)[:_MOST_ROWS]:
        values: list[Any] = [result.mean(name), result.std(name)]
        if with_quantiles and has_samples(result, name):
            levels = result.quantile(name, (0.05, 0.5, 0.95))
            values += [levels[..., level, :] for level in range(3)]
        cells = [span_text(np.atleast_2d(value)[:, -1]) for value in values]
        rows.append([name, *cells, *[""] * (5 - len(cells))])
    header = ("quantity", "mean", "standard deviation", "5 %", "median", "95 %")
    shown = table(header, rows, more=len(foremost(result)) - _MOST_ROWS)
    summaries = []
    for name in result.summaries[:_MOST_ROWS]:
        moments = result.summary_moments(name)
        means, deviations = (np.atleast_1d(value) for value in (moments.mean, moments.std))
        numbers = f"{int(np.sum(moments.n)):,}"
        summaries.append((name, numbers, span_text(means), span_text(deviations)))
    return shown + table(("summary", "numbers", "mean", "standard deviation"), summaries)


def _model(path: Path) -> str:
    model = readers.read(path)
    assert isinstance(model, Network | Lattice)
    return network_html(model) if isinstance(model, Network) else lattice_html(model)


def _settings(attributes: Mapping[str, Any]) -> str:
    rows = [(k, v) for k, v in sorted(attributes.items()) if k not in _PROVENANCE]
    return folded(f"{len(rows)} settings", table(("name", "value"), rows))


_PROVENANCE = ("tauslab_version", "created", "command", "model_sha256")


def _provenance(path: Path, attributes: Mapping[str, Any], digest: str) -> str:
    facts = {
        "program": f"tauslab {attributes.get('tauslab_version', '?')}",
        "created": attributes.get("created", ""),
        "command": attributes.get("command", ""),
        "seed": attributes.get("seed", ""),
        "model sha256": attributes.get("model_sha256", ""),
        "result sha256": digest,
        "bytes": f"{path.stat().st_size:,}",
    }
    verb = "rdme" if attributes.get("method") == "rdme" else "run"
    again = f"tauslab {verb} {path.name} -o again.h5"
    return definitions(facts) + (
        f"<p>The same command gives the same result sha256 (<code>tauslab digest</code>) on every "
        f"machine. From the file alone: <code>{escape(again)}</code></p>"
    )


def picture_report(
    path: Path,
    kind: str,
    lines: Sequence[str],
    draw: Callable[[], Figure],
    drawn: str = "what was estimated",
) -> str:
    """The page about a result of a `kind`: what ``tauslab info`` says, and its picture."""
    text = f"<pre>{escape(chr(10).join(lines))}</pre>"
    return page(path.name, kind, [("Pictures", _picture(drawn, draw)), ("File", text)])

"""Figures of what `benchmark_halo.py` measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

COLOURS = {"plane": "#4878d0", "column": "#6acc64", "edges": "#ee854a", "arrived": "#d65f5f",
           "sent": "#956cb4", "hops beside": "#82c6e2"}  # fmt: skip
NAMES = {"plane": "hops x, y", "column": "hops z, reactions", "edges": "edge planes",
         "arrived": "wait, take in", "sent": "pack, send",
         "hops beside": "hops x, y beside"}  # fmt: skip
_ON_MAIN_STREAM = {"plane", "column"}

Found = dict[str, Any]


def _rows(found: Found, part: str) -> list[dict[str, Any]]:
    return [row for row in found["rows"] if row["part"] == part]


def draw_links(found: Found, path: Path) -> None:
    """Time and bandwidth of a message by its size."""
    rows = _rows(found, "links")
    if not rows:
        return
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    for transport in sorted({row["transport"] for row in rows}):
        chosen = [row for row in rows if row["transport"] == transport]
        sizes = [row["bytes"] for row in chosen]
        left.loglog(sizes, [row["microseconds"] for row in chosen], "o-", label=transport)
        right.loglog(sizes, [row["gigabytes_per_second"] for row in chosen], "o-", label=transport)
    left.set(xlabel="bytes of a message", ylabel="microseconds to both sides and back")
    right.set(xlabel="bytes of a message", ylabel="GB/s to each side")
    left.legend()
    figure.suptitle(f"{found['ranks']} x {found['device']}")
    figure.savefig(path, dpi=150)
    plt.close(figure)


_TRANSPORTS = {"peer": "#0072B2", "shared": "#E69F00", "host": "#009E73"}
_TITLES = {
    "strong": "strong scaling", "weak": "weak scaling: sites of a GPU",
    "slots8": "strong scaling, 8 slots",
}  # fmt: skip


def draw_scaling(found: Found, path: Path) -> None:
    """Milliseconds a step by ranks, strong and weak; dashed: without sending."""
    parts = [part for part in ("strong", "weak", "slots8") if _rows(found, part)]
    if not parts:
        return
    import matplotlib.pyplot as plt
    from matplotlib.lines import Line2D
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    figure, axes = plt.subplots(
        1, len(parts), figsize=(3.8 * len(parts), 4.2), layout="constrained", squeeze=False
    )
    for axis, part in zip(axes[0], parts, strict=True):
        for key, chosen in _curves(_rows(found, part), part).items():
            lattice, transport = key.rsplit(", ", 1)
            ranks, times = ([row[name] for row in chosen] for name in ("ranks", "ms_per_step"))
            colour = _TRANSPORTS[transport]
            axis.loglog(ranks, times, "o-", markersize=4, color=colour)
            bare = [row.get("ms_without_sending", row["ms_per_step"]) for row in chosen]
            axis.loglog(ranks, bare, "--", color=colour, linewidth=1)
            if transport == "peer":  # once for each lattice, beside its first point
                axis.annotate(lattice, (ranks[0], times[0]), (2, -18 if part == "weak" else 14), fontsize=8,
                              textcoords="offset points")  # fmt: skip
        axis.set(xlabel="GPUs", title=_TITLES[part])
        axis.set_xticks(ranks, [str(n) for n in ranks])
        axis.xaxis.set_minor_locator(NullLocator())
        axis.yaxis.set_major_locator(
            LogLocator(subs=(1, 2, 5) if part == "strong" else range(1, 10))
        )
        axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.yaxis.set_minor_locator(NullLocator())
        axis.margins(x=0.08, y=0.14)
    axes[0][0].set_ylabel("ms a step")
    lines = [Line2D([], [], color=c, marker="o", markersize=4) for c in _TRANSPORTS.values()]
    figure.legend(lines, _TRANSPORTS, loc="outside lower center", ncols=3, frameon=False)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def _curves(rows: list[dict[str, Any]], part: str) -> dict[str, list[dict[str, Any]]]:
    """Rows of a lattice and a transport, with its row of one rank before them."""
    curves: dict[str, list[dict[str, Any]]] = {}
    for row in (r for r in rows if r["ranks"] > 1):
        z, y, x = row["shape"]
        shape = [z // row["ranks"], y, x] if part == "weak" else [z, y, x]
        key = f"{' x '.join(map(str, shape))}, {row['transport']}"
        if key not in curves:
            curves[key] = [r for r in rows if r["ranks"] == 1 and r["shape"] == shape]
        curves[key].append(row)
    return curves


def draw_timeline(found: Found, transport: str, path: Path) -> None:
    """What each rank did when: main stream above, edge stream below."""
    rows = [row for row in _rows(found, "timeline") if row["transport"] == transport]
    if not rows:
        return
    import matplotlib.pyplot as plt
    from matplotlib.patches import Patch

    spans = rows[-1]["spans"]
    figure, axis = plt.subplots(figsize=(10, 1 + 0.7 * len(spans)), layout="constrained")
    for rank, of_rank in enumerate(spans):
        for span in of_rank:
            below = span["name"] not in _ON_MAIN_STREAM
            width = span["end"] - span["begin"]
            axis.barh(2 * rank + 0.8 * below, width, 0.75, left=span["begin"],
                      color=COLOURS[span["name"]])  # fmt: skip
    axis.set_yticks([2 * rank + 0.4 for rank in range(len(spans))],
                    [f"rank {rank}" for rank in range(len(spans))])  # fmt: skip
    axis.invert_yaxis()
    axis.set(xlabel="milliseconds", title=f"{' x '.join(map(str, rows[-1]['shape']))}, {transport}")
    axis.legend(handles=[Patch(color=COLOURS[name], label=NAMES[name]) for name in COLOURS],
                fontsize=7, ncols=6, loc="upper center", bbox_to_anchor=(0.5, -0.25))  # fmt: skip
    figure.savefig(path, dpi=150)
    plt.close(figure)

"""A picture in three dimensions, to be turned with the mouse, as a page of HTML."""

from __future__ import annotations

import html
from pathlib import Path
from typing import TYPE_CHECKING

from tauslab.base.errors import ConfigError
from tauslab.base.files.drafts import write_whole

if TYPE_CHECKING:
    from plotly.graph_objects import Figure


class View3d:
    """A picture in three dimensions, which a notebook shows.

    Attributes
    ----------
    figure
        Plotly's figure, to be changed before it is shown.
    remark
        What was left out; empty if nothing was.
    """

    def __init__(self, figure: Figure, remark: str) -> None:
        self.figure, self.remark = figure, remark

    def __repr__(self) -> str:
        left_out = f": {self.remark}" if self.remark else ""
        return f'<View3d{left_out}; .save("view.html") writes a page>'

    def page(self) -> str:
        """A page of HTML that needs no other file and no network."""
        text: str = self.figure.to_html(include_plotlyjs=True, full_html=True)
        return text

    def _repr_html_(self) -> str:
        # A frame of its own: it works in every notebook, also in one that is exported.
        inner = html.escape(self.page(), quote=True)
        return f'<iframe srcdoc="{inner}" width="100%" height="620" style="border:0"></iframe>'

    def save(self, path: str | Path) -> Path:
        """Write a page of HTML.

        Raises
        ------
        ConfigError
            The name does not end in ``.html``.
        OutputError
            It cannot be written.
        """
        path = Path(path)
        if path.suffix.lower() not in (".html", ".htm"):
            raise ConfigError(f"{path}: a view is written as .html")
        write_whole(path, self.page())
        return path

"""Lines of text that Python and notebooks show as lines."""

from __future__ import annotations

from tauslab.base.html import escape


class Listing(str):
    """A text that is shown as it is, not as a quoted one."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self)}</pre>"

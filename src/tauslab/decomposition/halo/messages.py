"""Edge planes to and from the slabs below and above: one interface for all ways to send them.

A `Halo` numbers its messages 1, 2, ...; for each, `send` packs the slab's edge planes and gives
them to the neighbours, and `wait` puts theirs into the planes that are kept beside the slab. How a
message gets to a neighbour is a `Link`: see `links` for how one is chosen.

A rank packs message n + 2 only when message n + 1 of the same neighbour has come. The neighbour had
unpacked message n before it sent that one. So two places for messages are enough, used in turn.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from tauslab.base.arrays import DeviceArray
from tauslab.kernels.backends.base import Stream

BELOW, ABOVE = 0, 1


class Ranks(Protocol):
    """The part of an mpi4py communicator that is used; a rank has a slab, in the order of ranks."""

    @property
    def rank(self) -> int:
        """Number of this rank."""

    @property
    def size(self) -> int:
        """Number of ranks."""

    def allgather(self, value: Any) -> list[Any]:
        """Every rank's value on every rank."""

    def Barrier(self) -> None:  # noqa: N802 - mpi4py's name
        """Wait for all ranks."""

    def Send_init(self, buf: Any, dest: int, tag: int = 0) -> Any:  # noqa: N802
        """A persistent request to send."""

    def Recv_init(self, buf: Any, source: int, tag: int = 0) -> Any:  # noqa: N802
        """A persistent request to receive."""


class MessageKernels(Protocol):
    """Packs and unpacks messages."""

    @property
    def message_words(self) -> int:
        """64-bit words of a message."""

    def pack(
        self, number: int, targets: Sequence[Any], signals: Sequence[Any], stream: Stream
    ) -> None:
        """Put message `number` into `targets`; then the number into the cells `signals`."""

    def wait(self, number: int, signals: Sequence[Any], stream: Stream) -> None:
        """Let later work on the stream start when all `signals` hold `number`."""

    def unpack(self, sources: Sequence[Any], stream: Stream) -> None:
        """Take in messages of the slabs below and above."""


class Link(ABC):
    """The way to one neighbour and back.

    `name` is the transport's. Memory that a message is packed into, or unpacked from, and the cells
    that signal it complete are device buffers; signals are None where the host sees to it. Where it
    does not, the other methods have nothing to do.
    """

    name: str

    def post(self, number: int) -> None:  # noqa: B027
        """Be ready for message `number`, before it is packed or comes."""

    @abstractmethod
    def target(self, number: int) -> tuple[DeviceArray, DeviceArray | None]:
        """Memory to pack message `number` into, and the cell to signal."""

    def send(self, number: int, stream: Stream) -> None:  # noqa: B027
        """Message `number` is what was packed on the stream; does not block."""

    def depart(self, number: int) -> None:  # noqa: B027
        """Hand message `number` over, if the host has to, when it is packed."""

    def wait(self, number: int, stream: Stream) -> None:  # noqa: B027
        """Let later work on the stream find message `number` in `source`, or its signal there."""

    @abstractmethod
    def source(self, number: int) -> tuple[DeviceArray, DeviceArray | None]:
        """Memory where message `number` arrives, and the cell that is signalled."""

    def close(self) -> None:  # noqa: B027
        """Give everything back."""


class Halo:
    """The messages of one slab.

    Parameters
    ----------
    links
        To the slabs below and above; None where there is none.
    """

    def __init__(
        self,
        kernels: MessageKernels,
        links: Sequence[Link | None],
        close: Callable[[], None] = lambda: None,
    ) -> None:
        self.kernels = kernels
        self.links = tuple(links)
        self._close = close
        self._there = [link for link in links if link is not None]
        self.number = 0  # of the last message sent

    @property
    def transports(self) -> tuple[str | None, str | None]:
        """Names of the transports to the slabs below and above."""
        below, above = (None if link is None else link.name for link in self.links)
        return below, above

    @property
    def on_device(self) -> bool:
        """Return whether the host takes no part, so that launches can be recorded once."""
        return all(link.source(0)[1] is not None for link in self._there)

    def ends(
        self, number: int
    ) -> tuple[Sequence[Any], Sequence[Any], Sequence[Any], Sequence[Any]]:
        """Where message `number` is packed and which cells it signals; the same of arrivals."""
        return (*self._cells(lambda link: link.target(number)),
                *self._cells(lambda link: link.source(number)))  # fmt: skip

    def send(self, stream: Stream) -> None:
        """Pack the edge planes as they are in stream order, and send them; does not block."""
        self.number += 1
        for link in self._there:
            link.post(self.number)
        targets, signals = self._cells(lambda link: link.target(self.number))
        self.kernels.pack(self.number, targets, signals, stream)
        for link in self._there:
            link.send(self.number, stream)

    def wait(self, stream: Stream) -> None:
        """Let later work on the stream find the neighbours' planes of the last message."""
        for link in self._there:
            link.depart(self.number)
        for link in self._there:
            link.wait(self.number, stream)
        sources, signals = self._cells(lambda link: link.source(self.number))
        if any(signal is not None for signal in signals):
            self.kernels.wait(self.number, signals, stream)
        self.kernels.unpack(sources, stream)

    def _cells(self, of: Callable[[Link], tuple[Any, Any]]) -> tuple[list[Any], list[Any]]:
        both = [(None, None) if link is None else of(link) for link in self.links]
        return [memory for memory, _ in both], [signal for _, signal in both]

    def close(self) -> None:
        """Give everything back; collective."""
        for link in self._there:
            link.close()
        self._close()

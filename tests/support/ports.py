"""Ports for servers that are told where to listen."""

from __future__ import annotations

import contextlib
import random
import socket
from collections.abc import Iterator


def free_port() -> int:
    """One on which nobody listens, below those that the system gives to any connection, so that it stays free."""
    while True:
        port = random.randrange(20_000, 32_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


@contextlib.contextmanager
def held_port(address: str = "127.0.0.1") -> Iterator[int]:
    """A port that no other process is given meanwhile. A server that sets `SO_REUSEADDR`, as most do, may listen there.

    Two may be bound to a port as long as only one listens.
    """
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind((address, 0))
        yield int(held.getsockname()[1])

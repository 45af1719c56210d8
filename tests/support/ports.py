"""Ports for servers that are told where to listen."""

from __future__ import annotations

import contextlib
import random
import socket


def free_port() -> int:
    """One on which nobody listens, below those that the system gives to any connection, so that it stays free."""
    while True:
        port = random.randrange(20_000, 32_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port

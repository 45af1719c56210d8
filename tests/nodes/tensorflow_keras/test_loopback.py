"""A server on all interfaces that hears this machine alone."""

from __future__ import annotations

import socket

import psutil
import pytest
from waiting import WAIT_S

from nodes.tensorflow_keras.loopback import is_loopback, only_from_this_machine


def own_addresses() -> list[str]:
    return [
        entry.address
        for entries in psutil.net_if_addrs().values()
        for entry in entries
        if entry.family == socket.AF_INET and not entry.address.startswith("127.")
    ]


@pytest.mark.slow
@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_only_this_machine_is_heard(family: socket.AddressFamily) -> None:
    everywhere = "0.0.0.0" if family == socket.AF_INET else "::"
    dual = family == socket.AF_INET6
    with socket.create_server((everywhere, 0), family=family, dualstack_ipv6=dual) as server:
        port = server.getsockname()[1]
        outside = own_addresses()
        for address in outside:
            socket.create_connection((address, port), timeout=WAIT_S).close()
        assert only_from_this_machine(port)
        for host in ("127.0.0.1", "::1") if dual else ("127.0.0.1",):
            socket.create_connection((host, port), timeout=WAIT_S).close()
        for address in outside:
            with pytest.raises(TimeoutError):
                socket.create_connection((address, port), timeout=0.3)


def test_a_port_that_is_not_ours() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # bound, but not listening
        assert not only_from_this_machine(held.getsockname()[1])


def test_what_is_this_machine() -> None:
    assert is_loopback("127.0.0.1:20000")
    assert is_loopback("localhost:1")
    assert not is_loopback("10.0.0.7:20000")

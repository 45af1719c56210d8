"""A proxy that holds back each request to an object store, as a far network does.

    with delayed(store, 20) as far:
        os.environ |= far.environment

Requests are delayed, not slowed: each waits for its own time alone, and what the server answers passes at once. The
proxy is a process of its own, this module with HOST:PORT and MILLISECONDS, which ends with its standard input.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from queue import Queue

from object_stores import ObjectStore
from waiting import end_by_its_input, wait_for_line

_BUFFER = 1 << 20


@contextmanager
def delayed(store: ObjectStore, delay_ms: float) -> Iterator[ObjectStore]:
    """The store behind the proxy; with a delay of 0 the store itself."""
    if not delay_ms:
        yield store
        return
    command = [sys.executable, __file__, store.address, str(delay_ms)]
    proxy = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        yield store.through(f"http://{wait_for_line(proxy, r'^[0-9.]+:[0-9]+$')[0]}")
    finally:
        end_by_its_input(proxy)


def _serve(host: str, port: int, delay_s: float) -> socket.socket:
    """Listen on a free port of loopback and pass on to the server, in threads that end with the process."""
    listening = socket.create_server(("127.0.0.1", 0), backlog=256)

    def accept() -> None:
        while True:
            client, _ = listening.accept()
            server = socket.create_connection((host, port))
            for side in (client, server):
                side.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=_pass_later, args=(client, server, delay_s), daemon=True).start()
            threading.Thread(target=_pass, args=(server, client), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    return listening


def _pass(source: socket.socket, target: socket.socket) -> None:
    # One buffer for all: nothing is made and let go of for each piece.
    buffer = memoryview(bytearray(_BUFFER))
    try:
        while count := source.recv_into(buffer):
            target.sendall(buffer[:count])
    except OSError:
        pass
    finally:
        # Also after an error: who waits for an answer that cannot come must hear of it, and ask again.
        _end(target)
        source.close()


def _end(side: socket.socket) -> None:
    with suppress(OSError):  # it is closed already
        side.shutdown(socket.SHUT_RDWR)


def _pass_later(source: socket.socket, target: socket.socket, delay_s: float) -> None:
    waiting: Queue[tuple[float, bytes]] = Queue()

    def send() -> None:
        try:
            while True:
                due, data = waiting.get()
                time.sleep(max(0.0, due - time.monotonic()))
                if not data:
                    target.shutdown(socket.SHUT_WR)
                    return
                target.sendall(data)
        except OSError:
            _end(source)

    threading.Thread(target=send, daemon=True).start()
    try:
        while data := source.recv(_BUFFER):
            waiting.put((time.monotonic() + delay_s, data))
    except OSError:
        pass
    waiting.put((time.monotonic() + delay_s, b""))


if __name__ == "__main__":
    address, _, port = sys.argv[1].partition(":")
    listening = _serve(address, int(port), float(sys.argv[2]) / 1000)
    print("{}:{}".format(*listening.getsockname()), flush=True)
    sys.stdin.read()

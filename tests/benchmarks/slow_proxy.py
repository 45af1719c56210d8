"""A proxy on loopback that holds back what a client sends for some milliseconds, as a far away server would.

    python -m tests.benchmarks.slow_proxy HOST:PORT MILLISECONDS

It prints its own HOST:PORT and ends with its standard input. Requests are delayed, not slowed: each waits for its own
time alone, and what the server answers passes at once.
"""

from __future__ import annotations

import socket
import sys
import threading
import time
from queue import SimpleQueue

_BUFFER = 1 << 20


def serve(host: str, port: int, delay_s: float) -> socket.socket:
    """Listen on a free port of loopback, in threads that end with the process."""
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
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass
    finally:
        source.close()


def _pass_later(source: socket.socket, target: socket.socket, delay_s: float) -> None:
    waiting: SimpleQueue[tuple[float, bytes]] = SimpleQueue()

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
            return

    threading.Thread(target=send, daemon=True).start()
    try:
        while data := source.recv(_BUFFER):
            waiting.put((time.monotonic() + delay_s, data))
    except OSError:
        pass
    waiting.put((time.monotonic() + delay_s, b""))


if __name__ == "__main__":
    address, _, port = sys.argv[1].partition(":")
    listening = serve(address, int(port), float(sys.argv[2]) / 1000)
    print("{}:{}".format(*listening.getsockname()), flush=True)
    sys.stdin.read()

"""A proxy before an object store that holds back each request, as `tests/support/slow_network.py`, and writes it down.

    with counted(store, 20, log) as far:
        os.environ |= far.environment
    requests_between(log, began, ended)

The proxy is a process of its own, this module with HOST:PORT, MILLISECONDS and the log's path, which ends with its
standard input. A line of the log is a request: seconds since the epoch when it came, and `read`, `write` or `free` by
what Azure, AWS and Google ask for it: listings are priced as writes, and nothing is asked for deleting.
"""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

if TYPE_CHECKING:
    from object_stores import ObjectStore

    from engine.prices.storage import StoragePrice

_LENGTH = re.compile(rb"^content-length:\s*(\d+)\s*$", re.IGNORECASE | re.MULTILINE)
_CHUNKED = re.compile(rb"^transfer-encoding:.*\bchunked\s*$", re.IGNORECASE | re.MULTILINE)
_LISTING = re.compile(rb"[?&](comp=list|list-type=)(&|$)")


class Requests(NamedTuple):
    """Requests by what they are priced as."""

    reads: int = 0
    writes: int = 0

    def cost(self, price: StoragePrice | None) -> float | None:
        """What they cost, in the price's currency; None where one of its prices that count here is not known."""
        if price is None:
            return None
        each = ((self.reads, price.per_10000_reads), (self.writes, price.per_10000_writes))
        if any(count and amount is None for count, amount in each):
            return None
        return sum(count / 10_000 * (amount or 0.0) for count, amount in each)


class Heads:
    """The requests in what one connection sends (HTTP/1.1), which may come in pieces of any length."""

    def __init__(self) -> None:
        self._begun = b""
        self._body = 0
        self._chunks = False

    def read(self, piece: bytes) -> Iterator[str]:
        """`read`, `write` or `free` for each request whose head ends in the piece."""
        at = 0
        while at < len(piece) or self._begun:
            if self._body:
                passed = min(self._body, len(piece) - at)
                self._body, at = self._body - passed, at + passed
                if self._body:
                    return
                continue
            end = b"\r\n" if self._chunks else b"\r\n\r\n"
            self._begun, at = self._begun + piece[at:], len(piece)
            head, found, rest = self._begun.partition(end)
            if not found:
                return
            self._begun, piece, at = b"", rest, 0
            if self._chunks:
                size = int(head.partition(b";")[0], 16)
                # With the line's end after it; after the last, empty one comes the end of the body.
                self._body, self._chunks = size + 2, size > 0
                continue
            yield _kind(head)
            length = _LENGTH.search(head)
            self._chunks = _CHUNKED.search(head) is not None
            self._body = int(length[1]) if length and not self._chunks else 0


def _kind(head: bytes) -> str:
    method, target = (*head.lstrip(b"\r\n").split(b" ", 2), b"", b"")[:2]
    if method == b"DELETE":
        return "free"
    return "read" if method in (b"GET", b"HEAD") and not _LISTING.search(target) else "write"


@contextmanager
def counted(store: ObjectStore, delay_ms: float, log: Path) -> Iterator[ObjectStore]:
    """The store behind the proxy."""
    from waiting import end_by_its_input, wait_for_line

    command = [sys.executable, "-m", "benchmarks.counted_requests", store.address, str(delay_ms), str(log)]
    root = Path(__file__).parents[1]
    proxy = subprocess.Popen(command, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        yield store.through(f"http://{wait_for_line(proxy, r'^[0-9.]+:[0-9]+$')[0]}")
    finally:
        end_by_its_input(proxy)


def requests_between(log: Path, began: float, ended: float) -> Requests:
    """Those that came from one moment to another, in seconds since the epoch."""
    kinds = []
    # What the proxy is writing has no line's end yet.
    for line in log.read_text().splitlines(keepends=True):
        at, _, kind = line.partition(" ")
        if kind.endswith("\n") and began <= float(at) <= ended:
            kinds.append(kind.strip())
    return Requests(kinds.count("read"), kinds.count("write"))


class _Heard:
    """A socket whose requests are written down as they are received."""

    def __init__(self, socket: Any, log: TextIO, turns: threading.Lock) -> None:
        self._socket, self._log, self._turns = socket, log, turns
        self._heads = Heads()

    def recv(self, count: int) -> bytes:
        data: bytes = self._socket.recv(count)
        for kind in self._heads.read(data):
            with self._turns:
                self._log.write(f"{time.time():.3f} {kind}\n")
        return data

    def __getattr__(self, name: str) -> Any:
        return getattr(self._socket, name)


def main(address: str, milliseconds: str, log: str) -> None:
    import slow_network

    with Path(log).open("a", buffering=1) as file:
        pass_later, turns = slow_network._pass_later, threading.Lock()
        slow_network._pass_later = lambda client, server, delay_s: pass_later(
            _Heard(client, file, turns), server, delay_s
        )
        host, _, port = address.partition(":")
        listening = slow_network._serve(host, int(port), float(milliseconds) / 1000)
        print("{}:{}".format(*listening.getsockname()), flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Something large, sent part by part: what is in memory is two parts, whatever the whole."""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable

_AHEAD = 2
"""Parts that are asked for while one is sent."""


async def in_parts(
    part: Callable[[int, int], Awaitable[bytes]], start: int, stop: int, part_bytes: int, known: bytes = b""
) -> AsyncIterator[bytes]:
    """The bytes from `start` to `stop`, of which the first are `known`. `part` gives those from one place to another.

    Raises what `part` raises. Whoever goes away before the end leaves nothing behind that is still asked for.
    """
    begins = iter(range(start + len(known), stop, part_bytes))
    ahead = deque[asyncio.Future[bytes]]()

    def ask(count: int) -> None:
        for begin in itertools.islice(begins, count):
            ahead.append(asyncio.ensure_future(part(begin, min(begin + part_bytes, stop))))

    try:
        ask(_AHEAD)
        if known:
            yield known
        while ahead:
            found = await ahead.popleft()
            ask(1)
            yield found
    finally:
        for each in ahead:
            each.cancel()

"""What another user of the machine would see."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator


@contextlib.contextmanager
def as_nobody_if_root() -> Iterator[None]:
    """Root may write everywhere, so look with the eyes of another user."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)

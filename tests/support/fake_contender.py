"""A contender that does nothing, for tests of the race."""

from __future__ import annotations

import time
from typing import Any

from benchmarks.race import Contender


class Fake(Contender):
    """Delivers the text `says`; its round takes the given time."""

    def __init__(self, says: str, seconds: float = 0.001, fails: bool = False) -> None:
        self._says, self._seconds, self._fails = says, seconds, fails

    def round(self, number: int) -> dict[str, Any]:
        if self._fails:
            raise ValueError("the disk is full")
        print("noise on the standard output is not an answer")
        time.sleep(self._seconds)
        return {"amount": number, "seconds": 2.0}

    def digest(self) -> str:
        return self._says

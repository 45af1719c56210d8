"""With xdist: all modules that use `spark_sessions.spark_local` go to one of pytest's workers, one after the other.

Each other worker would start a Java of its own for them, and have the same code loaded and compiled once more.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path

from xdist.scheduler import LoadScopeScheduling

_USES = re.compile(r"\bspark_local\b|: Tables\b")
"""The fixture, or the one of `tables_on_spark` that has it."""


@functools.cache
def shares_spark(module: Path) -> bool:
    """By its text: the process that distributes the tests has not imported the modules."""
    return _USES.search(module.read_text()) is not None


class OneSpark(LoadScopeScheduling):
    """As `--dist=loadscope`, by which a worker gets whole modules."""

    def _split_scope(self, nodeid: str) -> str:
        module = self.config.rootpath / nodeid.partition("::")[0]
        return "spark_local" if shares_spark(module) else super()._split_scope(nodeid)

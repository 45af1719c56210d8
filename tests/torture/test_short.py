"""The short form of `python -m tests.torture`: a few rounds of each quick kind, with fixed seeds."""

from __future__ import annotations

import pytest
from outside_parts import require

from tests.torture.__main__ import campaign
from tests.torture.kinds import KINDS


@pytest.mark.slow
def test_a_few_rounds_of_every_quick_kind() -> None:
    require("compiler")
    tallies = list(campaign(KINDS, short=True))
    assert {tally.kind for tally in tallies} == {kind.name for kind in KINDS if kind.short}
    assert [(tally.kind, tally.findings) for tally in tallies if tally.findings] == []
    # Which calls a process makes depends on the moment, a little: some faults meet nothing.
    assert sum(tally.passed - tally.missed for tally in tallies) > 10

"""Rounds: what their seeds mean in the short form, and what a kind says that cannot begin."""

from __future__ import annotations

from typing import Any

from tests.torture.bit_rot import BitRot
from tests.torture.contending import ContendingRuns
from tests.torture.judge import Finding
from tests.torture.kills import Kills
from tests.torture.power_cuts import PowerCuts
from tests.torture.rounds import Kind, World, play, table
from tests.torture.stages import strikes_more


def test_the_short_form_does_without_the_longest_stage() -> None:
    for kind in (Kills, PowerCuts, BitRot, ContendingRuns):
        assert [seed for seed in kind.short if strikes_more(seed)] == []


class _NeverBegins(Kind):
    name, what = "never", "nothing"

    def __init__(self, world: World) -> None:
        raise Finding("an undisturbed run is failed: convert: no")

    def play(self, seed: int) -> str:
        raise AssertionError


def test_a_kind_whose_undisturbed_run_fails_has_failed() -> None:
    nowhere: Any = None
    said: list[str] = []
    tally = play(_NeverBegins, nowhere, [1], float("inf"), said.append)
    assert (tally.rounds, tally.passed, len(tally.findings), len(said)) == (1, 0, 1, 1)
    assert "convert: no" in table([tally])

"""How many examples a law (a property test) is tried with: all of them in a whole run, a fifth while somebody edits."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("whole", max_examples=100, deadline=None)
settings.register_profile("quick", max_examples=20, deadline=None)


def load_examples(*, quick: bool) -> None:
    """Choose before the tests are imported."""
    settings.load_profile("quick" if quick else "whole")


def examples(whole: int) -> int:
    """For a law that takes other than the usual 100 in a whole run."""
    return max(3, whole * settings().max_examples // 100)

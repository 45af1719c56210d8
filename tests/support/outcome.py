"""How the test ended whose fixtures are being torn down."""

from __future__ import annotations

import pytest

FAILED = pytest.StashKey[bool]()
"""In a test's stash, from the end of its set-up on."""

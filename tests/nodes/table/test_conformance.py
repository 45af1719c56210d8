"""The laws of a table, in a local folder and in each object store."""

from __future__ import annotations

import pytest

from voxelflow import TableConformance

pytestmark = pytest.mark.slow


class TestTables(TableConformance):
    @pytest.fixture
    def folder(self, everywhere: str) -> str:
        return everywhere

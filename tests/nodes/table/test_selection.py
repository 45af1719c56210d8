"""Which rows of a table a selection takes."""

from __future__ import annotations

import math

import pyarrow as pa

from nodes.table.selection import stratum


def test_each_label_is_a_stratum_also_a_long_one() -> None:
    labels = [0.1, 1234567.0, None, 1234568.0, math.nan, 3.0]
    assert stratum(pa.array(labels, pa.float32())).tolist() == ["0.1", "1234567", "", "1234568", "", "3"]

"""Rows with all that is odd, and conditions on them that our evaluator and Spark must answer alike."""

from __future__ import annotations

import math

import pyarrow as pa

ROWS = pa.table(
    {
        "id": ["a", "b%", "", "Ä\n", "e", None],
        "label": pa.array([1.0, -0.0, None, math.nan, 0.1, -2.5], pa.float32()),
        "n": pa.array([1, 2, None, -4, 16, 7], pa.int32()),
        "Big One": pa.array([2**40, 0, None, -1, 5, 6], pa.int64()),
        "flag": [True, False, None, True, False, True],
        "volume": [b"", b"12", None, b"\xc3\x84", b"1", b"1234"],
    }
)
CERTAIN = [
    "label >= 0",
    "label < 5",
    "label > 5",
    "label = 0.1",
    "label <> 0",
    "label = label",
    "NOT label >= 0",
    "NOT (label IN (0, 1, NULL))",
    "label NOT IN (0, 1)",
    "label BETWEEN -1 AND 1e0",
    "label NOT BETWEEN 0 AND 1",
    "label IS NULL OR label >= 0 AND n > 1",
    "(label IS NULL OR label >= 0) AND n > 1",
    "label <=> NULL",
    "label IS DISTINCT FROM 1",
    "isnan(label) OR isnull(label)",
    "label % 1 = 0",
    "n % 3 = -1",
    "abs(n) = 4",
    "n > 1.5 and N < 1E1",
    "coalesce(label, 0) >= 0",
    "coalesce(n, -1) > 0",
    "n = ceil(n)",
    "`Big One` > 5",
    "`big one` < 1099511627776",
    "id >= 'b'",
    "id LIKE '%\n'",
    "id LIKE '_%'",
    "id NOT LIKE 'a%'",
    'id = "a"',
    "length(id) <= 1",
    "octet_length(id) > 1",
    "length(volume) > 1",
    "flag",
    "flag IS NOT TRUE",
    "flag = false or flag is null",
    "id <> '' AND flag IS NOT NULL",
    "NULL",
    "true",
    "volume IS NOT NULL",
]

"""Importing this keeps pandas out of a process: for the `imports` of nodes that handle no data frames.

pyarrow looks for pandas once more when it infers the type of values of Python, and only once: if pandas is imported
later all the same, `pandas.NA` and `NaT` among such values are not taken for missing ones.
"""

from __future__ import annotations

import sys

import pyarrow as pa

from engine.processes.lean_import import without

if "pandas" not in sys.modules:
    with without({"pandas"}):
        pa.array([0])

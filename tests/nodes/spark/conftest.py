"""All tests of the nodes on Spark share one `local[2]` session."""

from __future__ import annotations

from spark_sessions import spark_local
from tables_on_spark import tables

__all__ = ["spark_local", "tables"]

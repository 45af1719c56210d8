"""What `spread` does when Spark says that all is done and it is not. The rest is tested with Spark itself."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from engine.declare.progress import Meter
from engine.errors import ExecutionError
from engine.spark.spread import spread


class _Context:
    """A Spark that hands over the results of all items but the last."""

    master = "local[2,4]"

    def accumulator(self, value: list[Any], results: Any) -> Any:
        return SimpleNamespace(add=lambda given: results.addInPlace(value, given))

    def parallelize(self, items: list[Any], _: int) -> Any:
        return SimpleNamespace(foreach=lambda attempt: [attempt(item) for item in items[:-1]])

    def setJobGroup(self, *_: str) -> None:  # noqa: N802 - Spark's name
        pass


def test_a_result_that_spark_has_lost_is_missed() -> None:
    """It logs "Failed to update accumulator", and calls the task done."""
    ctx: Any = SimpleNamespace(
        spark=SimpleNamespace(sparkContext=_Context()), run_id="r", node_id="n", check_cancelled=lambda: None
    )
    found = spread(ctx, "abc", str.upper, meter=Meter(3, "items", ""), amount=len)
    assert [next(found), next(found)] == [(0, "A"), (1, "B")]
    with pytest.raises(ExecutionError, match="lost the results of 1 of 3 tasks"):
        next(found)


def test_executors_do_not_import_what_starts_a_session() -> None:
    """Each of Spark's Python processes imports the work that it is handed."""
    code = "import sys, nodes.spark.make_chunks; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-P", "-c", code], check=True, stdout=subprocess.PIPE, text=True)
    loaded = done.stdout.split()
    assert "engine.spark.spread" in loaded
    assert "engine.spark.session" not in loaded

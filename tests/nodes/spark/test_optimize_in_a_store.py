"""Under a Spark profile a table in object storage is compacted, as on the embedded backend."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from delta_tables import context, exactly, ids, shards
from spark_nodes import on_spark

from engine.declare.events import Event, Message
from engine.errors import UsageError
from nodes.optimize_delta import optimize_delta
from nodes.parquet_to_delta import parquet_to_delta

pytestmark = pytest.mark.slow


def test_a_table_in_object_storage_is_compacted_by_this_machine(azure: str, tmp_path: Path) -> None:
    """Spark is not even started: the context has none."""
    said: list[str] = []

    def hear(event: Event) -> None:
        if isinstance(event, Message):
            said.append(event.text)

    table = parquet_to_delta(shards(tmp_path / "p", *[2] * 6), table=f"{azure}/t", ctx=context(tmp_path))
    ctx = replace(context(tmp_path, "optimize"), emit=hear)
    done = on_spark(optimize_delta, table, ctx=ctx)
    assert (done.files, done.count, done.version) == (1, 12, table.version + 1)
    exactly(done.uri, ids(0, 12))
    assert [line for line in said if "not Spark" in line] == [
        f"the table {table.uri} does not lie in a local folder, so this machine writes its files, and not Spark"
    ]
    assert on_spark(optimize_delta, done, ctx=context(tmp_path, "again")).version == done.version


@pytest.mark.parametrize("asked", ["vacuum", "rewrite_layout"])
def test_what_is_refused_there_is_refused_before_anything_is_done(asked: str, azure: str, tmp_path: Path) -> None:
    table = parquet_to_delta(shards(tmp_path / "p", 2, 2), table=f"{azure}/t", ctx=context(tmp_path))
    with pytest.raises(UsageError) as caught:
        on_spark(optimize_delta, table, ctx=context(tmp_path, "o"), **{asked: True})
    assert caught.value.parameter == asked
    assert not list((tmp_path / "tasks" / "o" / "scratch").iterdir())

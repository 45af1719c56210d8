"""A compaction in several commits, killed with SIGKILL between any two of them, in every kind of storage."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from delta_tables import SPEC, context, exactly, finish_node, ids, shards, start_node, was_killed

from nodes.parquet_to_delta import parquet_to_delta
from nodes.table.snapshot import open_table

LARGE = SPEC.model_copy(update={"shape": (40, 40, 10)})
INCREMENT = 4
"""Three files out and one in: each large file is a commit of its own."""
_exactly = partial(exactly, spec=LARGE)


@pytest.mark.slow
def test_every_version_holds_every_row_once(everywhere: str, tmp_path: Path) -> None:
    dataset = shards(tmp_path / "p", *[5] * 12, spec=LARGE)
    for commits in (1, 2, 3):
        url = f"{everywhere}/killed-after-{commits}"
        table = parquet_to_delta(dataset, table=url, ctx=context(tmp_path, f"t{commits}"))
        point = "optimize:after-commit" + (f"#{commits}" if commits > 1 else "")
        assert was_killed(start_node(tmp_path, "OptimizeDelta", table, "o", point, INCREMENT, target_file_mb=1))
        newest = open_table(url).version
        assert newest == table.version + commits
        for version in range(table.version, newest + 1):
            _exactly(url, ids(0, 60), version)
        done = finish_node(start_node(tmp_path, "OptimizeDelta", table, "o", "", INCREMENT, target_file_mb=1))
        assert done.files == 4
        _exactly(url, ids(0, 60))

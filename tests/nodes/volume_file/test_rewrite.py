"""Reading rows of Parquet files for a rewrite."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

from nodes.volume_file.rewrite import RowSource, read_rows


def _read(path: Path, keep: tuple[tuple[int, int], ...], batch_rows: int) -> list[int]:
    source = RowSource(path, path.stat().st_size, keep)
    columns = pa.schema([("id", pa.int64())])
    return [row for batch in read_rows(source, columns, batch_rows) for row in batch.column(0).to_pylist()]


class _Counted(tuple[Any, ...]):
    """Ranges that count how often one of them is looked at."""

    looks = 0

    def __getitem__(self, at: Any) -> Any:
        self.looks += 1
        return super().__getitem__(at)

    def __iter__(self) -> Any:
        for each in super().__iter__():
            self.looks += 1
            yield each


def test_many_short_ranges_are_each_looked_at_a_few_times(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"id": range(4000)}), path, row_group_size=100)
    keep = _Counted((at, at + 2) for at in range(0, 4000, 4))
    assert _read(path, keep, 10) == [row for row in range(4000) if row % 4 < 2]
    assert keep.looks < 10 * len(keep)


@given(st.data(), st.integers(1, 40), st.integers(1, 15), st.integers(1, 15))
def test_exactly_the_rows_of_the_ranges_are_read(
    tmp_path_factory: Any, data: st.DataObject, rows: int, group_rows: int, batch_rows: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "some_rows.parquet"
    pq.write_table(pa.table({"id": range(rows)}), path, row_group_size=group_rows)
    ends = sorted(data.draw(st.sets(st.integers(0, rows), max_size=12)))
    keep = tuple(zip(ends[::2], ends[1::2], strict=False))
    assert _read(path, keep, batch_rows) == [row for start, end in keep for row in range(start, end)]

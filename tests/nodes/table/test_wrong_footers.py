"""What a footer says wrongly of ids and labels: no row is lost by it, and OptimizeDelta would write it anew."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from delta_tables import context, dataset_of, ids, write_shard

from engine.declare.datasets import VolumeDelta
from engine.errors import DataError
from nodes.inspection.verify import check_data
from nodes.optimize_delta import optimize_delta
from nodes.parquet_to_delta import parquet_to_delta
from nodes.table.snapshot import open_table
from nodes.volume_file.rewrite import read_metadata

IDS = "its footer says wrongly between which ends its ids are"


def _make(place: Path, row_group: int = 64) -> VolumeDelta:
    """Two files of four volumes each; the labels of the first are none, 1, 0 and 1."""
    parts = [write_shard(place / "p", ids(first, 4), row_group=row_group) for first in (0, 4)]
    return parquet_to_delta(dataset_of(place / "p", parts), mode="copy", ctx=context(place))


@pytest.fixture
def table(tmp_path: Path) -> VolumeDelta:
    return _make(tmp_path)


def _first(table: VolumeDelta) -> Path:
    return Path(table.uri) / open_table(table.uri).files[0].path


def _flip_in_footer(path: Path, text: bytes, place: int, bit: int) -> None:
    data = bytearray(path.read_bytes())
    begins = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    data[data.index(text, begins) + place] ^= bit
    path.write_bytes(data)
    read_metadata.cache_clear()


def _problems(table: VolumeDelta) -> list[tuple[str, str]]:
    checked = check_data(table.uri, threads=1, progress=lambda done, total: None)
    return [(damage.file, damage.problem) for damage in checked.damages]


@pytest.mark.parametrize(
    ("end", "bit"),
    [(b"vol-00003", 0x80), (b"vol-00000", 0x80), (b"vol-00000", 1)],
    ids=["no text", "least", "narrower"],
)
def test_wrong_ends_of_ids_are_named_and_not_written_anew(
    table: VolumeDelta, tmp_path: Path, end: bytes, bit: int
) -> None:
    file = _first(table)
    _flip_in_footer(file, end, 8, bit)
    assert _problems(table) == [(str(file), IDS)]
    with pytest.raises(DataError) as caught:
        optimize_delta(table, ctx=context(tmp_path, "o"))
    assert caught.value.message == f"{file} is damaged: {IDS}"


def test_wrong_ends_of_one_row_group_are_found(tmp_path: Path) -> None:
    """Those of all rows together are right."""
    table = _make(tmp_path, row_group=2)
    file = _first(table)
    _flip_in_footer(file, b"vol-00001", 8, 1)
    group = pq.read_metadata(file).row_group(0).column(0).statistics
    assert (group.min, group.max) == ("vol-00000", "vol-00000")
    assert _problems(table) == [(str(file), IDS)]


@pytest.mark.parametrize(
    ("said", "place", "bit", "problem"),
    [
        # 28 04: the greatest value of four bytes; of label 1, whose bytes are 00 00 80 3f, this bit makes 0.5.
        (b"\x28\x04\0\0\x80\x3f", 4, 0x80, "its footer says wrongly between which ends its labels are"),
        # 16 02: one null, as a signed number of several bytes.
        (b"\x16\x02\x28\x04", 1, 2, "its footer says wrongly how many rows have no label"),
    ],
    ids=["ends", "number"],
)
def test_wrong_labels_are_named_and_not_written_anew(
    table: VolumeDelta, tmp_path: Path, said: bytes, place: int, bit: int, problem: str
) -> None:
    file = _first(table)
    _flip_in_footer(file, said, place, bit)
    assert _problems(table) == [(str(file), problem)]
    with pytest.raises(DataError, match="is damaged: its footer says wrongly which labels its rows have"):
        optimize_delta(table, ctx=context(tmp_path, "o"))

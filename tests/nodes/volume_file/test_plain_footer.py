"""Footers that are called plain never end a process, and those of sound files are called plain."""

from __future__ import annotations

import datetime
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from delta_tables import SPEC, ids, write_shard

from nodes.volume_file.fatal_footer import refuse_fatal
from nodes.volume_file.footer import read_footer
from nodes.volume_file.plain_footer import is_plain
from nodes.volume_file.rewrite import Recipe, RowSource, rewrite

# Everything that is asked of a footer that was called plain; a signal ends the process. Of one that was not, nothing.
DAMAGED = """
import random, sys
from pathlib import Path
from nodes.volume_file.plain_footer import is_plain
import pyarrow as pa
import pyarrow.parquet as pq

path = Path(sys.argv[1])
whole = path.read_bytes()
length = int.from_bytes(whole[-8:-4], "little")
first, end = len(whole) - 8 - length, len(whole) - 8
drawn = random.Random(0)

def damages():
    for bit in range(8 * first, 8 * end):
        data = bytearray(whole)
        data[bit // 8] ^= 1 << bit % 8
        yield f"bit {bit}", data
    for number in range(4000):
        data = bytearray(whole)
        at = drawn.randrange(first, end)
        count = drawn.choice((1, 1, 2, 4))
        data[at : at + count] = drawn.randbytes(len(data[at : min(at + count, end)]))
        yield f"damage {number}", data
    for number in range(2000):
        data = bytearray(whole)
        for _ in range(drawn.choice((2, 3))):
            at = drawn.randrange(first, end)
            kind = data[at] & 0xF0 | drawn.choice((3, 5, 6, 8, 9, 12))
            data[at] = kind if drawn.random() < 0.5 else drawn.randrange(32)
        yield f"fields {number}", data

plain = 0
for what, data in damages():
    path.with_name("damage").write_text(what)
    try:
        metadata = pq.ParquetFile(pa.BufferReader(bytes(data))).metadata
    except (OSError, UnicodeDecodeError, pa.ArrowException):
        continue
    if not is_plain(bytes(data[first:end]), metadata.schema):
        continue
    plain += 1
    metadata.created_by
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        for chunk in map(group.column, range(group.num_columns)):
            chunk.path_in_schema, chunk.compression, chunk.encodings, chunk.statistics
            if (found := chunk.statistics) is not None:
                found.min_raw, found.max_raw, found.null_count
print(plain)
"""


def _by_others(path: Path) -> Path:
    rows = {
        "id": ["a", "b", "c"],
        "label": pa.array([0, None, 1], pa.float32()),
        "of": [[1.5, 2.5], None, []],
        "place": [{"x": 1, "day": datetime.date(2020, 1, 1)}, None, {"x": None, "day": None}],
        "price": pa.array([Decimal("1.50"), None, Decimal("2.25")], pa.decimal128(12, 2)),
        "at": pa.array([0, None, 2], pa.timestamp("us", "UTC")),
        "small": pa.array([1, 2, None], pa.uint8()),
        "yes": [True, False, None],
        "map": pa.array([[("k", 1)], None, []], pa.map_(pa.string(), pa.int64())),
    }
    pq.write_table(pa.table(rows), path, row_group_size=2)
    return path


def _shard(path: Path) -> Path:
    return path.with_name(write_shard(path.parent, ids(0, 5), row_group=2, name=path.name).path)


def _joined(path: Path) -> Path:
    """As OptimizeDelta makes it of small files."""
    parts = [write_shard(path.parent, ids(first, 3)) for first in (0, 3)]
    sources = [RowSource(path.parent / part.path, part.bytes, ((0, part.rows),)) for part in parts]
    columns = pq.read_schema(sources[0].path)
    (made,) = rewrite(sources, Recipe.of(SPEC, columns), path.parent, path.stem, lambda rows: None).paths
    assert pq.read_metadata(made).created_by.startswith("Voxelflow")
    return made


@pytest.mark.parametrize("made", [_by_others, _shard, _joined])
def test_the_footer_of_a_sound_file_is_plain(tmp_path: Path, made: Callable[[Path], Path]) -> None:
    _, file, footer = read_footer(made(tmp_path / "a.parquet"))
    assert len(footer) == file.metadata.serialized_size
    assert is_plain(footer, file.metadata.schema)
    assert not is_plain(footer[:-1], file.metadata.schema)
    assert not is_plain(b"", file.metadata.schema)


@pytest.mark.parametrize("compression", ["none", "snappy", "zstd"])
@pytest.mark.parametrize("rows", [0, 40])
def test_a_footer_of_any_length_is(tmp_path: Path, compression: str, rows: int) -> None:
    table = pa.table({f"column {n}": pa.array(range(rows), pa.int64()) for n in range(20)})
    path = tmp_path / "a.parquet"
    pq.write_table(table, path, compression=compression, row_group_size=2, use_dictionary=False)
    _, file, footer = read_footer(path)
    assert is_plain(footer, file.metadata.schema)


def test_statistics_that_are_too_short_are_not_plain(tmp_path: Path) -> None:
    """pyarrow decodes them when it is asked for them, and ends the process."""
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": [1, 2]}), path, use_dictionary=False)
    _, file, footer = read_footer(path)
    least = b"\x18\x08" + (1).to_bytes(8, "little")
    assert footer.count(least) == 2  # of old and new readers
    shorter = footer.replace(least, b"\x18\x07" + (1).to_bytes(7, "little"))
    assert is_plain(footer, file.metadata.schema)
    assert not is_plain(shorter, file.metadata.schema)
    damaged = b"PAR1" + shorter + len(shorter).to_bytes(4, "little") + b"PAR1"
    metadata = pq.ParquetFile(pa.BufferReader(damaged)).metadata
    with pytest.raises(pa.ArrowInvalid, match="statistics of it have the wrong length"):
        refuse_fatal(metadata, shorter)


@pytest.mark.slow
@pytest.mark.parametrize("made", [_by_others, _shard, _joined])
def test_no_damaged_footer_that_is_plain_ends_the_process(tmp_path: Path, made: Callable[[Path], Path]) -> None:
    path = made(tmp_path / "a.parquet")
    done = subprocess.run([sys.executable, "-c", DAMAGED, str(path)], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, f"{(tmp_path / 'damage').read_text()}: {done.stderr}"
    assert int(done.stdout) > 100

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
from delta_tables import SPEC, ids, volume_of, write_shard

from engine.errors import DataError
from nodes.parquet_folder import _said_by_footers
from nodes.volume_file.damage import check_file
from nodes.volume_file.fatal_footer import refuse_fatal
from nodes.volume_file.footer import read_footer
from nodes.volume_file.layout import schema
from nodes.volume_file.page_index import index_pages
from nodes.volume_file.plain_footer import is_plain
from nodes.volume_file.rewrite import Recipe, RowSource, read_metadata, rewrite
from nodes.volume_file.thrift import BINARY, BOOLEANS, I64, binary, integer, struct_of

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


WIDTH = 20
TRUE, FALSE = ((kind, b"") for kind in BOOLEANS)


def _bounds(number: int, size: int = WIDTH, *, exact: tuple[int, bytes] | None = TRUE, old: bool = False) -> bytes:
    """Statistics of values that are `number` 0 to 5 in all their bytes, of which so many are kept."""
    least, most = (BINARY, binary(bytes([0] * size))), (BINARY, binary(bytes([number] * size)))
    fields = {1: most, 2: least} if old else {5: most, 6: least}
    return struct_of({3: (I64, integer(0)), **fields} | ({7: exact, 8: exact} if exact is not None else {}))


def _with_codes(path: Path, statistics: bytes | None = None, width: int = WIDTH, creator: bytes = b"") -> Path:
    """A file of six volumes with a column of codes of one length, and other statistics than they have.

    That is how arrow-rs 59 writes values of more than 64 bytes: it keeps 64 and says that they are not exact.
    """
    names = ids(0, 6)
    codes = pa.array([bytes([n] * width) for n in range(6)], pa.binary(width))
    columns = schema(SPEC).append(pa.field("code", pa.binary(width)))
    rows = [names, pa.array([0.0] * 6, pa.float32()), [volume_of(name) for name in names], codes]
    pq.write_table(pa.table(rows, schema=columns), path, use_dictionary=False, compression="none")
    _, file, footer = read_footer(path)
    if statistics is not None:
        assert footer.count(_bounds(5, width)) == 1
        other = footer.replace(_bounds(5, width), statistics)
        by = file.metadata.created_by.encode()
        other = other.replace(by, creator.ljust(len(by))) if creator else other
        path.write_bytes(path.read_bytes()[: -len(footer) - 8] + other + len(other).to_bytes(4, "little") + b"PAR1")
    return path


@pytest.mark.parametrize("width", [WIDTH, 16])
def test_statistics_that_another_writer_shortened_are_no_damage(tmp_path: Path, width: int) -> None:
    shortened = _bounds(5, 7, exact=FALSE)
    path = _with_codes(tmp_path / "a.parquet", shortened, width, b"parquet-rs version 59.0.0")
    size, file, footer = read_footer(path)
    assert not is_plain(footer, file.metadata.schema)
    with pytest.raises(pa.ArrowInvalid, match="it has shortened statistics, which pyarrow cannot read"):
        refuse_fatal(file.metadata, footer)
    refuse_fatal(file.metadata, footer, statistics=False)
    with pa.OSFile(str(path)) as opened:
        assert check_file(opened, 6, SPEC.volume_bytes).problems == ()
    assert len(index_pages(str(path), file.metadata, SPEC.volume_bytes).offsets) == 6
    assert _said_by_footers(tmp_path, [path.name], 1)["rows"] == 6
    # Its rows are decoded: what is joined without that has statistics that are read.
    recipe = Recipe.of(SPEC, pq.read_schema(path))
    (made,) = rewrite([RowSource(path, size, ((0, 6),))], recipe, tmp_path, "made", lambda rows: None).paths
    assert pq.read_table(made).equals(pq.read_table(path))
    # pyarrow shortens none: what says that of its own files would end the process.
    path = _with_codes(tmp_path / "b.parquet", shortened, width)
    with pytest.raises(DataError, match=r"b\.parquet cannot be read: it has shortened statistics"):
        read_metadata(path, path.stat().st_size)


@pytest.mark.parametrize(
    "statistics",
    [
        _bounds(5, 7),
        _bounds(5, 7, exact=None),
        _bounds(5, 7, exact=FALSE, old=True),
        _bounds(5, WIDTH + 1, exact=FALSE),
    ],
    ids=["said to be exact", "nothing said", "of old readers", "too long"],
)
def test_other_statistics_of_the_wrong_length_are_damage(tmp_path: Path, statistics: bytes) -> None:
    path = _with_codes(tmp_path / "a.parquet", statistics)
    _, file, footer = read_footer(path)
    for asked in (True, False):
        with pytest.raises(pa.ArrowInvalid, match="statistics of it have the wrong length"):
            refuse_fatal(file.metadata, footer, statistics=asked)
    with pytest.raises(DataError, match=r"a\.parquet is damaged: .* wrong length"):
        index_pages(str(path), file.metadata, SPEC.volume_bytes)
    # What is refused elsewhere is found by `voxelflow verify`.
    with pa.OSFile(str(path)) as opened:
        (problem,) = check_file(opened, 6, SPEC.volume_bytes).problems
    assert "statistics of it have the wrong length" in problem


def test_numbers_are_never_shortened(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": [0, 2]}), path, use_dictionary=False)
    _, _, footer = read_footer(path)
    begin = footer.index(b"\x18\x08" + (2).to_bytes(8, "little"))
    whole = footer[begin : footer.index(b"\x11\x11\0", begin)]
    shorter = whole.replace(b"\x18\x08", b"\x18\x07").replace(bytes(7), bytes(6))
    damaged = footer.replace(whole + b"\x11\x11", shorter + b"\x12\x12")
    metadata = pq.ParquetFile(pa.BufferReader(_file_of(damaged))).metadata
    with pytest.raises(pa.ArrowInvalid, match="statistics of it have the wrong length"):
        refuse_fatal(metadata, damaged, statistics=False)


def _file_of(footer: bytes) -> bytes:
    return b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1"


def test_a_schema_of_another_file_makes_no_other_footer_plain(tmp_path: Path) -> None:
    """What is remembered of the latest footer goes with the schema that was given with it."""
    path = _with_codes(tmp_path / "a.parquet")
    _, file, footer = read_footer(path)
    _, other, _ = read_footer(_with_codes(tmp_path / "b.parquet", width=7))
    shorter = footer.replace(_bounds(5), _bounds(5, 7))
    assert not is_plain(footer, other.metadata.schema)
    assert not is_plain(shorter, file.metadata.schema)
    assert is_plain(footer, file.metadata.schema)


def test_the_footer_of_another_file_does_not_speak_for_one(tmp_path: Path) -> None:
    """As of a file that was replaced while it was read."""
    _, _, sound = read_footer(_shard(tmp_path / "a.parquet"))
    _, _, footer = read_footer(_shard(tmp_path / "b.parquet"))
    kind = footer.rindex(b"\x15\x0c\x19")  # the last column chunk's type
    damaged = footer[: kind + 1] + b"\x0e" + footer[kind + 2 :]
    metadata = pq.ParquetFile(pa.BufferReader(_file_of(damaged))).metadata
    for own in (None, damaged, sound + b"\0"):
        with pytest.raises(pa.ArrowInvalid, match="of type"):
            refuse_fatal(metadata, own)


@pytest.mark.slow
@pytest.mark.parametrize("made", [_by_others, _shard, _joined])
def test_no_damaged_footer_that_is_plain_ends_the_process(tmp_path: Path, made: Callable[[Path], Path]) -> None:
    path = made(tmp_path / "a.parquet")
    done = subprocess.run([sys.executable, "-c", DAMAGED, str(path)], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, f"{(tmp_path / 'damage').read_text()}: {done.stderr}"
    assert int(done.stdout) > 100

"""Footers for which pyarrow would end the process are refused, and those that are right are not."""

from __future__ import annotations

import gc
import io
import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from delta_tables import SPEC, ids, write_shard
from deltalake import Schema

from engine.errors import DataError, VoxelflowError
from nodes.loaders.data_files import read_files
from nodes.table.constraints import _batches
from nodes.volume_file import fatal_footer
from nodes.volume_file.damage import check_file
from nodes.volume_file.fatal_footer import refuse_fatal
from nodes.volume_file.footer import read_footer
from nodes.volume_file.rewrite import read_metadata

EACH_BIT = """
import sys
from pathlib import Path
from deltalake import Schema
from engine.errors import DataError
from nodes.table.constraints import _batches
from nodes.volume_file.fatal_footer import refuse_fatal
import pyarrow as pa
import pyarrow.parquet as pq

path, first, end = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
whole = path.read_bytes()
columns = Schema.from_arrow(pq.read_schema(path))
said = set()

def is_refused(metadata):
    try:
        refuse_fatal(metadata)
    except pa.ArrowException as exc:
        said.update(word for word in ("histogram", "of type") if word in str(exc))
        return True
    return False

for bit in range(first, end):
    data = bytearray(whole)
    data[bit // 8] ^= 1 << bit % 8
    path.write_bytes(data)
    path.with_name("bit").write_text(str(bit))
    try:
        metadata = pq.read_metadata(path)
    except (OSError, UnicodeDecodeError, pa.ArrowException):
        metadata = None
    if metadata is not None and not is_refused(metadata):
        groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
        [group.column(place).statistics for group in groups for place in range(group.num_columns)]
    try:
        list(_batches(path, ["x"], columns))
    except DataError as exc:
        assert str(path) in exc.message
assert said == {"histogram", "of type"}, said
"""


THOSE_THAT_END_IT = """
import sys
from pathlib import Path
from engine.errors import VoxelflowError
from nodes.foreign_tables.sample import find_roles
from nodes.foreign_tables.table_parameters import TableParameters
from nodes.foreign_tables.tables import any_table
from nodes.parquet_folder import _part, _said_by_footers
from nodes.volume_file.fatal_footer import refuse_fatal
import pyarrow as pa
import pyarrow.parquet as pq

path = Path(sys.argv[1])
whole = path.read_bytes()
footer = int.from_bytes(whole[-8:-4], "little")
refused = 0
for bit in range((len(whole) - 8 - footer) * 8, (len(whole) - 8) * 8):
    data = bytearray(whole)
    data[bit // 8] ^= 1 << bit % 8
    path.write_bytes(data)
    try:
        refuse_fatal(pq.read_metadata(path))
        continue
    except (OSError, UnicodeDecodeError):
        continue
    except pa.ArrowException:
        refused += 1
    assert _said_by_footers(path.parent, [path.name], 1)["rows"] is None
    for take in (
        lambda: _part(path.parent, path.name, None),
        lambda: find_roles(any_table(str(path.parent)), TableParameters(str(path.parent))),
    ):
        try:
            take()
        except VoxelflowError as exc:
            assert path.name in exc.message, exc.message
        else:
            raise AssertionError(f"bit {bit} was taken")
assert refused > 10, refused
"""


@pytest.mark.slow
def test_files_of_other_programs_with_such_footers_are_named_where_they_are_taken(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    rows = {"id": ["a", "b"], "label": pa.array([0, 1], pa.float32()), "volume": [b"1234", b"5678"]}
    pq.write_table(pa.table(rows), path, compression="none", store_schema=False)
    done = subprocess.run(
        [sys.executable, "-c", THOSE_THAT_END_IT, str(path)], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_no_flipped_bit_ends_the_process_once_it_is_asked_or_the_process_that_checks_constraints(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": [1, None] * 4}), path, compression="none", store_schema=False)
    data = path.read_bytes()
    footer = int.from_bytes(data[-8:-4], "little")
    bits = [str((len(data) - 8 - footer) * 8), str((len(data) - 8) * 8)]
    done = subprocess.run(
        [sys.executable, "-c", EACH_BIT, str(path), *bits], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, f"bit {(tmp_path / 'bit').read_text()} of {bits}: {done.stderr}"


@pytest.mark.parametrize("groups", [0, 1, 5])
@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_a_sound_footer_is_not_refused(groups: int, compression: str) -> None:
    table = pa.table({"id": [f"{n}" for n in range(8 * groups)], "of": pa.array([[1.0, 2.0]] * 8 * groups)})
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, row_group_size=8, compression=compression)
    refuse_fatal(pq.ParquetFile(pa.BufferReader(sink.getvalue())).metadata)


def _loaded(path: Path) -> tuple[list[str], bytes, list[int]]:
    (file,) = read_files((str(path),), index_bytes=SPEC.volume_bytes, threads=1)
    assert file.index is not None
    return file.ids.to_pylist(), file.labels.tobytes(), file.index.offsets.tolist()


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (b"\x18\5label\0", b"\x18\5lebel\0", "the column lebel of the schema is label in a row group"),
        (b"\x18\5label\x15\0\x16", b"\x18\5la`el\x15\0\x16", "the column label of the schema is la`el in a row group"),
        (b"volume\x15\0\x16\x0c", b"volume\x15\0\x16\x0e", "a row group has 6 rows and 7 values of the column volume"),
    ],
    ids=["name in the schema", "name in a row group", "values"],
)
def test_a_column_that_is_not_the_schemas_is_damage(tmp_path: Path, before: bytes, after: bytes, said: str) -> None:
    """Not a file without labels: its rows would be left out without a word."""
    path = tmp_path / write_shard(tmp_path, ids(0, 6), name="a.parquet").path
    data = path.read_bytes()
    assert data.count(before) == 1
    path.write_bytes(data.replace(before, after))
    _, file, footer = read_footer(path)
    for known in (None, footer):
        with pytest.raises(pa.ArrowInvalid, match=re.escape(said)):
            refuse_fatal(file.metadata, known)
    with pytest.raises(DataError, match=rf"a\.parquet is damaged: .*{re.escape(said)}"):
        _loaded(path)
    with pa.OSFile(str(path)) as opened:
        assert said in check_file(opened, 6, SPEC.volume_bytes).problems[0]


@pytest.mark.parametrize("rows", [4, 8])
def test_row_groups_that_do_not_add_up_are_damage(tmp_path: Path, rows: int) -> None:
    """Volumes would be taken for those of other rows."""
    path = tmp_path / write_shard(tmp_path, ids(0, 12), name="a.parquet", row_group=6).path
    _, _, footer = read_footer(path)
    at = footer.rindex(b"\x16\x0c&")  # of the last row group
    damaged = footer[: at + 1] + bytes([2 * rows]) + footer[at + 2 :]
    path.write_bytes(path.read_bytes().replace(footer, damaged))
    with pytest.raises(DataError, match=f"it says 12 rows, and its row groups {6 + rows}"):
        read_metadata(path, path.stat().st_size)
    with pytest.raises(VoxelflowError, match=r"a\.parquet"):
        _loaded(path)


@pytest.mark.slow
def test_no_flipped_bit_of_a_footer_changes_what_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / write_shard(tmp_path, ids(0, 6), name="a.parquet").path
    whole, sound = path.read_bytes(), _loaded(path)
    first = len(whole) - 8 - len(read_footer(path)[2])
    loaded = 0
    for bit in range(8 * first, 8 * (len(whole) - 8)):
        data = bytearray(whole)
        data[bit // 8] ^= 1 << bit % 8
        path.write_bytes(data)
        try:
            found = _loaded(path)
        except (VoxelflowError, UnicodeDecodeError, AssertionError):  # the last: its volumes are decoded
            continue
        loaded += 1
        assert found == sound, f"bit {bit % 8} of byte {bit // 8 - first} of the footer"
    assert loaded > 1000


def test_a_damaged_name_of_a_column_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"label": [1.0]}), path, store_schema=False)
    path.write_bytes(path.read_bytes().replace(b"label", b"lab\xf8l"))
    with pytest.raises(DataError, match=r"a\.parquet cannot be read: 'utf-8' codec"):
        read_metadata(path, path.stat().st_size)
    with pytest.raises(DataError, match=r"a\.parquet cannot be read: 'utf-8' codec"):
        list(_batches(path, ["label"], Schema.from_arrow(pa.schema([("label", pa.float64())]))))


def test_nothing_stays_in_memory_of_a_file_that_was_looked_at() -> None:
    sink = io.BytesIO()
    pq.write_table(pa.table({"a": [1, 2, 3], "b": ["x", "y", "z"]}), sink)
    metadata = pq.ParquetFile(sink).metadata
    for _ in range(50):
        refuse_fatal(metadata)
    gc.collect()
    assert not [each for each in gc.get_objects() if isinstance(each, fatal_footer._NoPages)]

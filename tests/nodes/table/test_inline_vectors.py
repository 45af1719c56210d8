"""A deletion vector in the log in which a bit is flipped ends no process: the file of the log is named."""

from __future__ import annotations

import base64
import json
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import delta_tables
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from delta_tables import context, delete_by_vector, deletion_vector, shards
from deltalake import DeltaTable

from engine.errors import DataError
from nodes.foreign_tables.tables import any_table
from nodes.parquet_to_delta import parquet_to_delta
from nodes.table.log import commit_file
from nodes.table.snapshot import open_table

EACH_BIT = """
import json, sys
from pathlib import Path
from engine.errors import DataError
from nodes.foreign_tables.tables import any_table

commit = Path(sys.argv[1])
whole = commit.read_text()
begin = whole.index('"pathOrInlineDv": "') + 19
refused = 0
for at in range(begin, whole.index('"', begin)):
    for bit in range(7):
        other = chr(ord(whole[at]) ^ 1 << bit)
        if other in '"\\\\\\\\':
            continue
        commit.write_text(whole[:at] + other + whole[at + 1 :])
        commit.with_name("now").write_text(f"{whole[at]} -> {other} at {at - begin}")
        try:
            (deleted,) = any_table(str(commit.parent.parent)).deleted.values()
        except DataError as exc:
            assert commit.name in exc.message, exc.message
            assert exc.hint
            refused += 1
        else:
            # Nothing but the number of a row is another one: of that there is no checksum.
            assert len(deleted) == 2 and max(deleted) < 6, deleted
print(refused)
"""


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Two rows of its one file are deleted."""
    root = Path(parquet_to_delta(shards(tmp_path / "p", 6), ctx=context(tmp_path)).uri)
    delete_by_vector(root, open_table(root).files[0].path_in_log, [1, 3])
    return root


@pytest.mark.slow
def test_no_flipped_bit_ends_the_process(table: Path) -> None:
    support = Path(delta_tables.__file__).parent
    done = subprocess.run(
        [sys.executable, "-c", EACH_BIT, str(commit_file(table, 2))],
        capture_output=True, text=True, timeout=300, env={"PYTHONPATH": f"{support}:{support.parents[1]}"},
    )  # fmt: skip
    assert done.returncode == 0, f"{(table / '_delta_log' / 'now').read_text()}: {done.stderr}"
    assert int(done.stdout) > 200


def _with(table: Path, **changed: Any) -> Path:
    """The table, whose vector says something else of itself."""
    commit = commit_file(table, 2)
    lines = [json.loads(line) for line in commit.read_text().splitlines()]
    lines[-1]["add"]["deletionVector"] |= changed
    commit.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return commit


def _bitmap(*containers: bytes, keys: tuple[int, ...], counts: tuple[int, ...], runs: int | None = None) -> bytes:
    """A 32-bit roaring bitmap of these containers; `runs` are the bits of those that are runs."""
    heads = b"".join(struct.pack("<HH", key, count - 1) for key, count in zip(keys, counts, strict=True))
    if runs is not None:
        return struct.pack("<IB", 12347 | (len(keys) - 1) << 16, runs) + heads + b"".join(containers)
    begin = 8 + 8 * len(keys)
    offsets = [begin + sum(map(len, containers[:number])) for number in range(len(keys))]
    return struct.pack(f"<II{len(heads)}s{len(keys)}I", 12346, len(keys), heads, *offsets) + b"".join(containers)


def _inline(bitmap: bytes, rows: int, key: int = 0) -> dict[str, Any]:
    data = struct.pack("<IQI", 1681511377, 1, key) + bitmap
    text = base64.b85encode(data + bytes(-len(data) % 4)).decode()
    z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
    pythons = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
    return {
        "pathOrInlineDv": text.translate(str.maketrans(pythons, z85)),
        "sizeInBytes": len(data),
        "cardinality": rows,
    }


def _large(table: Path) -> None:
    """The log says that the file has more rows than one container has numbers."""
    commit = commit_file(table, 2)
    commit.write_text(commit.read_text().replace('\\"numRecords\\": 6', '\\"numRecords\\": 200000'))


LIST = struct.pack("<3H", 2, 5, 65535)
BITS = np.packbits(np.arange(65536) % 2 == 1, bitorder="little").tobytes()
RUNS = struct.pack("<5H", 2, 1, 2, 10, 0)


@pytest.mark.parametrize(
    ("vector", "rows"),
    [
        (_inline(_bitmap(LIST, BITS, keys=(0, 2), counts=(3, 32768)), 32771), [2, 5, 65535, *range(131073, 196608, 2)]),
        (_inline(_bitmap(RUNS, LIST, keys=(0, 1), counts=(4, 3), runs=0b01), 7), [1, 2, 3, 10, 65538, 65541, 131071]),
        (_inline(_bitmap(LIST, keys=(1,), counts=(3,)), 3), [65538, 65541, 131071]),
    ],
    ids=["a set of bits", "runs", "a list"],
)
def test_vectors_of_any_form_are_read(table: Path, vector: dict[str, Any], rows: list[int]) -> None:
    _large(table)
    _with(table, **vector)
    (deleted,) = any_table(str(table)).deleted.values()
    assert deleted.tolist() == rows


WHOLE = deletion_vector([1, 3])


@pytest.mark.parametrize(
    ("vector", "said"),
    [
        ({"cardinality": 3}, "it is of 2 rows, not 3"),
        ({"sizeInBytes": WHOLE["sizeInBytes"] - 1}, "it ends too early"),
        ({"sizeInBytes": 400}, "it has 36 bytes, not 400"),
        ({"pathOrInlineDv": "it is no vector"}, "bad base85 character"),
        (deletion_vector([3, 9]), "it deletes row 9 of 6"),
        (deletion_vector([3, 1]), "its rows are in an odd order"),
        (_inline(_bitmap(LIST, keys=(0,), counts=(3,)), 3, key=1 << 24), "it deletes row 72,057,594,037,993,471 of 6"),
        (_inline(_bitmap(RUNS, keys=(0,), counts=(5,), runs=1), 5), "5 rows are 4"),
        (_inline(_bitmap(LIST, LIST, keys=(1, 1), counts=(3, 3)), 6), "its parts are in an odd order"),
        (_inline(b"\1\0\0\0", 0), "it is of another kind"),
    ],
)
def test_a_vector_that_makes_no_sense_names_the_file_of_the_log(table: Path, vector: dict[str, Any], said: str) -> None:
    commit = _with(table, **vector)
    with pytest.raises(DataError) as caught:
        any_table(str(table))
    assert caught.value.message.startswith(f"{commit} is damaged: a deletion vector in it makes no sense ({said}")


def _sum_up(table: Path, *, as_v2: bool) -> Path:
    """A checkpoint of the newest version instead of its commits; gives the file with the vector."""
    DeltaTable(table).create_checkpoint()
    log = table / "_delta_log"
    for commit in log.glob("*.json"):
        commit.unlink()
    made = log / f"{2:020d}.checkpoint.parquet"
    if not as_v2:
        return made
    features = ["deletionVectors", "v2Checkpoint"]
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": features, "writerFeatures": features}
    found = pq.read_table(made)
    metadata = next(row for row in found["metaData"].to_pylist(maps_as_pydicts="strict") if row is not None)
    sidecar = log / "_sidecars" / "5.parquet"
    sidecar.parent.mkdir()
    pq.write_table(found.filter(pa.compute.is_valid(found["add"])).select(["add"]), sidecar)
    named = {"path": sidecar.name, "sizeInBytes": sidecar.stat().st_size, "modificationTime": 0}
    lines = [{"checkpointMetadata": {"version": 2}}, {"protocol": protocol}]
    lines += [{"metaData": {k: v for k, v in metadata.items() if v is not None}}, {"sidecar": named}]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (log / f"{2:020d}.checkpoint.00000000-0000-0000-0000-000000000005.json").write_text(text)
    made.unlink()
    (log / "_last_checkpoint").write_text(json.dumps({"version": 2, "size": len(found)}))
    return sidecar


@pytest.mark.parametrize("as_v2", [False, True])
def test_vectors_in_checkpoints_are_looked_at_too(table: Path, as_v2: bool) -> None:
    _with(table, **deletion_vector([2, 4]))
    where = _sum_up(table, as_v2=as_v2)
    (deleted,) = any_table(str(table)).deleted.values()
    assert deleted.tolist() == [2, 4]
    rows = pq.read_table(where).to_pylist(maps_as_pydicts="strict")
    for row in rows:
        if row["add"] is not None:
            row["add"]["deletionVector"]["cardinality"] = 3
    pq.write_table(pa.Table.from_pylist(rows, pq.read_schema(where)), where)
    with pytest.raises(DataError, match=rf"{where.name} is damaged: a deletion vector in it .* 2 rows, not 3"):
        any_table(str(table))

"""The Delta projects' own test tables: we read of each the rows that Spark and delta-rs read, or refuse it by name.

    python -m tests.golden_rows FOLDER...
    python -m tests.golden_rows --collect delta-kernel-rs delta-rs delta

The first takes folders with Delta tables in any depth, and prints what is refused or read differently; the exit status
is 1 when a table is. What Spark reads lies beside a table in a folder `expected`, as delta-kernel-rs has it, or in it
as `expected.parquet`. Where it is not known, delta-rs is asked.

The second makes `GOLDEN_ROWS`, which the test suite looks at, from checkouts of these projects, which are under the
Apache License 2.0. Of tables with one name the first counts. It leaves out change data and files of earlier versions.
"""

from __future__ import annotations

import io
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import DeltaError

from engine.declare.context import Resources, TaskContext
from engine.errors import VoxelflowError
from nodes.conversion.columns import stored_type
from nodes.foreign_tables.rows import read_columns
from nodes.foreign_tables.tables import find_table, plain
from nodes.table.snapshot import active_paths, load_delta

GOLDEN_ROWS = Path(__file__).parent / "nodes" / "table" / "golden_rows.tar.xz"
EXPECTED = "expected.parquet"
LARGEST = 160 << 10
"""Bytes of a table. What a larger one shows, a smaller one shows, too."""
_LONG = (*(f"parquet-decimal-dictionaries{each}" for each in ("", "-v1", "-v2")), "table-with-dv-gigantic")
"""A million rows each and more in 62 kB: half a minute to compare, or hours."""
_PREFIX = "test%dv%prefix-"
"""Before the names of deletion vectors, by a setting of Delta's own tests; their logs do not know it. Of several that
are missing, delta-rs names any one."""
_MISREAD = ("table_with_edge_timestamps",)
"""By delta-rs, while no file says what Spark reads."""
_OF_A_ZONE = ("data-reader-partition-values",)
"""Spark took a partition's time without a zone for one of its own zone; delta-rs takes it for UTC, as we do."""
_LOGS = ("_delta_log", "_change_data")


class Wrong(Exception):
    """A table is read in another way than others read it."""


def check_rows(root: Path, scratch: Path) -> str:
    """Compare the rows that we read with those that others read; "" when they are the same, else why it is refused.

    Columns that are no single values are not compared: they are not carried. Raises `Wrong`.
    """
    try:
        found, count = _ours(root, scratch)
    except VoxelflowError as exc:
        if str(root) not in exc.message or not exc.hint or "\n" in exc.message:
            raise Wrong(f"refused by {exc.message!r}, hint {exc.hint!r}") from exc
        return exc.message.replace(str(root), "TABLE")
    wanted = plain(_expected(root))
    if count != wanted.num_rows:
        raise Wrong(f"{count} rows, where others read {wanted.num_rows}")
    if missing := set(found.column_names) ^ set(_single(wanted.schema)):
        raise Wrong(f"columns that only one of us has: {missing}")
    if _sorted(found, found.schema) != _sorted(wanted, found.schema):
        raise Wrong("other values")
    return ""


def _ours(root: Path, scratch: Path) -> tuple[pa.Table, int]:
    table = find_table(str(root))
    ctx = TaskContext(
        run_id="golden", node_id="it", fingerprint="0" * 32, out=scratch, shared=scratch, scratch=scratch,
        resources=Resources(cores=2),
    )  # fmt: skip
    assert table.columns is not None
    counts, rows = read_columns(table, _single(table.columns), ctx, volume="", named={})
    # Without a column that is read, Arrow's table has no rows.
    return rows, sum(int(table.kept(*each).sum()) for each in enumerate(counts.tolist()))


def _single(schema: pa.Schema) -> list[str]:
    return [field.name for field in schema if stored_type(field.type) is not None]


def _expected(root: Path) -> pa.Table:
    if (root / EXPECTED).exists():
        return pq.read_table(root / EXPECTED)
    if (root.parent / "expected").is_dir():
        return _by_spark(root.parent / "expected")
    delta = DeltaTable(root)
    try:
        return pa.table(QueryBuilder().register("it", delta).execute("select * from it"))
    except DeltaError as exc:
        raise Wrong(f"delta-rs cannot read it, and what Spark reads is not known: {exc}") from exc


def _by_spark(folder: Path) -> pa.Table:
    files = (pq.ParquetFile(path, coerce_int96_timestamp_unit="us") for path in sorted(folder.rglob("*.parquet")))
    return pa.concat_tables((file.read() for file in files), promote_options="permissive")


def _sorted(rows: pa.Table, schema: pa.Schema) -> list[str]:
    columns = []
    for name, kind in zip(schema.names, schema.types, strict=True):
        columns.append(rows[name].cast(kind).to_pylist())
    return sorted(map(repr, zip(*columns, strict=True)))


def tables(folder: Path) -> Iterator[tuple[str, Path]]:
    """Each table below a folder, with its name. Some have a log only, without data files."""
    for log in sorted(folder.rglob("_delta_log")):
        if log.is_dir():
            yield str(log.parent.relative_to(folder)).removesuffix("/delta"), log.parent


def collect(checkouts: list[str]) -> int:
    """Write `GOLDEN_ROWS`; the number of tables."""
    found: dict[str, dict[str, bytes]] = {}
    known: set[str] = set()
    licences: dict[str, bytes] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for checkout in map(Path, checkouts):
            (licence,) = checkout.glob("LICENSE*")
            licences[f"{checkout.name}/LICENSE"] = licence.read_bytes()
            for name, root in tables(_unpacked(checkout, Path(scratch))):
                files = _files_of(root)
                short = name.rpartition("/")[2]
                if short not in (*known, *_MISREAD, *_LONG) and sum(map(len, files.values())) <= LARGEST:
                    known.add(short)
                    found[f"{checkout.name}/{short}"] = files
    with tarfile.open(GOLDEN_ROWS, "w:xz", preset=9) as archive:
        members = licences | {f"{name}/{path}": data for name, files in found.items() for path, data in files.items()}
        # What is alike stands side by side.
        for path in sorted(members, key=lambda path: (Path(path).suffix, path)):
            member = tarfile.TarInfo(path)
            member.size = len(members[path])
            archive.addfile(member, io.BytesIO(members[path]))
    return len(found)


def _unpacked(checkout: Path, scratch: Path) -> Path:
    """The checkout; of delta-kernel-rs with the tables that it keeps packed, side by side."""
    packed = sorted(checkout.rglob("*.tar.zst"))
    if not packed:
        return checkout
    out = scratch / checkout.name
    for path in packed:
        if path.stat().st_size <= LARGEST:
            data = pa.input_stream(str(path), compression="zstd").read()
            with tarfile.open(fileobj=io.BytesIO(data)) as archive:
                archive.extractall(out / "packed", filter="data")
    for name, root in tables(checkout):
        # Not linked: a search for tables does not follow links.
        shutil.copytree(root, out / name)
    return out


def _files_of(root: Path) -> dict[str, bytes]:
    """The log, the files of its newest version, deletion vectors, and what Spark reads."""
    kept = [path for path in (root / "_delta_log").rglob("*") if path.suffix != ".crc"]
    kept += root.rglob("*deletion_vector_*.bin")
    try:
        kept += [root / path for path in active_paths(load_delta(root))]
    except VoxelflowError:
        kept += [path for path in root.rglob("*.parquet") if set(_LOGS).isdisjoint(path.relative_to(root).parts)]
    files = {str(path.relative_to(root)).replace(_PREFIX, ""): path.read_bytes() for path in kept if path.is_file()}
    if (root.parent / "expected").is_dir():
        rows = _by_spark(root.parent / "expected")
        if not _single(rows.schema) or root.parent.name in _OF_A_ZONE:
            return files
        sink = pa.BufferOutputStream()
        pq.write_table(rows.select(_single(rows.schema)).replace_schema_metadata(), sink, compression="none")
        files[EXPECTED] = sink.getvalue().to_pybytes()
    return files


def main(sources: list[str]) -> int:
    """Check all tables below the folders; the exit status."""
    if not sources:
        print(__doc__)
        return 2
    if sources[0] == "--collect":
        print(f"{collect(sources[1:])} tables")
        return 0
    outcome: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for source in sources:
            for name, root in tables(Path(source)):
                try:
                    outcome[name] = check_rows(root, Path(scratch))
                except Exception as exc:
                    outcome[name] = exc
                if outcome[name]:
                    wrong = isinstance(outcome[name], Exception)
                    print(f"{'WRONG' if wrong else 'refused'} {name}: {outcome[name]}")
    wrong = sum(isinstance(each, Exception) for each in outcome.values())
    refused = sum(bool(each) for each in outcome.values()) - wrong
    print(f"{len(outcome)} tables: {len(outcome) - refused - wrong} read alike, {refused} refused, {wrong} wrong")
    return 1 if wrong or not outcome else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

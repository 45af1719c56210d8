"""The Delta projects' own test tables: we see of each what a plain replay of its log gives, or refuse it by name.

    python -m tests.golden_tables FOLDER_OR_ZIP...
    python -m tests.golden_tables --collect deltalake-1.6.6.tar.gz delta_kernel-0.13.0.crate

The first takes checkouts of delta-io/delta, delta-kernel-rs and delta-rs, or an archive of tables, and looks at every
folder with a `_delta_log`. It prints what is refused and why; the exit status is 1 when a table is seen in another way
than its log says, or refused without a sentence for it.

The second makes `GOLDEN_TABLES`, which the test suite looks at: the logs that delta-rs (deltalake's source distribution
on PyPI) and delta-kernel-rs (the crate, whose later versions have no test data) are published with, under the Apache
License 2.0. Those of delta-io/delta are in no package; the test suite takes their logs from `golden_rows.GOLDEN_ROWS`.
"""

from __future__ import annotations

import io
import json
import shutil
import sys
import tarfile
import tempfile
import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from engine.errors import DataError, UnsupportedTable, VoxelflowError
from engine.storage.find_place import place_at
from nodes.table.features import commit_rules
from nodes.table.log import commit_file, newest_version
from nodes.table.log_checkpoint import make_checkpoint
from nodes.table.snapshot import load_delta, logged_sizes, open_table
from nodes.table.unknown_removes import unknown_removes

GOLDEN_TABLES = Path(__file__).parent / "nodes" / "table" / "golden_tables.zip"
VERSIONS_EACH = 3
"""Of each table: the first, the newest, one between."""
LARGEST_LOG = 64 << 20
"""Bytes. A log of 300,000 files with 100 columns takes minutes and says nothing that a smaller one does not."""


class Wrong(Exception):
    """A table is seen in another way than its log says."""


def check_table(root: Path) -> str:
    """Compare what we see of the table with its log; "" when it is the same, else why the table is refused.

    Changes the table. Raises `Wrong` when we see something else, or refuse without saying which table and what to do.
    """
    # None of them holds volumes: whatever is the first reason, it comes as a sentence with the table's name.
    try:
        open_table(root)
    except (DataError, UnsupportedTable) as exc:
        if str(root) not in exc.message or not exc.hint or "\n" in exc.message:
            raise Wrong(f"refused by {exc.message!r}, hint {exc.hint!r}") from exc
    try:
        delta = load_delta(root)
    except VoxelflowError as exc:
        return exc.message.replace(str(root), "TABLE")
    newest = delta.version()
    if unknown := unknown_removes(place_at(root), newest):
        raise Wrong(f"it takes out a file that no commit has added: {unknown[0]}")
    for version in sorted({newest * step // (VERSIONS_EACH - 1) for step in range(VERSIONS_EACH)}):
        _check_version(root, version)
    # A checkpoint of ours says the same without the commits before it.
    files, schema, rules = logged_sizes(delta), delta.schema(), commit_rules(delta, root)
    if newest_version(root) not in (newest, None):
        raise Wrong(f"its newest version is {newest}, and we say {newest_version(root)}")
    if make_checkpoint(root, newest, 1):
        for version in range(newest):
            commit_file(root, version).unlink(missing_ok=True)
        again = load_delta(root)
        if (again.version(), logged_sizes(again), again.schema()) != (newest, files, schema):
            raise Wrong("our checkpoint says something else")
        if commit_rules(again, root) != rules:
            raise Wrong("our checkpoint has other rules")
    return ""


def _check_version(root: Path, version: int) -> None:
    wanted = _replayed(root, version)
    if wanted is None:
        return
    sizes, schema = wanted
    try:
        found = load_delta(root, version)
    except UnsupportedTable:
        if not schema:
            return
        raise
    if logged_sizes(found) != sizes:
        raise Wrong(f"other files in version {version}")
    # One table's checkpoint has a column more than its commits, and the checkpoint counts.
    checkpoints = {int(f.name[:20]) for f in (root / "_delta_log").glob("*.checkpoint.*parquet")}
    begins_at_checkpoint = any(c <= version for c in checkpoints)
    names = [f.name for f in found.schema().fields]
    if names != [f["name"] for f in schema["fields"]] and not begins_at_checkpoint:
        raise Wrong(f"another schema in version {version}")


def _replayed(root: Path, version: int) -> tuple[dict[str, int], dict[str, Any]] | None:
    """Sizes of the active files by path, and the schema, as the commits say; None where the log does not begin at 0."""
    active: dict[tuple[str, str], int] = {}
    schema: dict[str, Any] = {}
    for current in range(version + 1):
        path = commit_file(root, current)
        if not path.exists():
            return None
        for line in filter(str.strip, path.read_text().split("\n")):
            for kind, action in json.loads(line).items():
                if kind == "metaData":
                    schema = json.loads(action.get("schemaString") or "{}")
                elif kind in ("add", "remove"):
                    key = action["path"], json.dumps(action.get("deletionVector"), sort_keys=True)
                    active.pop(key, None)
                    if kind == "add":
                        active[key] = action["size"]
    return {path: size for (path, _), size in active.items()}, schema


def tables(source: Path, scratch: Path) -> Iterator[tuple[str, Path]]:
    """Each table's name, and a copy of its log to change."""
    if source.is_file():
        with zipfile.ZipFile(source) as archive:
            archive.extractall(scratch / "archive")
        source = scratch / "archive"
    for log in sorted(source.rglob("_delta_log")):
        if sum(f.stat().st_size for f in log.rglob("*") if f.is_file()) > LARGEST_LOG:
            print(f"left out: {log.parent.relative_to(source)}: its log is too large")
            continue
        copy = scratch / "table"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(log, copy / "_delta_log")
        for vector in log.parent.glob("deletion_vector_*.bin"):
            shutil.copy(vector, copy)
        yield str(log.parent.relative_to(source)), copy


def _logs(archive: tarfile.TarFile) -> Iterator[tuple[str, bytes]]:
    """Each file of a log or a deletion vector, and the licence, by its path from the folder of test data."""
    for member in archive:
        path = Path(member.name)
        if not member.isfile() or path.name.startswith("._"):
            continue
        extracted = archive.extractfile(member)
        assert extracted is not None
        if path.name.endswith(".tar.zst"):
            data = pa.input_stream(extracted, compression="zstd").read()
            with tarfile.open(fileobj=io.BytesIO(data)) as table:
                yield from _logs(table)
        elif path.suffix != ".crc" and ("_delta_log" in path.parts or path.name.startswith("deletion_vector_")):
            known = [at + 1 for at, part in enumerate(path.parts) if part in ("data", "data_err_logs")]
            yield str(Path(*path.parts[max(known, default=0) :])), extracted.read()
        elif path.stem in ("LICENSE", "NOTICE") and path.parts[1:-1] in ((), ("python",)):
            yield path.name, extracted.read()


def collect(archives: list[str]) -> int:
    """Write `GOLDEN_TABLES`; the number of tables."""
    found: dict[str, bytes] = {}
    for source in archives:
        with tarfile.open(source) as archive:
            package = Path(source).name.removesuffix(".tar.gz").removesuffix(".crate")
            found |= {f"{package}/{path}": data for path, data in _logs(archive)}
    with zipfile.ZipFile(GOLDEN_TABLES, "w") as out:
        for path, data in sorted(found.items()):
            out.writestr(zipfile.ZipInfo(path), data, zipfile.ZIP_DEFLATED, 9)
    return len({path.partition("/_delta_log/")[0] for path in found if "/_delta_log/" in path})


def main(sources: list[str]) -> int:
    """Check all tables below the folders and archives; the exit status."""
    if not sources:
        print(__doc__)
        return 2
    if sources[0] == "--collect":
        print(f"{collect(sources[1:])} tables")
        return 0
    same, refused, wrong = 0, Counter[str](), []
    with tempfile.TemporaryDirectory() as folder:
        for source in sources:
            for name, root in tables(Path(source), Path(folder)):
                try:
                    reason = check_table(root)
                except Exception as exc:
                    print(f"WRONG {name}: {type(exc).__name__}: {exc}")
                    wrong.append(name)
                    continue
                same += not reason
                if reason:
                    refused[reason] += 1
                    print(f"refused {name}: {reason}")
    seen = same + sum(refused.values()) + len(wrong)
    print(f"{seen} tables: {same} as their logs say, {sum(refused.values())} refused by name, {len(wrong)} wrong")
    return 1 if wrong or not same else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

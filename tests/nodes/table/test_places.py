"""One table in any place: filled, grown, compacted, damaged, shared, in a local folder and in each object store."""

from __future__ import annotations

import hashlib
import os
import shutil
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from delta_tables import (
    SPEC,
    Interfering,
    context,
    dataset_of,
    exactly,
    ids,
    rows_of,
    shards,
    write_shard,
)
from deltalake import DeltaTable, write_deltalake
from store_fixtures import upload_folder

from engine.declare.datasets import Transform, VolumeDelta, VolumeParquet, VolumeSpec
from engine.errors import DataError, StaleInput, TableConflict, UsageError
from engine.storage.find_place import place_at
from nodes.inspect_dataset import inspect_dataset
from nodes.optimize_delta import optimize_delta
from nodes.parquet_to_delta import parquet_to_delta
from nodes.table.provenance import OLDER_SOURCE, open_ledger
from nodes.table.snapshot import open_table
from nodes.volume_file.parts import read_parts

SMALL = {"target_file_mb": 1, "min_fill": 1.0}


def holds(table: VolumeDelta, volume_ids: list[str]) -> None:
    """The version pinned and the newest one hold exactly these volumes, and the reference counts them."""
    for version in (table.version, None):
        exactly(table.uri, volume_ids, version)
    assert (table.count, table.labelled) == (len(volume_ids), sum(r[1] is not None for r in rows_of(volume_ids)))


def data_files(url: str) -> list[str]:
    return sorted(name for name in place_at(url).names() if name.endswith(".parquet"))


def spoil(url: str, name: str, data: bytes | None) -> None:
    """Damage a file: other content, or none at all."""
    place = place_at(url)
    place.delete(name)
    if data is not None:
        place.write(name, lambda sink: sink.write(data))


def without(dataset: VolumeParquet, *numbers: int) -> VolumeParquet:
    return dataset_of(Path(dataset.uri), [p for n, p in enumerate(read_parts(dataset).parts) if n not in numbers])


@pytest.mark.slow
def test_a_compaction_changes_no_row_and_growing_goes_on(home: str, tmp_path: Path) -> None:
    url, dataset = f"{home}/table", shards(tmp_path / "p", *[2] * 12)
    table = parquet_to_delta(dataset, table=url, ctx=context(tmp_path))
    packed = optimize_delta(table, **SMALL, ctx=context(tmp_path, "optimize"))
    holds(packed, ids(0, 24))
    assert packed.files == 1
    assert packed.data_version == table.data_version
    assert optimize_delta(packed, **SMALL, ctx=context(tmp_path, "optimize")) == packed
    assert not list((tmp_path / "tasks" / "optimize" / "scratch").iterdir())
    assert parquet_to_delta(dataset, table=url, ctx=context(tmp_path)).version == packed.version
    grown = parquet_to_delta(shards(tmp_path / "p", *[2] * 13), table=url, ctx=context(tmp_path, "grown"))
    holds(grown, ids(0, 26))
    assert grown.files == 2
    twice = optimize_delta(grown, **SMALL, ctx=context(tmp_path, "optimize again"))
    holds(twice, ids(0, 26))
    # Of a compacted file the rows go whose part vanished, and no others are sent again.
    before = data_files(url)
    less = parquet_to_delta(without(dataset, 3), table=url, ctx=context(tmp_path, "less"))
    holds(less, [*ids(0, 6), *ids(8, 16)])
    assert len(set(data_files(url)) - set(before)) == 1
    with pytest.raises(StaleInput):
        optimize_delta(twice, ctx=context(tmp_path, "late"))


@pytest.mark.slow
def test_constraints_of_a_table_are_kept(home: str, tmp_path: Path) -> None:
    url, folder = f"{home}/table", tmp_path / "p"
    first, bad, good = (write_shard(folder, some) for some in (ids(1, 5), ids(6, 9), ids(8, 6)))
    parquet_to_delta(dataset_of(folder, [first]), table=url, ctx=context(tmp_path))
    DeltaTable(url).alter.add_constraint({"known": "label IS NOT NULL"})
    with pytest.raises(DataError, match=r"of 9 new rows: its constraint known .* in 2 rows, for example vol-00007"):
        parquet_to_delta(dataset_of(folder, [first, bad]), table=url, ctx=context(tmp_path))
    assert data_files(url) == [first.path], "nothing is left"
    full = parquet_to_delta(dataset_of(folder, [first, good]), table=url, ctx=context(tmp_path))
    holds(optimize_delta(full, **SMALL, ctx=context(tmp_path, "optimize")), [*ids(1, 5), *ids(8, 6)])
    DeltaTable(url).alter.set_table_properties({"delta.appendOnly": "true"})
    with pytest.raises(DataError, match="only takes new rows"):
        parquet_to_delta(dataset_of(folder, [first]), table=url, ctx=context(tmp_path))


@pytest.mark.slow
def test_damaged_files_are_put_back_from_their_parts(home: str, tmp_path: Path) -> None:
    url, dataset = f"{home}/table", shards(tmp_path / "p", 3, 4, 5)
    verify = parquet_to_delta.verify_hook
    assert verify is not None
    table = parquet_to_delta(dataset, table=url, ctx=context(tmp_path))
    gone, short, _ = (f.path for f in open_table(url).files)
    spoil(url, gone, None)
    assert verify({"out": table}, False) == f"{gone} of version 1 is gone"
    spoil(url, short, bytes(place_at(url).read(short))[:-1])
    assert parquet_to_delta(dataset, table=url, ctx=context(tmp_path)) == table
    assert verify({"out": table}, False) == ""
    holds(table, ids(0, 12))
    packed = optimize_delta(table, **SMALL, ctx=context(tmp_path, "optimize"))
    (large,) = open_table(url).files
    spoil(url, large.path, b"cut short")
    assert verify({"out": packed}, False) == f"{large.path} of version 2 has 9 bytes, not {large.bytes:,}"
    assert large.path in verify({"out": table}, True)
    with pytest.raises(DataError, match=large.path):
        optimize_delta(packed, **SMALL, ctx=context(tmp_path, "optimize"))
    again = parquet_to_delta(dataset, table=url, ctx=context(tmp_path))
    holds(again, ids(0, 12))
    packed = optimize_delta(again, **SMALL, ctx=context(tmp_path, "optimize again"))
    assert verify({"out": packed}, False) == ""
    holds(packed, ids(0, 12))


@pytest.mark.slow
def test_two_datasets_share_a_table(home: str, tmp_path: Path) -> None:
    url, ctx = f"{home}/t", context(tmp_path)
    one, two = shards(tmp_path / "one", 3, 4), shards(tmp_path / "two", 5, first=100)
    parquet_to_delta(one, table=url, ctx=ctx)
    both = parquet_to_delta(two, table=url, ctx=ctx)
    holds(both, ids(0, 7) + ids(100, 5))
    optimize_delta(both, ctx=context(tmp_path, "o"))
    with pytest.raises(DataError, match=r"already holds the volume vol-0000[456]") as caught:
        parquet_to_delta(shards(tmp_path / "three", 4, 3, first=4), table=url, ctx=ctx)
    assert "replace" in caught.value.hint
    # What vanished from one dataset says nothing of the other.
    holds(parquet_to_delta(without(one, 0), table=url, ctx=ctx), ids(3, 4) + ids(100, 5))
    holds(parquet_to_delta(one, table=url, existing="replace", ctx=ctx), ids(0, 7))


@pytest.mark.slow
def test_rows_that_another_program_moved_stay_and_are_not_added_again(home: str, tmp_path: Path) -> None:
    url, dataset, ctx = f"{home}/t", shards(tmp_path / "p", 3, 4), context(tmp_path)
    table = parquet_to_delta(dataset, table=url, ctx=ctx)
    DeltaTable(url).optimize.compact()
    same = parquet_to_delta(dataset, table=url, ctx=ctx)
    holds(same, ids(0, 7))
    assert same.data_version == table.version
    # New shards still go in ...
    grown = shards(tmp_path / "p", 3, 4, 5)
    holds(parquet_to_delta(grown, table=url, ctx=ctx), ids(0, 12))
    # ... but nothing comes out, not even after our own compaction.
    optimize_delta(parquet_to_delta(grown, table=url, ctx=ctx), ctx=context(tmp_path, "o"))
    with pytest.raises(StaleInput, match="another program has rewritten") as caught:
        parquet_to_delta(without(grown, 0), table=url, ctx=ctx)
    assert "replace" in caught.value.hint
    holds(parquet_to_delta(without(grown, 0), table=url, existing="replace", ctx=ctx), ids(3, 9))
    # Rows that it added are not ours: they stay until somebody asks for this dataset alone.
    write_deltalake(url, DeltaTable(url).to_pyarrow_table().slice(0, 1), mode="append")
    fill_again = {"existing": "replace", "deleted_rows": "restore"}
    holds(parquet_to_delta(grown, table=url, **fill_again, ctx=ctx), ids(0, 12))


@pytest.mark.slow
def test_a_lost_ledger_never_doubles_rows(home: str, tmp_path: Path) -> None:
    url, dataset, ctx = f"{home}/t", shards(tmp_path / "p", 3, 4), context(tmp_path)
    table = parquet_to_delta(dataset, table=url, ctx=ctx)
    _lose_ledger(url)
    assert parquet_to_delta(dataset, table=url, ctx=ctx).version == table.version
    holds(parquet_to_delta(without(dataset, 0), table=url, ctx=ctx), ids(3, 4))
    optimize_delta(parquet_to_delta(dataset, table=url, ctx=ctx), ctx=context(tmp_path, "o"))
    _lose_ledger(url)
    with pytest.raises(DataError, match="already holds"):
        parquet_to_delta(dataset, table=url, ctx=ctx)
    holds(parquet_to_delta(dataset, table=url, existing="replace", ctx=ctx), ids(0, 7))


def _lose_ledger(url: str) -> None:
    for name in list(place_at(url).names("_voxelflow/ledger")):
        place_at(url).delete(f"_voxelflow/ledger/{name}")


def test_ledgers_of_earlier_commits_are_dropped(home: str, tmp_path: Path) -> None:
    url = f"{home}/t"
    for sizes in ((3,), (3, 4), (3, 4, 5)):
        parquet_to_delta(shards(tmp_path / "p", *sizes), table=url, ctx=context(tmp_path))
    assert list(place_at(url).names("_voxelflow/ledger")) == [f"{open_table(url).token:020d}.arrow"]


@pytest.mark.slow
def test_what_others_commit_meanwhile_is_read_again(home: str, tmp_path: Path) -> None:
    url = f"{home}/t"
    parquet_to_delta(shards(tmp_path / "p", *[2] * 4), table=url, ctx=context(tmp_path))
    bigger = shards(tmp_path / "p", *[2] * 5)
    compact = lambda: DeltaTable(url).optimize.compact()  # noqa: E731
    ctx: Any = Interfering(context(tmp_path, "grow"), "delta:before-commit", compact)
    grown = parquet_to_delta(bigger, table=url, ctx=ctx)
    holds(grown, ids(0, 10))
    assert any("planning again" in line for line in ctx.said)
    alter = lambda: DeltaTable(url).alter.set_table_properties({"mine": "1"}, raise_if_not_exists=False)  # noqa: E731
    ctx = Interfering(context(tmp_path, "optimize"), "optimize:before-commit", alter)
    holds(optimize_delta(grown, **SMALL, ctx=ctx), ids(0, 10))
    assert any("planning again" in line for line in ctx.said)


@pytest.mark.slow
def test_our_own_writers_meet_in_an_object_store(azure: str, tmp_path: Path) -> None:
    """There no lock keeps one of them out between the plan of the other and its commit."""
    bigger, biggest = shards(tmp_path / "p", *[2] * 5), shards(tmp_path / "p", *[2] * 6)
    url = ""
    for point in ("delta:before-ledger", "delta:before-commit"):
        url = f"{azure}/{point}"
        table = parquet_to_delta(shards(tmp_path / "p", *[2] * 4), table=url, ctx=context(tmp_path))
        optimize = lambda: optimize_delta(table, **SMALL, ctx=context(tmp_path, "optimize"))  # noqa: B023, E731
        ctx: Any = Interfering(context(tmp_path, "grow"), point, optimize)
        holds(parquet_to_delta(bigger, table=url, ctx=ctx), ids(0, 10))
        assert any("planning again" in line for line in ctx.said)
    grown = parquet_to_delta(bigger, table=url, ctx=context(tmp_path, "grown"))
    grow = lambda: parquet_to_delta(biggest, table=url, ctx=context(tmp_path, "grow more"))  # noqa: E731
    late: Any = Interfering(context(tmp_path, "optimize late"), "optimize:before-commit", grow)
    with pytest.raises(StaleInput):
        optimize_delta(grown, **SMALL, ctx=late)
    exactly(url, ids(0, 12))
    now = open_table(url)
    assert {s.shard is None for f in now.files for s in open_ledger(now).segments(f.path, f.rows)} == {False}


@pytest.mark.slow
def test_a_writer_that_never_gets_its_turn_gives_up(home: str, tmp_path: Path) -> None:
    url = f"{home}/t"
    parquet_to_delta(shards(tmp_path / "p", 2), table=url, ctx=context(tmp_path))
    commit = lambda: DeltaTable(url).alter.set_table_properties({"delta.appendOnly": "false"})  # noqa: E731
    ctx: Any = Interfering(context(tmp_path, "grow"), "delta:before-commit", *[commit] * 5)
    with pytest.raises(TableConflict, match="another program committed"):
        parquet_to_delta(shards(tmp_path / "p", 2, 3), table=url, ctx=ctx)
    exactly(url, ids(0, 2))


def test_a_table_knows_its_dataset_after_the_workspace_was_moved(home: str, tmp_path: Path) -> None:
    url, here, there = f"{home}/t", tmp_path / "here", tmp_path / "there"
    dataset = shards(here / "p", 2, 1)
    parquet_to_delta(dataset, table=url, ctx=context(tmp_path))
    ctx = replace(context(tmp_path, "grow"), workspace=there, former_workspaces=(str(here),))
    shutil.copytree(here, there)
    moved = dataset_of(there / "p", [*read_parts(dataset).parts[:1], write_shard(there / "p", ids(3, 3))])
    if "://" in url:
        # While the former place is there, this one is a copy, and that is another dataset: its shards stay.
        parquet_to_delta(moved, table=url, ctx=ctx)
        exactly(url, ids(0, 6))
    shutil.rmtree(here)
    parquet_to_delta(moved, table=url, ctx=ctx)
    exactly(url, [*ids(0, 2), *ids(3, 3)])


def test_what_does_not_go_together_is_refused(home: str, tmp_path: Path) -> None:
    dataset, url, ctx = shards(tmp_path / "p", 3), f"{home}/t", context(tmp_path)
    place_at(f"{home}/used").write("notes.txt", lambda sink: sink.write(b"mine"))
    with pytest.raises(UsageError, match=r"neither a Delta table nor empty \(it holds notes.txt\)"):
        parquet_to_delta(dataset, table=f"{home}/used", ctx=ctx)
    with pytest.raises(UsageError, match="in place"):
        parquet_to_delta(dataset, table=url, mode="in_place", ctx=ctx)
    table = parquet_to_delta(dataset, table=url, ctx=ctx)
    spec = SPEC.model_copy(update={"shape": (2, 2, 2)})
    with pytest.raises(DataError, match="holds volumes of shape"):
        parquet_to_delta(shards(tmp_path / "p", 3, spec=spec), table=url, ctx=ctx)
    steps = {"transforms": (Transform(name="crop-pad", words="crop"),)}
    with pytest.raises(DataError, match=r"holds volumes of transforms none; these have transforms crop$"):
        parquet_to_delta(shards(tmp_path / "p", 3, spec=SPEC.model_copy(update=steps)), table=url, ctx=ctx)
    if "://" in url:
        with pytest.raises(UsageError, match="not vacuumed"):
            optimize_delta(table, vacuum=True, ctx=ctx)
        with pytest.raises(UsageError, match="not looked into"):
            optimize_delta(table, rewrite_layout=True, ctx=ctx)
        with pytest.raises(UsageError, match="local folder"):
            inspect_dataset(table, ctx=ctx)


def test_a_table_of_a_function_of_before_goes_on_where_it_does_the_same(home: str, tmp_path: Path) -> None:
    """Version 1 of the step was told another place of the voxels, where a step before it had moved them."""
    crop = Transform(name="crop-pad", parameters={"size": [4, 3, 2]}, words="crop 4x3x2")

    def chain(*before: Transform, version: int) -> VolumeSpec:
        given = {"file": "gain.py", "source": "..."}
        function = Transform(name="function", version=version, parameters=given, words="gain.py")
        return SPEC.model_copy(update={"transforms": (*before, function)})

    ctx, url = context(tmp_path), f"{home}/t"
    parquet_to_delta(shards(tmp_path / "p", 2, spec=chain(version=1)), table=url, ctx=ctx)
    made = parquet_to_delta(shards(tmp_path / "p", 2, 3, spec=chain(version=2)), table=url, ctx=ctx)
    assert made.count == 5
    parquet_to_delta(shards(tmp_path / "p", 2, spec=chain(crop, version=1)), table=f"{home}/moved", ctx=ctx)
    with pytest.raises(DataError, match=r"gain\.py, made by an earlier version of Voxelflow; these have .*, gain\.py$"):
        parquet_to_delta(shards(tmp_path / "p", 2, 3, spec=chain(crop, version=2)), table=f"{home}/moved", ctx=ctx)


def test_a_part_that_changed_is_not_put_into_the_table(home: str, tmp_path: Path) -> None:
    dataset = shards(tmp_path / "p", 3, 4)
    part = read_parts(dataset).parts[1]
    (tmp_path / "p" / part.path).unlink()
    with pytest.raises(DataError, match=r"is gone|cannot be read"):
        parquet_to_delta(dataset, table=f"{home}/t", ctx=context(tmp_path))
    write_shard(tmp_path / "p", ids(3, 5), name=part.path)
    with pytest.raises(StaleInput, match="not the file it was"):
        parquet_to_delta(dataset, table=f"{home}/t", ctx=context(tmp_path))


# --- tables that version 0.1 made in an object store ---------------------------------------------


@pytest.fixture
def older(azure: str, tmp_path: Path) -> tuple[str, list[VolumeParquet]]:
    """A container with such tables, and the datasets that they were filled from, each one part longer.

    Each table: parts of 3 and 4 volumes, compacted; then parts of 5 and 3, the second with a plain name. In "deleted"
    and "noted" another program deleted the part of 5; in "noted" a part of 2 came after that. "moved": another program
    compacted all files.
    """
    folder = tmp_path / "p"
    with zipfile.ZipFile(Path(__file__).parent / "tables_of_0_1.zip") as archive:
        archive.extractall(tmp_path / "older")
    shutil.move(tmp_path / "older" / "p", folder)
    digest = hashlib.blake2b(str(folder).encode(), digest_size=16).hexdigest()
    for path in (tmp_path / "older").rglob("*.json"):
        path.write_text(path.read_text().replace("SOURCE-DIGEST", digest))
    upload_folder(tmp_path / "older", azure)
    os.utime(folder / "scan.parquet", ns=(10**18, 1_700_000_000_123_456_789))
    parts = [write_shard(folder, ids(first, count)) for first, count in ((0, 3), (3, 4), (7, 5))]
    parts += [write_shard(folder, ids(12, 3), name="scan.parquet"), write_shard(folder, ids(20, 2))]
    return azure, [dataset_of(folder, parts[:count]) for count in range(1, 6)]


@pytest.mark.slow
@pytest.mark.parametrize("optimized", [False, True])
@pytest.mark.parametrize(
    ("name", "there"),
    [
        ("plain", ids(0, 15)),
        ("deleted", [*ids(0, 7), *ids(12, 3)]),
        ("noted", [*ids(0, 7), *ids(12, 3), *ids(20, 2)]),
        ("moved", ids(0, 15)),
    ],
)
def test_a_table_of_an_earlier_version_goes_on(
    older: tuple[str, list[VolumeParquet]], tmp_path: Path, name: str, there: list[str], optimized: bool
) -> None:
    container, datasets = older
    url, ctx, count = f"{container}/{name}", context(tmp_path), 5 if name == "noted" else 4
    version = open_table(url).version
    exactly(url, there)
    if optimized and name != "moved":
        table = open_table(url).reference(url)
        exactly(optimize_delta(table, **SMALL, ctx=context(tmp_path, "o")).uri, there)
        version += 1
    # What is there is known; what others deleted stays deleted.
    assert parquet_to_delta(datasets[count - 1], table=url, ctx=ctx).version == version
    grown = sorted({*there, *ids(20, 2)})
    holds(parquet_to_delta(datasets[4], table=url, ctx=ctx), grown)
    ledger = open_ledger(open_table(url))
    assert (OLDER_SOURCE in open_table(url).properties, ledger.learned) == (True, False)
    holds(parquet_to_delta(datasets[4], table=url, deleted_rows="restore", ctx=ctx), [*ids(0, 15), *ids(20, 2)])
    less = without(datasets[4], 1, 3)
    left = [*ids(0, 3), *ids(7, 5), *ids(20, 2)]
    holds(parquet_to_delta(less, table=url, existing="replace" if name == "moved" else "keep", ctx=ctx), left)
    other = shards(tmp_path / "other", 3, first=50)
    with pytest.raises(UsageError, match="filled from another dataset"):
        parquet_to_delta(other, table=url, ctx=ctx)

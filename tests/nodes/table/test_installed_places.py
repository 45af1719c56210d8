"""Tables at addresses of an installed package, whose `Place` is neither a local folder nor an object store."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import deltalake
import numpy as np
import pytest
from building import box, pipeline
from delta_tables import context, exactly, ids, shards
from installed_package import install
from running import Runner
from shelf_place import ShelfPlace, folder_of

import voxelflow
from engine.errors import DataError, TableConflict, UsageError
from engine.run.reservations import Reservations
from engine.storage import is_url, parse_url
from engine.storage.find_place import place_at
from engine.storage.local_place import LocalPlace
from engine.storage.objects import RemotePath
from engine.storage.place import Place
from engine.storage.remote_place import RemotePlace
from engine.storage.reservation import Reservation
from engine.storage.schemes import installed_places
from engine.store.runs import RunStore
from engine.workspace import Workspace
from nodes.inspect_dataset import inspect_dataset
from nodes.optimize_delta import optimize_delta
from nodes.parquet_to_delta import parquet_to_delta
from nodes.table import commit
from nodes.table.commit import table_writer
from nodes.table.log import LAST_CHECKPOINT, LOG
from nodes.table.log_checkpoint import make_checkpoint
from nodes.table.snapshot import load_delta, open_table
from nodes.testing.place import PlaceConformance
from nodes.testing.table import TableConformance

SMALL = {"target_file_mb": 1, "min_fill": 1.0}


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of an empty shelf, with the package installed that knows such addresses."""
    entries = "shelf = shelf_place:ShelfPlace\nlocked = shelf_place:refuse\nbare = shelf_place:none"
    site = install(tmp_path / "site", entries, "voxelflow.places", shelf_package="")
    monkeypatch.syspath_prepend(site)
    (tmp_path / "shelves").mkdir()
    monkeypatch.setenv("SHELF", str(tmp_path / "shelves"))
    installed_places.cache_clear()
    yield "shelf://mine"
    installed_places.cache_clear()


class TestShelfPlace(PlaceConformance):
    @pytest.fixture
    def place(self, shelf: str) -> Place:
        return place_at(f"{shelf}/a place")


@pytest.mark.slow
class TestTablesOnAShelf(TableConformance):
    """As a package's author writes it who does nothing more: delta-rs is given copies."""

    @pytest.fixture
    def folder(self, shelf: str) -> str:
        return shelf


@pytest.mark.slow
class TestTablesReadFromTheShelfItself(TestTablesOnAShelf):
    @contextmanager
    def opened_by_delta_rs(self, url: str) -> Iterator[str]:
        yield str(folder_of(url))


def test_a_package_makes_the_places_of_its_scheme(shelf: str) -> None:
    assert is_url(shelf)
    for spelling in ("shelf://mine/Some Folder", "SHELF://mine/Some Folder/"):
        place = place_at(spelling)
        assert isinstance(place, ShelfPlace)
        assert str(place) == "shelf://mine/Some Folder"
    assert place.local_folder is None
    assert parse_url(shelf).holds(parse_url(f"{shelf}/below"))
    assert isinstance(place_at("s3://bucket/folder"), RemotePlace)
    assert isinstance(place_at("folder"), LocalPlace)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("locked://a/b", "the package shelf_package cannot open locked://a/b: RuntimeError: the shelf is locked"),
        ("bare://a/b", "the package shelf_package cannot open bare://a/b: it gave no Place but a str"),
        ("other://a/b", "other://a/b: Voxelflow does not read other:// addresses"),
        ("shelf://me:secret@mine/b", "a shelf:// address holds a user, a query or a fragment"),
        ("shelf://mine/../b", "shelf://mine/../b names no place: a part of it is . or .."),
    ],
)
def test_an_address_that_names_no_place_is_refused(shelf: str, url: str, why: str) -> None:
    with pytest.raises(UsageError) as found:
        place_at(url)
    assert found.value.message == why


def test_what_a_package_raises_is_said_without_secrets(shelf: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHELF_KEY", "the shelf")
    with pytest.raises(UsageError, match=r"cannot open locked://a/b: RuntimeError: \.\.\. is locked") as found:
        place_at("locked://a/b")
    assert found.value.__cause__ is None


def test_the_nodes_of_tables_run_there_and_what_cannot_is_refused_by_name(shelf: str, tmp_path: Path) -> None:
    parts, url = shards(tmp_path / "p", 2, 2, 2), f"{shelf}/table"
    table = parquet_to_delta(parts, table=url, ctx=context(tmp_path, "table"))
    packed = optimize_delta(table, **SMALL, ctx=context(tmp_path, "optimize"))
    assert (table.uri, table.files, packed.uri, packed.files, packed.count) == (url, 3, url, 1, 6)
    for version in (table.version, packed.version):
        exactly(str(folder_of(url)), ids(0, 6), version)
    with pytest.raises(UsageError, match=f"InspectDataset reads local folders, and {url}"):
        inspect_dataset(packed, ctx=context(tmp_path, "inspect"))
    with pytest.raises(UsageError, match=f"the table {url} is not vacuumed: outside of a local folder") as vacuum:
        optimize_delta(packed, vacuum=True, ctx=context(tmp_path, "vacuum"))
    assert vacuum.value.hint == "Set vacuum to false.", "delta-rs opens no table there, so its vacuum is no way out"
    with pytest.raises(UsageError, match=f"the layout of the files of {url} is not looked into") as layout:
        optimize_delta(packed, rewrite_layout=True, ctx=context(tmp_path, "layout"))
    for refusal in (vacuum.value, layout.value):
        assert "object storage" not in f"{refusal.message} {refusal.hint}"
    with pytest.raises(UsageError, match="a table in place lies in the Parquet folder"):
        parquet_to_delta(parts, table=url, mode="in_place", ctx=context(tmp_path, "in place"))
    with pytest.raises(UsageError, match="at shelf:// addresses, which an installed package brings"):
        RemotePath.at(f"{shelf}/table/a.parquet").read()


def test_of_two_who_make_the_table_one_succeeds(shelf: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset, url = shards(tmp_path / "p", 2, 3), f"{shelf}/table"
    made = parquet_to_delta(dataset, table=url, ctx=context(tmp_path))
    columns, empty = open_table(url).columns, tmp_path / "empty"
    empty.mkdir()
    with table_writer(place_at(url), context(tmp_path)) as writer:
        with pytest.raises(TableConflict, match="another program just made the table shelf://mine/table"):
            writer.create(made.spec, columns)
        with monkeypatch.context() as patch:
            # Between the look at the log and the commit.
            patch.setattr(commit, "log_copy", lambda place: nullcontext(empty))
            with pytest.raises(TableConflict, match="another program committed to the table shelf://mine/table first"):
                writer.create(made.spec, columns)
    exactly(str(folder_of(url)), ids(0, 5))


def test_a_checkpoint_is_made_there_and_read(shelf: str, tmp_path: Path) -> None:
    url = f"{shelf}/table"
    for count in (1, 2, 3):
        made = parquet_to_delta(shards(tmp_path / "p", *[2] * count), table=url, ctx=context(tmp_path, f"{count}"))
    place = place_at(url)
    assert make_checkpoint(place, made.version, every=1)
    assert json.loads(bytes(place.read(f"{LOG}/{LAST_CHECKPOINT}")))["version"] == made.version
    for version in range(made.version):
        place.delete(f"{LOG}/{version:020d}.json")
    assert sum(file.rows for file in open_table(url).files) == 6
    exactly(str(folder_of(url)), ids(0, 6))


def test_a_log_that_changes_while_it_is_copied_is_copied_again(
    shelf: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = place_at(f"{shelf}/table")
    for count in (1, 2):
        made = parquet_to_delta(
            shards(tmp_path / "p", *[2] * count), table=str(place), ctx=context(tmp_path, f"{count}")
        )
    fetch = ShelfPlace.fetch

    def after_another_program(self: ShelfPlace, files: Sequence[tuple[str, int]], target: Path) -> None:
        monkeypatch.setattr(ShelfPlace, "fetch", fetch)
        assert make_checkpoint(place, made.version, every=1)
        for version in range(made.version):
            place.delete(f"{LOG}/{version:020d}.json")
        monkeypatch.setattr(ShelfPlace, "fetch", after_a_later_checkpoint)
        fetch(self, files, target)

    def after_a_later_checkpoint(self: ShelfPlace, files: Sequence[tuple[str, int]], target: Path) -> None:
        fetch(self, files, target)
        monkeypatch.setattr(ShelfPlace, "fetch", fetch)
        parquet_to_delta(shards(tmp_path / "p", 2, 2, 2), table=str(place), ctx=context(tmp_path, "later"))
        made_later = load_delta(place).version()
        assert make_checkpoint(place, made_later, every=1)

    monkeypatch.setattr(ShelfPlace, "fetch", after_another_program)
    assert sum(file.rows for file in open_table(place).files) == 6


def test_a_log_that_never_holds_still_is_refused_by_name(
    shelf: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = parquet_to_delta(shards(tmp_path / "p", 2), table=f"{shelf}/table", ctx=context(tmp_path))
    copies = tmp_path / "copies"
    copies.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(copies))

    def gone(self: ShelfPlace, files: Sequence[tuple[str, int]], target: Path) -> None:
        raise FileNotFoundError(f"{self.path(files[0][0])} is gone")

    monkeypatch.setattr(ShelfPlace, "fetch", gone)
    with pytest.raises(DataError, match=f"the log of the table {shelf}/table changes while it is read"):
        open_table(f"{shelf}/table")
    # After a commit the error is not reported.
    assert not make_checkpoint(place_at(table.uri), table.version, every=1)
    assert not list(copies.iterdir())


def test_a_table_there_is_loaded(shelf: str, tmp_path: Path) -> None:
    table = parquet_to_delta(shards(tmp_path / "p", 2, 2, 2), table=f"{shelf}/table", ctx=context(tmp_path, "table"))
    packed = optimize_delta(table, **SMALL, ctx=context(tmp_path, "optimize"))
    local = packed.model_copy(update={"uri": str(folder_of(table.uri))})
    read = []
    for dataset in (table, packed, local):
        with voxelflow.load(dataset, batch_size=4, training=False) as volumes:
            batches = list(volumes)
            found = {name: batch.volumes[i] for batch in batches for i, name in enumerate(volumes.ids(batch.rows))}
            read.append({name: volume.tolist() for name, volume in found.items()})
    assert len(read[0]) == table.labelled > 0
    assert read[0] == read[1] == read[2]


def test_nothing_is_reserved_where_the_place_has_no_reservation(shelf: str) -> None:
    assert place_at(shelf).reservation("1", Path("/here")) is None


def test_a_reservation_that_a_package_cannot_make_leaves_the_rest_of_the_run_alone(
    shelf: str, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def locked(self: ShelfPlace, run: str, workspace: Path) -> Reservation | None:
        raise RuntimeError("the shelf is locked")

    monkeypatch.setattr(ShelfPlace, "reservation", locked)
    task: Any = SimpleNamespace(node="table", node_type="Any", version=1, inputs={}, params={}, shared="shared")
    node_type = SimpleNamespace(mutates=None, writes_hook="hook", table_written=lambda *given: f"{shelf}/table")
    plan: Any = SimpleNamespace(tasks=[task], data_root=lambda workspace: workspace.root)
    catalog: Any = SimpleNamespace(find=lambda name, version: node_type)
    assert Reservations(workspace, "1", plan, catalog).take(task, {}) is None


@pytest.mark.slow
@pytest.mark.own_processes
def test_a_whole_pipeline_runs_there(
    shelf: str, tmp_path: Path, workspace: Workspace, store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, url = tmp_path / "npy", f"{shelf}/table"
    folder.mkdir()
    for number in range(6):
        np.save(folder / f"{number}.npy", np.full((4, 3, 2), number, np.float32))
    support = Path(__file__).parents[2] / "support"
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path / "site"), str(support)]))
    monkeypatch.setenv("VOXELFLOW_DATA_ROOTS", os.pathsep.join([str(tmp_path), shelf]))
    document = pipeline(
        box("files", "VolumeFolder", folder=str(folder)), box("parts", "NumpyToParquet"),
        box("table", "ParquetToDelta", table="${place}"), box("small", "OptimizeDelta"),
        wires="files.out>parts.files parts.out>table.parquet table.out>small.table",
        place=url,
    )  # fmt: skip
    runner = Runner(voxelflow.catalog(workspace), workspace, store)
    run, tasks = runner.run(document)
    assert run.state == "done", run.error
    assert tasks["small"].outputs["out"].uri == url
    assert deltalake.DeltaTable(folder_of(url)).to_pyarrow_table().num_rows == 6
    _, tasks = runner.run(document)
    assert {task.state for task in tasks.values()} == {"cached"}

    looked_at = pipeline(*document.nodes, box("look", "InspectDataset"), place=url, wires=(
        "files.out>parts.files parts.out>table.parquet table.out>small.table small.out>look.dataset"
    ))  # fmt: skip
    run, tasks = runner.run(looked_at)
    assert run.state == "failed"
    failure = tasks["look"].failure
    assert failure is not None
    assert f"InspectDataset reads local folders, and {url}" in failure["message"]

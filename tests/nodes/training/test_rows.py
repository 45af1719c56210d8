"""The rows of a training: what is held while they are read, and what is reported of how."""

from __future__ import annotations

from pathlib import Path

import pytest
from volume_sets import compact, labels_for, make_delta, make_files, some_volumes

from engine.declare.context import TaskContext
from engine.declare.datasets import Dataset, VolumeDelta
from engine.declare.events import Event, Message
from engine.errors import DataError
from nodes.table.lease import no_new_leases
from nodes.training.rows import open_parts

VOLUMES = some_volumes(30)
LABELS = labels_for(VOLUMES)


@pytest.fixture
def table(tmp_path: Path) -> VolumeDelta:
    return make_delta(tmp_path, VOLUMES, LABELS)


def context(folder: Path, events: list[Event] | None = None) -> TaskContext:
    events = [] if events is None else events
    return TaskContext("run", "train", "0" * 64, folder, folder, folder, emit=events.append)


def leases(table: VolumeDelta) -> set[int]:
    with no_new_leases(Path(table.uri)) as versions:
        return versions


def test_the_versions_read_are_held_until_the_end(tmp_path: Path, table: VolumeDelta) -> None:
    newer = compact(table, VOLUMES)
    for validation, expected in ((None, {table.version}), (newer, {table.version, newer.version})):
        with open_parts(table, validation, loader="arrow", share=0.2, ctx=context(tmp_path)):
            assert leases(table) == expected
        assert leases(table) == set()


def test_nothing_is_held_after_a_failure(tmp_path: Path, table: VolumeDelta) -> None:
    other = make_delta(tmp_path / "other", some_volumes(12, (5, 5, 5)), LABELS)
    with (
        pytest.raises(DataError, match="the volumes of"),
        open_parts(table, other, loader="arrow", share=0.2, ctx=context(tmp_path)),
    ):
        raise AssertionError("volumes of two shapes were opened")
    assert leases(table) == leases(other) == set()


def test_files_need_no_lease(tmp_path: Path) -> None:
    files: Dataset = make_files(tmp_path, VOLUMES, LABELS)
    with open_parts(files, None, loader="npy", share=0.2, ctx=context(tmp_path)) as parts:
        assert parts.training.source.read_path == "one by one"


@pytest.mark.parametrize(("compression", "read_path"), [("NONE", "mapped"), ("ZSTD", "streamed")])
def test_the_slower_way_of_reading_is_reported(tmp_path: Path, compression: str, read_path: str) -> None:
    table = make_delta(tmp_path, VOLUMES, LABELS, compression=compression)
    events: list[Event] = []
    with open_parts(table, None, loader="arrow", share=0.2, ctx=context(tmp_path, events)) as parts:
        assert parts.training.source.read_path == read_path
    warnings = [event.text for event in events if isinstance(event, Message)]
    assert any("must be decoded" in text for text in warnings) == (read_path == "streamed")


def test_a_folder_that_cannot_hold_a_lease_is_reported(
    tmp_path: Path, table: VolumeDelta, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise OSError("read-only")

    monkeypatch.setattr("nodes.table.lease._take", refused)
    events: list[Event] = []
    with open_parts(table, None, loader="arrow", share=0.2, ctx=context(tmp_path, events)) as parts:
        assert len(parts.training.rows)
    assert any(isinstance(event, Message) and "nothing keeps a vacuum" in event.text for event in events)

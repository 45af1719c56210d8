"""Statistics that several TransformVolumes need are measured once, and `voxelflow clean` knows where they lie."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from npy_folders import context, make_volumes, numbered, take
from waiting import WAIT_S

from engine.declare.context import TaskContext
from engine.declare.datasets import VolumeFiles
from engine.errors import DataError
from engine.run.clean import free, survey
from engine.storage.process_lock import ProcessLock
from engine.store.runs import RunStore
from engine.workspace import Workspace, place_lock
from nodes.loaders import shared_statistics
from nodes.transform_volumes import transform_volumes

ONCE = {"normalise": "percentiles", "statistics": "all"}


class Counted:
    """Stands before the measuring, and says how often it was done."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, before: Callable[[], None] = lambda: None) -> None:
        self.times, self._before, self._measure = 0, before, shared_statistics.measure
        monkeypatch.setattr(shared_statistics, "measure", self)

    def __call__(self, *given: Any) -> Any:
        self.times += 1
        self._before()
        return self._measure(*given)


@pytest.fixture
def files(tmp_path: Path) -> VolumeFiles:
    make_volumes(tmp_path / "in", numbered(12))
    return take(tmp_path / "in", tmp_path / "look")


def at(workspace: Workspace, name: str) -> TaskContext:
    """The context of a node of the workspace, as the engine would make it."""
    return context(workspace.data / "TransformVolumes", name, workspace=workspace.root)


@pytest.mark.slow
def test_the_second_node_takes_what_the_first_has_measured(
    workspace: Workspace, files: VolumeFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = Counted(monkeypatch)
    one, other = (transform_volumes(files, **ONCE, ctx=at(workspace, name)) for name in ("one", "other"))
    assert (counted.times, one.transforms) == (1, other.transforms)
    # With both steps each is kept; other parameters, or other volumes, are measured.
    both = {"clip_percentiles": (5, 95), **ONCE}
    assert transform_volumes(files, **both, ctx=at(workspace, "both")).transforms != one.transforms
    assert counted.times == 3
    transform_volumes(files, **both, dtype="float16", ctx=at(workspace, "again"))
    assert counted.times == 3
    path = Path(files.uri) / "v0003.npy"
    np.save(path, np.load(path) * 2)
    newer = take(files.uri, Path(files.manifest).parent.parent / "newer")
    assert transform_volumes(newer, **ONCE, ctx=at(workspace, "newer")).transforms != one.transforms
    assert counted.times == 4
    transform_volumes(files, **ONCE, ctx=context(Path(files.uri).parent, "exported"))


def test_equal_listings_of_two_folders_are_two(
    workspace: Workspace, files: VolumeFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same names, sizes and times, and other values: as `cp -p` and an edit that kept the time leave them."""
    counted = Counted(monkeypatch)
    one = transform_volumes(files, **ONCE, ctx=at(workspace, "one"))
    make_volumes(tmp_path / "elsewhere", numbered(12), seed=7)
    for path in Path(files.uri).glob("*.npy"):
        found = path.stat()
        os.utime(tmp_path / "elsewhere" / path.name, ns=(found.st_atime_ns, found.st_mtime_ns))
    there = files.model_copy(update={"uri": str(tmp_path / "elsewhere")})
    assert transform_volumes(there, **ONCE, ctx=at(workspace, "other")).transforms != one.transforms
    assert counted.times == 2


def test_what_is_damaged_or_left_volumes_out_is_measured_again(
    workspace: Workspace, files: VolumeFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = Counted(monkeypatch)
    one = transform_volumes(files, **ONCE, ctx=at(workspace, "one"))
    (kept,) = (workspace.data / "TransformVolumes" / shared_statistics.FOLDER).glob("*.json")
    text = kept.read_bytes()
    for damaged in (b"", text[:-9], text.replace(b"offsets", b"offsetz"), text.replace(b"99.0", b"98.0")):
        kept.write_bytes(damaged)
        assert transform_volumes(files, **ONCE, ctx=at(workspace, "other")).transforms == one.transforms
    assert counted.times == 5
    (Path(files.uri) / "v0001.npy").write_bytes(b"")
    for name in ("third", "fourth"):
        listed = take(files.uri, Path(files.manifest).parent.parent / "spoilt")
        transform_volumes(listed, **ONCE, ctx=at(workspace, name))
    assert counted.times == 7


@pytest.mark.slow
@pytest.mark.parametrize("fails", [False, True])
def test_nodes_that_run_together_wait_for_the_one_that_measures(
    workspace: Workspace, files: VolumeFiles, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    begun, go = threading.Event(), threading.Event()
    made: list[VolumeFiles | DataError] = []

    def held_up() -> None:
        if not begun.is_set():
            begun.set()
            assert go.wait(WAIT_S)
            if fails:
                raise DataError("the disk is gone")

    counted = Counted(monkeypatch, held_up)

    def work(name: str) -> None:
        try:
            made.append(transform_volumes(files, **ONCE, ctx=at(workspace, name)))
        except DataError as exc:
            made.append(exc)

    first, second = (threading.Thread(target=work, args=(name,)) for name in ("one", "other"))
    first.start()
    assert begun.wait(WAIT_S)
    second.start()
    go.set()
    for thread in (first, second):
        thread.join(WAIT_S)
    assert counted.times == (2 if fails else 1)
    assert sorted(type(each).__name__ for each in made) == ["DataError"] * fails + ["VolumeFiles"] * (2 - fails)


def test_clean_knows_them_and_frees_nothing_that_is_in_use(
    workspace: Workspace, store: RunStore, files: VolumeFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = Counted(monkeypatch)
    transform_volumes(files, **ONCE, ctx=at(workspace, "one"))
    folder = workspace.data / "TransformVolumes" / shared_statistics.FOLDER
    (place,) = [each for each in survey(workspace, store) if each.path == folder]
    assert (place.node_type, place.results, place.in_use, place.bytes > 0) == ("TransformVolumes", 0, False, True)
    measuring = ProcessLock(place_lock(workspace, folder))
    assert measuring.acquire(shared=True)
    assert [each.in_use for each in survey(workspace, store) if each.path == folder] == [True]
    assert free(workspace, store, [place]).freed == []
    measuring.release()
    assert free(workspace, store, [place]).freed == [folder]
    transform_volumes(files, **ONCE, ctx=at(workspace, "other"))
    assert counted.times == 2

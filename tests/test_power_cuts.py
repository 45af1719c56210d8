"""What a power cut leaves of files that were not flushed: empty ones, and halves. Then the pipeline runs again.

Files that Voxelflow writes durably cannot become so any more, but workspaces of earlier versions have them, and disks
that lie about flushing. Each kind of file in a workspace is cut short: the next run makes it again, or says which file
is damaged and what to do. Nothing is reported done that is not.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from building import box, pipeline
from in_process import InProcess, in_process
from npy_folders import make_volumes, numbered
from volumes import rows_by_pyarrow

import voxelflow
from engine.declare.datasets import VolumeDelta
from engine.document.pipeline import Pipeline
from engine.errors import ExecutionError, VoxelflowError
from engine.run import launch
from engine.storage import manifest
from engine.store.runs import Run, RunStore
from engine.workspace import Workspace, open_workspace

COUNT, MORE = 6, 2

KINDS = {
    "settings": r"workspace\.json",
    "profiles": r"profiles\.toml",
    "listing of the folder": r"observations/\w+\.arrow",
    "volumes of the folder": r"data/VolumeFolder/.*/volumes\.arrow",
    "what became of a chunk": r"data/NumpyToParquet/\w+/\.finished/\w+\.json",
    "where each file went": r"data/NumpyToParquet/.*/sources\.arrow",
    "refused files": r"data/NumpyToParquet/.*/quarantine\.csv",
    "list of parts": r"data/NumpyToParquet/.*/parts\.json",
    "a table's first commit": r"data/ParquetToDelta/.*/_delta_log/0{20}\.json",
    "a table's last commit": r"data/ParquetToDelta/.*/_delta_log/0{19}[1-9]\.json",
    "a table's ledger": r"data/ParquetToDelta/.*/_voxelflow/ledger/\d+\.arrow",
    "who wrote a table": r"data/ParquetToDelta/.*/_voxelflow/writer\.json",
    "sizes of a result's files": r"data/.*/\.files\.json",
    "what a rebuilt run store is made of": r"data/.*/\.result\.json",
    "figures of a report": r"data/InspectDataset/.*/figures\.json",
    "page of a report": r"data/InspectDataset/.*/dataset\.html",
    "an earlier run's plan": r"runs/[^/]+/plan\.json",
    "an earlier run's document": r"runs/[^/]+/pipeline\.json",
    "an earlier run's environment": r"runs/[^/]+/environment\.json",
    "what the machine did in an earlier run": r"runs/[^/]+/monitor\.jsonl",
}
"""The kinds of files in a workspace, by the paths that they have there."""
OTHERS = (
    r"runs\.db(-wal|-shm)?",  # SQLite looks after its own
    r"data/.*\.parquet",  # volumes: verified by their sizes and checksums
    r"(.*/)?(locks/.*|lock|reserved|\d+\.lock)",  # nothing is in them
    r".*\.log",
)
ERRORS = {"settings", "a table's first commit", "a table's last commit", "a table's ledger"}
"""What cannot be made again from what is there: an error says so."""

RESTED_ON = ("list of parts", "page of a report", "a table's first commit", "a table's last commit")
"""Kinds that a result in the cache rests on."""


class Made(NamedTuple):
    """A workspace after a run, kept so that each test can have it as it was then."""

    workspace: Workspace
    kept: Path
    source: Path
    runs: InProcess


def document(source: Path, row_group_rows: int = 64) -> Pipeline:
    return pipeline(
        box("folder", "VolumeFolder", folder=str(source)),
        box("convert", "NumpyToParquet", labels="none", row_group_rows=row_group_rows),
        box("table", "ParquetToDelta"),
        box("report", "InspectDataset"),
        # Two ends: what nothing needs any more would not be looked at.
        wires="folder.out>convert.files convert.out>table.parquet convert.out>report.dataset",
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Made]:
    base = tmp_path_factory.mktemp("power-cuts")
    workspace, source = open_workspace(base / "workspace"), base / "source"
    (workspace.root / "profiles.toml").write_text('[mine]\nbackend = "embedded"\n')
    make_volumes(source, numbered(COUNT))
    catalog = voxelflow.catalog()
    with pytest.MonkeyPatch.context() as patch, in_process(catalog):
        patch.setenv("VOXELFLOW_DATA_ROOTS", str(base))
        runs = InProcess(workspace, catalog)
        ended = runs.run(document(source))
        assert (ended.state, ended.error) == ("done", "")
        shutil.copytree(workspace.root, base / "kept")
        yield Made(workspace, base / "kept", source, runs)


@pytest.fixture
def again(made: Made, monkeypatch: pytest.MonkeyPatch) -> Iterator[Made]:
    """The workspace as the run has left it, with two more volumes in the folder."""
    monkeypatch.setenv("VOXELFLOW_DATA_ROOTS", str(made.source.parent))
    shutil.rmtree(made.workspace.root)
    shutil.copytree(made.kept, made.workspace.root)
    yield made
    for name in numbered(MORE, COUNT):
        (made.source / name).unlink(missing_ok=True)


def files(root: Path, kind: str) -> list[Path]:
    return [p for p in root.rglob("*") if p.is_file() and re.fullmatch(KINDS[kind], p.relative_to(root).as_posix())]


def table_of(made: Made, run: Run) -> VolumeDelta:
    store = RunStore(made.workspace)
    try:
        table = next(task.outputs["out"] for task in store.tasks(run.run_id) if task.node == "table")
    finally:
        store.close()
    assert isinstance(table, VolumeDelta)
    return table


@pytest.mark.slow
def test_each_file_of_a_workspace_is_of_a_kind_that_is_tried(made: Made) -> None:
    paths = [p.relative_to(made.kept).as_posix() for p in made.kept.rglob("*") if p.is_file()]
    patterns = (*KINDS.values(), *OTHERS)
    assert [p for p in paths if not any(re.fullmatch(pattern, p) for pattern in patterns)] == []
    # And the kinds are there: a pattern that fits nothing would try nothing.
    assert [kind for kind in KINDS if not files(made.kept, kind)] == []
    assert not any(".partial" in p for p in paths)


def test_the_database_is_one_whole_file_after_a_run(made: Made) -> None:
    wal = made.kept / "runs.db-wal"
    assert not wal.exists() or wal.stat().st_size == 0


def cut(path: Path, share: float) -> None:
    with path.open("r+b") as file:
        file.truncate(int(path.stat().st_size * share))


def grow(made: Made) -> Pipeline:
    """More volumes in the folder: nothing is up to date, and each node goes on from what there is."""
    make_volumes(made.source, numbered(MORE, COUNT), seed=1)
    return document(made.source)


def change(made: Made) -> Pipeline:
    """Another parameter: the list of the folder's volumes is up to date, what follows is made afresh."""
    return document(made.source, row_group_rows=2)


CASES = [
    *(pytest.param(kind, 0, grow, id=f"{kind}-empty") for kind in KINDS),
    *(pytest.param(kind, 0.5, change, id=f"{kind}-half") for kind in KINDS),
    *(pytest.param(kind, 0, None, id=f"{kind}-up-to-date") for kind in RESTED_ON),
]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "share", "then"), CASES)
def test_a_file_that_was_cut_short(
    again: Made, kind: str, share: float, then: Callable[[Made], Pipeline] | None
) -> None:
    torn = files(again.workspace.root, kind)
    for path in torn:
        cut(path, share)
    following = then(again) if then else document(again.source)
    try:
        open_workspace(again.workspace.root)
        ended = again.runs.run(following)
    except VoxelflowError as exc:
        state, error = "refused", exc.line()
    else:
        state, error = ended.state, ended.error
    if state == "done":
        table = table_of(again, ended)
        names = [name for name, _, _ in rows_by_pyarrow(table.uri, table.version)]
        assert names == numbered(COUNT + MORE if then is grow else COUNT)
        assert table.count == len(names)
        return
    assert kind in ERRORS, error
    assert any(str(path) in error for path in torn), error
    assert re.search(r"(Write|Restore|Choose|Delete|Run|Start) ", error), error
    assert not re.search(r"Traceback|ArrowInvalid|Error:|pydantic", error), error


@pytest.mark.slow
def test_all_that_can_be_made_again_at_once(again: Made) -> None:
    for kind in KINDS.keys() - ERRORS:
        for path in files(again.workspace.root, kind):
            cut(path, 0)
    ended = again.runs.run(change(again))
    assert (ended.state, ended.error) == ("done", "")
    table = table_of(again, ended)
    assert len(rows_by_pyarrow(table.uri, table.version)) == COUNT
    # And then it is as whole as ever.
    for kind in ("volumes of the folder", "page of a report"):
        newest = max(files(again.workspace.root, kind), key=lambda path: path.stat().st_mtime_ns)
        assert newest.stat().st_size


def test_a_run_without_a_whole_plan_says_what_to_do(again: Made) -> None:
    store = RunStore(again.workspace)
    try:
        run_id = store.runs()[0].run_id
        store.finish_run(run_id, "failed")
        (plan,) = files(again.workspace.root, "an earlier run's plan")
        for share in (0.5, 0):
            cut(plan, share)
            with pytest.raises(ExecutionError) as caught:
                launch.resume(again.workspace, store, run_id)
            assert caught.value.line() == (
                f"run {run_id} cannot go on: its plan {plan} is damaged."
                " Start a new run with `voxelflow run`: it takes over what this one has finished."
            )
        plan.unlink()
        with pytest.raises(ExecutionError, match="cannot be read: No such file"):
            launch.resume(again.workspace, store, run_id)
        assert store.run(run_id).state == "failed"
    finally:
        store.close()


@pytest.mark.slow
def test_made_volumes_whose_listing_was_cut_short_are_listed_again(again: Made) -> None:
    def synthetic(rows: int) -> Pipeline:
        return pipeline(
            box("make", "SyntheticVolumes", count=4, shape=[3, 3, 2, 1]),
            box("table", "NumpyToParquet", row_group_rows=rows),
            wires="make.out>table.files",
        )

    assert again.runs.run(synthetic(1)).state == "done"
    (listing,) = again.workspace.data.glob("SyntheticVolumes/*/*/volumes.arrow")
    labels, volume = listing.parent / "volumes" / "labels.csv", listing.parent / "volumes" / "0000002.npy"
    for path in (listing, labels, volume):
        cut(path, 0)
    ended = again.runs.run(synthetic(2))
    assert (ended.state, ended.error) == ("done", "")
    assert manifest.read(listing).num_rows == 4
    assert len(labels.read_text().splitlines()) == 5
    assert volume.stat().st_size > 18 * 4

"""Two steps of one chain are measured over all volumes: killed on the way, each is as if nothing had happened.

The second step is measured on what the first makes, so its figures follow from those to the last bit.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from building import box, pipeline
from killed_measuring import Measuring
from npy_folders import context, make_volumes, numbered, take
from running import Runner
from volume_sets import make_surveys
from volumes import rows_by_pyarrow, write_volumes

import voxelflow
from engine.declare.datasets import Dataset, VolumeDelta
from engine.store.runs import RunStore
from engine.workspace import Workspace, open_workspace
from nodes.transform_volumes import transform_volumes

pytestmark = pytest.mark.slow

BOTH = {"clip_percentiles": (5, 95), "normalise": "z-score", "normalise_over": "channel"}
COUNT, SHAPE = 24, (5, 4, 3, 2)


def folder(base: Path) -> Dataset:
    make_volumes(base / "in", numbered(COUNT), SHAPE)
    return take(base / "in", base / "look")


def spoilt_folder(base: Path) -> Dataset:
    """Of one volume little more than its header is left, so it is left out of the measuring."""
    folder(base)
    path = base / "in" / "v0003.npy"
    path.write_bytes(path.read_bytes()[:200])
    return take(base / "in", base / "again")


def surveys(base: Path) -> Dataset:
    """A table of the patches of two surveys, each of which is measured by itself."""
    return make_surveys(base, COUNT, SHAPE, north=3.0, south=-500.0)


CASES = {"folder": (folder, "all"), "spoilt folder": (spoilt_folder, "all"), "surveys": (surveys, "source")}
KILLS: dict[str, dict[str, Any]] = {
    "in the first": {"kill_at": "statistics saved"},
    "after the first": {"kill_at": "statistics measured"},
    "when it is shared": {"kill_at": "statistics shared"},
    "before the second": {"kill_in": (1, 1)},
    "in the second": {"kill_in": (1, 17)},
    "after both": {"kill_at": "statistics measured#2"},
}


@pytest.mark.parametrize(
    ("case", "place", "when"),
    [
        (case, place, when)
        for case in CASES
        for place in ("workspace", "exported")
        for when in KILLS
        # Elsewhere, and of volumes that may be readable the next time, nothing is shared.
        if when != "when it is shared" or (case, place) in (("folder", "workspace"), ("surveys", "workspace"))
    ],
)
def test_each_is_measured_once_to_the_same_figures(
    case: str, place: str, when: str, tmp_path: Path, workspace: Workspace
) -> None:
    make, statistics = CASES[case]
    params = BOTH | {"statistics": statistics}
    volumes = make(tmp_path)
    undisturbed = transform_volumes(volumes, **params, ctx=context(tmp_path, "undisturbed")).transforms
    assert [step.name for step in undisturbed] == ["clip-measured", "scale"]
    node = Measuring(tmp_path, volumes, workspace.root if place == "workspace" else None, params)
    assert node.is_killed(**KILLS[when])
    assert node.finish() == undisturbed
    first, second = (node.read()[steps] for steps in (0, 1))
    assert len(first) == len(second) == COUNT
    # Commit points come after a save; where it is killed elsewhere, what was read since then is read again.
    assert max(first.values()) == 1
    again = sum(second.values()) - COUNT
    assert again <= 7 if "kill_in" in KILLS[when] else again == 0


def test_killed_at_one_moment_after_the_other(tmp_path: Path) -> None:
    node = Measuring(tmp_path, surveys(tmp_path), None, BOTH | {"statistics": "source"})
    undisturbed = transform_volumes(node.volumes, **node.params, ctx=context(tmp_path, "undisturbed")).transforms
    for kill in (
        partial(node.is_killed, "statistics saved#2"),
        partial(node.is_killed, "statistics measured"),
        partial(node.is_killed, "", (1, 9)),
        partial(node.is_killed, "statistics saved"),
        partial(node.is_killed, "", (1, 4)),
        partial(node.is_killed, "statistics measured"),
    ):
        assert kill()
    assert node.finish() == undisturbed
    assert set(node.read()[0].values()) == {1}


@pytest.mark.usefixtures("forked_runs")
@pytest.mark.parametrize("point", ["statistics measured", "statistics shared", "statistics measured#2"])
def test_a_run_that_is_resumed_makes_the_same_table(
    point: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it happens: a worker is killed, the run fails and is resumed."""
    write_volumes(tmp_path / "in", COUNT, shape=SHAPE)
    document = pipeline(
        box("folder", "VolumeFolder", folder=str(tmp_path / "in")),
        box("transform", "TransformVolumes", **BOTH | {"clip_percentiles": [5, 95], "statistics": "all"}),
        box("convert", "NumpyToParquet"),
        box("table", "ParquetToDelta"),
        wires="folder.out>transform.volumes transform.out>convert.files convert.out>table.parquet",
    )
    found = []
    for name in ("undisturbed", "killed"):
        workspace = open_workspace(tmp_path / name)
        runner = Runner(voxelflow.catalog(workspace), workspace, RunStore(workspace))
        if name == "killed":
            monkeypatch.setenv("VOXELFLOW_KILL_AT", point)
            monkeypatch.setenv("VOXELFLOW_KILL_ONCE", str(tmp_path / "once"))
        run, tasks = runner.run(document)
        if name == "killed":
            assert (tmp_path / "once").exists()
            assert run.state in ("failed", "lost")
            run, tasks = runner.resume(run.run_id)
        assert run.state == "done", run.error
        table = tasks["table"].outputs["out"]
        assert isinstance(table, VolumeDelta)
        assert table.spec is not None
        found.append((rows_by_pyarrow(table.uri, table.version), table.spec))
        assert list(workspace.scratch.iterdir()) == []
    assert found[0] == found[1]
    assert len(found[0][0]) == COUNT

"""The testing kit as the author of another package uses it: plain pytest and an installed package."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import own_datasets
import pytest

NODE = '''
from typing import Annotated

from voxelflow import Preview, Range, Report, TaskContext, VolumeFiles, node


@node("CountBricks", version=1, category="Bricks")
def count_bricks(files: VolumeFiles, *, size: Annotated[int, Range(1, 9)] = 2, ctx: TaskContext) -> Report:
    """Count bricks.

    Args:
        files: the volumes.
        size: volumes in a brick.
    """
    path = ctx.out / "bricks.txt"
    temporary = ctx.scratch / "bricks.txt"
    temporary.write_text(str(files.count // size))
    ctx.commit_point("bricks:before-rename")
    temporary.replace(path)
    return Report(uri=str(path), figures={"bricks": files.count // size})


@count_bricks.preview
def _(look):
    return Preview(kind="Report")
'''
TESTS = """
import json

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from voxelflow import LoaderConformance, NodeConformance, TableConformance, VolumeDelta, VolumeSpec


class TestCountBricks(NodeConformance):
    node_type = "CountBricks"
    bad_parameters = {"size": 0}
    commit_points = ("bricks:before-rename",)

    def document(self, tmp_path):
        source = {"id": "source", "type": "SyntheticVolumes", "params": {"count": 7, "shape": [4, 4, 2]}}
        return {
            "name": "test",
            "nodes": [source, {"id": "it", "type": "CountBricks"}],
            "edges": [{"from": "source.out", "to": "it.files"}],
        }

    def content(self, outputs):
        return outputs["out"].figures


class TestMisspelt(NodeConformance):
    node_type = "CountBrick"

    def document(self, tmp_path):
        return {"name": "test", "nodes": [{"id": "it", "type": "CountBrick"}]}


class TestBricksInAFolder(TableConformance):
    @pytest.fixture
    def folder(self, tmp_path):
        return str(tmp_path / "bricks")


CLASSES = ("no", "yes", "both")


class TestBricksOfAnotherWriter(LoaderConformance):
    loader = "arrow"

    def make(self, folder, volumes, labels):
        first = next(iter(volumes.values()))
        rows = {
            "id": list(volumes),
            "label": pa.array([labels[each] for each in volumes], pa.float32()),
            "volume": [each.tobytes() for each in volumes.values()],
        }
        write_deltalake(folder / "bricks", pa.table(rows))
        says = {
            "voxelflow.shape": json.dumps(first.shape),
            "voxelflow.dtype": first.dtype.name,
            "voxelflow.classes": json.dumps(CLASSES),
        }
        DeltaTable(folder / "bricks").alter.set_table_properties(says, raise_if_not_exists=False)
        return self.newest(folder / "bricks", volumes)

    def rewrite(self, dataset, volumes):
        DeltaTable(dataset.uri).optimize.z_order(["id"])
        return self.newest(dataset.uri, volumes)

    def newest(self, place, volumes):
        first = next(iter(volumes.values()))
        spec = VolumeSpec(shape=first.shape, dtype=first.dtype.name, classes=CLASSES)
        version = DeltaTable(place).version()
        return VolumeDelta(uri=str(place), spec=spec, count=len(volumes), bytes=0, version=version, data_version=0)
"""


@pytest.mark.slow
def test_an_outside_package_holds_its_node_its_tables_and_its_loader_to_the_promises(tmp_path: Path) -> None:
    site = own_datasets.install(tmp_path / "site", NODE, "bricks")
    (tmp_path / "test_bricks.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "-rA", "-p", "no:cacheprovider", "test_bricks.py"]
    ours = {name: value for name, value in os.environ.items() if not name.startswith("VOXELFLOW_")}
    environment = ours | {"PYTHONPATH": str(site), "VOXELFLOW_TRACKING": "off"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    passed = Counter(re.findall(r"^PASSED test_bricks.py::(\w+)::", done.stdout, re.MULTILINE))
    assert passed["TestCountBricks"] == 5, done.stdout
    assert passed["TestBricksInAFolder"] > 10, done.stdout
    assert passed["TestBricksOfAnotherWriter"] > 20, done.stdout
    assert set(re.findall(r"^(?:FAILED|ERROR) test_bricks.py::(\w+)::", done.stdout, re.MULTILINE)) == {"TestMisspelt"}
    # An assert of the kit itself shows its values, as one in the package's own tests does.
    assert "no built-in node and no installed package declares CountBrick" in done.stdout
    assert "assert None is not None" in done.stdout


@pytest.mark.slow
def test_without_pytest_the_error_names_the_command_that_installs_it() -> None:
    code = """
import sys
sys.modules["pytest"] = None
import voxelflow
try:
    voxelflow.NodeConformance
except voxelflow.VoxelflowError as exc:
    print(exc.message, exc.hint)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "testing kit needs pytest, which is not installed" in done.stdout
    assert "pip install pytest" in done.stdout

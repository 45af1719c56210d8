"""The testing kit as the author of another package uses it: plain pytest and an installed package."""

from __future__ import annotations

import os
import subprocess
import sys
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
from voxelflow import NodeConformance


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
"""


@pytest.mark.slow
def test_an_outside_package_holds_its_node_to_the_promises(tmp_path: Path) -> None:
    site = own_datasets.install(tmp_path / "site", NODE, "bricks")
    (tmp_path / "test_bricks.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "-rA", "-p", "no:cacheprovider", "test_bricks.py"]
    environment = os.environ | {"PYTHONPATH": str(site)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert "5 passed" in done.stdout, done.stdout
    assert done.stdout.count("PASSED test_bricks.py::TestCountBricks::") == 5
    # An assert of the kit itself shows its values, as one in the package's own tests does.
    assert "no built-in node and no installed package declares CountBrick" in done.stdout
    assert "assert None is not None" in done.stdout


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

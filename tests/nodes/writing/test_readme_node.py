"""The node of nodes/README.md that makes volumes keeps what every node promises, as a person would follow the page."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from building import box, pipeline
from readme_nodes import readme_blur
from volumes import write_volumes

import voxelflow
from engine.catalog import Catalog
from engine.declare.datasets import Dataset, VolumeParquet, words_of
from engine.declare.node_type import NodeType
from engine.document.pipeline import Pipeline
from engine.store.runs import RunStore
from engine.workspace import Workspace, trust
from nodes.testing.node import NodeConformance
from nodes.testing.runner import Runner
from nodes.volume_file.parts import read_parts

SHAPE = (12, 12, 8, 2)


@pytest.fixture(autouse=True)
def _forked(request: pytest.FixtureRequest) -> None:
    if request.node.get_closest_marker("slow"):
        request.getfixturevalue("forked_runs")


class TestBlur(NodeConformance):
    """As a node of the workspace's own: it is found there, and trusted."""

    node_type = "Blur"
    bad_parameters = {"sigma": 0.0}
    commit_points = (
        "parquet:part-written",
        "parquet:part-renamed",
        "parquet:before-manifest",
        "parquet:after-manifest",
    )

    @pytest.fixture
    def catalog(self, workspace: Workspace) -> Catalog:
        (workspace.my_nodes / "blur.py").write_text(readme_blur())
        trust(workspace)
        found = voxelflow.catalog(workspace)
        assert found.problems == []
        return found

    @pytest.fixture
    def runner(self, catalog: Catalog, workspace: Workspace, store: RunStore) -> Runner:
        return Runner(catalog, workspace, store)

    @pytest.mark.slow
    def test_declaring_it_imports_nothing_heavy(self, it: NodeType[Any, Any]) -> None:
        import subprocess
        import sys

        code = f"{readme_blur()}\nimport sys; print({{'numpy', 'pyarrow', 'scipy'}} & set(sys.modules))"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout == "set()\n"

    def document(self, tmp_path: Path) -> Pipeline:
        write_volumes(tmp_path / "volumes", 40, shape=SHAPE)
        return pipeline(
            box("folder", "VolumeFolder", folder=str(tmp_path / "volumes")),
            box("convert", "NumpyToParquet", target_file_mb=1),
            box("table", "ParquetToDelta"),
            box("it", "Blur", sigma=0.8),
            wires="folder.out>convert.files convert.out>table.parquet table.out>it.table",
        )

    def content(self, outputs: Mapping[str, Dataset]) -> Any:
        parquet = outputs["out"]
        assert isinstance(parquet, VolumeParquet)
        assert parquet.spec is not None
        assert words_of(parquet.spec.transforms) == "Blur sigma=0.8"
        parts = read_parts(parquet).parts
        # Nothing else is visible in the folder, whatever was killed.
        assert {p.path for p in parts} == {p.name for p in Path(parquet.uri).iterdir()}
        # A node that is made to run again may make something else, so its files have other names.
        return [pq.read_table(Path(parquet.uri) / p.path).to_pylist() for p in parts]

"""What every node promises: it explains itself, refuses bad values, runs as previewed, is cached, and survives kills.

    from voxelflow import NodeConformance

    class TestCountLabels(NodeConformance):
        node_type = "CountLabels"
        bad_parameters = {"at_least": -1}
        commit_points = ("labels:before-rename",)

        def document(self, tmp_path):
            return {
                "name": "test",
                "nodes": [
                    {"id": "source", "type": "SyntheticVolumes", "params": {"count": 20}},
                    {"id": "it", "type": "CountLabels"},
                ],
                "edges": [{"from": "source.out", "to": "it.files"}],
            }

        def content(self, outputs):
            return outputs["out"].figures

Each run goes through the engine, as `voxelflow run` does: in processes of its own, with the result cache; one is killed
at each commit point in turn, and resumed in between. The node must be one that those processes find, too: built in, or
of an installed package with the entry point group `voxelflow.nodes`. The test that runs pipelines has the mark `slow`;
declare it in your pytest settings when you use `--strict-markers`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import unquote

import pytest

import nodes
from engine.catalog import Catalog, build_catalog
from engine.declare.datasets import Dataset, Predictions, VolumeDelta, VolumeParquet
from engine.declare.node_type import NodeType
from engine.document.checks import check
from engine.document.pipeline import Pipeline, dump, load
from engine.document.resolve import resolve
from engine.observe.observe import observe
from engine.observe.results import check_result
from engine.store.runs import Run, RunStore
from engine.workspace import Workspace, open_workspace
from nodes.table.log import LOG
from nodes.testing.runner import Runner
from nodes.volume_file.parts import read_parts

HEAVY = (
    "tensorflow",
    "pyspark",
    "mlflow",
    "deltalake",
    "pyarrow",
    "numpy",
    "pandas",
    "petastorm",
    "scipy",
    "matplotlib",
)
"""Packages that declaring a node must not import: the editor's palette and `--help` load every node's module."""


@cache
def _heavy_imports() -> dict[str, list[str]]:
    """What each node's module is the first to import of `HEAVY`: all of them one after the other, in one process."""
    modules = sorted({node.function.__module__ for node in build_catalog(nodes.BUILT_IN)})
    code = (
        "import importlib, json, sys\nfound = {}\n"
        f"for name in {modules!r}:\n"
        "    before = set(sys.modules)\n"
        "    importlib.import_module(name)\n"
        f"    found[name] = [heavy for heavy in {HEAVY!r} if heavy in sys.modules and heavy not in before]\n"
        "print(json.dumps(found))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return dict(json.loads(found.stdout))


class NodeConformance:
    """Subclass as `TestMyNode(NodeConformance)` and give `node_type`, `document` and `content`."""

    node_type: ClassVar[str]
    bad_parameters: ClassVar[Mapping[str, Any]] = {}
    """For each parameter one value that must be refused. Required when a parameter has a range or choices."""
    commit_points: ClassVar[tuple[str, ...]] = ()
    """Names that the node gives to `ctx.commit_point`, where a kill must lose nothing; NAME#3 is its third passing.

    In the order in which the node passes them: one run is then killed at all of them, and resumed in between.
    """
    redo: ClassVar[Mapping[str, Any]] = {"start": "it"}
    """How to make the node do its work again: fields of `engine.document.plan.Choice`."""

    def document(self, tmp_path: Path) -> Pipeline | Mapping[str, Any]:
        """A tiny pipeline, or its JSON, with the node under test as "it"; it may make files below `tmp_path`."""
        raise NotImplementedError

    def content(self, outputs: Mapping[str, Dataset]) -> Any:
        """What the outputs hold, by port: comparable, and without paths and times."""
        raise NotImplementedError

    # --- fixtures --------------------------------------------------------------------------

    @pytest.fixture(autouse=True)
    def _isolated(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """No test reads the person's trust file, workspace or tracking server."""
        monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
        monkeypatch.setenv("VOXELFLOW_DATA_ROOTS", str(tmp_path))
        monkeypatch.setenv("VOXELFLOW_TRACKING", "off")
        monkeypatch.delenv("VOXELFLOW_WORKSPACE", raising=False)
        monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)

    @pytest.fixture
    def workspace(self, tmp_path: Path) -> Workspace:
        """An empty workspace."""
        return open_workspace(tmp_path / "workspace")

    @pytest.fixture
    def store(self, workspace: Workspace) -> Iterator[RunStore]:
        """Its run store."""
        store = RunStore(workspace)
        yield store
        store.close()

    @pytest.fixture
    def runner(self, workspace: Workspace, store: RunStore) -> Runner:
        """Runs pipelines in it."""
        return Runner(build_catalog(nodes.BUILT_IN, workspace), workspace, store)

    @pytest.fixture
    def catalog(self) -> Catalog:
        """The built-in node types and those of installed packages."""
        return build_catalog(nodes.BUILT_IN)

    @pytest.fixture
    def it(self, catalog: Catalog) -> NodeType[Any, Any]:
        """The node type under test."""
        found = catalog.find(self.node_type)
        assert found is not None, f"no built-in node and no installed package declares {self.node_type}"
        return found

    @pytest.fixture
    def pipeline(self, tmp_path: Path) -> Pipeline:
        """What `document` gives, read."""
        document = self.document(tmp_path)
        return document if isinstance(document, Pipeline) else load(json.dumps(document))

    # --- promises --------------------------------------------------------------------------

    def test_it_explains_itself(self, it: NodeType[Any, Any]) -> None:
        assert it.summary.endswith(".")
        assert [p.name for p in it.parameters if not p.help] == []
        assert [p.name for p in it.inputs if not p.help] == []
        json.dumps(it.describe())

    def test_declaring_it_imports_nothing_heavy(self, it: NodeType[Any, Any]) -> None:
        assert _heavy_imports()[it.function.__module__] == []

    def test_defaults_and_round_trip(self, catalog: Catalog, pipeline: Pipeline) -> None:
        again = load(dump(pipeline))
        assert again == pipeline
        assert resolve(again, catalog).nodes["it"].params == resolve(pipeline, catalog).nodes["it"].params
        assert resolve(pipeline, catalog).nodes["it"].type is not None

    def test_bad_values_are_reported_at_their_field(
        self, it: NodeType[Any, Any], catalog: Catalog, pipeline: Pipeline
    ) -> None:
        assert self.bad_parameters or not any(p.range or p.choices for p in it.parameters)
        for name, value in self.bad_parameters.items():
            changed = tuple(
                n if n.id != "it" else n.model_copy(update={"params": n.params | {name: value}}) for n in pipeline.nodes
            )
            found = check(resolve(pipeline.model_copy(update={"nodes": changed}), catalog)).diagnostics
            assert [(d.code, d.parameter) for d in found if d.node == "it" and d.severity == "error"] == [
                ("VF203", name)
            ]

    @pytest.mark.slow
    def test_it_runs_as_previewed_is_found_again_and_loses_nothing_when_killed(
        self, runner: Runner, pipeline: Pipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """One test, because the first run is what the second finds and what the killed ones are compared with."""
        undisturbed = self.runs_as_previewed(runner, pipeline)
        again, tasks = runner.run(pipeline)
        assert again.state == "done"
        assert {t.state for t in tasks.values()} == {"cached"}
        assert self.content(tasks["it"].outputs) == undisturbed
        for result in runner.store.results.all():
            assert check_result(runner.catalog.find(result.node_type), result, runner.workspace.data).problem == ""
        self.damage_is_noticed(runner, tasks["it"].outputs)
        killed: Run | None = None
        for number, point in enumerate(self.commit_points):
            once = tmp_path / f"killed-{number}"
            monkeypatch.setenv("VOXELFLOW_KILL_AT", point)
            monkeypatch.setenv("VOXELFLOW_KILL_ONCE", str(once))
            if killed is not None:
                # The run that was killed at the point before is resumed, and killed again at this one.
                run, tasks = runner.resume(killed.run_id)
                if not once.exists():
                    # What was left to do has come to its end without passing it.
                    assert run.state == "done", run.error
                    assert self.content(tasks["it"].outputs) == undisturbed, point
                    killed = None
            if killed is None:
                run, tasks = runner.run(pipeline, **self.redo)
            assert once.exists(), f"{point} was never passed"
            assert run.state == "failed"
            assert tasks["it"].failure is not None
            assert tasks["it"].failure["code"] == "worker-died"
            killed = run
        if killed is not None:
            run, tasks = runner.resume(killed.run_id)
            assert run.state == "done", run.error
            assert self.content(tasks["it"].outputs) == undisturbed

    def damage_is_noticed(self, runner: Runner, outputs: Mapping[str, Dataset]) -> None:
        """Each file of the result, when missing or of another size, is named as the reason why it cannot be used."""
        (result,) = (r for r in runner.store.results.all() if dict(r.outputs) == dict(outputs))
        node_type = runner.catalog.find(self.node_type)
        paths = [*_files_of(outputs), *_visible(runner.workspace.data / result.out)]
        assert paths
        for path in dict.fromkeys(paths):
            size = path.stat().st_size
            aside = path.with_name(f".{path.name}.aside")
            path.rename(aside)
            for damaged in (None, 0, max(0, size - 1), size + 1):
                if damaged is not None:
                    path.touch()
                    os.truncate(path, damaged)
                if damaged != size:
                    found = check_result(node_type, result, runner.workspace.data)
                    assert path.name in found.problem
                    assert found.damaged
            aside.replace(path)
        assert check_result(node_type, result, runner.workspace.data).problem == ""

    def runs_as_previewed(self, runner: Runner, pipeline: Pipeline) -> Any:
        """Run for the first time and compare with the previews; returns the content."""
        resolved = resolve(pipeline, runner.catalog)
        checked = check(resolved, observe(resolved, runner.workspace, None))
        assert [d for d in checked.diagnostics if d.severity == "error"] == []
        run, tasks = runner.run(pipeline)
        assert run.state == "done", run.error
        assert tasks["it"].state == "done"
        outputs = tasks["it"].outputs
        for port, made in outputs.items():
            preview = checked.previews["it", port]
            assert preview.kind == made.kind
            if preview.count is not None and (preview.selected is None or isinstance(made, VolumeDelta)):
                assert preview.count == getattr(made, "count", preview.count)
            if preview.selected is not None and preview.selected_exactly:
                assert preview.selected == getattr(made, "selected", preview.selected)
            if preview.spec is not None and hasattr(made, "spec"):
                assert (preview.spec.shape, preview.spec.dtype) == (made.spec.shape, made.spec.dtype)
        return self.content(outputs)


def _files_of(outputs: Mapping[str, Dataset]) -> Iterator[Path]:
    """The files that hold the datasets' content, without those of the person's own folders."""
    for dataset in outputs.values():
        if isinstance(dataset, VolumeDelta | Predictions):
            from deltalake import DeltaTable

            active = DeltaTable(dataset.uri, version=dataset.version).get_add_actions()
            yield from (Path(dataset.uri) / unquote(path) for path in active["path"].to_pylist())
        elif isinstance(dataset, VolumeParquet):
            yield from (Path(dataset.uri) / part.path for part in read_parts(dataset).parts)
        elif dataset.is_file:
            yield Path(dataset.uri)


def _visible(folder: Path) -> Iterator[Path]:
    """The files in a result's own folder, without those of tables: what deletes a log deletes the table."""
    tables = {log.parent for log in folder.rglob(LOG)}
    for path in sorted(folder.rglob("*")):
        below = path.relative_to(folder).parts
        hidden = any(part.startswith((".", "_")) for part in below)
        if path.is_file() and not hidden and tables.isdisjoint(path.parents):
            yield path

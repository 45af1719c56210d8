"""What every built-in node promises. A node's test subclasses `NodeConformance` and fills in the hooks.

Each test runs the node through the engine, as `voxelflow run` does: in its own process, with the
result cache, killed and resumed.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest
from running import Runner

import voxelflow
from engine.checks import check
from engine.datasets import Dataset
from engine.node import NodeType
from engine.observe import check_result, observe
from engine.pipeline import Pipeline, dump, load
from engine.resolve import resolve
from engine.runs import RunStore
from engine.workspace import Workspace

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


class NodeConformance:
    """Subclass as `TestMyNode(NodeConformance)`; `document` holds one node called "it"."""

    node_type: ClassVar[str]
    bad_parameters: ClassVar[Mapping[str, Any]] = {}
    """One value a parameter that must be refused."""
    commit_points: ClassVar[tuple[str, ...]] = ()
    """Where a kill must lose nothing."""

    redo: ClassVar[Mapping[str, Any]] = {"start": "it"}
    """How to make the node do its work again (see `engine.plan.Choice`)."""

    def document(self, tmp_path: Path) -> Pipeline:
        """A tiny pipeline that ends in the node under test; it may make files below `tmp_path`."""
        raise NotImplementedError

    def content(self, outputs: Mapping[str, Dataset]) -> Any:
        """What the outputs hold, comparable, without paths and times."""
        raise NotImplementedError

    # --- fixtures --------------------------------------------------------------------------

    @pytest.fixture
    def runner(self, workspace: Workspace, store: RunStore) -> Runner:
        return Runner(voxelflow.catalog(workspace), workspace, store)

    @pytest.fixture
    def it(self) -> NodeType[Any, Any]:
        found = voxelflow.catalog().find(self.node_type)
        assert found is not None
        return found

    # --- promises --------------------------------------------------------------------------

    def test_it_explains_itself(self, it: NodeType[Any, Any]) -> None:
        assert it.summary.endswith(".")
        assert [p.name for p in it.parameters if not p.help] == []
        assert [p.name for p in it.inputs if not p.help] == []
        json.dumps(it.describe())

    def test_declaring_it_imports_nothing_heavy(self, it: NodeType[Any, Any]) -> None:
        code = f"import {it.function.__module__}, sys; print([m for m in {HEAVY!r} if m in sys.modules])"
        found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert found.stdout.strip() == "[]"

    def test_defaults_and_round_trip(self, it: NodeType[Any, Any], tmp_path: Path) -> None:
        document = self.document(tmp_path)
        again = load(dump(document))
        assert again == document
        catalog = voxelflow.catalog()
        assert resolve(again, catalog).nodes["it"].params == resolve(document, catalog).nodes["it"].params
        assert resolve(document, catalog).nodes["it"].type is not None

    def test_bad_values_are_told_at_their_field(self, it: NodeType[Any, Any], tmp_path: Path) -> None:
        assert self.bad_parameters or not any(p.range or p.choices for p in it.parameters)
        document = self.document(tmp_path)
        for name, value in self.bad_parameters.items():
            nodes = tuple(
                n if n.id != "it" else n.model_copy(update={"params": n.params | {name: value}}) for n in document.nodes
            )
            found = check(resolve(document.model_copy(update={"nodes": nodes}), voxelflow.catalog())).diagnostics
            assert [(d.code, d.parameter) for d in found if d.node == "it" and d.severity == "error"] == [
                ("VF203", name)
            ]

    @pytest.mark.slow
    def test_it_runs_as_foreseen_is_found_again_and_loses_nothing_when_killed(
        self, runner: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """One test, because the first run is what the second finds and what the killed ones are compared with."""
        document = self.document(tmp_path)
        undisturbed = self.runs_as_foreseen(runner, document)
        again, tasks = runner.run(document)
        assert again.state == "done"
        assert {t.state for t in tasks.values()} == {"cached"}
        assert self.content(tasks["it"].outputs) == undisturbed
        for result in runner.store.results():
            assert check_result(runner.catalog.find(result.node_type), result).problem == ""
        for number, point in enumerate(self.commit_points):
            once = tmp_path / f"killed-{number}"
            monkeypatch.setenv("VOXELFLOW_KILL_AT", point)
            monkeypatch.setenv("VOXELFLOW_KILL_ONCE", str(once))
            run, tasks = runner.run(document, **self.redo)
            assert once.exists(), f"{point} was never passed"
            assert run.state == "failed"
            assert tasks["it"].failure is not None
            assert tasks["it"].failure["code"] == "worker-died"
            run, tasks = runner.resume(run.run_id)
            assert run.state == "done", run.error
            assert self.content(tasks["it"].outputs) == undisturbed, point

    def runs_as_foreseen(self, runner: Runner, document: Pipeline) -> Any:
        """Run for the first time: its previews were right. Gives the content."""
        resolved = resolve(document, runner.catalog)
        foreseen = check(resolved, observe(resolved, runner.workspace, None))
        assert [d for d in foreseen.diagnostics if d.severity == "error"] == []
        run, tasks = runner.run(document)
        assert run.state == "done", run.error
        assert tasks["it"].state == "done"
        outputs = tasks["it"].outputs
        for port, made in outputs.items():
            preview = foreseen.previews["it", port]
            assert preview.kind == made.kind
            if preview.count is not None:
                assert preview.count == getattr(made, "count", preview.count)
            if preview.spec is not None and hasattr(made, "spec"):
                assert (preview.spec.shape, preview.spec.dtype) == (made.spec.shape, made.spec.dtype)
        return self.content(outputs)

"""A run's events in a real SQLite MLflow store: what a person finds there."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tracked_runs import DOCUMENT, QUICK, SPLIT, T0, TABLE, FakeRun, Found, Reader

from engine.declare.events import Artifact, Facts, Failure, Metrics, SystemSample, TaskStateChanged
from engine.storage.process_lock import ProcessLock
from engine.tracking import location, run_link, send_pending, track_run
from engine.workspace import Workspace

pytestmark = pytest.mark.slow
Read = Callable[[Workspace], Reader]
Sent = Callable[..., dict[str, Found]]


def _track(run: FakeRun, *, until_ended: bool = True) -> bool:
    return track_run(run.workspace, run.id, until_ended=until_ended, patience=QUICK)


@pytest.fixture
def sent(reader: Read) -> Sent:
    """Sends a run to MLflow; what that has of it then, by node."""

    def send(run: FakeRun, *, until_ended: bool = True) -> dict[str, Found]:
        assert _track(run, until_ended=until_ended) == until_ended
        return reader(run.workspace).runs(run.id)

    return send


def _trained(workspace: Workspace, steps: int = 4) -> FakeRun:
    run = FakeRun(workspace).begin()
    run.upstream()
    run.emit(
        TaskStateChanged(node="train", state="running"), Facts(node="train", values={"device": "CPU", "weights": 7})
    )
    run.step(*range(steps))
    run.finish()
    return run


def test_a_run_is_a_parent_and_a_child_with_all_there_is_to_know(local: Workspace, sent: Sent) -> None:
    run = _trained(local)
    found = sent(run)
    assert set(found) == {"", "train"}
    parent, child = found[""], found["train"]

    assert parent.status == child.status == "FINISHED"
    assert parent.end_time == round(run.clock * 1000)
    assert parent.tags["mlflow.runName"] == f"demo {run.id}"
    assert parent.tags["voxelflow.task.table"] == parent.tags["voxelflow.task.train"] == "done"
    assert parent.tags["voxelflow.state"] == "done"
    assert parent.tags["voxelflow.attempt"] == "1"
    assert parent.tags["voxelflow.profile"] == "local"
    assert parent.params["data"] == "/data/volumes"
    assert parent.params["table.source"] == "/data/volumes/parquet"
    assert parent.params["table.copy"] == "true"
    assert parent.params["table.how"] == "links"
    assert parent.params["train.epochs"] == "2"
    assert parent.params["train.note"] == ""
    assert [v for _, _, v in parent.points["table.volumes"]] == [1000]
    assert [v for _, _, v in parent.points["table.converted"]] == [1000]
    assert [v for _, _, v in parent.points["table.seconds"]] == [3]
    assert "loss" not in parent.points

    assert child.tags["mlflow.parentRunId"] == parent.id
    assert child.tags["voxelflow.node_type"] == "TrainResNet3D"
    assert child.params == {"epochs": "2", "note": "", "device": "CPU", "weights": "7"}
    assert [v for _, _, v in child.points["facts/weights"]] == [7]
    assert child.points["loss"] == [
        (step, round(1000 * t), 1 / (step + 1)) for step, t in zip(range(4), _times(run, "metrics"), strict=True)
    ]
    # MLflow's pages look for this prefix; the parent has all samples, the child those since it was made.
    assert parent.steps("system/cpu_utilization_percentage") == [0, 1, 2, 3]
    assert child.steps("system/cpu_utilization_percentage") == [0, 1, 2, 3]


def _times(run: FakeRun, kind: str) -> list[float]:
    return [event.time for _, event in run.store.events(run.id, kinds=(kind,))]


def test_datasets_are_inputs_of_the_training(local: Workspace, reader: Read) -> None:
    run = _trained(local)
    assert _track(run)
    read = reader(local)
    inputs = {i.tags[0].value: i.dataset for i in read.runs(run.id)["train"].inputs}
    assert {context: d.name for context, d in inputs.items()} == {
        "table": "split.train",
        "validation": "split.validation",
    }
    assert inputs["table"].digest != inputs["validation"].digest

    import mlflow.data

    stored = inputs["table"]
    source: Any = mlflow.data.get_source(stored)
    assert (source.path, source.delta_table_version) == (TABLE.uri, TABLE.version)
    profile = json.loads(stored.profile)
    assert profile["volumes"] == TABLE.count
    assert profile["selections"] == [s.model_dump(mode="json") for s in SPLIT["train"].selections]  # type: ignore[attr-defined]
    from mlflow.data.schema import TensorDatasetSchema

    schema = TensorDatasetSchema.from_dict(json.loads(stored.schema))
    assert schema.features.inputs[0].shape == (-1, 4, 4, 4, 1)


def test_the_exact_document_and_the_files_are_artifacts(local: Workspace, reader: Read, tmp_path: Path) -> None:
    (tmp_path / "loss.png").write_bytes(b"png")
    (tmp_path / "bad.csv").write_text("a,b\n")
    (tmp_path / "extra").mkdir()
    (tmp_path / "extra" / "x.txt").write_text("x")
    run = FakeRun(local).begin().training(0)
    run.emit(
        Artifact(node="train", role="plot", name="Loss curves", path=str(tmp_path / "loss.png")),
        Artifact(node="train", role="plot", name="gone.png", path=str(tmp_path / "gone.png")),
        Artifact(node="table", role="table", name="bad.csv", path=str(tmp_path / "bad.csv")),
        Artifact(node="table", role="file", name="../../etc", path=str(tmp_path / "extra")),
    )
    run.step(1)
    run.end("done")
    assert _track(run)
    read = reader(local)
    found = read.runs(run.id)
    assert read.artifacts(found[""].id) == ["files/table/_.._etc/x.txt", "files/table/bad.csv", "pipeline.json"]
    assert read.artifacts(found["train"].id) == ["plots/Loss curves.png"]
    kept = local.mlflow_artifacts / found[""].id / "artifacts" / "pipeline.json"
    assert kept.read_text() == run.text
    # What could not be sent is reported, and held nothing up.
    assert found["train"].steps("loss") == [0, 1]
    assert any("gone.png" in note for note in run_link(local, run.id)["notes"])
    assert "gone.png" in (local.run_folder(run.id) / "tracker.log").read_text()


def test_what_a_node_was_told_and_what_came_out_are_two_things(local: Workspace, sent: Sent) -> None:
    told = {"id": "table", "type": "SyntheticVolumes", "params": {"shape": [4, 4, 4, 1], "volumes": 1000}}
    run = FakeRun(local, DOCUMENT | {"nodes": [told], "edges": []}).begin()
    run.task("table", outputs={"out": TABLE})
    run.end("done")
    parent = sent(run)[""]
    assert (parent.params["table.shape"], parent.params["table.out.shape"]) == ("[4, 4, 4, 1]", "4x4x4x1")
    assert parent.params["table.dtype"] == "float32"
    assert [v for _, _, v in parent.points["table.volumes"]] == [1000]
    assert not [name for name in parent.tags if name.startswith("voxelflow.changed.")]


def test_a_failed_task_is_named_in_tags(local: Workspace, sent: Sent) -> None:
    run = FakeRun(local).begin().training(0)
    run.emit(
        Failure(node="train", code="memory", message="out of memory", hint="Use smaller batches."),
        TaskStateChanged(node="train", state="failed"),
    )
    run.end("failed", "train: out of memory")
    found = sent(run)
    assert found[""].status == found["train"].status == "FAILED"
    assert found[""].tags["voxelflow.last_failure.train"] == "memory: out of memory Use smaller batches."
    assert found[""].tags["voxelflow.error"] == "train: out of memory"


def test_a_run_that_went_on_well_has_no_error_of_the_attempt_before(local: Workspace, sent: Sent) -> None:
    run = FakeRun(local).begin().training(0)
    run.finish("failed", "train: out of memory")
    assert sent(run)[""].tags["voxelflow.error"] == "train: out of memory"
    run.begin().training(1, attempt=2)
    run.finish(attempt=2)
    found = sent(run)[""]
    assert (found.status, found.tags["voxelflow.state"]) == ("FINISHED", "done")
    assert "voxelflow.error" not in found.tags
    # Sent by another tracker, which knows of nothing that was sent before.
    run.begin()
    run.end("done")
    assert "voxelflow.error" not in sent(run)[""].tags


def test_a_cancelled_run_is_killed(local: Workspace, sent: Sent) -> None:
    run = FakeRun(local).begin().training(0)
    run.finish("cancelled")
    found = sent(run)
    assert found[""].status == found["train"].status == "KILLED"


def test_cached_tasks_show_their_results(local: Workspace, sent: Sent) -> None:
    run = FakeRun(local).begin()
    run.keep("table", {"out": TABLE})
    run.emit(TaskStateChanged(node="table", state="cached", reason="up to date"))
    run.end("done")
    parent = sent(run)[""]
    assert parent.tags["voxelflow.task.table"] == "cached"
    assert [v for _, _, v in parent.points["table.volumes"]] == [1000]
    assert "table.seconds" not in parent.points


def test_a_lost_run_goes_on_in_the_same_mlflow_run_without_repeating_steps(local: Workspace, sent: Sent) -> None:
    run = FakeRun(local).begin().training(0, 1, 2, 3)
    run.lose()
    before = sent(run)
    assert before[""].status == before["train"].status == "KILLED"
    assert before[""].tags["voxelflow.state"] == "lost"

    run.begin()
    again = sent(run, until_ended=False)
    assert again[""].status == "RUNNING"
    assert again[""].tags["voxelflow.attempt"] == "2"

    # From the checkpoint at step 2 the training repeats two steps, with other times.
    run.training(2, 3, 4, 5, shift=0.001, attempt=2)
    assert sent(run, until_ended=False)["train"].status == "RUNNING"
    run.step(6)
    run.finish(attempt=2)
    after = sent(run)
    assert {k: r.id for k, r in after.items()} == {k: r.id for k, r in before.items()}
    assert after[""].status == after["train"].status == "FINISHED"
    assert after[""].end_time == round(run.clock * 1000)
    assert after["train"].steps("loss") == [0, 1, 2, 3, 4, 5, 6]
    assert after["train"].steps("system/cpu_utilization_percentage") == list(range(9))


def test_retries_within_one_tracker_repeat_no_steps(local: Workspace, sent: Sent) -> None:
    run = FakeRun(local).begin().training(0, 1, 2)
    run.emit(TaskStateChanged(node="train", state="queued"), TaskStateChanged(node="train", state="running", attempt=2))
    run.step(0, 1, 2, 3)
    run.finish(attempt=2)
    assert sent(run)["train"].steps("loss") == [0, 1, 2, 3]


def test_figures_that_are_no_numbers_arrive(local: Workspace, sent: Sent) -> None:
    run = FakeRun(local).begin()
    run.emit(Metrics(node="train", step=0, values={"loss": math.nan, "up": math.inf}))
    run.step(1)
    run.end("done")
    found = sent(run)["train"]
    assert math.isnan(found.points["loss"][0][2])
    assert found.points["up"][0][2] > 1e300


def test_a_changed_fact_is_no_conflict(local: Workspace, sent: Sent) -> None:
    run = FakeRun(local).begin()
    run.step(0)
    run.emit(Facts(node="train", values={"device": "CPU"}), Facts(node="train", values={"device": "GPU"}))
    run.step(1)
    run.end("done")
    child = sent(run)["train"]
    assert child.params["device"] == "CPU"
    assert child.tags["voxelflow.changed.device"] == "GPU"
    assert child.steps("loss") == [0, 1]


def test_odd_names_and_long_values_are_taken(local: Workspace, sent: Sent) -> None:
    document = DOCUMENT | {"nodes": [{"id": "train", "type": "X", "params": {"text": "x" * 10_000}}], "edges": []}
    run = FakeRun(local, document).begin()
    run.emit(Metrics(node="train", step=0, values={"loss@1:µ/../x": 1.0, "": 2.0, "a" * 300: 3.0}))
    run.end("done")
    child = sent(run)["train"]
    assert len(child.params["text"]) == 6000
    assert set(child.points) == {"loss_1_µ/x", "_", "a" * 250}
    assert run_link(local, run.id)["notes"] == []


def test_many_metrics_and_parameters_fit_into_mlflows_batches(local: Workspace, sent: Sent) -> None:
    nodes = [{"id": f"n{i}", "type": "X", "params": {f"p{j}": j for j in range(25)}} for i in range(10)]
    run = FakeRun(local, DOCUMENT | {"nodes": [*nodes, {"id": "train", "type": "X"}], "edges": []}).begin()
    for step in range(1100):
        run.emit(Metrics(node="train", step=step, values={"a": step, "b": -step}))
    run.end("done")
    found = sent(run)
    assert len([p for p in found[""].params if p.startswith("n")]) == 250
    assert found["train"].steps("a") == found["train"].steps("b") == list(range(1100))


def test_defaults_come_from_the_plan(local: Workspace, sent: Sent) -> None:
    from engine.document.identity import Identity
    from engine.document.plan import Plan, PlannedTask
    from engine.profiles import Profile

    run = FakeRun(local).begin()
    identity = Identity(fingerprint="f" * 64, lineage="l" * 64, base="b" * 64, parts={})
    task = PlannedTask(
        node="train", node_type="TrainResNet3D", version=1, title="train", backend="embedded",
        params={"epochs": 2, "depth": 18}, inputs={}, identity=identity, action="run", reason="never ran before",
        shared="s", out="o",
    )  # fmt: skip
    plan = Plan(pipeline="demo", profile=Profile(name="local", cores=1, memory_bytes=1 << 30), tasks=(task,))
    (local.run_folder(run.id) / "plan.json").write_text(plan.model_dump_json())
    run.step(0)
    run.end("done")
    assert sent(run)["train"].params == {"epochs": "2", "depth": "18"}


def test_a_run_deleted_in_mlflow_stays_deleted(local: Workspace, reader: Read, sent: Sent) -> None:
    run = FakeRun(local).begin()
    run.step(0)
    assert not _track(run, until_ended=False)
    client = reader(local).client
    client.delete_run(run_link(local, run.id)["run_id"])
    run.step(1)
    run.end("done")
    assert "" not in sent(run)
    assert run.store.tracking.unfinished() == []


def test_a_store_that_vanished_is_filled_again(local: Workspace, sent: Sent, empty_database: Path) -> None:
    import shutil

    run = FakeRun(local).begin()
    run.step(0, 1)
    assert not _track(run, until_ended=False)
    # Its content goes, as when somebody puts a fresh file there.
    _dispose(local)
    shutil.copy(empty_database, local.mlflow_database)
    run.step(2)
    run.end("done")
    found = sent(run)
    assert found["train"].steps("loss") == [0, 1, 2]
    assert found[""].status == "FINISHED"


def _dispose(workspace: Workspace) -> None:
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    SqlAlchemyStore._engine_map[location(workspace)].dispose()


def test_a_deleted_experiment_is_restored(local: Workspace, reader: Read) -> None:
    first = _trained(local, steps=1)
    assert _track(first)
    client = reader(local).client
    client.delete_experiment(run_link(local, first.id)["experiment_id"])
    second = _trained(local, steps=1)
    assert _track(second)
    assert reader(local).runs(second.id)[""].status == "FINISHED"


def test_only_one_tracker_at_a_time(local: Workspace) -> None:
    run = _trained(local, steps=1)
    other = ProcessLock(local.run_folder(run.id) / "tracker.lock")
    assert other.acquire()
    try:
        assert not _track(run, until_ended=False)
        assert not _track(run)
        assert run.store.tracking.find(run.id) == (0, {}, False)
    finally:
        other.release()
    assert _track(run)


def test_what_was_left_is_sent_later(local: Workspace, reader: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    run, lost, elsewhere = _trained(local, steps=2), FakeRun(local).begin(), _trained(local, steps=1)
    lost.step(0)
    lost.lose()
    with monkeypatch.context() as away:
        away.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
        away.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
        assert not _track(elsewhere)
    assert run.store.tracking.unfinished() == [run.id, elsewhere.id]
    assert send_pending(local) == 2
    found = reader(local).runs(run.id)
    assert found["train"].steps("loss") == [0, 1]
    assert reader(local).runs(lost.id)[""].status == "KILLED"
    # The third was meant for a server: it waits for that one.
    assert reader(local).runs(elsewhere.id) == {}
    assert run.store.tracking.unfinished() == [elsewhere.id]
    assert send_pending(local) == 0


def test_the_link_leads_to_a_run(local: Workspace, reader: Read) -> None:
    run = _trained(local)
    assert run_link(local, run.id) == {}
    assert _track(run)
    found, link = reader(local).runs(run.id), run_link(local, run.id)
    assert link["run_id"] == found[""].id
    assert link["children"] == {"train": found["train"].id}
    assert link["location"] == location(local) == f"sqlite:///{local.mlflow_database}"
    assert link["sent"] is True
    assert "url" not in link


def test_samples_before_the_training_are_the_parents_alone(local: Workspace, sent: Sent) -> None:
    run = FakeRun(local).begin()
    run.emit(SystemSample(values={"cpu_utilization_percentage": 1}))
    run.emit(TaskStateChanged(node="train", state="running"))
    run.step(0)
    run.emit(TaskStateChanged(node="train", state="done"), SystemSample(values={"cpu_utilization_percentage": 2}))
    run.end("done")
    found = sent(run)
    assert found[""].steps("system/cpu_utilization_percentage") == [0, 1, 2]
    assert found["train"].steps("system/cpu_utilization_percentage") == [0]
    assert found[""].start_time >= T0

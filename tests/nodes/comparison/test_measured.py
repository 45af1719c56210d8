"""From what a run has recorded to the figures of a training; the whole experiment through real runs."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from measured_trainings import with_a_gpu
from running import Runner
from store_fixtures import upload_folder
from volumes import write_volumes

import voxelflow
from engine.declare.events import Metrics, SystemSample
from engine.document.find import shipped_pipelines
from engine.document.pipeline import Pipeline, read_pipeline
from engine.run.launch import with_values
from engine.store.runs import RunStore
from engine.workspace import Workspace
from nodes.comparison.measured import epochs_of, losses_of, samples_of
from nodes.comparison.record import Training, read_trainings, write_trainings

SHAPE = (8, 8, 8, 1)
TRAINED = 35
"""Of 40 volumes, by their ids."""


def test_of_an_epoch_that_was_reported_twice_the_later_report_counts() -> None:
    def reported(step: int, **values: float) -> Metrics:
        return Metrics(step=step, values=values)

    def times(data: float) -> dict[str, float]:
        return {"epoch_seconds_data": data, "epoch_seconds_compute": 2.0, "samples_per_second": 5.0}

    events = [
        reported(1, step_loss=0.9),
        reported(1, loss=0.8, accuracy=0.5),
        reported(1, **times(1)),
        reported(2, step_loss=0.7),
        reported(1, test_loss=3.0),
        reported(2, step_loss=0.6),
        reported(1, **times(4)),
        reported(2, loss=0.5),  # it was killed before its times
    ]
    (epoch,) = epochs_of(events)
    assert (epoch.number, epoch.data_s, epoch.training_s, epoch.loss) == (1, 4, 6, 0.8)
    assert losses_of(events) == ((1, 0.9), (2, 0.6))


def test_counts_become_rates_between_two_moments() -> None:
    def sample(time: float, received: float, **more: float) -> SystemSample:
        values = {"network_receive_megabytes": received, "cpu_utilization_percentage": 50.0}
        return SystemSample(time=time, values=values | more)

    samples = [
        sample(95, 0), sample(105, 10, gpu_0_utilization_percentage=20, gpu_1_utilization_percentage=60),
        sample(110, 5), sample(115, 25), sample(200, 900), sample(205, 901), sample(301, 999),
    ]  # fmt: skip
    found = list(samples_of(samples, 100, 300))
    # A count that began anew and a silence say nothing; what lies outside is left out.
    assert [(s.at_s, s.network_mbit_s) for s in found] == [(5, 8), (10, None), (15, 32), (100, None), (105, 1.6)]
    assert [s.gpu_percent for s in found[:2]] == [40, None]
    assert {s.cpu_percent for s in found} == {50}
    assert found[0].disk_read_mb_s is None


# --- the pipeline --------------------------------------------------------------------------------


def experiment(data: str, table: str = "", others: str = "") -> Pipeline:
    """The shipped pipeline with little to compute."""
    shipped = read_pipeline(shipped_pipelines()["whitepaper-experiment"])
    values = {"data": data, "table": table, "others": others, "batch_size": 8, "epochs": 2, "steps": 3, "width": 16}
    return with_values(shipped, values)


def test_the_shipped_experiment_is_as_long_as_the_whitepapers() -> None:
    shipped = read_pipeline(shipped_pipelines()["whitepaper-experiment"])
    values = {name: parameter.value for name, parameter in shipped.parameters.items()}
    assert {name: values[name] for name in ("epochs", "batch_size", "steps", "width")} == {
        "epochs": 5, "batch_size": 32, "steps": 0, "width": 64,
    }  # fmt: skip
    trainings = [node for node in shipped.nodes if node.type == "TrainResNet3D"]
    assert [node.params["loader"] for node in trainings] == ["npy", "arrow", "petastorm"]
    for node in trainings:
        assert {node.params[name] for name in ("epochs", "batch_size", "steps_per_epoch", "width")} == {
            "${epochs}", "${batch_size}", "${steps}", "${width}",
        }  # fmt: skip


@pytest.fixture
def runner(workspace: Workspace, store: RunStore) -> Runner:
    return Runner(voxelflow.catalog(workspace), workspace, store)


def compared(runner: Runner, document: Pipeline) -> tuple[Path, dict[str, Training]]:
    run, tasks = runner.run(document)
    assert run.state == "done", run.error
    page = Path(tasks["compare"].outputs["out"].uri)
    found = {training.node: training for training in read_trainings(page.with_name("comparison.json"))}
    # Every training had the machine to itself.
    timed = [task for task in tasks.values() if task.node in ("optimize", *found) and task.state == "done"]
    spans = sorted((task.started, task.ended) for task in timed)
    assert all(before[1] <= after[0] for before, after in pairwise(spans))
    return page, found


def check_measured(found: dict[str, Training], storage: str) -> None:
    assert {training.loader for training in found.values()} == {"npy", "arrow", "petastorm"}
    for training in found.values():
        assert training.complete
        assert training.device
        assert training.machine
        assert (training.prepared_volumes, training.volume_bytes, training.storage) == (40, 8 * 8 * 8 * 4, storage)
        # About a tenth is held back for validation: an epoch has the others alone.
        assert training.volumes == TRAINED
        assert training.volumes_per_s is not None
        # As many steps an epoch as were asked for, of the four that there are.
        assert training.trained_volumes == 2 * 3 * 8
        assert len(training.losses) == 2 * 3
    assert found["train_files"].preparation_s == 0
    for name in ("train_table", "train_petastorm"):
        prepared = found[name].preparation_s
        assert prepared is not None
        assert prepared > 0


@pytest.mark.slow
@pytest.mark.usefixtures("forked_trainings")
def test_the_whitepapers_experiment_in_object_storage(azure: str, tmp_path: Path, runner: Runner) -> None:
    write_volumes(tmp_path / "volumes", 40, shape=SHAPE)
    upload_folder(tmp_path / "volumes", f"{azure}/volumes")
    page, found = compared(runner, experiment(f"{azure}/volumes", f"{azure}/table"))
    check_measured(found, "az")
    # The same steps on the same rows: the loader alone differs.
    assert found["train_files"].losses == found["train_table"].losses
    assert "not measured here" in page.with_name("comparison.md").read_text()

    # Another machine's file fills its rows, and nothing is trained again.
    others = runner.workspace.root / "others"
    others.mkdir()
    write_trainings(others / "another machine.json", [with_a_gpu(), with_a_gpu("arrow", waiting_s=0.1)])
    page, more = compared(runner, experiment(f"{azure}/volumes", f"{azure}/table", str(others)))
    assert {name: more[name] for name in found} == found
    assert "not measured here" not in page.with_name("comparison.md").read_text()

"""What is known of a dataset before it exists, as wires and ports show it."""

from __future__ import annotations

from building import some_task

from engine.cli.plan import _foreseen
from engine.declare.datasets import Dataset, Preview, Selection, TrainedModel, VolumeDelta, VolumeFiles, VolumeSpec
from engine.store.runs import Task
from ui.build.status import node_status, preview_in_words, table_figures

WHOLE = Preview(
    kind="VolumeDelta", count=2000, bytes=720_000_000, spec=VolumeSpec(shape=(30, 30, 10, 10), dtype="float32")
)


def test_a_whole_table() -> None:
    assert preview_in_words(WHOLE) == "2,000 volumes, 30x30x10x10 float32, 720 MB"
    assert list(_foreseen(WHOLE)) == ["about 2,000 volumes", "720 MB", "30x30x10x10 float32"]


def test_a_part_of_it_has_its_own_count_and_takes_no_space() -> None:
    part = WHOLE.model_copy(update={"selected": 400})
    assert preview_in_words(part) == "about 400 of 2,000 volumes, 30x30x10x10 float32"
    assert list(_foreseen(part)) == ["about 400 of 2,000 volumes", "30x30x10x10 float32"]
    counted = part.model_copy(update={"selected": 397, "selected_exactly": True})
    assert preview_in_words(counted) == "397 of 2,000 volumes, 30x30x10x10 float32"


def test_what_is_not_known_is_left_out() -> None:
    assert preview_in_words(Preview(kind="VolumeDelta")) == ""
    assert list(_foreseen(Preview(kind="VolumeDelta", selected=3))) == []


SPEC = VolumeSpec(shape=(2, 2, 2), dtype="int8")
TABLE = VolumeDelta(uri="/t", count=640, bytes=230_000_000, version=3, data_version=3, files=8, spec=SPEC)


def _task(node: str, made: Dataset, title: str = "") -> Task:
    return some_task(node, outputs={"out": made}, title=title)


def test_a_run_without_a_training_has_the_figures_of_its_last_whole_table() -> None:
    files = VolumeFiles(uri="/f", manifest="/m", count=640, bytes=1, spec=SPEC)
    half = TABLE.select(Selection(salt="s", low=0.0, high=0.5))
    found = table_figures([_task("make", files), _task("table", TABLE, "Delta table"), _task("split", half)])
    assert [(f.node, f.title, f.name, f.value, f.unit) for f in found] == [
        ("table", "Delta table", "Volumes", 640, ""),
        ("table", "Delta table", "Files", 8, ""),
        ("table", "Delta table", "Size", 230_000_000, "bytes"),
    ]
    assert table_figures([_task("make", files)]) == []


def test_figures_have_the_names_that_people_read() -> None:
    model = TrainedModel(uri="/m", spec=SPEC, metrics={"val_auc": 0.9643, "loss": 0.0287}, parameters=1200)
    status = node_status(_task("train", model))
    assert status.made == status.outputs[0].figures == "Validation AUC 0.9643, Loss 0.0287, 1,200 parameters"

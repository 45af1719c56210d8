"""The rows of a training: what is held while they are read, and what is reported of how."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from deltalake import DeltaTable
from volume_sets import compact, labels_for, make_delta, make_files, reference, some_volumes

from engine.declare.context import TaskContext
from engine.declare.datasets import Dataset, Selection, VolumeDelta, VolumeFiles, VolumeSpec
from engine.declare.events import Event, Message
from engine.errors import DataError
from nodes.loaders.interface import LoaderState
from nodes.prediction.inputs import ModelCard, open_rows, read_card
from nodes.splitting.selections import Folds, Shares, by_label
from nodes.table.lease import no_new_leases
from nodes.training.checkpoints import Checkpoint
from nodes.training.leakage import Part
from nodes.training.preparation import prepare
from nodes.training.rows import open_parts
from nodes.training.session import described
from nodes.training.settings import Settings

VOLUMES = some_volumes(30)
LABELS = labels_for(VOLUMES)


@pytest.fixture
def table(tmp_path: Path) -> VolumeDelta:
    return make_delta(tmp_path, VOLUMES, LABELS)


def context(folder: Path, events: list[Event] | None = None) -> TaskContext:
    events = [] if events is None else events
    return TaskContext("run", "train", "0" * 64, folder, folder, folder, emit=events.append)


def leases(table: VolumeDelta) -> set[int]:
    with no_new_leases(Path(table.uri)) as versions:
        return versions


def test_the_versions_read_are_held_until_the_end(tmp_path: Path, table: VolumeDelta) -> None:
    newer = compact(table, VOLUMES)
    for validation, expected in ((None, {table.version}), (newer, {table.version, newer.version})):
        with open_parts(table, validation, loader="arrow", share=0.2, ctx=context(tmp_path)):
            assert leases(table) == expected
        assert leases(table) == set()


def test_nothing_is_held_after_a_failure(tmp_path: Path, table: VolumeDelta) -> None:
    other = make_delta(tmp_path / "other", some_volumes(12, (5, 5, 5)), LABELS)
    with (
        pytest.raises(DataError, match="the volumes of"),
        open_parts(table, other, loader="arrow", share=0.2, ctx=context(tmp_path)),
    ):
        raise AssertionError("volumes of two shapes were opened")
    assert leases(table) == leases(other) == set()


def test_files_need_no_lease(tmp_path: Path) -> None:
    files: Dataset = make_files(tmp_path, VOLUMES, LABELS)
    with open_parts(files, None, loader="npy", share=0.2, ctx=context(tmp_path)) as parts:
        assert parts.training.source.read_path == "one by one"


@pytest.mark.parametrize(("compression", "read_path"), [("NONE", "mapped"), ("ZSTD", "streamed")])
def test_the_slower_way_of_reading_is_reported(tmp_path: Path, compression: str, read_path: str) -> None:
    table = make_delta(tmp_path, VOLUMES, LABELS, compression=compression)
    events: list[Event] = []
    with open_parts(table, None, loader="arrow", share=0.2, ctx=context(tmp_path, events)) as parts:
        assert parts.training.source.read_path == read_path
    warnings = [event.text for event in events if isinstance(event, Message)]
    assert any("must be decoded" in text for text in warnings) == (read_path == "streamed")


def test_a_folder_that_cannot_hold_a_lease_is_reported(
    tmp_path: Path, table: VolumeDelta, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise OSError("read-only")

    monkeypatch.setattr("nodes.table.lease._take", refused)
    events: list[Event] = []
    with open_parts(table, None, loader="arrow", share=0.2, ctx=context(tmp_path, events)) as parts:
        assert len(parts.training.rows)
    assert any(isinstance(event, Message) and "nothing keeps a vacuum" in event.text for event in events)


def test_a_column_that_is_not_there_is_reported_at_the_parameter(tmp_path: Path, table: VolumeDelta) -> None:
    """Which the node has; it is none of its own for groups that a split kept together."""
    grouped = table.model_copy(update={"grouped_before": ("patient",)})
    for data, group, parameter in ((table, "patient", "validation_group"), (grouped, "", None)):
        with (
            pytest.raises(DataError, match="the volumes have no column patient") as caught,
            open_parts(data, None, loader="arrow", share=0.2, group=group, ctx=context(tmp_path)),
        ):
            raise AssertionError("a group of no column was held back")
        assert caught.value.parameter == parameter


def in_folders(folder: Path, *classes: str) -> VolumeFiles:
    """Three volumes in a folder for each class."""
    volumes = {f"{name}/v{n}.npy": np.ones((3, 3, 3), np.float32) for name in classes for n in range(3)}
    made = make_files(folder, volumes, dict.fromkeys(volumes))
    (folder / "files" / "labels.csv").unlink()
    return made


def in_a_table(folder: Path, *labels: float) -> VolumeFiles:
    """Three volumes for each label, of classes without names."""
    volumes = {f"v{n}.npy": np.ones((3, 3, 3), np.float32) for n in range(3 * len(labels))}
    return make_files(folder, volumes, {name: labels[n // 3] for n, name in enumerate(volumes)})


def labels_by_class(part: Part) -> dict[str, float]:
    names = [volume.split("/")[0] for volume in part.source.ids(part.rows)]
    return dict(zip(names, part.labels.tolist(), strict=True))


@pytest.mark.parametrize(
    ("trained", "tested", "expected"),
    [
        (("a", "b"), ("b",), {"b": 1}),
        (("a", "b", "c"), ("b", "c"), {"b": 1, "c": 2}),
        ((0, 1, 2), ("1", "2"), {"1": 1, "2": 2}),
        ((0, 1, 2), ("01", "2"), {"01": 1, "2": 2}),
        ((0, 1), ("a", "b"), {"a": 0, "b": 1}),
    ],
)
def test_validation_and_test_go_by_the_names_of_the_classes(
    tmp_path: Path, trained: tuple[str | int, ...], tested: tuple[str, ...], expected: dict[str, float]
) -> None:
    """One folder for both is opened once."""
    make = in_folders if isinstance(trained[0], str) else in_a_table
    data, other = make(tmp_path / "data", *trained), in_folders(tmp_path / "other", *tested)  # type: ignore[operator]
    with open_parts(data, other, other, loader="npy", share=0.2, ctx=context(tmp_path)) as parts:
        assert parts.validation is not None
        assert parts.test is not None
        assert labels_by_class(parts.validation) == labels_by_class(parts.test) == expected


def test_numbers_are_the_classes_that_are_called_so(tmp_path: Path) -> None:
    data, other = in_folders(tmp_path / "data", "1", "2", "3"), in_a_table(tmp_path / "other", 3, 1)
    with open_parts(data, other, loader="npy", share=0.2, ctx=context(tmp_path)) as parts:
        assert parts.validation is not None
        assert sorted(set(parts.validation.labels.tolist())) == [0, 2]


@pytest.mark.parametrize(("tested", "unknown"), [(("b", "c", "d"), "c, d"), ((1.0, 1.5), "1, 1.5")])
def test_classes_that_the_training_does_not_know_are_refused(
    tmp_path: Path, tested: tuple[str | float, ...], unknown: str
) -> None:
    named = isinstance(tested[0], str)
    data = in_folders(tmp_path / "data", *(("a", "b") if named else ("2", "3")))
    other = (in_folders if named else in_a_table)(tmp_path / "other", *tested)  # type: ignore[operator]
    with (
        pytest.raises(DataError) as caught,
        open_parts(data, None, other, loader="npy", share=0.2, ctx=context(tmp_path)),
    ):
        raise AssertionError("unknown classes were opened")
    assert caught.value.message == f"{other.uri} has volumes of classes that {data.uri} does not have: {unknown}"


def delta_of(folder: Path, **volumes_of: int) -> VolumeDelta:
    """A table with so many volumes of each class."""
    names = {f"{name}/v{n}": number for number, name in enumerate(volumes_of) for n in range(volumes_of[name])}
    volumes = {volume_id: np.ones((3, 3, 3), np.float32) for volume_id in names}
    made = make_delta(folder, volumes, {volume_id: float(number) for volume_id, number in names.items()})
    classes = {"voxelflow.classes": json.dumps([*volumes_of])}
    DeltaTable(made.uri).alter.set_table_properties(classes, raise_if_not_exists=False)
    return reference(Path(made.uri), volumes)


def test_parts_by_label_of_a_table_whose_classes_have_other_numbers(tmp_path: Path) -> None:
    """Labels in selections are those that the table stores, in every part of it."""
    data, other = delta_of(tmp_path / "data", a=10, b=10, c=10), delta_of(tmp_path / "other", b=20, c=40)
    _, validation, test = by_label(other, "x", Shares(0.1, 0.55), Folds())
    groups = [Selection(salt="x", low=low, high=low + 0.5, by=("label",)) for low in (0, 0.5)]
    for chosen in ((validation, test), [(group,) for group in groups]):
        parted = [other.select(*selections) for selections in chosen]
        with open_parts(data, *parted, loader="arrow", share=0.2, ctx=context(tmp_path)) as parts:
            assert parts.validation is not None
            assert parts.test is not None
            both = (parts.validation, parts.test)
            assert labels_by_class(parts.validation) | labels_by_class(parts.test) == {"b": 1, "c": 2}
            counts = [Counter(part.labels.tolist()) for part in both]
            assert not {*parts.validation.rows} & {*parts.test.rows}
        expected = [{1: 9, 2: 18}, {1: 9, 2: 18}] if chosen[0] is validation else [{1: 20}, {2: 40}]
        assert sorted(counts, key=min) == expected


def test_an_unknown_class_of_another_part_of_the_same_table_is_refused(tmp_path: Path) -> None:
    data, other = delta_of(tmp_path / "data", a=10, b=10), delta_of(tmp_path / "other", b=20, d=20)
    known = other.select(Selection(salt="x", low=0, high=0, strata=(("0", 0, 1),)))
    for validation, test in ((known, other), (other, known)):
        with (
            pytest.raises(DataError, match=r"has volumes of classes that .* does not have: d$"),
            open_parts(data, validation, test, loader="arrow", share=0.2, ctx=context(tmp_path)),
        ):
            raise AssertionError("an unknown class was opened")


def made_of(folder: Path, *labels: str | float) -> VolumeFiles:
    return (in_folders if isinstance(labels[0], str) else in_a_table)(folder, *labels)  # type: ignore[arg-type]


def labels_in_a_prediction(data: VolumeFiles, learned: tuple[str, ...] | None) -> tuple[list[float], int]:
    """Of a regression: in the model's numbers, -1 for none, and how many it does not know."""
    with open_rows(data, ModelCard(Path(), (3, 3, 3), (), "regression", learned=learned), cores=1) as opened:
        return np.nan_to_num(opened.labels, nan=-1).tolist(), opened.unknown


@pytest.mark.parametrize(
    ("trained", "tested", "expected"),
    [
        ((20, 40), ("20", "40"), [20, 40]),
        ((20, 0.5), ("0", "-7"), [-7, 0]),
        ((20, 40), (30, 0.5), [0.5, 30]),
        (("20", "40"), (20, 40), [0, 1]),
        (("a", "b"), ("a", "b"), [0, 1]),
        (("20", "40"), ("20", "40"), [0, 1]),
    ],
)
def test_a_regression_takes_classes_that_are_called_by_numbers_for_these(
    tmp_path: Path, trained: tuple[str | float, ...], tested: tuple[str | float, ...], expected: list[float]
) -> None:
    """Against the numbers that it learns; those of the same classes stay as they are."""
    data, other = made_of(tmp_path / "data", *trained), made_of(tmp_path / "other", *tested)
    settings = Settings(task="regression", loader="npy", batch_size=2)
    with prepare(data, other, settings, context(tmp_path), test=other) as prepared:
        assert prepared.held_out is not None
        assert prepared.test is not None
        found = np.concatenate([batch.labels for batch in prepared.test.batches()])
        assert sorted(found.tolist()) == sorted(prepared.held_out.labels.tolist()) == sorted(expected * 3)
        description = described(prepared, Checkpoint(LoaderState(0), {}, (0.0,), (1.0,)), epoch=1)
    (tmp_path / "model.keras").write_bytes(b"")
    (tmp_path / "model.json").write_text(json.dumps(description))
    labels, unknown = labels_in_a_prediction(other, read_card(tmp_path).learned)
    assert (sorted(labels), unknown) == (sorted(expected * 3), 0)


@pytest.mark.parametrize(
    ("trained", "tested", "reason"),
    [
        (("a", "b"), ("b",), r"stand for the classes b, those of .* for the classes a, b$"),
        ((20, 40), ("a", "b"), r"stand for the classes a, b, those of .* for themselves$"),
        (("a", "b"), (0, 1), r"stand for themselves, those of .* for the classes a, b$"),
        (("20", "40"), (20, 30), r"has volumes of classes that .* does not have: 30$"),
    ],
)
def test_a_regression_of_classes_with_other_numbers_is_refused(
    tmp_path: Path, trained: tuple[str | float, ...], tested: tuple[str | float, ...], reason: str
) -> None:
    data, other = made_of(tmp_path / "data", *trained), made_of(tmp_path / "other", *tested)
    with (
        pytest.raises(DataError, match=reason) as caught,
        open_parts(data, None, other, loader="npy", share=0.2, ctx=context(tmp_path), task="regression"),
    ):
        raise AssertionError("numbers with two meanings were opened")
    assert caught.value.hint


def test_a_prediction_has_no_labels_that_its_regression_does_not_know(tmp_path: Path) -> None:
    named, plain = in_folders(tmp_path / "named", "a", "b"), in_a_table(tmp_path / "plain", 20, 30)
    assert labels_in_a_prediction(named, ()) == labels_in_a_prediction(plain, ("a", "b")) == ([-1] * 6, 6)
    assert labels_in_a_prediction(plain, ("20", "40")) == ([0, 0, 0, -1, -1, -1], 3)
    assert labels_in_a_prediction(named, None) == ([0, 0, 0, 1, 1, 1], 0)


def test_which_classes_a_regression_has_learned_the_numbers_of(tmp_path: Path) -> None:
    """Models in MLflow's format do not say what they were trained on, and files not what classes they are of."""
    table, files = delta_of(tmp_path / "t", a=2, b=2), in_folders(tmp_path / "f", "a", "b")
    named = table.model_copy(update={"spec": VolumeSpec(shape=(3, 3, 3), dtype="float32", classes=("a", "b"))})
    rows = files.model_copy(update={"format": "rows"})
    (tmp_path / "model.keras").touch()
    for data, learned in ((named, ("a", "b")), (table, ()), (rows, ()), (files, None), (None, None)):
        description = {"task": "regression", "input": {"shape": [3, 3, 3]}}
        if data is not None:
            description["data"] = data.model_dump(mode="json")
        (tmp_path / "model.json").write_text(json.dumps(description))
        assert read_card(tmp_path).learned == learned

"""Data that cannot be trained on is refused before the first step, and before TensorFlow is needed."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from volume_sets import labels_for, make_delta, some_volumes

from engine.declare.context import TaskContext
from engine.declare.datasets import Dataset, Selection, VolumeDelta
from engine.errors import DataError, UsageError
from nodes.training.checkpoints import Checkpoints
from nodes.training.preparation import prepare
from nodes.training.settings import Settings

VOLUMES = some_volumes(30)
LABELS = labels_for(VOLUMES)
LOW, HIGH = Selection(salt="x", low=0, high=0.5), Selection(salt="x", low=0.5, high=1)
NONE = Selection(salt="x", low=0, high=0)


def settings(**params: Any) -> Settings:
    return Settings(**{"batch_size": 4} | params)


def test_what_decides_a_training_has_the_text_that_states_on_the_disk_were_hashed_with() -> None:
    text = """
        {"depth": 18, "batch_size": 32, "steps_per_epoch": 0, "learning_rate": 0.0003, "optimizer": "adam",
        "schedule": "cosine", "decay_epochs": 20, "warmup_steps": 20, "validation_share": 0.2, "seed": 0,
        "loader": "arrow", "classes": 0, "mixed_precision": null, "plateau_factor": 0.5, "plateau_patience": 5,
        "early_stopping_epochs": 0, "class_weights": "none", "keep": "last", "best_by": "val_loss",
        "task": "classification", "stem": "standard", "width": 64, "model_file": null, "flips": "none",
        "quarter_turns": false, "intensity": 0.0, "noise": 0.0}
    """
    fixed = {name: value for name, value in Settings(workers=4, jit=True).deciding().items() if name != "epochs"}
    assert json.dumps(fixed) == " ".join(text.split())


def refusal(
    tmp_path: Path, data: Dataset, validation: Dataset | None = None, test: Dataset | None = None, **params: Any
) -> str:
    ctx = TaskContext("run", "train", "0" * 64, tmp_path, tmp_path, tmp_path)
    with (
        pytest.raises((DataError, UsageError)) as caught,
        prepare(data, validation, settings(**params), ctx, test=test),
    ):
        pass
    assert caught.value.hint
    return caught.value.line()


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> VolumeDelta:
    return make_delta(tmp_path_factory.mktemp("table"), VOLUMES, LABELS)


def test_volumes_of_another_shape(tmp_path: Path, table: VolumeDelta) -> None:
    others = make_delta(tmp_path / "others", some_volumes(12, (5, 5, 5)), LABELS)
    for inputs in ({"validation": others}, {"test": others}):
        assert "5x5x5" in refusal(tmp_path, table, **inputs)


def test_a_single_class(tmp_path: Path) -> None:
    same = make_delta(tmp_path / "same", VOLUMES, dict.fromkeys(VOLUMES, 1.0))
    assert "only the label 1; a classifier needs two classes" in refusal(tmp_path, same)


def test_a_class_that_the_validation_alone_has(tmp_path: Path, table: VolumeDelta) -> None:
    """All of the other class is in the part to validate on, or in neither part."""

    def only(label: str) -> Selection:
        strata = [(each, 0.0, float(each == label)) for each in ("0", "1")]
        return Selection(salt="x", low=0, high=1, strata=tuple(strata))

    for validation in ("1", "0"):
        text = refusal(tmp_path, table.select(only("0")), table.select(only(validation)))
        assert re.search("training volumes of .* have the label 0, and [0-9]+ in other parts have others", text)


def test_what_the_validation_lacks_is_said_before_the_first_step(tmp_path: Path) -> None:
    labels = {name: float(number % 3) for number, name in enumerate(VOLUMES)}
    table = make_delta(tmp_path / "three", VOLUMES, labels)

    def of(*wanted: str) -> Selection:
        strata = [(each, 0.0, float(each in wanted)) for each in ("0", "1", "2")]
        return Selection(salt="x", low=0, high=1, strata=tuple(strata))

    said: list[str] = []
    ctx = replace(
        TaskContext("run", "train", "0" * 64, tmp_path, tmp_path, tmp_path),
        emit=lambda event: said.append(getattr(event, "text", "")),
    )
    with prepare(table.select(of("0", "2")), table.select(of("1")), settings(), ctx) as prepared:
        assert prepared.classes.names == ("0", "1", "2")
    assert [text.partition(":")[0] for text in said] == [
        "some classes have no training volume (0",
        "no training volume is of class 1, and 10 validation volumes are",
        "the validation volumes are all of class 1 (10)",
    ]
    # The third class is in neither part: it is one all the same.
    with prepare(table.select(of("0", "2")), table.select(of("0", "2")), settings(), ctx) as prepared:
        assert prepared.classes.counts == (10, 0, 10)


def test_no_labels(tmp_path: Path, table: VolumeDelta) -> None:
    bare = make_delta(tmp_path / "bare", VOLUMES, dict.fromkeys(VOLUMES))
    assert "no labels" in refusal(tmp_path, bare)
    assert "no volume of" in refusal(tmp_path, table, test=bare)


def test_an_empty_split(tmp_path: Path, table: VolumeDelta) -> None:
    assert "no labels" in refusal(tmp_path, table.select(NONE))
    assert "nothing to test with" in refusal(tmp_path, table, test=table.select(NONE))
    assert "do not fill one batch" in refusal(tmp_path, table, batch_size=64)


@pytest.mark.parametrize("params", [{"keep": "best"}, {"schedule": "plateau"}, {"early_stopping_epochs": 2}])
def test_nothing_to_judge_epochs_by(tmp_path: Path, table: VolumeDelta, params: dict[str, Any]) -> None:
    (name,) = params
    assert f"{name} is decided by validation volumes" in refusal(tmp_path, table, table.select(NONE), **params)


def test_a_label_of_the_test_volumes_alone_must_fit_too(tmp_path: Path, table: VolumeDelta) -> None:
    odd = make_delta(tmp_path / "odd", VOLUMES, dict.fromkeys(VOLUMES, 7.0))
    assert "do not fit 2 classes" in refusal(tmp_path, table, test=odd, classes=2)


def test_parts_of_one_table_are_read_by_one_source(tmp_path: Path, table: VolumeDelta) -> None:
    ctx = TaskContext("run", "train", "0" * 64, tmp_path, tmp_path, tmp_path)
    with prepare(table.select(LOW), table.select(HIGH), settings(), ctx, test=table.select(HIGH)) as prepared:
        assert prepared.held_out is not None
        assert prepared.test is not None
        assert prepared.rows.source is prepared.held_out.source is prepared.test.source
        assert prepared.test.chosen.tolist() == prepared.held_out.rows.tolist()
        plain = prepared.identity
    with prepare(table.select(LOW), table.select(HIGH), settings(), ctx) as prepared:
        assert prepared.identity == plain


def test_the_state_of_a_training_with_other_settings_is_not_taken_up(tmp_path: Path, table: VolumeDelta) -> None:
    ctx = TaskContext("run", "train", "0" * 64, tmp_path, tmp_path, tmp_path)
    identities = set()
    for params in ({}, {"depth": 34}, {"class_weights": "balanced"}, {"epochs": 9}):
        with prepare(table, None, settings(**params), ctx) as prepared:
            store = Checkpoints(ctx.scratch, prepared.identity, every_s=0)
            if not params:
                store.save(prepared.begin(store, ctx))
            assert (store.newest() is not None) == (params.keys() <= {"epochs"})
            identities.add(prepared.identity)
    assert len(identities) == 3

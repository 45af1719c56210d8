from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import DataError
from nodes.training.labels import Classes, Target, find_classes, find_target, validation_remarks


def find(
    training: list[float],
    validation: list[float] = [],  # noqa: B006
    classes: int = 0,
    names: tuple[str, ...] = (),
    table: list[float] | None = None,
) -> Classes:
    return find_classes(
        np.array(training, np.float32),
        np.array(validation, np.float32),
        classes=classes,
        names=names,
        where="the table",
        table=None if table is None else np.array(table, np.float32),
    )


def test_classes_from_the_labels() -> None:
    assert find([0, 1, 1, 2], [2]) == Classes(("0", "1", "2"), (1, 2, 1))


def test_names_and_a_given_number_count_too() -> None:
    assert find([0, 1], names=("salt", "rock")).names == ("salt", "rock")
    assert find([0, 1], classes=4).counts == (1, 1, 0, 0)
    assert find([0, 1], classes=4, names=("salt", "rock")).names == ("salt", "rock", "2", "3")
    assert find([0, 1], classes=3, names=("1", "2")).names == ("1", "2", "class 2")
    assert find([0, 1], classes=2, names=("salt", "rock", "fault")).names == ("salt", "rock")


@pytest.mark.parametrize(
    ("training", "settings", "reason"),
    [
        ([0, 0.5], {}, "label 0.5"),
        ([0, -1], {}, "label -1"),
        ([0, 1, np.inf], {}, "label inf, which is no class number"),
        ([1, 1, 1], {}, "only the label 1"),
        ([], {}, "no labels"),
        ([1, 2], {}, "labels 1, 2, which do not fit 2 classes"),
        ([0, 1, 2], {"classes": 2}, "do not fit 2 classes"),
        ([0, 1, 2], {"names": ("a", "b")}, "do not fit 2 classes"),
    ],
)
def test_labels_that_cannot_be_classes(training: list[float], settings: dict[str, object], reason: str) -> None:
    with pytest.raises(DataError, match=reason) as caught:
        find(training, **settings)  # type: ignore[arg-type]
    assert caught.value.hint


def test_a_class_that_only_other_parts_of_the_table_have_counts_too() -> None:
    """Of 0, 1 and 2 the split has left no 1, neither to train on nor to validate with."""
    assert find([0, 2, 2], [0], table=[0, 1, 2, 2, 0, np.nan]) == Classes(("0", "1", "2"), (1, 0, 2))
    with pytest.raises(DataError, match="labels 0, 2, which do not fit 2 classes"):
        find([0, 2, 2], [0], table=[0, 2, 2, 0])


@pytest.mark.parametrize(
    ("names", "validation", "table", "said"),
    [
        ((), [1, 1], None, "all 3 training volumes of the table have the label 0, and 2 in other parts have others"),
        (("a", "b"), [], [0, 0, 0, 1, np.nan], "have the label a, and 1 in other parts have others; a classifier"),
    ],
)
def test_labels_that_are_all_in_other_parts(
    names: tuple[str, ...], validation: list[float], table: list[float] | None, said: str
) -> None:
    with pytest.raises(DataError, match=said) as caught:
        find([0, 0, 0], validation, names=names, table=table)
    assert caught.value.hint.startswith("Split by label with SplitDataset")


def test_numbers_that_are_no_classes_may_be_meant_for_a_regression() -> None:
    with pytest.raises(DataError, match="labels 20, 35, 61, which do not fit 3 classes") as caught:
        find([20, 61, 35])
    assert caught.value.hint.endswith("set classes to 62. To learn numbers, such as an age, set task to regression.")


def test_validation_labels_must_fit_too() -> None:
    with pytest.raises(DataError, match="do not fit 2 classes"):
        find([0, 1], [2], classes=2)


@given(st.lists(st.integers(0, 4), min_size=2, max_size=40).filter(lambda labels: len(set(labels)) > 1))
def test_balanced_weights_let_classes_count_alike(labels: list[int]) -> None:
    classes = find([float(label) for label in labels], classes=5)
    weights = classes.balanced_weights()
    shares = [weight * count for weight, count in zip(weights, classes.counts, strict=True)]
    assert sum(shares) == pytest.approx(len(labels))
    assert {round(share, 9) for share in shares if share} == {round(len(labels) / len(set(labels)), 9)}


def test_remarks() -> None:
    assert find([0, 1, 1]).remarks() == []
    assert "very unequal" in find([0] + [1] * 11).remarks()[0]
    assert "no training volume" in find([0, 1], classes=3).remarks()[0]


@pytest.mark.parametrize(
    ("training", "validation", "said"),
    [
        ([0, 1], [0, 1], []),
        ([0, 1], [1, 1], ["the validation volumes are all of class 1 (2)", "there is no AUC"]),
        ([0, 0, 2], [0, 1, 2], ["no training volume is of class 1, and 1 validation volume is"]),
        ([0, 2], [1, 1], ["no training volume is of class 1, and 2 validation volumes are", "all of class 1"]),
    ],
)
def test_remarks_on_the_validation(training: list[float], validation: list[float], said: list[str]) -> None:
    remarks = validation_remarks(find(training, validation), np.array(validation, np.float32))
    assert bool(remarks) == bool(said)
    assert all(text in " / ".join(remarks) for text in said)


def target(training: list[float], validation: list[float]) -> Target:
    return find_target(np.array(training, np.float32), np.array(validation, np.float32), where="the table")


def test_mean_and_deviation_of_the_training_labels() -> None:
    assert target([-2.5, 1.5], [1000]) == Target(-0.5, 2.0)


@pytest.mark.parametrize(
    ("training", "validation", "reason"),
    [
        ([1, 1], [1], "only the label 1"),
        ([1, 1], [2], "1 in other parts have others"),
        ([], [1], "no labels"),
        ([1, 2], [np.inf], "not finite"),
    ],
)
def test_labels_that_teach_nothing(training: list[float], validation: list[float], reason: str) -> None:
    with pytest.raises(DataError, match=reason) as caught:
        target(training, validation)
    assert caught.value.hint

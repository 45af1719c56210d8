from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import DataError
from nodes.training.labels import Classes, Target, find_classes, find_target


def find(training: list[float], validation: list[float] = [], classes: int = 0, names: tuple[str, ...] = ()) -> Classes:  # noqa: B006
    return find_classes(
        np.array(training, np.float32),
        np.array(validation, np.float32),
        classes=classes,
        names=names,
        where="the table",
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


def target(training: list[float], validation: list[float]) -> Target:
    return find_target(np.array(training, np.float32), np.array(validation, np.float32), where="the table")


def test_mean_and_deviation_of_the_training_labels() -> None:
    assert target([-2.5, 1.5], [1000]) == Target(-0.5, 2.0)


@pytest.mark.parametrize(
    ("training", "validation", "reason"),
    [([1, 1], [2], "only the label 1"), ([], [1], "no labels"), ([1, 2], [np.inf], "not finite")],
)
def test_labels_that_teach_nothing(training: list[float], validation: list[float], reason: str) -> None:
    with pytest.raises(DataError, match=reason) as caught:
        target(training, validation)
    assert caught.value.hint

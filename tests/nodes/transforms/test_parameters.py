"""The parameters of TransformVolumes: what contradicts itself, and the order of the steps."""

from __future__ import annotations

from typing import Any

import pytest

from engine.declare.datasets import words_of
from nodes.transform_volumes import transform_volumes
from nodes.transforms.parameters import TransformParameters


@pytest.mark.parametrize(
    ("given", "parameter"),
    [
        ({"axes": "XX"}, "axes"),
        ({"axes": "XYC"}, "axes"),
        ({"spacing": (1.0, 2.0)}, "spacing"),
        ({"shape": (4, 4)}, "shape"),
        ({"spacing": (1.0,), "shape": (4, 4, 4)}, "shape"),
        ({"size": (4,)}, "size"),
        ({"clip_low": 2.0, "clip_high": 1.0}, "clip_high"),
        ({"clip_percentiles": (5.0,)}, "clip_percentiles"),
        ({"clip_percentiles": (99.0, 1.0)}, "clip_percentiles"),
        ({"statistics": "all"}, "statistics"),
        ({"normalise": "percentiles", "low_percentile": 99.0}, "high_percentile"),
    ],
)
def test_contradictions(given: dict[str, Any], parameter: str) -> None:
    assert [name for name, _ in TransformParameters(**given).problems()] == [parameter]


def test_all_contradictions_are_said_together() -> None:
    several = TransformParameters(axes="XX", size=(4,), clip_low=2.0, clip_high=1.0, clip_percentiles=(99.0, 1.0))
    assert [name for name, _ in several.problems()] == ["axes", "size", "clip_high", "clip_percentiles"]


def test_the_steps_come_in_the_order_of_the_parameters() -> None:
    parameters = TransformParameters(
        dtype="int16", normalise="min-max", function="/w/my_transforms/blur.py", clip_low=0.0, size=(64, 64, 48),
        spacing=(1.0,), channels=(0, 2), axes="ZYX",
    )  # fmt: skip
    assert list(parameters.problems()) == []
    words = "axes ZYX, channels 0, 2, resample 1 mm, crop 64x64x48, clip below 0, blur.py, min-max, int16"
    assert words_of(parameters.chain("def transform(volume, row): ...")) == words
    assert TransformParameters().chain() == ()
    ends = TransformParameters(
        clip_low=0.0, clip_percentiles=(1.0, 99.0), normalise="z-score", normalise_over="channel"
    )
    assert words_of(ends.chain()) == "clip below 0, clip percentiles 1 to 99 per channel, z-score per channel"


def test_results_that_stayed_the_same_are_still_used() -> None:
    """Others hid infinities, took percentiles for equal, or gave a function the place of before the steps."""
    same = [{}, {"normalise": "z-score"}, {"clip_percentiles": (1, 99)}, {"normalise": "min-max", "statistics": "all"}]
    other = [
        {"normalise": "min-max"},
        {"normalise": "percentiles"},
        {"normalise": "percentiles", "statistics": "source"},
        {"clip_percentiles": (1, 99), "normalise": "z-score", "statistics": "all"},
        {"function": "f.py"},
    ]
    assert {transform_volumes.version_with(params) for params in same} == {1}
    assert {transform_volumes.version_with(params) for params in other} == {2}
    ends = {"normalise": "percentiles", "low_percentile": 0, "high_percentile": 100.0}
    versions = [transform_volumes.version_with(ends | {"statistics": each}) for each in ("volume", "source", "all")]
    assert versions == [2, 3, 3]

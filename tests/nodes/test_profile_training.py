"""What ProfileTraining reports before a run."""

from __future__ import annotations

from typing import Any

import pytest

from engine.declare.check_context import CheckContext
from engine.declare.datasets import Preview, VolumeSpec
from nodes.profile_training import profile_training
from nodes.profiling.settings import ProfileParameters

SPEC = VolumeSpec(shape=(30, 30, 10, 10), dtype="int16")
TABLE = Preview(kind="VolumeDelta", count=1_000, labelled=1_000, spec=SPEC)
FILES = Preview(kind="VolumeFiles", count=1_000, labelled=1_000, spec=SPEC)
OTHERS = FILES.model_copy(update={"spec": VolumeSpec(shape=(30, 30, 10), dtype="int16")})


def problems(inputs: dict[str, Preview], **params: Any) -> list[tuple[str, str, str | None]]:
    seen = CheckContext(params={p.name: p.default for p in profile_training.parameters} | params, inputs=inputs)
    assert profile_training.preview_hook is not None
    profile_training.preview_hook(seen)
    assert all(problem.hint for problem in seen.problems)
    return [(p.code, p.severity, p.parameter or p.port) for p in seen.problems]


AGES = TABLE.model_copy(update={"labels": (20.0, 35.0, 61.0), "labels_complete": True})


@pytest.mark.parametrize("params", [{}, {"jit": True, "deterministic": False}, {"workers": (1, 2)}])
def test_nothing_to_say(params: dict[str, Any]) -> None:
    assert problems({"data": TABLE, "other": FILES}, **params) == []


def test_numbers_are_measured_as_a_regression() -> None:
    assert problems({"data": AGES}, task="regression") == []
    assert ProfileParameters(task="regression").settings(8).task == "regression"


@pytest.mark.parametrize(
    ("inputs", "params", "expected"),
    [
        ({"data": TABLE, "other": OTHERS}, {}, ("VF507", "error", "other")),
        ({"data": FILES}, {"loader": "arrow"}, ("VF502", "error", "loader")),
        ({"data": AGES}, {}, ("VF525", "error", "data")),
        ({"data": AGES.model_copy(update={"labels": (0.5, 1.0)})}, {}, ("VF512", "error", "data")),
        ({"data": AGES.model_copy(update={"labels": (1.0,)})}, {}, ("VF513", "error", "data")),
        ({}, {"batch_sizes": ()}, ("VF530", "error", "batch_sizes")),
        ({}, {"workers": (), "jit": True}, ("VF530", "error", "workers")),
        ({"data": TABLE}, {"jit": True}, ("VF518", "warning", "jit")),
        ({"data": TABLE}, {"jit": True, "workers": (1, 2)}, ("VF518", "warning", "jit")),
        ({"data": TABLE}, {"jit": True, "workers": (2, 4)}, ("VF509", "warning", "jit")),
    ],
)
def test_problems_are_reported_before_anything_runs(
    inputs: dict[str, Preview], params: dict[str, Any], expected: tuple[str, str, str]
) -> None:
    assert problems(inputs, **params) == [expected]

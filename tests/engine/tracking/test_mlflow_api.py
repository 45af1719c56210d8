"""Names and values as MLflow takes them."""

from __future__ import annotations

import posixpath
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.tracking.mlflow_api import file_name, is_number, key, model_name, param_text, tag_text

MLFLOWS = re.compile(r"^[/\w.\- :]*$")
"""`mlflow.utils.validation.validate_param_and_metric_name`; the rest of its rule is in the test."""


@given(st.text(max_size=400))
def test_every_text_becomes_a_name_that_mlflow_takes(text: str) -> None:
    name = key(text)
    assert MLFLOWS.match(name)
    assert 0 < len(name) <= 250
    assert posixpath.normpath(name) == name
    assert name != "."
    assert not name.startswith(("..", "/"))


@given(st.text(max_size=400))
def test_a_file_name_is_one_file(text: str) -> None:
    name = file_name(text, ".png")
    assert "/" not in name
    assert name.endswith(".png")
    assert name not in (".", "..")
    assert not name.startswith(".")


@pytest.mark.parametrize(
    ("parts", "name"),
    [
        (("train", "epochs"), "train.epochs"),
        (("system/cpu",), "system/cpu"),
        (("a//b", "../c"), "a/b.../c"),
        (("loss (µm²)",), "loss _µm²_"),
    ],
)
def test_names_stay_as_they_are_where_they_can(parts: tuple[str, ...], name: str) -> None:
    assert key(*parts) == name


def test_values_are_text_or_json() -> None:
    assert [param_text(v) for v in ("a b", True, None, 1.5, [1, 2], {"ä": 1})] == [
        "a b", "true", "null", "1.5", "[1, 2]", '{"ä": 1}',
    ]  # fmt: skip
    assert len(param_text("x" * 9000)) == 6000
    assert len(tag_text("x" * 9000)) == 5000


def test_model_names_lose_what_mlflow_refuses() -> None:
    assert model_name('resnet 18/v1.0: "best"') == "resnet_18_v1_0_best"
    assert model_name("...") == "model"


def test_booleans_are_no_numbers() -> None:
    assert [is_number(v) for v in (1, 1.5, True, "1", None)] == [True, True, False, False, False]

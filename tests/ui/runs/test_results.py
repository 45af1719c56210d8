"""Where a version in MLflow's registry is looked at."""

from __future__ import annotations

import pytest

from ui.runs import results
from ui.runs.results import Version


@pytest.mark.parametrize(
    ("place", "address"),
    [
        ("sqlite:///own", "voxelflow/mlflow/model/small%20brains%2F2/7"),
        ("sqlite:///other", ""),
        ("https://mlflow.example/", "https://mlflow.example/#/models/small%20brains%2F2/versions/7"),
    ],
)
def test_a_version_is_shown_by_the_app_or_by_its_server(
    place: str, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "can_serve", lambda: True)
    assert Version("small brains/2", 7, place).address("sqlite:///own") == address
    monkeypatch.setattr(results, "can_serve", lambda: False)
    assert Version("small brains/2", 7, "sqlite:///own").address("sqlite:///own") == ""

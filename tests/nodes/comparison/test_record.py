"""Records that travel between machines."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from measured_trainings import training, with_a_gpu

from engine.errors import DataError
from nodes.comparison.record import FORMAT, joined, read_trainings, write_trainings


def test_trainings_survive_their_file(tmp_path: Path) -> None:
    both = (training(), with_a_gpu("arrow", settings={"depth": 18, "stem": "small"}))
    write_trainings(tmp_path / "a.json", both)
    assert read_trainings(tmp_path / "a.json") == both


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is no comparison of trainings"),
        ("{", "is no comparison of trainings"),
        ("[]", "is no comparison of trainings"),
        ("[" * 100_000, "is no comparison of trainings"),
        ('{"format": 1, "trainings": [{"loader": 3}]}', "is no comparison of trainings"),
        (json.dumps({"format": FORMAT + 1, "more": 1}), "has format 2, this Voxelflow reads 1"),
    ],
)
def test_a_damaged_or_newer_file_is_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "other.json"
    path.write_text(text)
    with pytest.raises(DataError, match=message) as caught:
        read_trainings(path)
    assert str(path) in caught.value.message
    with pytest.raises(DataError, match="cannot be read: No such file"):
        read_trainings(tmp_path / "none.json")


def test_each_training_is_joined_once() -> None:
    here, there = [training(), training("arrow")], [with_a_gpu(), training(volumes=7)]
    assert joined(here, there) == (training(), training("arrow"), with_a_gpu())


@pytest.mark.timeout(20)
def test_a_pipe_in_its_place_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "other.json")
    with pytest.raises(DataError, match="cannot be read: it is a named pipe"):
        read_trainings(tmp_path / "other.json")

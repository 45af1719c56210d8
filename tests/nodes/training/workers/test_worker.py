"""A worker of a group, before it trains."""

from __future__ import annotations

from pathlib import Path

import numpy_learner  # noqa: F401 - its framework is "numpy"
import pytest
from delta_tables import shards
from pydantic import BaseModel, ValidationError

from nodes.training.settings import Settings
from nodes.training.workers import worker
from nodes.training.workers.folder import GroupFolder, Job


class Driver:
    """What the worker has of its parent."""

    def __init__(self, *lines: str) -> None:
        self.lines, self.sent = list(lines), list[BaseModel]()

    def send(self, message: BaseModel) -> None:
        self.sent.append(message)

    def line(self) -> str:
        return self.lines.pop(0)


@pytest.mark.parametrize("line", ["", "no cluster", "{}", '{"addresses": "here:1", "cores": 1, "own_devices": true}'])
def test_a_cluster_that_cannot_be_read_ends_the_worker_before_it_joins(tmp_path: Path, line: str) -> None:
    folder, driver = GroupFolder(tmp_path), Driver(line)
    place = str(tmp_path)
    data = shards(tmp_path, 1)
    folder.write_job(
        Job(
            run_id="r", node_id="n", fingerprint="f", out=place, shared=place, scratch=place, begin=place,
            data=data, validation=None, settings=Settings(), framework="numpy",
        )
    )  # fmt: skip

    def never(*_: object) -> None:
        raise AssertionError("it went on without its cluster")

    with pytest.raises(ValidationError, match="for Cluster"):
        worker._take_part(folder, 0, driver, never)  # type: ignore[arg-type]
    assert [type(message).__name__ for message in driver.sent] == ["Listening"]

"""TransformVolumes in a process of its own, which notes each volume that it measures and can be killed meanwhile."""

from __future__ import annotations

import os
import signal
import subprocess
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import forked_programs
from npy_folders import context

from engine.declare.datasets import Dataset, Transform, VolumeFiles, dataset_from_json

BETWEEN_SAVES = 700
"""Values after which such a process saves how far it is."""


@dataclass(frozen=True)
class Measuring:
    """A node to run, again and again, under one context below `base`; in an exported pipeline it has no `workspace`."""

    base: Path
    volumes: Dataset
    workspace: Path | None
    params: dict[str, Any] = field(default_factory=dict)

    def start(self, kill_at: str = "", kill_in: tuple[int, int] | None = None) -> subprocess.Popen[str]:
        """The process; killed at the commit point `kill_at`, or when it reads for a step with `kill_in[0]` steps before
        it its volume number `kill_in[1]`."""
        order = {
            "base": str(self.base),
            "input": self.volumes.model_dump(mode="json"),
            "workspace": None if self.workspace is None else str(self.workspace),
            "params": self.params,
            "kill_in": kill_in,
        }
        return forked_programs.start(
            f"import killed_measuring; killed_measuring.run({order!r})",
            {"VOXELFLOW_KILL_AT": kill_at},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def is_killed(self, kill_at: str = "", kill_in: tuple[int, int] | None = None) -> bool:
        """Whether the process was killed there, and did not pass by."""
        process = self.start(kill_at, kill_in)
        process.communicate(timeout=120)
        return process.returncode == -signal.SIGKILL

    def finish(self) -> tuple[Transform, ...]:
        """The chain that comes out. Raises `AssertionError` with the traceback when the node failed."""
        process = self.start()
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
        made = dataset_from_json(out.splitlines()[-1])
        assert isinstance(made, VolumeFiles)
        return made.transforms

    def read(self) -> dict[int, Counter[str]]:
        """How often each volume was read by all these processes, by the number of steps that it went through."""
        out: dict[int, Counter[str]] = {}
        for line in _notes(self.base).read_text().splitlines():
            steps, _, path = line.partition(" ")
            out.setdefault(int(steps), Counter())[path] += 1
        return out


def run(order: dict[str, Any]) -> None:
    """What such a process does."""
    from nodes.conversion.whole_volumes import TransformedVolumes
    from nodes.loaders import volume_statistics
    from nodes.transform_volumes import transform_volumes

    volume_statistics._SAVE_VALUES = BETWEEN_SAVES
    read, notes = TransformedVolumes.read, _notes(Path(order["base"]))
    seen: Counter[int] = Counter()

    def noted(self: TransformedVolumes, path: str, stamp: Any) -> Any:
        with notes.open("a") as file:
            file.write(f"{len(self.steps)} {path}\n")
        seen[len(self.steps)] += 1
        if [len(self.steps), seen[len(self.steps)]] == list(order["kill_in"] or ()):
            os.kill(os.getpid(), signal.SIGKILL)
        return read(self, path, stamp)

    TransformedVolumes.read = noted  # type: ignore[method-assign]
    workspace = None if order["workspace"] is None else Path(order["workspace"])
    folder = (workspace / "data" if workspace else Path(order["base"])) / "TransformVolumes"
    ctx = context(folder, "node", workspace=workspace)
    made = transform_volumes(dataset_from_json(order["input"]), **order["params"], ctx=ctx)
    print(made.model_dump_json())


def _notes(base: Path) -> Path:
    return base / "read.txt"

"""Power cuts: the disk at a random moment of a run, without some of what nobody had flushed; then the next command."""

from __future__ import annotations

import os
import random
from dataclasses import dataclass

from tests.torture.judge import Finding
from tests.torture.lost_power import LostPower, Record, read_log
from tests.torture.rounds import Kind, NotRun, World
from tests.torture.stages import Stage, stages_of


@dataclass(frozen=True)
class _Logged:
    """A run of a stage, as it was written down."""

    stage: Stage
    records: list[Record]
    mtimes: dict[int, int]
    inodes: dict[int, str]
    """Of the files that were there before."""


class PowerCuts(Kind):
    name = "power-cuts"
    what = "power off at any moment; what was not flushed is lost, torn or in another order"
    short = (1, 2, 3, 4, 5)
    usual = 1000

    def __init__(self, world: World) -> None:
        if world.disk is None:
            raise NotRun("there is no C compiler (cc), which builds the library that keeps the log")
        self._world, self._disk, self._scene = world, world.disk, world.scene
        self._stages = stages_of(world)
        self._logged = {stage.name: self._log(stage) for stage in self._stages.stages}

    def _log(self, stage: Stage) -> _Logged:
        """Run the stage once with a log, and see that the log has everything."""
        self._stages.set(stage)
        path = self._world.folder / f"log-{stage.name}"
        path.touch()
        root = self._scene.workspace
        inodes = {p.stat().st_ino: str(p) for p in root.rglob("*") if p.is_file()}
        played = LostPower(root, keeps_order=True)
        played.begin({}, inodes)
        self._disk.log_to(path)
        ended = self._scene.run()
        self._scene.settle()
        self._disk.log_to(None)
        if ended.state != "done":
            raise Finding(f"an undisturbed run is {ended.state}: {ended.error}")
        records = list(read_log(path))
        path.unlink()
        for record in records:
            played.play(record)
        there = {str(p): p.read_bytes() for p in root.rglob("*") if p.is_file() and not p.name.endswith("-shm")}
        logged = played.names()
        differing = [p for p in there.keys() | logged.keys() if there.get(p) != logged.get(p)]
        if differing:
            raise Finding(f"the log lacks changes of {sorted(differing)[:5]}: {len(differing)} files")
        mtimes = {p.stat().st_ino: p.stat().st_mtime_ns for p in root.rglob("*") if p.is_file()}
        return _Logged(stage, records, mtimes, inodes)

    def play(self, seed: int) -> str:
        dice = random.Random(f"cut {seed}")
        logged = self._logged[self._stages.chosen(seed, dice).name]
        keeps_order = dice.random() < 0.5
        moment = dice.randint(1, len(logged.records))
        self._stages.set(logged.stage)
        disk = LostPower(self._scene.workspace, keeps_order=keeps_order)
        disk.begin(logged.mtimes, logged.inodes)
        for record in logged.records[:moment]:
            disk.play(record)
        disk.cut(dice)
        last = logged.records[moment - 1]
        name = os.path.relpath(last.path, self._scene.workspace)
        where = f"{logged.stage.name} after {moment} of {len(logged.records)}: {last.operation} {name}"
        try:
            self._stages.finish(logged.stage, resume=dice.random() < 0.5)
        except Finding as exc:
            kind = "with a journal" if keeps_order else "that keeps flushed folders only"
            raise Finding(f"{where}, on a disk {kind}: {exc}") from exc
        return where

"""Contending runs: three pipelines fill one table at once, one of them may be killed; in the end it has all rows."""

from __future__ import annotations

import os
import random
import signal
import time

from volumes import write_volumes

from engine.document.pipeline import dump
from tests.torture.judge import Finding, compare, rows_in, rows_of
from tests.torture.rounds import Kind, World
from tests.torture.scene import SHAPE, Answer, Command, storage_document
from tests.torture.stages import stages_of, strikes_more

RUNS, COUNT = 3, 20


class ContendingRuns(Kind):
    name = "contending-runs"
    what = "three pipelines in two workspaces fill one table at once; processes of them are killed"
    short = (1, 2)
    usual = 200

    def __init__(self, world: World) -> None:
        self._world, self._scene = world, world.scene
        self._volumes: list[dict[str, bytes]] = []
        root = self._scene.root
        self._scene.clear()
        for number in range(RUNS):
            made = write_volumes(root / f"source-{number}", COUNT, shape=SHAPE, first=number * COUNT)
            self._volumes.append({name: volume.tobytes() for name, volume in made.items()})
            document = storage_document(root / f"source-{number}", str(root / "table"))
            (root / f"pipeline-{number}.json").write_text(dump(document.model_copy(update={"name": f"p{number}"})))
        self._scene.keep(world.kept("contending"))

    def play(self, seed: int) -> str:
        dice = random.Random(f"contending {seed}")
        if strikes_more(seed):
            return self._the_same_twice(dice)
        self._scene.restore(self._world.kept("contending"))
        commands = [self._start(number) for number in range(RUNS)]
        killed = ""
        if dice.random() < 0.6:
            time.sleep(dice.uniform(0.0, 2.0))
            killed = self._kill_one(dice)
        for command in commands:
            self._see(command.wait())
        self._scene.settle()
        for _ in range(2):  # a first one may find that others have moved the table on
            for number in range(RUNS):
                last = self._start(number).wait()
                self._see(last)
                if last.state != "done":
                    raise Finding(f"alone, run {number} is {last.state or last.status}: {last.error or last.output}")
        wanted: dict[str, bytes] = {}
        for volumes in self._volumes:
            wanted |= volumes
        compare("the table", rows_of(wanted), rows_in(str(self._scene.root / "table"), None))
        return f"three at once{killed}"

    def _the_same_twice(self, dice: random.Random) -> str:
        """Two runs of one pipeline in one workspace: one waits for what the other makes, and goes on if that dies."""
        stages = stages_of(self._world)
        stage = stages.named("more")
        stages.set(stage)
        commands = [self._scene.start("run", str(self._scene.document)) for _ in range(2)]
        killed = ""
        if dice.random() < 0.6:
            time.sleep(dice.uniform(0.0, 4.0))
            killed = self._kill_one(dice)
        for command in commands:
            self._see(command.wait())
        stages.finish(stage, resume=False)
        return f"the same twice{killed}"

    def _start(self, number: int) -> Command:
        place = self._scene.root / ("workspace-b" if number == RUNS - 1 else "workspace")
        return self._scene.start("run", str(self._scene.root / f"pipeline-{number}.json"), workspace=place)

    def _kill_one(self, dice: random.Random) -> str:
        victims = self._world.forks.pids()
        if not victims:
            return ""
        victim = dice.choice(victims)
        try:
            os.kill(victim, signal.SIGKILL)
        except ProcessLookupError:
            return ""
        return f", {self._world.forks.name_of(victim)} killed"

    @staticmethod
    def _see(answer: Answer) -> None:
        if answer.state == "failed" and not answer.error.strip():
            raise Finding("a run failed without a reason")

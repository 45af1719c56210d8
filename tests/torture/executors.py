"""Killed executors: a Spark cluster on the loopback loses executors while it converts, fills and compacts a table."""

from __future__ import annotations

import contextlib
import random
import threading
import time

from outside_parts import missing_part
from spark_cluster import SparkCluster

from tests.torture.judge import Finding
from tests.torture.rounds import Kind, NotRun, World
from tests.torture.scene import storage_document
from tests.torture.stages import stages_of


class KilledExecutors(Kind):
    name = "executors"
    what = "SIGKILL of Spark executors at random moments of a run on a cluster"
    usual = 20

    def __init__(self, world: World) -> None:
        if reason := missing_part("java"):
            raise NotRun(reason)
        self._world, self._scene = world, world.scene
        self._stages = stages_of(world)
        self._open = contextlib.ExitStack()
        self._cluster = self._open.enter_context(SparkCluster(world.folder / "cluster"))

    def close(self) -> None:
        self._open.close()

    def play(self, seed: int) -> str:
        dice = random.Random(f"executors {seed}")
        stage = self._stages.named(dice.choice(("first", "grown")))
        self._stages.set(stage)
        self._scene.write(storage_document(self._scene.source))
        (self._scene.workspace).mkdir(exist_ok=True)
        (self._scene.workspace / "profiles.toml").write_text(self._cluster.profile_toml())
        killed: list[float] = []
        moments = sorted(dice.uniform(0.0, 8.0) for _ in range(dice.randint(1, 2)))
        over = threading.Event()
        thread = threading.Thread(target=self._strike, args=[moments, killed, over])
        thread.start()
        answer = self._scene.run("--profile", "cluster")
        over.set()
        thread.join()
        self._scene.settle()
        where = f"{stage.name}, executors killed {killed} s after the first was there"
        try:
            self._stages.check_answer(answer)
            self._stages.finish(stage, resume=dice.random() < 0.5)
        except Finding as exc:
            raise Finding(f"{where}: {exc}") from exc
        return where if killed else ""

    def _strike(self, moments: list[float], killed: list[float], over: threading.Event) -> None:
        """Kill executors, counted in seconds from when the run has some."""
        while not self._cluster.executor_pids():
            if over.wait(0.05):
                return
        began = time.monotonic()
        for moment in moments:
            if over.wait(max(0.0, began + moment - time.monotonic())):
                return
            with contextlib.suppress(AssertionError):
                self._cluster.kill_an_executor()
                killed.append(round(moment, 2))

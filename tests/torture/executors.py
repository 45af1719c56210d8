"""Killed executors: a Spark cluster on the loopback loses executors while they fill a table, train and predict."""

from __future__ import annotations

import contextlib
import os
import random
import threading
import time
from pathlib import Path

from outside_parts import missing_part
from spark_cluster import SparkCluster

from tests.torture.judge import Finding
from tests.torture.rounds import Kind, NotRun, World
from tests.torture.scene import storage_document, whole_document
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
        here = {"spark.executorEnv.PYTHONPATH": _python_path(world.folder / "in-numpy")}
        self._profile = self._cluster.profile_toml(**here)

    def close(self) -> None:
        self._open.close()

    def play(self, seed: int) -> str:
        dice = random.Random(f"executors {seed}")
        models = seed % 2 == 1
        stage = self._stages.named("models" if models else dice.choice(("first", "grown")))
        self._stages.set(stage)
        self._scene.write(whole_document(self._scene.source) if models else storage_document(self._scene.source))
        (self._scene.workspace).mkdir(exist_ok=True)
        (self._scene.workspace / "profiles.toml").write_text(self._profile)
        killed: list[str] = []
        times = dice.randint(1, 2)
        if models:
            nodes = dice.sample(("train", "predict"), times)
            plan = [(node, dice.uniform(0.0, 4.0)) for node in ("train", "predict") if node in nodes]
        else:
            plan = [("", moment) for moment in sorted(dice.uniform(0.0, 8.0) for _ in range(times))]
        over = threading.Event()
        thread = threading.Thread(target=self._strike, args=[plan, killed, over])
        thread.start()
        answer = self._scene.run("--profile", "cluster")
        over.set()
        thread.join()
        self._scene.settle()
        where = f"{stage.name}, executors killed {', '.join(killed)}"
        try:
            self._stages.check_answer(answer)
            self._stages.finish(stage, resume=dice.random() < 0.5)
        except Finding as exc:
            raise Finding(f"{where}: {exc}") from exc
        return where if killed else ""

    def _strike(self, plan: list[tuple[str, float]], killed: list[str], over: threading.Event) -> None:
        """Kill executors so many seconds after a node has begun, or after the run has some."""
        began: dict[str, float] = {}
        for node, moment in plan:
            while not (self._cluster.executor_pids() and (not node or self._scene.task_state(node) == "running")):
                if over.wait(0.05):
                    return
            began.setdefault(node, time.monotonic())
            if over.wait(max(0.0, began[node] + moment - time.monotonic())):
                return
            with contextlib.suppress(AssertionError):
                self._cluster.kill_an_executor()
                killed.append(f"{moment:.1f} s after {node or 'the first'} was there")


def _python_path(folder: Path) -> str:
    """With which the programs below the executors train and predict in NumPy, as all others of the battery do."""
    folder.mkdir(parents=True)
    programs = ("nodes.training.workers.worker", "nodes.prediction.part_process")
    chosen = f"import sys\nif set(sys.orig_argv) & set({programs!r}):\n    import tests.torture.in_numpy\n"
    (folder / "sitecustomize.py").write_text(chosen)
    tests = Path(__file__).parents[1]
    return os.pathsep.join(map(str, (folder, tests.parent, tests / "support")))

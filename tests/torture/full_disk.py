"""A full disk during every node and the tracker: the reason is named, and with space again all of it comes out."""

from __future__ import annotations

import contextlib
import random
import sqlite3

from io_faults import Action

from tests.torture.judge import Finding
from tests.torture.rounds import Kind, NotRun, World
from tests.torture.stages import stages_of


class FullDisk(Kind):
    name = "full-disk"
    what = "the disk fills up during any node, a checkpoint or the tracking; then there is space again"
    usual = 200

    @classmethod
    def environment(cls) -> dict[str, str]:
        return {"VOXELFLOW_TRACKING": "on", "MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true"}

    def __init__(self, world: World) -> None:
        if world.disk is None:
            raise NotRun("there is no C compiler (cc), which builds the library that fills the disk")
        self._scene, self._disk = world.scene, world.disk
        self._stages = stages_of(world, registers=True)

    def play(self, seed: int) -> str:
        dice = random.Random(f"full {seed}")
        stage = dice.choice(self._stages.stages)
        self._stages.set(stage)
        roles = stage.roles(tracker=True)
        role = dice.choice(list(roles))
        self._disk.strike(role, dice.randint(1, stage.calls[role]), Action.FILL_UP)
        answer = self._scene.run()
        self._scene.settle()
        at = self._disk.struck
        self._disk.heal()
        where = f"{stage.name} {roles[role]} {at}"
        try:
            self._stages.check_answer(answer)
            self._stages.finish(stage, resume=dice.random() < 0.5)
            self._scene.settle()
            self._tracked_once()
        except Finding as exc:
            raise Finding(f"{where}: {exc} (first: {answer.state or answer.status} {answer.error})") from exc
        return where if at else ""

    def _tracked_once(self) -> None:
        """MLflow has the newest run, and of each node one run, all ended."""
        run_id, _ = self._scene.newest_run()
        with contextlib.closing(sqlite3.connect(self._scene.workspace / "mlflow.db", timeout=60)) as db:
            found = db.execute(
                "SELECT r.status, (SELECT value FROM tags n WHERE n.run_uuid = r.run_uuid AND n.key = 'voxelflow.node')"
                " FROM runs r JOIN tags t ON t.run_uuid = r.run_uuid"
                " WHERE t.key = 'voxelflow.run_id' AND t.value = ?",
                [run_id],
            ).fetchall()
        nodes = [node for _, node in found]
        if not found or len(nodes) != len(set(nodes)):
            raise Finding(f"MLflow has {len(found)} runs of {run_id}: {nodes}")
        if unended := [node for status, node in found if status not in ("FINISHED", "FAILED", "KILLED")]:
            raise Finding(f"MLflow's runs of {unended} never end")

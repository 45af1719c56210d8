"""A full disk during every node and the tracker: the reason is named, and with space again all of it comes out."""

from __future__ import annotations

import random

from io_faults import Action

from tests.torture.judge import Finding
from tests.torture.rounds import Kind, NotRun, World
from tests.torture.stages import stages_of
from tests.torture.tracked import TRACKED, tracked_once


class FullDisk(Kind):
    name = "full-disk"
    what = "the disk fills up during each node in turn, a checkpoint or the tracking; then there is space again"
    short = (1, 12)

    @classmethod
    def environment(cls) -> dict[str, str]:
        return TRACKED

    def __init__(self, world: World) -> None:
        if world.disk is None:
            raise NotRun("there is no C compiler (cc), which builds the library that fills the disk")
        self._scene, self._disk = world.scene, world.disk
        self._stages = stages_of(world, registers=True)
        self._all = [(stage, role) for stage in self._stages.stages for role in stage.roles(tracker=True)]

    @property
    def all_rounds(self) -> int:
        """One pass, each with one call of the many at which the disk can be full."""
        return len(self._all)

    def play(self, seed: int) -> str:
        dice = random.Random(f"full {seed}")
        stage, role = self._all[seed % len(self._all)]
        self._stages.set(stage)
        self._disk.strike(role, dice.randint(1, stage.calls[role]), Action.FILL_UP)
        answer = self._scene.run()
        self._scene.settle()
        at = self._disk.struck
        self._disk.heal()
        where = f"{stage.name} {stage.roles(tracker=True)[role]} {at}"
        try:
            self._stages.check_answer(answer)
            said = answer.error or answer.output
            if answer.status and "no space left on" not in said:
                raise Finding("the reason is not named")
            self._stages.finish(stage, resume=dice.random() < 0.5)
            self._scene.settle()
            tracked_once(self._scene)
        except Finding as exc:
            first = answer.error or answer.output[-600:]
            raise Finding(f"{where}: {exc} (first: {answer.state or answer.status} {first})") from exc
        return where if at else ""

"""Kills: a process, or all of them at once, before, after or amid a call that reads or changes the workspace."""

from __future__ import annotations

import random
from typing import ClassVar

from io_faults import Action

from tests.torture.judge import Finding
from tests.torture.rounds import Kind, NotRun, World
from tests.torture.stages import COMMAND, TRACKING, stages_of
from tests.torture.tracked import TRACKED, tracked_once

ACTIONS = (Action.KILL, Action.KILL, Action.KILL_AFTER, Action.KILL_HALFWAY, Action.KILL_ALL)


class Kills(Kind):
    name = "kills"
    what = "SIGKILL of the command, the supervisor, a worker or all, at any call; then resume or run"
    short = (1, 2, 3, 4)
    usual = 1000
    tracked: ClassVar[bool] = False

    def __init__(self, world: World) -> None:
        if world.disk is None:
            raise NotRun("there is no C compiler (cc), which builds the library that strikes")
        self._scene, self._disk = world.scene, world.disk
        self._stages = stages_of(world, registers=self.tracked)

    def play(self, seed: int) -> str:
        dice = random.Random(f"kills {seed}")
        stage = self._stages.chosen(seed, dice)
        self._stages.set(stage)
        roles = stage.roles(tracker=self.tracked)
        if self.tracked:
            roles = {role: name for role, name in roles.items() if name in TRACKING}
        struck = []
        for _ in range(dice.choice((1, 1, 2))):  # once, or twice in a row
            role = dice.choice([*roles, *(r for r in roles if r != COMMAND)])
            action = dice.choice(ACTIONS)
            self._disk.strike(role, dice.randint(1, stage.calls[role]), action)
            answer = self._scene.run()
            at = self._disk.struck
            if action == Action.KILL_ALL and at:
                self._scene.end_all()
            self._scene.settle()
            self._disk.heal()
            struck += [f"{stage.name} {roles[role]} {action.name} {at}"] if at else []
            self._stages.check_answer(answer)
        resume = dice.random() < 0.5
        try:
            self._stages.finish(stage, resume=resume)
            if self.tracked:
                self._scene.settle()
                tracked_once(self._scene)
        except Finding as exc:
            raise Finding(f"{'; '.join(struck)}; then {'resume' if resume else 'run'}: {exc}") from exc
        return "; ".join(struck)


class KillsOfTracking(Kills):
    name = "killed-tracking"
    what = "SIGKILL of the process that MLflow hears from, or of RegisterModel; then resume or run"
    short = ()
    usual = 200
    tracked = True

    @classmethod
    def environment(cls) -> dict[str, str]:
        return TRACKED

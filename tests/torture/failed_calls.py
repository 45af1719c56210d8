"""Failed calls: the N-th call of the command, the supervisor or a task fails, for every N."""

from __future__ import annotations

import errno
from typing import ClassVar

from io_faults import Action

from tests.torture.judge import Finding
from tests.torture.rounds import Kind, NotRun, World
from tests.torture.scene import Answer
from tests.torture.stages import TRACKING, Stage, stages_of
from tests.torture.tracked import TRACKED, tracked_once

FAULTS = (
    (Action.FAIL, errno.EIO),
    (Action.FAIL, errno.ENOSPC),
    (Action.FAIL, errno.EMFILE),
    (Action.FILL_UP, errno.ENOSPC),
    (Action.CUT_SHORT, errno.EIO),
)
_STRIDE = 2_654_435_761
"""Prime: so the first rounds are spread over everything."""


class FailedCalls(Kind):
    name = "failed-calls"
    what = "the N-th call fails (EIO, ENOSPC, EMFILE, short write, full from then on), for every N"
    short = (0, 1, 2, 3, 4, 5)
    tracked: ClassVar[bool] = False

    def __init__(self, world: World) -> None:
        if world.disk is None:
            raise NotRun("there is no C compiler (cc), which builds the library that strikes")
        self._scene, self._disk = world.scene, world.disk
        self._stages = stages_of(world, registers=self.tracked)
        self._all: list[tuple[Stage, int, int]] = [
            (stage, role, call)
            for stage in self._stages.stages
            for role, name in stage.roles(tracker=self.tracked).items()
            if not self.tracked or name in TRACKING
            for call in range(1, stage.calls[role] + 1)
        ]

    @property
    def all_rounds(self) -> int:
        return len(self._all)

    def repeating(self, seed: int) -> str:
        # How many calls there are differs a little from start to start, and with it what a seed means.
        stage, role, call = self._struck(seed)
        return f'--call "{stage.name} {stage.roles(tracker=True)[role]} {call}"'

    def seed_of(self, call: str) -> int:
        for index, (stage, role, number) in enumerate(self._all):
            if call.split() == [stage.name, stage.roles(tracker=True)[role], str(number)]:
                return index * pow(_STRIDE, -1, len(self._all)) % len(self._all)
        raise NotRun(f'no call is "{call}" this time; name its stage, who makes it, and its number')

    def _struck(self, seed: int) -> tuple[Stage, int, int]:
        return self._all[seed * _STRIDE % len(self._all)]

    def play(self, seed: int) -> str:
        stage, role, call = self._struck(seed)
        action, error = FAULTS[(call + role) % len(FAULTS)]
        self._stages.set(stage)
        self._disk.strike(role, call, action, error)
        answer = self._scene.run()
        self._scene.settle()
        at = self._disk.struck
        self._disk.heal()
        where = f"{stage.name} {stage.roles(tracker=True)[role]} #{call} {action.name} {errno.errorcode[error]} {at}"
        try:
            self._stages.check_answer(answer)
            _check_reason(answer, error, at)
            self._stages.finish(stage, resume=bool(call // len(FAULTS) % 2))
            if self.tracked:
                self._scene.settle()
                tracked_once(self._scene)
        except Finding as exc:
            raise Finding(f"{where}: {exc} (first: {answer.state or answer.status} {answer.error})") from exc
        return where if at else ""


class FailedCallsOfTracking(FailedCalls):
    name = "failed-tracking"
    what = "the same of the process that MLflow hears from, and of RegisterModel"
    short = ()
    tracked = True

    @classmethod
    def environment(cls) -> dict[str, str]:
        return TRACKED


_REASONS = {errno.ENOSPC: ("no space left on", ("write", "pwrite")), errno.EMFILE: ("ulimit -n", ("open",))}
"""What a sentence has for a person, and the calls that end so on a real machine."""


def _check_reason(answer: Answer, error: int, at: str) -> None:
    """A command that fails of a full disk or of too many open files says so. Raises `Finding`."""
    words, calls = _REASONS.get(error, ("", ()))
    if answer.status and at.startswith(calls) and words not in (answer.error or answer.output):
        raise Finding(f"the reason is not named: {answer.output[-600:]}")

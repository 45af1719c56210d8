"""The moments of a pipeline's life in which it is struck: the first run, one with more volumes, one with a model; a
pipeline whose volumes come in other ways; and one of all other node types."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tests.torture.judge import Check, Finding, Judge, Row
from tests.torture.more import MORE, checks_of_more, fill_more, more_document
from tests.torture.rounds import World
from tests.torture.scene import (
    MODELS,
    NODES,
    REGISTER,
    SHAPE,
    SOURCES,
    STORAGE,
    Answer,
    sources_document,
    storage_document,
    whole_document,
)
from tests.torture.warm import ROLES, role_of

REFUSED = 2
"""The exit status of a command that does nothing."""
COMMAND, SUPERVISOR, TRACKER, MEASURING = map(ROLES.index, ("command", "supervisor", "tracker", "measuring"))
_OFTEN = 6
"""One in so many rounds strikes `more`."""
NONE: Mapping[str, list[Row]] = {}
TRACKING = ("tracker", REGISTER)
"""Whom MLflow hears from."""


@dataclass(frozen=True)
class Stage:
    """A state of the scene, in which `voxelflow run` has `nodes` to do."""

    name: str
    nodes: tuple[str, ...]
    all_nodes: tuple[str, ...]
    volumes: Mapping[str, bytes]
    calls: Mapping[int, int]
    """By role: the calls of an undisturbed run."""
    run_before: str = ""
    """The newest run at its beginning."""
    reference: Mapping[str, Any] | None = None
    others: Mapping[str, list[Row]] = field(default_factory=dict)
    """The rows of nodes that do not hold all of `volumes`."""
    checks: Mapping[str, Check] = field(default_factory=dict)
    """What else must be true, by node."""

    def roles(self, *, tracker: bool = False) -> dict[int, str]:
        """Who can be struck: the command, the supervisor and each node's worker."""
        named = {COMMAND: "command", SUPERVISOR: "supervisor"} | {role_of(n, NODES): n for n in self.nodes}
        if "profile" in self.nodes:
            named[MEASURING] = "measuring"
        if tracker:
            named[TRACKER] = "tracker"
        return {role: name for role, name in named.items() if self.calls.get(role)}


def strikes_more(seed: int) -> bool:
    """Whether this round of a kind is about the stage `more`, whose runs are the longest."""
    return seed % _OFTEN == 0


def stages_of(world: World, *, registers: bool = False) -> Stages:
    """The stages of this world; `registers` when its model goes to MLflow's registry."""
    if world.stages is None:
        world.stages = Stages(world, registers=registers)
    stages: Stages = world.stages
    return stages


class Stages:
    """Makes the stages once, and sets the scene to one of them."""

    def __init__(self, world: World, *, registers: bool = False) -> None:
        self._world, scene = world, world.scene
        after = (*MODELS, REGISTER) if registers else MODELS
        # The short form has two rounds of runs that are tracked: they are of the first stages (`FullDisk.short`).
        few = world.short and registers
        self.stages: list[Stage] = []
        sources = [] if few else [self._make_sources()]
        scene.clear()
        scene.fill()
        scene.write(storage_document(scene.source))
        self.stages.append(self._stage("first", STORAGE, STORAGE))
        storage_only = scene.document.read_text()
        scene.write(whole_document(scene.source, registers=registers))
        self.stages.append(self._stage("models", after, (*STORAGE, *after)))
        if few:
            return
        self.again = self._stage("again", (), (*STORAGE, *after))
        """All is there, and the same run is asked for again."""
        scene.document.write_text(storage_only)
        scene.grow()
        self.stages.append(self._stage("grown", STORAGE, STORAGE))
        self.stages += sources
        self._usual = list(self.stages)
        self.more_again = self.again if world.short else self._make_more()

    def _make_sources(self) -> Stage:
        """The stage in which volumes come in other ways; keeps the one after it, which asks for the same again."""
        scene = self._world.scene
        scene.clear()
        others = scene.fill_sources()
        scene.write(sources_document(scene.root))
        stage = self._stage("sources", SOURCES, SOURCES, others)
        self.sources_again = self._stage("sources-again", (), SOURCES, others)
        return stage

    def _stage(
        self,
        name: str,
        nodes: tuple[str, ...],
        all_nodes: tuple[str, ...],
        others: Mapping[str, list[Row]] = NONE,
        checks: Mapping[str, Check] | None = None,
    ) -> Stage:
        scene, disk = self._world.scene, self._world.disk
        scene.keep(self._world.kept(name))
        if disk is not None:
            disk.heal()
        before = scene.newest_run()[0]
        ended = scene.run()
        scene.settle()
        calls = dict(disk.calls) if disk is not None else {}
        volumes = dict(scene.volumes)
        stage = Stage(name, nodes, all_nodes, volumes, calls, before, others=others, checks=checks or {})
        if ended.state != "done":
            raise Finding(f"an undisturbed run is {ended.state}: {ended.error or ended.output}")
        return replace(stage, reference=self.judge(stage).whole(all_nodes))

    def _make_more(self) -> Stage:
        """Add the stage; gives the one after it, which asks for the same again."""
        scene = self._world.scene
        self.set(self.again)  # with a model, and the run that made it
        run_id = scene.newest_run()[0]
        judge = self.judge(self.again)
        others = fill_more(scene.root, SHAPE, judge.output("train")["uri"], judge.output("optimize")["uri"])
        scene.write(more_document(scene.root, run_id))
        checks = checks_of_more(scene.root, others)
        self.stages.append(self._stage("more", MORE, MORE, others, checks))
        return self._stage("more-again", (), MORE, others, checks)

    def chosen(self, seed: int, dice: random.Random) -> Stage:
        """The stage of a round: `more` now and then, else any other."""
        return self.named("more") if strikes_more(seed) else dice.choice(self._usual)

    def named(self, name: str) -> Stage:
        return next(stage for stage in self.stages if stage.name == name)

    def set(self, stage: Stage) -> None:
        """Let the scene be as at the beginning of the stage."""
        self._world.scene.restore(self._world.kept(stage.name))
        self._world.scene.volumes = dict(stage.volumes)

    def judge(self, stage: Stage) -> Judge:
        return Judge(self._world.scene.workspace, stage.volumes, stage.others, stage.checks)

    def finish(self, stage: Stage, *, resume: bool) -> None:
        """After the fault: nothing is wrongly called right, and one more plain command ends exactly."""
        scene, judge = self._world.scene, self.judge(stage)
        scene.settle()
        run_id, state = scene.newest_run()
        if is_new := run_id != stage.run_before:
            judge.claims()
        again = scene.resume(run_id) if resume and is_new and run_id and state != "done" else scene.run()
        if again.status == REFUSED and "is still running" in again.output:
            # With its command dead as well, nobody has seen that its process died before it began: for a minute it
            # counts as starting. A new run does the work.
            again = scene.run()
        if again.state != "done":
            raise Finding(f"the run after it is {again.state or again.status}: {again.error or again.output[-1500:]}")
        judge.whole(stage.all_nodes, stage.reference)

    def check_answer(self, answer: Answer) -> None:
        """A run that fails says why, in a sentence."""
        if answer.state == "failed" and not answer.error.strip():
            raise Finding("the run failed without a reason")
        for mark in ("Traceback", "Error(", "Error: [Errno", "panicked"):
            if mark in answer.error:
                raise Finding(f"no sentence for a person: {answer.error}")

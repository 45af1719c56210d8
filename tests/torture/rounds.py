"""Kinds of faults, their rounds by seed, and the table of what came of them."""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from forked_programs import Forks
from io_faults import FaultyDisk

from tests.torture.judge import Finding
from tests.torture.scene import Scene

_LONGEST = 1000


@dataclass
class World:
    """What the rounds share, of all kinds that want the same environment."""

    folder: Path
    scene: Scene
    disk: FaultyDisk | None
    forks: Forks
    short: bool = False
    """Whether it is the short form: without the stage `more`, and with tracking only the first two stages."""
    stages: Any = None
    """Made by the first kind that wants them (`tests.torture.stages.stages_of`)."""

    def kept(self, name: str) -> Path:
        """Where a state of the scene is kept."""
        return self.folder / "kept" / name


class NotRun(Exception):
    """A kind needs what this machine lacks; the text says what."""


class Kind(ABC):
    """One kind of fault. A subclass prepares in `__init__`, which raises `NotRun` where it cannot be tried here."""

    name: ClassVar[str]
    what: ClassVar[str]
    """For the table."""
    short: ClassVar[tuple[int, ...]] = ()
    """Seeds of the short form."""
    usual: ClassVar[int] = 100
    """Rounds when nobody says how many."""

    @abstractmethod
    def __init__(self, world: World) -> None: ...

    @classmethod
    def environment(cls) -> dict[str, str]:
        """What the processes of this kind have in their environment."""
        return {"VOXELFLOW_TRACKING": "off"}

    @property
    def all_rounds(self) -> int | None:
        """How many rounds try everything, for a kind that can; seeds 0 to that number."""
        return None

    def repeating(self, seed: int) -> str:
        """The options that play this round again."""
        return f"--seed {seed} --rounds 1"

    def seed_of(self, call: str) -> int:
        """The round that strikes this call. Raises `NotRun`."""
        raise NotRun("its rounds are chosen by --seed, not by --call")

    @abstractmethod
    def play(self, seed: int) -> str:
        """One round; what was struck in it, or "" when the fault met nothing. Raises `Finding`."""

    def close(self) -> None:  # noqa: B027 - most have nothing to give back
        """Give back what `__init__` has started."""


@dataclass
class Tally:
    """What came of the rounds of one kind."""

    kind: str
    what: str
    rounds: int = 0
    passed: int = 0
    missed: int = 0
    """Rounds whose fault met nothing, such as a call that was not made this time."""
    of: int | None = None
    seconds: float = 0.0
    findings: list[tuple[str, str]] = field(default_factory=list)
    """The options that repeat the round, and what was found in it."""
    not_run: str = ""

    def add(self, repeating: str, outcome: str | Finding) -> None:
        self.rounds += 1
        if isinstance(outcome, Finding):
            self.findings.append((repeating, " ".join(str(outcome).split())[:_LONGEST]))
        else:
            self.passed += 1
            self.missed += not outcome


def play(kind: type[Kind], world: World, seeds: Iterable[int] | str | None, until: float, say: Any = print) -> Tally:
    """Play rounds until the seeds are used up or the time (`time.monotonic`) is over; a text is a call that is to be
    struck, None all rounds or the usual number."""
    tally = Tally(kind.name, kind.what)
    began = time.monotonic()
    try:
        made = kind(world)
    except NotRun as exc:
        tally.not_run = str(exc)
        return tally
    except Finding as exc:  # the run that is to be disturbed fails by itself
        tally.add("--rounds 1", exc)
        say(f"FAILED  {kind.name}: {exc}")
        return tally
    try:
        tally.of = made.all_rounds
        if seeds is None:
            seeds = range(tally.of or kind.usual)
        elif isinstance(seeds, str):
            seeds = [made.seed_of(seeds)]
        for seed in seeds:
            if time.monotonic() > until:
                break
            outcome: str | Finding
            try:
                outcome = made.play(seed)
            except Exception as exc:
                # An error of ours must not end a night's work, and is no round that passed.
                outcome = exc if isinstance(exc, Finding) else Finding(f"the round itself: {exc!r}")
                say(f"FAILED  {kind.name} {made.repeating(seed)}: {str(outcome)[:_LONGEST]}")
            finally:
                if world.disk is not None:
                    world.disk.heal()
                world.forks.kill_all()
            tally.add(made.repeating(seed), outcome)
            if tally.rounds % 25 == 0:
                say(f"{kind.name}: {tally.rounds} rounds, {len(tally.findings)} failed")
    except NotRun as exc:
        tally.not_run = str(exc)
    finally:
        tally.seconds = time.monotonic() - began
        made.close()
    return tally


def table(tallies: Iterable[Tally]) -> str:
    """The table, and below it the command that repeats each round that failed."""
    rows = [("kind", "rounds", "passed", "failed", "the fault")]
    after: list[str] = []
    for tally in tallies:
        count = f"{tally.rounds:,}" + (f" of {tally.of:,}" if tally.of and tally.of != tally.rounds else "")
        rows.append((tally.kind, count, f"{tally.passed:,}", f"{len(tally.findings):,}", tally.what))
        if tally.not_run:
            after.append(f"{tally.kind} was not run: {tally.not_run}")
        if tally.missed:
            after.append(f"{tally.kind}: in {tally.missed:,} rounds that passed the fault met nothing")
        for repeating, text in tally.findings:
            after.append(f"python -m tests.torture {tally.kind} {repeating}\n    {text}")
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["| " + " | ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)) + " |" for row in rows]
    lines.insert(1, "| " + " | ".join("-" * w for w in widths) + " |")
    return "\n".join([*lines, "", *after])


def as_json(tallies: Iterable[Tally]) -> str:
    """The same for a program."""
    return json.dumps([_plain(tally) for tally in tallies], indent=1)


def _plain(tally: Tally) -> Mapping[str, Any]:
    return dict(vars(tally))

"""Bit rot: a file of any kind is damaged in its place, between two runs or before the same one is asked for again."""

from __future__ import annotations

import os
import random
import re
from pathlib import Path

from tests.torture.judge import Finding
from tests.torture.rounds import Kind, World
from tests.torture.sections import OTHER, Section, sections_of
from tests.torture.stages import stages_of, strikes_more

_KEPT_BY_OTHERS = re.compile(r"(.*/)?(lock|gate|\w+\.lock)|locks/.*|.*\.log|runs\.db-shm|workspace\.json")
"""Nothing is in them, nobody reads them, or a person writes them."""
_MADE_OF_A_MODEL = re.compile(r".*(model|train|predict|evaluat|report).*", re.IGNORECASE)
_OF_MORE = re.compile(
    r"own/.*|workspace/(data/(CompareTrainings|CrossValidation|LoadModel|ProbeStorage|ProfileTraining|RunAfter)/|probes/).*"
)
"""What the other node types read in its place, and what they make."""
_MODELS, _SOURCES = 1 / 4, 1 / 5
"""The shares of rounds after which a model, its predictions and reports are asked for again; and the pipeline whose
volumes come in other ways."""
_PAGES = 2 / 3
"""The share of rounds that strike a part of a table's file, or its log."""


class BitRot(Kind):
    name = "bit-rot"
    what = "bits, a block, the end or all of one file are damaged; done exactly, or refused with the file's name"
    short = (1, 2, 3)
    usual = 300

    def __init__(self, world: World) -> None:
        self._scene = world.scene
        self._stages = stages_of(world)
        self._grown = self._stages.named("grown")
        self._stage = self._grown

    def play(self, seed: int) -> str:
        dice = random.Random(f"rot {seed}")
        # The run with more volumes reads no model and no predictions.
        roll = dice.random()
        others = self._stages.sources_again if roll < _MODELS + _SOURCES else self._grown
        self._stage = self._stages.again if roll < _MODELS else others
        of_models = self._stage is self._stages.again and seed % 2 == 0  # else of any file
        kept, place = _MADE_OF_A_MODEL if of_models else None, self._scene.workspace
        if strikes_more(seed):
            self._stage, kept, place = self._stages.more_again, _OF_MORE, self._scene.root
        self._stages.set(self._stage)
        victim, section = choose(place, dice, kept)
        before, times = victim.read_bytes(), victim.stat()
        how, after = _damage(before, section, dice)
        victim.write_bytes(after)
        if dice.random() < 0.5:  # as a disk does it
            os.utime(victim, ns=(times.st_atime_ns, times.st_mtime_ns))
        name = victim.relative_to(place).as_posix()
        where = f"{name}, {section.kind}: {how}"
        try:
            self._judge(victim, where)
            if victim.exists() and victim.read_bytes() == after:
                victim.write_bytes(before)
                os.utime(victim, ns=(times.st_atime_ns, times.st_mtime_ns))
            self._stages.finish(self._stage, resume=False)
        except Finding as exc:
            raise Finding(f"{where}: {exc}") from exc
        return where

    def _judge(self, victim: Path, where: str) -> None:
        """The next run is exact, or is refused with the name of the file; what nobody read is found by `verify`."""
        answer = self._scene.run()
        self._scene.settle()
        if answer.state == "done":
            try:
                self._stages.judge(self._stage).whole(self._stage.all_nodes, self._stage.reference)
            except Exception as exc:  # that of whatever reads the file
                if not self._is_found(victim):
                    raise Finding(f"called right: {exc}") from exc
            return
        self._stages.check_answer(answer)
        said = answer.error or answer.output
        if victim.name.removesuffix("-wal") not in said and victim.parent.name not in said:
            raise Finding(f"the refusal does not name the file: {said[-600:]}")

    def _is_found(self, victim: Path) -> bool:
        """Whether `voxelflow verify` reports the damage of a file that no run reads whole."""
        targets: list[Path | str] = ["last"]
        if victim.suffix == ".parquet":  # of a version that is the newest, or of a folder of parts
            targets.append(next((p for p in victim.parents if (p / "_delta_log").is_dir()), victim.parent))
        answers = [self._scene.verify(target) for target in targets]
        return any(a.status != 0 and victim.name.removesuffix("-wal") in a.output for a in answers)


def choose(workspace: Path, dice: random.Random, wanted: re.Pattern[str] | None = None) -> tuple[Path, Section]:
    """A file and what of it is struck: each kind of section as often as each other, then each kind of file.

    `wanted` is what the file's path below the folder must match. Names with numbers and hashes taken out are the kinds
    of files.
    """
    kinds: dict[str, dict[str, list[tuple[Path, Section]]]] = {}
    for path in sorted(workspace.rglob("*")):
        name = path.relative_to(workspace).as_posix()
        of_interest = not _KEPT_BY_OTHERS.fullmatch(name) and (wanted is None or wanted.fullmatch(name))
        if of_interest and path.is_file() and path.stat().st_size:
            for section in sections_of(path):
                files = kinds.setdefault(section.kind, {})
                files.setdefault(re.sub(r"[0-9a-f]{6,}|\d+", "*", name), []).append((path, section))
    pages = sorted(kinds.keys() - {OTHER})
    found = kinds[dice.choice(pages) if pages and dice.random() < _PAGES else OTHER]
    return dice.choice(found[dice.choice(sorted(found))])


def _damage(data: bytes, section: Section, dice: random.Random) -> tuple[str, bytes]:
    """(what was done, the file after it). A block of a disk and the end of a file may take more than the section."""
    out = bytearray(data)
    at = dice.randrange(section.begin, section.end)
    ways = ("bit", "bit", "bits", "block", "short")
    kind = dice.choice((*ways, "empty", "longer") if len(data) == section.end - section.begin else ways)
    if kind == "bit":
        out[at] ^= 1 << dice.randrange(8)
    elif kind == "bits":
        for _ in range(16):
            out[dice.randrange(section.begin, section.end)] ^= 1 << dice.randrange(8)
    elif kind == "block":
        begin = at // 512 * 512
        out[begin : begin + 512] = bytes(len(out[begin : begin + 512]))
    elif kind == "short":
        del out[at:]
    elif kind == "empty":
        out.clear()
    else:
        out += dice.randbytes(100)
    return f"{kind} at {at} of {len(data)}", bytes(out)

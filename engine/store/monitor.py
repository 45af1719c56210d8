"""What the monitor of a run measured, in a file of the run's folder: a line of JSON for each moment, whole at any kill.

    {"format": 1, "every_s": 1}                                   the first line
    {"time": 1700000000.0, "about": {"cores": 8, "gpu": "..."}}   an attempt begins, on this machine
    {"time": 1700000001.0, "s": 1.0, "v": {"cpu": 91.0, "train.cpu": 188.0, ...}}

A moment stands for the `s` seconds before it, by means. When there are `MOST` of them each two become one, with the
means of both and, in `x`, the highest values; from then on a moment is twice as long. So a file never has more than
`MOST` lines of some hundred bytes: a value a second in the first hour, one every two seconds in two hours, one every
half minute in a day. Only the run's own process writes the file.
"""

from __future__ import annotations

import json
import os
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine.storage.files import write_whole

FILE = "monitor.jsonl"
"""Its name in the run's folder."""
MOST = 3_600
PROCESSES = 6
"""Of one task in a moment; what more of them use is added up as "others"."""
_FORMAT = 1
_IS_PROCESS = ".cpu:"


@dataclass(frozen=True)
class Moment:
    """The `seconds` before `time` (seconds since the epoch): means by name, and the peaks where they are higher.

    The machine's names stand alone (`cpu`, `disk_read`), those of a task after its node (`train.cpu`), and those of a
    process after the task's (`train.cpu:worker`, `train.cpu:java 4711`).
    """

    time: float
    seconds: float
    values: Mapping[str, float]
    peaks: Mapping[str, float] = field(default_factory=dict)

    def peak(self, name: str) -> float | None:
        """The highest value in it; None when it was not measured."""
        return self.peaks.get(name, self.values.get(name))


@dataclass(frozen=True)
class Attempt:
    """An attempt of the run: when its monitor began, and what is known of the machine."""

    time: float
    about: Mapping[str, Any]


def joined(moments: Iterable[Moment]) -> Moment:
    """Several moments, one after another, as one: means over the time that has the value, and peaks.

    Of a process that is over the time that has its task: what it used while it was not there is nothing. The
    `PROCESSES` that used most stay, and the task's own.
    """
    parts = list(moments)
    sums: dict[str, tuple[float, float]] = {}
    peaks: dict[str, float] = {}
    for part in parts:
        for name, value in part.values.items():
            total, seconds = sums.get(name, (0.0, 0.0))
            sums[name] = total + value * part.seconds, seconds + part.seconds
            peaks[name] = max(part.peaks.get(name, value), peaks.get(name, value))
    means: dict[str, float] = {}
    for name, (total, _) in sums.items():
        owner = name.partition(":")[0] if _IS_PROCESS in name else name
        seconds = sums.get(owner, sums[name])[1]
        means[name] = total / seconds if seconds else 0.0
    values = {name: round(mean, 2) for name, mean in _with_few_processes(means).items()}
    return Moment(
        parts[-1].time,
        sum(part.seconds for part in parts),
        values,
        {name: peak for name, peak in peaks.items() if name in values and peak > values[name]},
    )


def _with_few_processes(means: Mapping[str, float]) -> dict[str, float]:
    """The same with no more processes of each task than a moment has, and what the others used as that of one.

    Else a task that starts programs all the time would have more of them in each moment the longer it runs.
    """
    of_task: dict[str, list[str]] = {}
    for name in means:
        task, found, process = name.partition(_IS_PROCESS)
        if found and process != "others":
            of_task.setdefault(task, []).append(name)
    out = dict(means)
    for task, names in of_task.items():
        names.sort(key=lambda name: (not name.endswith(f"{_IS_PROCESS}worker"), -means[name]))
        if rest := names[PROCESSES:]:
            others = f"{task}{_IS_PROCESS}others"
            out[others] = out.get(others, 0.0) + sum(out.pop(name) for name in rest)
    return out


class MonitorLog:
    """Writes the file. Nothing here raises when the disk is full: moments are then missing."""

    def __init__(self, path: Path, most: int = MOST) -> None:
        self._path, self._most = path, most
        self._waiting: list[Moment] = []
        record = MonitorRecord(path)
        record.read()
        self._every_s, self._count = record.every_s, len(record.moments)
        # The line that a kill has cut short is ended, and then passed over.
        self._glue = "" if record.whole else "\n"
        if not path.exists():
            self._append(json.dumps({"format": _FORMAT, "every_s": 1}))

    def begin(self, attempt: Attempt) -> None:
        """An attempt begins."""
        self._append(_begins(attempt))

    def add(self, moment: Moment) -> None:
        """Keep a moment of about a second."""
        self._waiting.append(moment)
        # Half a moment is the tolerance of a clock that ticks a little early.
        if sum(part.seconds for part in self._waiting) < self._every_s - 0.5:
            return
        self._append(_line(joined(self._waiting)))
        self._waiting = []
        self._count += 1
        if self._count >= self._most:
            self._thin()

    def flush(self) -> None:
        """Keep what is left: the run ends."""
        if self._waiting:
            self._append(_line(joined(self._waiting)))
            self._waiting = []

    def _append(self, line: str) -> None:
        try:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(f"{self._glue}{line}\n")
            self._glue = ""
        except OSError:
            self._glue = "\n"  # a part of it may have been written

    def _thin(self) -> None:
        record = MonitorRecord(self._path)
        record.read()
        lines = [json.dumps({"format": _FORMAT, "every_s": 2 * self._every_s})]
        starts = [attempt.time for attempt in record.attempts]
        parts: list[list[Moment]] = [[] for _ in range(len(starts) + 1)]
        for moment in record.moments:
            parts[bisect_right(starts, moment.time)].append(moment)
        for place, part in enumerate(parts):
            lines += [_begins(record.attempts[place - 1])] if place else []
            lines += [_line(joined(part[i : i + 2])) for i in range(0, len(part), 2)]
        try:
            write_whole(self._path, "\n".join(lines) + "\n", durable=False)
        except OSError:
            return  # the next moment tries again
        self._every_s *= 2
        self._count = len(lines) - len(starts) - 1


class MonitorRecord:
    """Reads the file, each time only what is new of it. Other lines than those above are passed over."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: tuple[int, int, bytes] | None = None
        self._offset = 0
        self.whole = True
        """Whether the file ends with a whole line."""
        self.every_s = 1
        """Seconds that a moment stands for, about."""
        self.attempts: list[Attempt] = []
        self.moments: list[Moment] = []

    def read(self) -> bool:
        """Take in what was written since; False when there is nothing new, or no file."""
        try:
            with self._path.open("rb") as file:
                found, first = os.fstat(file.fileno()), file.readline()
                same = (found.st_dev, found.st_ino, first)
                if self._file != same or found.st_size < self._offset:
                    # Thinned, which makes another file; after two times it may be in the first one's place on the disk.
                    self._file, self._offset = same, 0
                    self.attempts, self.moments = [], []
                file.seek(self._offset)
                data = file.read()
        except OSError:
            return False
        end = data.rfind(b"\n") + 1
        self._offset += end
        self.whole = end == len(data)
        for line in data[:end].splitlines():
            self._take(line)
        return end > 0

    def _take(self, line: bytes) -> None:
        try:
            found = json.loads(line)
            if "v" in found:
                moment = Moment(float(found["time"]), float(found["s"]), dict(found["v"]), dict(found.get("x", {})))
                self.moments.append(moment)
            elif "about" in found:
                self.attempts.append(Attempt(float(found["time"]), dict(found["about"])))
            elif "every_s" in found:
                self.every_s = max(1, int(found["every_s"]))
        except (ValueError, TypeError, KeyError):
            return  # cut off by a kill, or of a later format


def _begins(attempt: Attempt) -> str:
    return json.dumps({"time": attempt.time, "about": dict(attempt.about)}, ensure_ascii=False)


def _line(moment: Moment) -> str:
    found: dict[str, Any] = {"time": round(moment.time, 2), "s": round(moment.seconds, 2), "v": dict(moment.values)}
    if moment.peaks:
        found["x"] = dict(moment.peaks)
    return json.dumps(found, separators=(",", ":"))

"""A race: contenders in processes of their own take turns, in another order every round; what counts are ratios.

    python -m benchmarks.race MODULE:CLASS '{"argument": ...}'

is a contender's process: it reads orders as JSON lines and answers each with one. What libraries print goes to the
standard error.
"""

from __future__ import annotations

import importlib
import json
import os
import random
import statistics
import subprocess
import sys
import time
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

ROOT = Path(__file__).parents[1]


# --- what takes part ---------------------------------------------------------------------------


class Contender:
    """What takes part in a race. Subclasses do their preparations in `__init__`, which nobody times."""

    reads_itself = True
    """Whether this process, or one that it waits for, reads the files: then what came from the disk is known."""

    def round(self, number: int) -> dict[str, Any]:
        """Do the work once. `amount` and `seconds` of the answer make the rate; the rest is reported beside it."""
        raise NotImplementedError

    def digest(self) -> str:
        """Of what the last round delivered, or of what any round delivers, if that is the same."""
        raise NotImplementedError

    def files(self) -> Iterable[str | Path]:
        """The files that the work reads: what a cold round must not find in the page cache."""
        return ()

    def tidy(self) -> None:
        """After a round and its digest: remove what it has written."""

    def close(self) -> None:
        """Nothing follows."""


# --- measuring ---------------------------------------------------------------------------------


@contextmanager
def timed(answer: dict[str, Any]) -> Iterator[None]:
    """Put the seconds that the block takes into `answer`."""
    began = time.perf_counter()
    yield
    answer["seconds"] = time.perf_counter() - began


def peak_bytes(process: int | str = "self") -> int:
    """The most resident memory the process ever had (since `forget_peak`); 0 when it is gone."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), 0)


def forget_peak() -> None:
    """Let `peak_bytes` of this process count from now."""
    Path("/proc/self/clear_refs").write_text("5")


def disk_reads() -> int:
    """Bytes that this process and its ended children have fetched from the disk: none for what was cached."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("read_bytes:"))


def drop(paths: Iterable[str | Path]) -> None:
    """Take the files out of the page cache. Pages that some process has mapped stay."""
    for path in paths:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)  # dirty pages would stay
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(handle)


def sync(paths: Iterable[str | Path]) -> None:
    """Make files and the folders they lie in durable."""
    files = [Path(path) for path in paths]
    for path in (*files, *{path.parent for path in files}):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


# --- the race ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Entry:
    """One contender of a race: the class `program`, made with `arguments` in a process of its own.

    `delivers` names what its digest must be equal among; "" for a limit that delivers nothing to be compared.
    """

    name: str
    kind: Literal["ours", "peer", "limit"]
    program: type[Contender]
    arguments: Mapping[str, Any] = field(default_factory=dict)
    delivers: str = "all"
    rounds: int = 1_000
    """At most so many timed rounds: for one that is slow beyond all others."""


@dataclass(frozen=True)
class Result:
    """One contender's rounds: `rates` in the race's unit by round; `answers` all else it reported."""

    name: str
    kind: str
    rates: Mapping[int, float]
    answers: Sequence[Mapping[str, Any]]

    @property
    def rate(self) -> float:
        return statistics.median(self.rates.values())

    @property
    def peak(self) -> int:
        """Most resident memory in any round, in bytes."""
        return max(int(answer.get("peak", 0)) for answer in self.answers)


@dataclass(frozen=True)
class Ratio:
    """Of two contenders' rates within the same rounds."""

    median: float
    least: float
    most: float

    def __str__(self) -> str:
        return f"{_short(self.median)} ({_short(self.least)}..{_short(self.most)})"


@dataclass(frozen=True)
class Race:
    """A finished race. `unit` is of the rates, `limit` names the contender that others are measured against."""

    title: str
    unit: str
    limit: str
    results: tuple[Result, ...]

    def __getitem__(self, name: str) -> Result:
        return next(result for result in self.results if result.name == name)

    def ratio(self, one: str, other: str) -> Ratio:
        """How many times the rate of `other` that of `one` is, in the rounds that both ran."""
        a, b = self[one].rates, self[other].rates
        found = [a[number] / b[number] for number in a.keys() & b.keys()]
        return Ratio(statistics.median(found), min(found), max(found))

    @property
    def ours(self) -> str:
        """The contender that the others are compared with: the first of ours."""
        return next(result.name for result in self.results if result.kind == "ours")


def race(
    title: str,
    entries: Sequence[Entry],
    *,
    unit: str,
    limit: str,
    rounds: int,
    seed: int,
    folder: Path,
    cold: bool = False,
    warm_up: bool = True,
) -> Race:
    """Run `rounds` timed rounds after one that only warms up and is checked: all `delivers` must be equal.

    A contender answers each round with an `amount` and `seconds`, which make its rate, or with a `rate`. A `cold` race
    has its files dropped from the page cache before every turn. Raises `SystemExit` when a contender fails or delivers
    something else than the others.
    """
    order = random.Random(seed)
    found: dict[str, list[dict[str, Any]]] = {entry.name: [] for entry in entries}
    rates: dict[str, dict[int, float]] = {entry.name: {} for entry in entries}
    with ExitStack() as stack:
        processes = [stack.enter_context(Process(entry, folder)) for entry in entries]
        if warm_up:
            _check_digests(title, processes)
        for number in range(1, rounds + 1):
            for process in order.sample(processes, len(processes)):
                if number > process.entry.rounds:
                    continue
                # Nobody pays for what others left to be written.
                os.sync()
                answer = process.ask("round", round=number, cold=cold)
                process.ask("tidy")
                found[process.entry.name].append(answer)
                rates[process.entry.name][number] = answer.get("rate") or answer["amount"] / answer["seconds"]
            print(f"{title}: round {number} of {rounds}", file=sys.stderr, flush=True)
    results = tuple(Result(e.name, e.kind, rates[e.name], found[e.name]) for e in entries)
    return Race(title, unit, limit, results)


def _check_digests(title: str, processes: Sequence[Process]) -> None:
    digests: dict[str, dict[str, str]] = {}
    for process in processes:
        began = time.perf_counter()
        process.ask("round", round=0, cold=False)
        if process.entry.delivers:
            digests.setdefault(process.entry.delivers, {})[process.entry.name] = process.ask("digest")["digest"]
        process.ask("tidy")
        print(f"{title}: {process.entry.name} took {time.perf_counter() - began:.1f} s to warm up", file=sys.stderr)
    for what, delivered in digests.items():
        if len(set(delivered.values())) != 1:
            lines = "\n".join(f"  {name}: {digest}" for name, digest in delivered.items())
            raise SystemExit(f"{title}: not everybody delivered the same ({what}):\n{lines}")


def file_name(contender: str) -> str:
    """What files and folders of a contender are named after."""
    return "".join(c if c.isalnum() else "-" for c in contender)


def _short(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:,.0f}"


class Process:
    """The parent's end of a contender's process."""

    def __init__(self, entry: Entry, folder: Path) -> None:
        self.entry = entry
        log = folder / "logs" / f"{file_name(entry.name)}.log"
        log.parent.mkdir(exist_ok=True)
        program = f"{entry.program.__module__}:{entry.program.__qualname__}"
        self._log = log
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "benchmarks.race", program, json.dumps(entry.arguments)],
                cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True,
            )  # fmt: skip
        try:
            self._answer()
        except BaseException:
            self.__exit__()
            raise

    def ask(self, what: str, **order: Any) -> dict[str, Any]:
        """Give an order and wait for its answer. Raises `SystemExit` with what the contender reported."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": what, **order}) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        answer: dict[str, Any] = json.loads(line) if line else {"error": self._log.read_text()[-4000:]}
        if "error" in answer:
            raise SystemExit(f"{self.entry.name} failed:\n{answer['error']}\n{self._log.read_text()[-2000:]}")
        return answer

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()


# --- a contender's process ---------------------------------------------------------------------


def _turn(contender: Contender, order: dict[str, Any]) -> dict[str, Any]:
    if order["cold"]:
        drop(contender.files())
    forget_peak()
    reads = disk_reads()
    answer = contender.round(order["round"])
    # A contender whose work is done by processes of its own reports their peak itself.
    answer = {"peak": peak_bytes()} | answer
    if order["cold"] and contender.reads_itself:
        answer["beside"] = {"MB from disk": (disk_reads() - reads) / 1e6} | answer.get("beside", {})
    return answer


def _serve(name: str, arguments: dict[str, Any]) -> None:
    channel = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def say(**answer: Any) -> None:
        print(json.dumps(answer), file=channel, flush=True)

    try:
        module, _, kind = name.partition(":")
        contender: Contender = getattr(importlib.import_module(module), kind)(**arguments)
        say(ready=True)
        for line in sys.stdin:
            order = json.loads(line)
            if order["do"] == "round":
                say(**_turn(contender, order))
            elif order["do"] == "digest":
                say(digest=contender.digest())
            else:
                contender.tidy()
                say(tidy=True)
        contender.close()
    except BaseException:
        say(error=traceback.format_exc())


if __name__ == "__main__":
    _serve(sys.argv[1], json.loads(sys.argv[2]))
    # Whatever threads a library left behind, nothing is waited for.
    sys.stderr.flush()
    os._exit(0)

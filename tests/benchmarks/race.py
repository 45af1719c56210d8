"""Contenders take turns, in another order every round; what counts is the ratio within a round."""

from __future__ import annotations

import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Entry:
    """One contender of a race: the class `program` ("module:Class") made with `arguments`.

    `delivers` names what its digest must be equal among; "" for a limit that delivers nothing to be compared.
    """

    name: str
    kind: Literal["ours", "peer", "limit"]
    program: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    delivers: str = "all"
    rounds: int = 1_000
    """At most so many timed rounds: for one that is slow beyond all others."""


@dataclass(frozen=True)
class Standing:
    """One contender's rounds: `rates` in the race's unit by round; `answers` all else it told."""

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
    standings: tuple[Standing, ...]

    def __getitem__(self, name: str) -> Standing:
        return next(standing for standing in self.standings if standing.name == name)

    def ratio(self, one: str, other: str) -> Ratio:
        """How many times the rate of `other` that of `one` is, in the rounds that both ran."""
        a, b = self[one].rates, self[other].rates
        found = [a[number] / b[number] for number in a.keys() & b.keys()]
        return Ratio(statistics.median(found), min(found), max(found))

    @property
    def ours(self) -> str:
        """The contender that the others' shortfall is told against: ours that stands first."""
        return next(standing.name for standing in self.standings if standing.kind == "ours")


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
        seats = [stack.enter_context(Seat(entry, folder)) for entry in entries]
        if warm_up:
            _check_digests(title, seats)
        for number in range(1, rounds + 1):
            for seat in order.sample(seats, len(seats)):
                if number > seat.entry.rounds:
                    continue
                # Nobody pays for what others left to be written.
                os.sync()
                answer = seat.ask("round", round=number, cold=cold)
                seat.ask("tidy")
                found[seat.entry.name].append(answer)
                rates[seat.entry.name][number] = answer.get("rate") or answer["amount"] / answer["seconds"]
            print(f"{title}: round {number} of {rounds}", file=sys.stderr, flush=True)
    standings = tuple(Standing(e.name, e.kind, rates[e.name], found[e.name]) for e in entries)
    return Race(title, unit, limit, standings)


def _check_digests(title: str, seats: Sequence[Seat]) -> None:
    digests: dict[str, dict[str, str]] = {}
    for seat in seats:
        began = time.perf_counter()
        seat.ask("round", round=0, cold=False)
        if seat.entry.delivers:
            digests.setdefault(seat.entry.delivers, {})[seat.entry.name] = seat.ask("digest")["digest"]
        seat.ask("tidy")
        print(f"{title}: {seat.entry.name} took {time.perf_counter() - began:.1f} s to warm up", file=sys.stderr)
    for what, delivered in digests.items():
        if len(set(delivered.values())) != 1:
            lines = "\n".join(f"  {name}: {digest}" for name, digest in delivered.items())
            raise SystemExit(f"{title}: not everybody delivered the same ({what}):\n{lines}")


class Seat:
    """The parent's end of a contender's process."""

    def __init__(self, entry: Entry, folder: Path) -> None:
        self.entry = entry
        log = folder / "logs" / ("".join(c if c.isalnum() else "-" for c in entry.name) + ".log")
        log.parent.mkdir(exist_ok=True)
        self._log = log
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.benchmarks.contender", entry.program, json.dumps(entry.arguments)],
                cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True,
            )  # fmt: skip
        self._answer()

    def ask(self, what: str, **order: Any) -> dict[str, Any]:
        """Give an order and wait for its answer. Raises `SystemExit` with what the contender said of its end."""
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

    def __enter__(self) -> Seat:
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


def _short(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:,.0f}"

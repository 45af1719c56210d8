"""Stopping the time of a training's steps from outside: between its loader and its commit points.

The training is the one that `TrainResNet3D` does, to the last call; it is ended after the step that was asked for.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path

from engine.context import TaskContext
from engine.peak_memory import peak_memory
from nodes.loaders.interface import Batch, Loader
from nodes.profiling.rows import Spent
from nodes.training.checkpoints import Checkpoint, Checkpoints

STEP = "train:step"
"""The training's commit point behind each step."""


class Enough(Exception):
    """All steps were taken."""


@dataclass
class Stopwatch:
    """Sums up `steps` steps behind the first `warmup` ones. A step begins when the loop asks for its batch."""

    warmup: int
    steps: int
    waiting_s: float = 0.0
    computing_s: float = 0.0
    rest_s: float = 0.0
    _done: int = 0
    _waited_s: float = 0.0
    _handed_out: float = 0.0
    _computed: float = 0.0

    def waited(self, seconds: float) -> None:
        """The loop has its batch after so long."""
        self._waited_s, self._handed_out, self._computed = seconds, time.perf_counter(), 0.0

    def computed(self) -> None:
        """The step's loss is known."""
        self._computed = self._computed or time.perf_counter()

    def stepped(self) -> None:
        """The step is over. Raises `Enough` behind the last one."""
        now = time.perf_counter()
        self._done += 1
        if self._done > self.warmup:
            computed = self._computed or now
            self.waiting_s += self._waited_s
            self.computing_s += computed - self._handed_out
            self.rest_s += now - computed
        if self._done >= self.warmup + self.steps:
            raise Enough

    def spent(self, device_bytes: int) -> Spent:
        return Spent(
            steps=self._done - self.warmup,
            waiting_s=self.waiting_s,
            computing_s=self.computing_s,
            rest_s=self.rest_s,
            memory_bytes=peak_memory(),
            device_bytes=device_bytes,
        )


@dataclass(frozen=True)
class WatchedContext(TaskContext):
    """The training's context, whose figures and commit points move the watch and are not told to anybody."""

    watch: Stopwatch = field(default_factory=lambda: Stopwatch(0, 1))

    @classmethod
    def of(cls, ctx: TaskContext, watch: Stopwatch) -> WatchedContext:
        values = {f.name: getattr(ctx, f.name) for f in fields(TaskContext) if f.name != "emit"}
        return cls(**values, watch=watch)

    def metrics(self, step: int, **values: float) -> None:
        self.watch.computed()

    def commit_point(self, name: str) -> None:
        super().commit_point(name)
        if name == STEP:
            self.watch.stepped()


class WatchedLoader(Loader):
    """A loader whose reader's waiting is timed."""

    def __init__(self, inner: Loader, watch: Stopwatch) -> None:
        super().__init__(inner.source, inner.chosen, inner.reading)
        self._inner, self._watch = inner, watch

    def _read(self, seed: int, epoch: int, first: int) -> Iterator[Batch]:
        batches = self._inner._read(seed, epoch, first)
        while True:
            began = time.perf_counter()
            try:
                batch = next(batches)
            except StopIteration:
                return
            self._watch.waited(time.perf_counter() - began)
            yield batch


class Unsaved(Checkpoints):
    """Checkpoints that are not written: a measurement has nothing to go on from."""

    def save(self, checkpoint: Checkpoint) -> Path:
        return self.path_of(checkpoint)

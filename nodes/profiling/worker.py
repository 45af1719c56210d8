"""The program of one worker of a measurement: a training worker that measures time from outside and ends early.

`python -m nodes.profiling.worker PLAN FOLDER RANK PIPE`, started by a watcher of `nodes.training.workers`; PLAN is a
`Plan` as JSON. The training is the one that `TrainResNet3D` does, to the last call; the stopwatch sits between its
loader and its commit points, and ends it after the step that was asked for. A plan may put something between the
loader and the storage: batches that stay in memory, caches that are filled before, or emptied at each epoch.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, fields, replace
from itertools import islice
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from engine.cgroups import memory
from engine.declare.context import TaskContext
from engine.declare.datasets import Dataset, VolumeDelta, VolumeFiles, VolumeParquet
from engine.environment import Machine, this_machine
from engine.errors import with_causes
from engine.processes.system import peak_memory
from engine.storage import is_url, manifest
from engine.storage.page_cache import forget
from nodes.conversion.table_rows import files_in, is_rows
from nodes.loaders.data_files import data_files
from nodes.loaders.interface import Batch, Loader
from nodes.loaders.random_access import AHEAD_BATCHES
from nodes.profiling.profile import Spent
from nodes.training import session
from nodes.training.checkpoints import Checkpoint, Checkpoints
from nodes.training.learner import Framework
from nodes.training.preparation import Prepared
from nodes.training.workers import worker

PROGRAM = ("-P", "-m", "nodes.profiling.worker")
STEP = "train:step"
"""The training's commit point after each step."""


Feed = Literal["loader", "synthetic", "cached", "cold"]
"""Where batches come from: the loader as it is; a few batches in memory, again and again; the loader behind caches
that hold all that it reads; the loader behind caches that are emptied before each epoch."""
_SYNTHETIC_BATCHES = 2
_CACHED_SHARE = 0.25
"""Of the free memory: what is read over and over must stay in the system's cache."""


class Plan(BaseModel):
    """What is measured of a training: `steps` steps after `warmup` ones, and where their batches come from."""

    model_config = ConfigDict(frozen=True)

    warmup: int
    steps: int
    feed: Feed = "loader"


class Enough(Exception):
    """All steps were taken."""


@dataclass
class Stopwatch:
    """Sums up `steps` steps after the first `warmup` ones. A step begins when the loop asks for its batch."""

    warmup: int
    steps: int
    waiting_s: float = 0.0
    computing_s: float = 0.0
    rest_s: float = 0.0
    step_s: list[float] = field(default_factory=list)
    _done: int = 0
    _waited_s: float = 0.0
    _handed_out: float = 0.0
    _computed: float = 0.0
    _processor_s: float = 0.0

    @property
    def before_last_warmup(self) -> bool:
        """Whether the next step is the last one that is not measured, and others went before it."""
        return self._done == self.warmup - 1 > 0

    def waited(self, seconds: float) -> None:
        """The loop has a batch after so long: that of its step, or one ahead of it."""
        self._waited_s += seconds
        self._handed_out, self._computed = time.perf_counter(), 0.0

    def computed(self) -> None:
        """The step's loss is known."""
        self._computed = self._computed or time.perf_counter()

    def stepped(self) -> None:
        """The step is over. Raises `Enough` after the last one."""
        now = time.perf_counter()
        self._done += 1
        if self._done > self.warmup:
            computed = self._computed or now
            self.waiting_s += self._waited_s
            self.computing_s += computed - self._handed_out
            self.rest_s += now - computed
            self.step_s.append(self._waited_s + now - self._handed_out)
        self._waited_s = 0.0
        if self._done <= self.warmup:
            self._processor_s = time.process_time()
        if self._done >= self.warmup + self.steps:
            self._processor_s = time.process_time() - self._processor_s
            raise Enough

    def spent(self, device_bytes: int) -> Spent:
        return Spent(
            steps=self._done - self.warmup,
            waiting_s=self.waiting_s,
            computing_s=self.computing_s,
            rest_s=self.rest_s,
            memory_bytes=peak_memory(),
            device_bytes=device_bytes,
            processor_s=self._processor_s,
            step_s=tuple(self.step_s),
        )


@dataclass(frozen=True)
class WatchedContext(TaskContext):
    """The training's context, whose figures and commit points move the watch and are reported to nobody."""

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
    """A loader that measures how long its reader waits.

    While the first step compiles the graph, the loader reads ahead; these batches are left out before the last step
    of the warm-up, so that the measured steps find as many ready as steps far into a training do.
    """

    def __init__(self, inner: Loader, watch: Stopwatch) -> None:
        super().__init__(inner.source, inner.chosen, inner.reading)
        self._inner, self._watch = inner, watch

    def _read(self, seed: int, epoch: int, first: int) -> Iterator[Batch]:
        batches = self._inner._read(seed, epoch, first)
        left = self.steps - first
        while True:
            if self._watch.before_last_warmup:
                # Not all of a short epoch: one without any step has no figures.
                for _ in range(min(AHEAD_BATCHES, left - 1)):
                    next(batches, None)
                    left -= 1
            left -= 1
            began = time.perf_counter()
            try:
                batch = next(batches)
            except StopIteration:
                return
            self._watch.waited(time.perf_counter() - began)
            yield batch


class FromMemory(Loader):
    """A loader that reads its first batches once and hands them out again and again."""

    def __init__(self, inner: Loader) -> None:
        super().__init__(inner.source, inner.chosen, inner.reading)
        self._inner = inner
        self._batches: list[Batch] = []

    def _read(self, seed: int, epoch: int, first: int) -> Iterator[Batch]:
        if not self._batches:
            with closing(self._inner.batches()) as batches:
                # Not copied: the loader's memory is aligned as the framework takes it without a copy.
                self._batches = list(islice(batches, _SYNTHETIC_BATCHES))
        for step in range(first, self.steps):
            yield self._batches[step % len(self._batches)]


class FromStorage(Loader):
    """A loader before each of whose epochs the system drops what it has cached of `paths`."""

    def __init__(self, inner: Loader, paths: Sequence[str]) -> None:
        super().__init__(inner.source, inner.chosen, inner.reading)
        self._inner, self._paths = inner, paths

    def _read(self, seed: int, epoch: int, first: int) -> Iterator[Batch]:
        forget(self._paths)
        yield from self._inner._read(seed, epoch, first)


def local_paths(data: Dataset) -> list[str]:
    """The files that hold a dataset's volumes; none where they lie in object storage."""
    if isinstance(data, VolumeFiles):
        if is_url(data.uri):
            return []
        listing = manifest.read(data.manifest)
        # Rows of a table that are transformed as they are read: what is listed are their ids.
        names = [file.path for file in files_in(listing)] if is_rows(listing) else listing["path"].to_pylist()
        return [f"{data.uri}/{name}" for name in names]
    assert isinstance(data, VolumeDelta | VolumeParquet)
    return [path for path in data_files(data).paths if not is_url(path)]


def fed(prepared: Prepared, feed: Feed) -> Loader:
    """The training's loader with what the feed puts before it."""
    loader = prepared.loader
    if feed == "synthetic":
        return FromMemory(loader)
    if feed == "cold":
        return FromStorage(loader, local_paths(prepared.data))
    if feed == "cached":
        loader = _that_fits(loader)
        # Once through, so that all is in the caches.
        with closing(loader.batches()) as batches:
            for _ in batches:
                pass
    return loader


def _that_fits(loader: Loader) -> Loader:
    """The loader, over no more volumes than the system's cache can keep beside the training."""
    spec, reading = loader.source.spec, loader.reading
    volumes = int(_CACHED_SHARE * memory().available) // spec.volume_bytes
    most = max(1, volumes // reading.batch_size) * reading.batch_size
    # Neighbours in the order of ids, which lie in the same row groups.
    return loader if len(loader) <= most else loader.source.loader(loader.chosen[:most], reading)


class Unsaved(Checkpoints):
    """Checkpoints that are not written: a measurement has nothing to go on from."""

    def save(self, checkpoint: Checkpoint) -> Path:
        return self.path_of(checkpoint)


class Measured(BaseModel):
    """What one worker found: the time it spent, or that memory did not suffice."""

    model_config = ConfigDict(frozen=True)

    machine: Machine
    spent: Spent | None = None
    out_of_memory: str = ""


def main(plan: str, folder: str, rank: str, handle: str) -> None:
    """Do the work of worker `rank` of the group in `folder`; never returns."""
    measured = Plan.model_validate_json(plan)

    def carry_out(
        prepared: Prepared,
        begin: Checkpoint,
        checkpoints: Checkpoints,
        ctx: TaskContext,
        framework: Framework,
    ) -> Measured:
        watch = Stopwatch(measured.warmup, measured.steps)
        ctx.commit_point(f"profile:batch-{prepared.settings.batch_size}")
        watched = replace(prepared, loader=WatchedLoader(fed(prepared, measured.feed), watch))
        unsaved = Unsaved(ctx.scratch, prepared.identity, every_s=float("inf"))
        try:
            session.carry_out(watched, begin, unsaved, WatchedContext.of(ctx, watch), framework)
        except Enough:
            return Measured(machine=this_machine(), spent=watch.spent(framework.device_memory()))
        except Exception as exc:
            reason = out_of_memory(exc)
            if not reason:
                raise
            return Measured(machine=this_machine(), out_of_memory=reason)
        raise AssertionError("a measurement ends early")

    _go_first()
    worker.main(folder, rank, handle, carry_out)


def _go_first() -> None:
    """When the machine runs out of memory, let the system end this process and not the run that asks."""
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")


def out_of_memory(exc: BaseException) -> str:
    """The reason in a line when memory did not suffice somewhere along the chain of causes; else empty."""
    for link in with_causes(exc, suppressed=True):
        # By name: the framework that has this error need not be imported.
        if isinstance(link, MemoryError) or type(link).__name__ == "ResourceExhaustedError":
            return next(iter(str(link).splitlines()), "") or type(link).__name__
    return ""


if __name__ == "__main__":
    main(*sys.argv[1:])

"""How near the advisor's predictions are: trainings that its fit has never seen, measured as `voxelflow bench` does.

Each configuration is trained for some steps by the training's own code, in fresh processes, in several rounds and a
new order each, so that what else the machine does strikes all alike. Some configurations are
given to the advisor, with a probe of each place; it predicts the others: other batch sizes, shapes, depths, numbers of
workers, loaders, and storages that are farther away (`.npy` files behind a wait in each read, a table in Azurite behind
the proxy of `tests/support/slow_network.py`).

Two clocks are judged. The wall's: the lower quartile of the steps' times over the rounds, since others at work only
ever make a step longer. And the processor's, which others hardly touch: the processor seconds of all workers. Of a
training on one core that is what the wall's would be on a machine with nothing else to do; trainings with workers have
two cores. Of steps that wait for their volumes, the wall's counts by both.
"""

from __future__ import annotations

import argparse
import os
import pickle
import random
import statistics
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from benchmarks.reports import Aim, Report, Table
from benchmarks.whole_run import whole_run

if TYPE_CHECKING:
    from object_stores import ObjectStore

    from engine.advisor.machines import Measured
    from engine.advisor.reading import InputModel, Way
    from engine.bench.result import BenchResult, Configuration, Input
    from engine.probes import StorageProbe
    from nodes.bench.volumes import BenchVolumes
    from nodes.profiling.measurements import Measuring

Clock = Literal["wall", "processor"]
MEDIAN, WORST = 0.10, 0.20
"""The aims: of the relative errors of what was held back."""
_SMALL, _MIDDLE, _FLAT, _WIDE = (16, 16, 8, 2), (24, 24, 8, 4), (20, 20, 20, 1), (30, 30, 10, 10)
_FAR_MS = 20.0
"""Added to each request of the place that is probed; others are predicted from it."""


@dataclass(frozen=True)
class Case:
    """A configuration. `given` ones are fitted to, others predicted; `delay_ms` is added to each read or request."""

    kind: str
    shape: tuple[int, int, int, int] = _SMALL
    depth: int = 18
    width: int = 16
    batch: int = 16
    workers: int = 1
    loader: str = ""
    delay_ms: float = 0.0
    remote: bool = False
    cores: int = 1
    given: bool = False

    @property
    def input(self) -> Input:
        if not self.loader:
            return "synthetic"
        return "cold" if self.remote or self.delay_ms else "cached"

    @property
    def name(self) -> str:
        parts = [f"ResNet-{self.depth}/{self.width}", "x".join(map(str, self.shape)), f"batch {self.batch}"]
        parts += [f"{self.workers} workers"] if self.workers > 1 else []
        parts += [f"{self.cores} cores"] if self.cores > 1 else []
        parts += [f"{self.loader}{' remote' if self.remote else ''}"] if self.loader else []
        parts += [f"+{self.delay_ms:g} ms"] if self.delay_ms else []
        return ", ".join(parts)


GIVEN = (
    Case("fit", given=True, batch=4),
    Case("fit", given=True, batch=32),
    Case("fit", given=True, shape=_MIDDLE, width=32),
    Case("fit", given=True, shape=_MIDDLE, batch=16, depth=34),
    Case("fit", given=True, shape=_MIDDLE, cores=2),
    Case("fit", given=True, batch=32, cores=2),
    Case("fit", given=True, shape=_MIDDLE, workers=2, cores=2),
    Case("fit", given=True, shape=_MIDDLE, batch=16),
    Case("fit", given=True, shape=_MIDDLE, batch=16, loader="arrow"),
    Case("fit", given=True, shape=_MIDDLE, batch=16, loader="npy"),
    Case("fit", given=True, shape=_MIDDLE, batch=16, loader="petastorm"),
)
HELD_BACK = (
    Case("batch size", batch=8),
    Case("batch size", batch=64),
    Case("batch size", shape=_MIDDLE, width=32, batch=4),
    Case("batch size", shape=_MIDDLE, depth=34, batch=32),
    Case("shape", shape=_WIDE, batch=8),
    Case("shape", shape=_FLAT, width=32, batch=8),
    Case("shape", shape=(32, 32, 16, 1), batch=16),
    Case("depth", depth=50),
    Case("depth", shape=_MIDDLE, depth=50, batch=8),
    Case("depth", depth=34, width=32),
    Case("workers", batch=32, workers=2, cores=2),
    Case("workers", shape=_MIDDLE, depth=34, workers=2, cores=2),
    Case("loader", batch=32, loader="arrow"),
    Case("loader", shape=_WIDE, batch=8, loader="npy"),
    Case("loader", batch=32, loader="petastorm"),
    Case("storage", batch=16, loader="npy", delay_ms=5),
    Case("storage", batch=16, loader="npy", delay_ms=25),
    Case("storage", shape=_MIDDLE, batch=16, loader="npy", delay_ms=100),
    Case("storage", batch=32, loader="arrow", remote=True, delay_ms=5),
    Case("storage", shape=_MIDDLE, batch=16, loader="arrow", remote=True, delay_ms=100),
)


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--steps", type=int, default=60, help="measured steps of each in a round (default: 60)")
    parser.add_argument("--probe-s", type=int, default=10, help="seconds of each probe (default: 10)")
    parser.add_argument("--few", type=int, help="no more held-back configurations than so many, to try the benchmark")
    parser.add_argument("--pipeline", action="store_true", help="only the whole pipeline that is predicted, then run")
    parser.add_argument("--raw", type=Path, help="a file for what was measured, to judge it again with other laws")
    parser.set_defaults(rounds=2)


@dataclass
class Seen:
    """What was measured of a case over the rounds: seconds of each step, of the wall's clock and the processor's."""

    case: Case
    step_s: list[float] = field(default_factory=list)
    mean_s: list[float] = field(default_factory=list)
    """Of a step over a round: with what an epoch's begin waits for."""
    processor_s: list[float] = field(default_factory=list)
    waiting: list[float] = field(default_factory=list)
    memory_bytes: int = 0

    @property
    def waits(self) -> bool:
        """Whether it is the input that its steps wait for."""
        from engine.bench.compare import WAITING

        return bool(self.waiting) and statistics.median(self.waiting) >= WAITING

    def step(self, clock: Clock) -> float:
        """Seconds of a step; by the processor's clock those of all workers, but where they wait for data."""
        if self.waits:
            return statistics.median(self.mean_s)
        # Of a table that is read in windows few steps wait, and long: those at an epoch's begin.
        waited = statistics.median(s * share for s, share in zip(self.mean_s, self.waiting, strict=True))
        begin = waited if self.case.remote else 0.0
        if clock == "processor":
            return statistics.median(self.processor_s) + begin
        return sorted(self.step_s)[len(self.step_s) // 4] + begin


def run(options: argparse.Namespace, folder: Path) -> Report:
    from object_stores import azurite

    if options.pipeline:
        whole, said = whole_run(folder / "whole", options.seed)
        return Report("advisor", tables=[whole], notes=said)
    held_back = HELD_BACK if options.few is None else HELD_BACK[:: max(1, len(HELD_BACK) // options.few)][: options.few]
    cases = [*GIVEN, *held_back]
    began = time.monotonic()
    with ExitStack() as opened:
        store = opened.enter_context(azurite()) if any(case.remote for case in cases) else None
        places = _Places(folder, store, opened)
        probes = places.probes(options.probe_s)
        seen = [Seen(case) for case in cases]
        orders = random.Random(options.seed)
        for number in range(options.rounds):
            for each in orders.sample(seen, len(seen)):
                places.measure(each, options.steps)
                print(f"round {number + 1}: {each.case.name}: {each.step_s[-1]:.3f} s", flush=True)
                if options.raw is not None:
                    options.raw.write_bytes(pickle.dumps((seen, probes)))
    minutes = (time.monotonic() - began) / 60
    tables, aims = [], list[Aim]()
    clocks: tuple[Clock, ...] = ("wall", "processor")
    for clock in clocks:
        table, errors, coefficients = judged(seen, probes, clock)
        tables += [table, coefficients]
        worst, median = max(errors), statistics.median(errors)
        aims += [Aim(f"{clock}: median error", median, MEDIAN, at_most=True)]
        aims += [Aim(f"{clock}: largest error", worst, WORST, at_most=True)]
    whole, said = whole_run(folder / "whole", options.seed)
    tables.append(whole)
    notes = [f"{len(cases)} configurations, {options.rounds} rounds, {minutes:.1f} minutes", *said]
    return Report("advisor", tables=tables, aims=aims, notes=notes)


# --- measuring -----------------------------------------------------------------------------------


class _Places:
    """The volumes of each shape, local and in the store, made when they are first wanted."""

    def __init__(self, folder: Path, store: ObjectStore | None, opened: ExitStack) -> None:
        self._folder, self._store, self._opened = folder, store, opened
        self._volumes: dict[tuple[Any, bool], tuple[BenchVolumes, Any]] = {}
        self._measuring: dict[tuple[Any, bool, str], Measuring] = {}
        self._far: dict[float, dict[str, str]] = {}
        if store is not None:
            os.environ |= store.environment
            self.url = store.make_container("advisor")

    def measure(self, seen: Seen, steps: int) -> None:
        """Train one configuration for some steps, and add what they took."""
        from nodes.profiling.measurements import program
        from nodes.profiling.settings import ProfileParameters
        from nodes.profiling.worker import Plan
        from nodes.training.workers.local import LocalGroup

        case = seen.case
        measuring = self._measured_at(case)
        parameters = ProfileParameters(depth=case.depth, loader=case.loader or "arrow")  # type: ignore[arg-type]
        settings = replace(parameters.settings(case.batch, case.workers), width=case.width)  # type: ignore[arg-type]
        feed = "loader" if case.input == "cold" else case.input
        # Of a table that is read in windows: one epoch, its begin with it.
        epoch = measuring.volumes // case.batch
        plan = Plan(warmup=epoch if case.remote else 3, steps=epoch if case.remote else steps, feed=feed)
        arguments = program(plan)
        if case.delay_ms and not case.remote:
            arguments = ("-P", "-m", "benchmarks.slow_files", f"{case.delay_ms:g}", *arguments[3:])
        start = partial(LocalGroup, program=arguments, cores=case.cores, environment=self._environment(case))
        row = measuring.row(settings, start)
        if row.spent is None:
            raise SystemExit(f"{case.name}: {row.outcome}: {row.note}")
        spent = row.spent
        seen.step_s += spent.step_s
        seen.mean_s.append(spent.total_s / spent.steps)
        seen.processor_s.append(spent.processor_s / spent.steps)
        seen.waiting.append(spent.waiting_s / spent.total_s)
        seen.memory_bytes = max(seen.memory_bytes, spent.memory_bytes)

    def _measured_at(self, case: Case) -> Measuring:
        from nodes.profiling.measurements import Measuring
        from nodes.profiling.settings import ProfileParameters
        from nodes.training.preparation import prepare

        loader = case.loader or "arrow"
        key = (case.shape, case.remote, loader)
        if key not in self._measuring:
            volumes, ctx = self._made(case.shape, case.remote)
            data = volumes.for_loader(loader)
            assert data is not None
            smallest = ProfileParameters(loader=loader).settings(4)  # type: ignore[arg-type]
            prepared = self._opened.enter_context(prepare(data, None, smallest, ctx))
            self._measuring[key] = Measuring(data, prepared, ctx, all_logs=False)
        return self._measuring[key]

    def _made(self, shape: tuple[int, ...], remote: bool) -> tuple[BenchVolumes, Any]:
        from engine.bench.options import BenchOptions
        from engine.declare.context import Resources, TaskContext
        from nodes.bench.volumes import bench_volumes

        if (shape, remote) not in self._volumes:
            folder = self._folder / uuid.uuid4().hex
            ctx = TaskContext(
                run_id="benchmark", node_id="advisor", fingerprint=uuid.uuid4().hex, out=folder / "out",
                shared=folder / "shared", scratch=folder / "scratch", resources=Resources(cores=1),
            )  # fmt: skip
            for path in (ctx.out, ctx.shared, ctx.scratch):
                path.mkdir(parents=True)
            options = BenchOptions(shape=shape, volumes=512, storage=self.url if remote else "")
            self._volumes[shape, remote] = (self._opened.enter_context(bench_volumes(options, ctx)), ctx)
        return self._volumes[shape, remote]

    def _environment(self, case: Case) -> dict[str, str]:
        if not case.remote:
            return {}
        if case.delay_ms not in self._far:
            from slow_network import delayed

            assert self._store is not None
            far = self._opened.enter_context(delayed(self._store, case.delay_ms))
            self._far[case.delay_ms] = dict(far.environment)
        return self._far[case.delay_ms]

    def probes(self, seconds: int) -> dict[Way, StorageProbe]:
        """One of the local folder, and one of the store behind a delay."""
        from nodes.storage_probe.measure import probe_place
        from nodes.storage_probe.parameters import Epoch, ProbeParameters

        parameters = ProbeParameters(seconds, 64)
        epoch = Epoch(10_000, 64_000, "given")
        local = probe_place(str(self._folder), parameters, name=uuid.uuid4().hex, epoch=epoch, cores=1)
        out: dict[Way, StorageProbe] = {"files": local, "table": local}
        if self._store is not None:
            from slow_network import delayed

            with delayed(self._store, _FAR_MS) as far:
                before = dict(os.environ)
                os.environ |= far.environment
                try:
                    out["remote table"] = probe_place(self.url, parameters, name=uuid.uuid4().hex, epoch=epoch, cores=1)
                finally:
                    os.environ.clear()
                    os.environ |= before
        return out


# --- predicting ----------------------------------------------------------------------------------


def judged(seen: Sequence[Seen], probes: dict[Way, StorageProbe], clock: Clock) -> tuple[Table, list[float], Table]:
    """The table of errors by one clock, the errors of what was held back, and the coefficients of the fit."""
    if clock == "processor":
        # What all cores spend together, so to say on one.
        seen = [replace(s, case=replace(s.case, cores=1)) for s in seen if s.case.cores == s.case.workers]
    machines = {
        cores: measured([s for s in seen if s.case.cores == cores], clock, cores)
        for cores in sorted({s.case.cores for s in seen})
    }
    model = machines[1].models[False, False]
    rows, errors, within = [], [], 0
    for each in seen:
        predicted, bar = predict(each.case, machines[each.case.cores], probes)
        found = each.step(clock)
        error = predicted / found - 1
        if not each.case.given:
            errors.append(abs(error))
            within += abs(found - predicted) <= bar * predicted
        rows.append(
            [each.case.kind, each.case.name, 1000 * found, 1000 * predicted, f"{error:+.0%}", f"{bar:.0%}",
             "waits" if each.waits else "computes"]
        )  # fmt: skip
    columns = ["held back", "configuration", "step, ms", "predicted, ms", "error", "error bar", "the step"]
    fitted = [[name, value] for name, value in zip(model.seconds._fields, model.seconds, strict=True)]
    fitted += [["exchange, a layer", model.exchange[0]], ["exchange, a parameter", model.exchange[1]]]
    return (
        Table(f"predicted by the {clock} clock; {within} of {len(errors)} within their error bars", columns, rows),
        errors,
        Table(f"seconds by the {clock} clock", ["of one", "seconds"], fitted),
    )


def measured(seen: Sequence[Seen], clock: Clock, cores: int) -> Measured:
    """The machine as the advisor knows it from the given cases alone."""
    from engine.advisor.machines import measured_machine

    found = measured_machine(_result(seen, clock, cores), _networks())
    assert found is not None
    return found


def _result(seen: Sequence[Seen], clock: Clock, cores: int) -> BenchResult:
    from engine.bench.result import BenchData, BenchResult, BenchRow
    from engine.environment import Machine

    rows = []
    for each in seen:
        if not each.case.given:
            continue
        step = each.step(clock)
        rows.append(
            BenchRow(
                configuration=configuration(each.case), outcome="measured", steps=1, computing_s=step, step_s=(step,),
                processor_s=statistics.median(each.processor_s), memory_bytes=each.memory_bytes,
            )
        )  # fmt: skip
    data = BenchData(volumes=256, bytes=0)
    machine = Machine(cores=cores)
    return BenchResult(
        name="here", measured_at=0.0, seconds=0.0, machine=machine, cores=cores, data=data, rows=tuple(rows)
    )


def configuration(case: Case) -> Configuration:
    """The case as a row of a benchmark names it."""
    from engine.bench.result import Configuration

    storage = ("az" if case.remote else "local") if case.loader else ""
    return Configuration(
        depth=case.depth, shape=case.shape, dtype="float32", batch_size=case.batch, workers=case.workers,
        loader=case.loader, input=case.input, storage=storage, width=case.width,
    )  # fmt: skip


def predict(case: Case, machine: Measured, probes: dict[Way, StorageProbe]) -> tuple[float, float]:
    """Seconds of a step of the case, and the relative error (one deviation) that the advisor gives."""
    from engine.advisor.advice import first_batch_s, step_seconds

    work = _work(case)
    model = machine.models[False, False]
    compute_s = model.step(work.network, case.batch, case.workers)
    reading = _reading(case, machine, probes)
    step_s, supply_s = step_seconds(compute_s, case.batch, case.workers, reading, cores=case.cores, accelerated=False)
    if case.remote and reading is not None:
        steps = work.volumes // case.batch
        step_s += first_batch_s(work, case.batch, case.workers, reading, case.cores) / steps
    waits = supply_s > compute_s and reading is not None
    return step_s, reading.spread if waits and reading is not None else model.error(work.network, case.workers)


def _reading(case: Case, machine: Measured, probes: dict[Way, StorageProbe]) -> InputModel | None:
    from engine.advisor.reading import from_bench, from_memory, from_probe

    if not case.loader:
        return None
    way: Way = "remote table" if case.remote else "files" if case.loader == "npy" else "table"
    access, size = _work(case).access[way], _work(case).volume_bytes
    cached = from_bench(machine.result, way, case.loader, access, size, cold=False)
    cached = cached or from_memory(way, case.loader, access, size)
    if not case.delay_ms:
        return cached
    if case.remote:
        return from_probe(probes[way], way, case.loader, access, size).farther((case.delay_ms - _FAR_MS) / 1000)
    # The files themselves are in memory: what takes time is the way to them.
    return cached.farther(case.delay_ms / 1000)


def _networks() -> Callable[[Configuration], Any]:
    from engine.advisor.sources import networks
    from nodes.train_resnet3d import train_resnet3d

    return networks(train_resnet3d)


def _work(case: Case) -> Any:
    from engine.declare.check_context import CheckContext
    from engine.declare.datasets import Preview, VolumeSpec
    from nodes.train_resnet3d import train_resnet3d

    own = {
        "depth": case.depth, "width": case.width, "batch_size": case.batch, "workers": case.workers,
        "loader": case.loader or "arrow", "validation_share": 0.0,
    }  # fmt: skip
    params = {p.name: p.default for p in train_resnet3d.parameters if not p.required} | own
    spec = VolumeSpec(shape=case.shape, dtype="float32")
    data = Preview(kind="VolumeDelta", count=512, spec=spec)
    hook = train_resnet3d.workload_hook
    assert hook is not None
    work = hook(CheckContext(params=params, inputs={"data": data}))
    assert work is not None
    return work

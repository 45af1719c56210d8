"""One benchmark from its first volume to its last row."""

from __future__ import annotations

import platform
import shutil
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from engine.bench.options import BenchOptions
from engine.bench.result import BenchData, BenchResult, BenchRow, Configuration, Curves, Input
from engine.cgroups import usable_cores
from engine.declare.context import Resources, TaskContext
from engine.declare.field_rules import control_character
from engine.environment import Machine, installed_packages, this_machine
from engine.errors import UsageError
from engine.extras import modules, require
from engine.storage import is_url
from engine.storage.cache import FOLDER as CACHE_FOLDER
from engine.storage.cache import LIMIT as CACHE_GB
from engine.storage.page_cache import cached, forget
from engine.storage.process_lock import ProcessLock
from nodes.bench.curves import Recorder
from nodes.bench.precision import trains_in_bfloat16
from nodes.bench.volumes import BenchVolumes, bench_volumes, latency_ms, storage_of
from nodes.loaders import READS
from nodes.profiling.measurements import Measuring, program
from nodes.profiling.profile import Row
from nodes.profiling.settings import ProfileParameters
from nodes.profiling.worker import Plan, local_paths
from nodes.training.architecture import LAYOUTS
from nodes.training.preparation import prepare
from nodes.training.rows import leased
from nodes.training.workers.local import LocalGroup

if TYPE_CHECKING:
    from engine.declare.datasets import VolumeDelta, VolumeFiles
    from nodes.loaders import LoaderName
    from nodes.training.architecture import Depth

_VERSIONS = ("voxelflow", "tensorflow", "keras", "numpy", "pyarrow", "petastorm")
_LOOKED_AT = 8
_CACHING_LOADER = "arrow"
"""What keeps volumes of an object store on the local disk."""
_SYNTHETIC_LOADERS = ("arrow", "npy")
"""What reads the few batches that synthetic input then hands out: the first that reads a form that is there."""


@dataclass(frozen=True)
class _Case:
    """A row to measure; `loader` reads its volumes, also those that then stay in memory."""

    configuration: Configuration
    loader: str


def bench(
    options: BenchOptions,
    folder: Path,
    *,
    report: Callable[[str], None] = lambda line: None,
    check: Callable[[], None] = lambda: None,
    keep: Callable[[BenchResult], None] = lambda result: None,
) -> BenchResult:
    """Measure what the options name, with half-done work in `folder`, of which nothing is left afterwards.

    `report` gets a line for each step, `check` is called before each row and may raise. `keep` gets the result with the
    rows so far after each that was measured: a machine may be taken back before the last. A row that cannot be measured
    says why; raises `UsageError` when none can, because the data are not there or unfit, or when another benchmark
    is at work in the folder.
    """
    require("a benchmark", *modules("train"))
    _check_options(options)
    began, measured_at, machine = time.monotonic(), time.time(), this_machine()
    cores = min(options.cores or usable_cores(), usable_cores())
    lock = ProcessLock(folder.with_name(f"{folder.name}.lock"))
    if not lock.acquire():
        raise UsageError(
            "another benchmark is running in this workspace",
            hint="Wait for it: two at a time would slow each other down.",
        )
    packages = installed_packages()
    versions = {name: packages[name] for name in _VERSIONS if name in packages}

    def result(rows: Sequence[BenchRow], planned: int, volumes: BenchVolumes) -> BenchResult:
        found = volumes.any
        return BenchResult(
            name=options.name or options.machine_type or next(iter(machine.gpus), machine.processor) or "machine",
            measured_at=measured_at,
            seconds=round(time.monotonic() - began, 1),
            machine=machine,
            cores=cores,
            bfloat16=bfloat16,
            machine_type=options.machine_type,
            price_per_hour=options.price_per_hour,
            currency=options.currency,
            versions=versions | {"python": platform.python_version(), "platform": platform.platform()},
            data=BenchData(volumes=found.count, bytes=found.count * volumes.spec.volume_bytes, made=volumes.made),
            rows=tuple(rows),
            planned=planned,
        )

    try:
        shutil.rmtree(folder, ignore_errors=True)  # of one that was killed
        bfloat16 = trains_in_bfloat16(machine)
        if options.mixed_precision is None:
            options = replace(options, mixed_precision=(bool(bfloat16),))
        ctx = _context(folder, cores)
        report("preparing volumes")
        rows: list[BenchRow] = []
        with bench_volumes(options, ctx) as volumes, leased(ctx, volumes.table):
            measuring = _Bench(options, volumes, machine, ctx, report, check)
            for row in measuring.rows():
                rows.append(row)
                if row.outcome == "measured":
                    keep(result(rows, len(measuring.cases), volumes))
            return result(rows, len(measuring.cases), volumes)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        lock.release()


def _check_options(options: BenchOptions) -> None:
    """Raises `UsageError` for what no training has."""
    for what, given, known in (("depth", options.depths, LAYOUTS), ("loader", options.loaders, READS)):
        for value in given:
            if value not in known:
                raise UsageError(f"there is no {what} {value}", hint=f"Choose one of {', '.join(map(str, known))}.")
    if bad := control_character(options.name):
        # The result would be refused where it is read.
        raise UsageError(f"the name of the machine holds the control character {bad!r}", hint="Choose another --name.")


def _context(folder: Path, cores: int) -> TaskContext:
    ctx = TaskContext(
        run_id="bench",
        node_id="bench",
        fingerprint=uuid.uuid4().hex,
        out=folder / "out",
        shared=folder / "shared",
        scratch=folder / "scratch",
        resources=Resources(cores=cores),
    )
    for path in (ctx.out, ctx.shared, ctx.scratch):
        path.mkdir(parents=True)
    return ctx


class _Bench:
    def __init__(
        self,
        options: BenchOptions,
        volumes: BenchVolumes,
        machine: Machine,
        ctx: TaskContext,
        report: Callable[[str], None],
        check: Callable[[], None],
    ) -> None:
        self._options, self._volumes, self._ctx = options, volumes, ctx
        self._report, self._check = report, check
        self._warmup = options.warmup_on(machine)
        self._latency: dict[str, float] = {}
        self._outgrown: dict[tuple[Any, ...], int] = {}
        self._measuring: dict[str, Measuring] = {}
        # One time after the other: what slows the machine down for a minute hits not all rows of a configuration.
        self.cases = self._cases() * options.repeats

    def rows(self) -> Iterator[BenchRow]:
        """A row for each case, in their order."""
        with ExitStack() as opened:
            for number, case in enumerate(self.cases, 1):
                self._check()
                row = self._row_of(case, opened)
                self._report(f"{number}/{len(self.cases)} {line_of(row)}")
                yield row

    def _cases(self) -> list[_Case]:
        """What is compared with each other comes one after the other: a machine is not as fast at all times."""
        options, spec = self._options, self._volumes.spec
        precisions = options.mixed_precision
        assert precisions is not None
        kinds: list[tuple[str, Input]] = []
        if "synthetic" in options.inputs:
            kinds.append(("", "synthetic"))
        kinds += product(options.loaders, [name for name in options.inputs if name != "synthetic"])
        reads = next((n for n in _SYNTHETIC_LOADERS if self._volumes.for_loader(n) is not None), "arrow")
        out = []
        for (depth, precision, jit, workers, batch_size), (loader, kind) in product(
            product(options.depths, precisions, options.jit, options.workers, options.batch_sizes), kinds
        ):
            data = self._volumes.for_loader(loader or reads)
            configuration = Configuration(
                depth=depth,
                shape=spec.shape,
                dtype=spec.dtype,
                batch_size=batch_size,
                workers=workers,
                loader=loader,
                input=kind,
                storage=storage_of(data or self._volumes.any) if loader else "",
                mixed_precision=precision,
                jit=jit,
                deterministic=options.deterministic,
            )
            out.append(_Case(configuration, loader or reads))
        return out

    def _row_of(self, case: _Case, opened: ExitStack) -> BenchRow:
        data = self._volumes.for_loader(case.loader)
        if data is None:
            return BenchRow(configuration=case.configuration, outcome="not possible", note=self._volumes.without)
        try:
            if case.loader not in self._measuring:
                smallest = self._parameters(case.configuration, case.loader).settings(min(self._options.batch_sizes))
                prepared = opened.enter_context(prepare(data, None, smallest, self._ctx))
                self._measuring[case.loader] = Measuring(data, prepared, self._ctx, all_logs=False)
            return self._row(case.configuration, case.loader, data, self._measuring[case.loader])
        except UsageError as exc:
            return BenchRow(configuration=case.configuration, outcome="not possible", note=exc.line())

    def _row(self, case: Configuration, loader: str, data: VolumeFiles | VolumeDelta, measuring: Measuring) -> BenchRow:
        fixed = tuple(value for name, value in case.model_dump().items() if name != "batch_size")
        if case.batch_size > self._outgrown.get(fixed, case.batch_size):
            note = f"{self._outgrown[fixed]} volumes did not fit into memory"
            return BenchRow(configuration=case, outcome="not tried", note=note)
        if case.jit and case.workers > 1:
            note = "XLA cannot compile a step that several workers share"
            return BenchRow(configuration=case, outcome="not possible", note=note)
        if case.input == "cached" and is_url(data.uri) and loader != _CACHING_LOADER:
            note = f"the loader {loader} keeps no volumes of an object store; only {_CACHING_LOADER} has a local cache"
            return BenchRow(configuration=case, outcome="not possible", note=note)
        plan = Plan(warmup=self._warmup, steps=self._options.steps, feed=case.input)
        paths = local_paths(data) if case.input == "cold" else []
        forget(paths)
        state = cached(paths[:: max(1, len(paths) // _LOOKED_AT)]) if paths else "none"
        start = partial(
            LocalGroup,
            program=program(plan),
            cores=self._ctx.resources.cores,
            environment=self._environment(case.input, data),
        )
        recorder = Recorder(self._ctx.scratch)
        with recorder.running():
            row = measuring.row(self._parameters(case, loader).settings(case.batch_size, case.workers), start)
        if row.outcome == "out of memory":
            self._outgrown[fixed] = case.batch_size
        out = _bench_row(case, row, recorder.curves(row.spent.total_s if row.spent else 0.0), warmup=self._warmup)
        if not case.loader:
            return out
        if loader not in self._latency:
            self._latency[loader] = latency_ms(data)
        out = out.model_copy(update={"latency_ms": round(self._latency[loader], 4), "cache": state})
        if case.input == "cold" and out.outcome == "measured":
            out = out.model_copy(update={"note": _how_cold(data.uri, state)})
        return out

    def _parameters(self, case: Configuration, loader: str) -> ProfileParameters:
        return ProfileParameters(
            depth=cast("Depth", case.depth),
            loader=cast("LoaderName", loader),
            mixed_precision=case.mixed_precision,
            jit=case.jit,
            deterministic=case.deterministic,
        )

    def _environment(self, kind: Input, data: VolumeFiles | VolumeDelta) -> dict[str, str]:
        """The local cache of what is read from object storage: none when cold, else one that holds all."""
        if not is_url(data.uri):
            return {}
        if kind != "cached":
            return {CACHE_GB: "0"}
        return {CACHE_GB: str(2 * data.bytes / 1e9 + 0.1), CACHE_FOLDER: str(self._ctx.shared / "cache")}


def _bench_row(case: Configuration, row: Row, curves: Curves, *, warmup: int) -> BenchRow:
    spent = row.spent
    if spent is None:
        return BenchRow(configuration=case, outcome=row.outcome, note=row.note, curves=curves)
    return BenchRow(
        configuration=case,
        outcome="measured",
        steps=spent.steps,
        warmup=warmup,
        waiting_s=spent.waiting_s,
        computing_s=spent.computing_s,
        rest_s=spent.rest_s,
        step_s=tuple(round(seconds, 6) for seconds in spent.step_s),
        processor_s=spent.processor_s,
        memory_bytes=spent.memory_bytes,
        device_bytes=spent.device_bytes,
        curves=curves,
    )


def _how_cold(uri: str, state: str) -> str:
    if is_url(uri):
        return "each volume came from the store; the local cache was off"
    return {
        "cold": "the system dropped its cache of these files before each epoch",
        "warm": "the system was asked to drop its cache of these files and kept some of it",
    }.get(state, "the system was asked to drop its cache of these files before each epoch; it does not say if it did")


def line_of(row: BenchRow) -> str:
    """What a row measured, in a line."""
    case = row.configuration
    parts = [case.input + (f" {case.loader}" if case.loader else ""), f"batch of {case.batch_size}"]
    parts += [f"{case.workers} workers"] if case.workers > 1 else []
    parts += [f"ResNet-{case.depth}"]
    parts += [name for name, is_on in (("bfloat16", case.mixed_precision), ("XLA", case.jit)) if is_on]
    what = ", ".join(parts)
    if row.outcome != "measured":
        return f"{what}: {row.outcome} ({row.note})"
    return f"{what}: {row.samples_per_s:,.1f} volumes/s, {row.waiting_s / row.total_s:.0%} waiting"

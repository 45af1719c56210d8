"""What a GPU makes of a training: rates from a table, from `.npy` files and from memory, bfloat16 and XLA on and off.

Measured by `voxelflow bench` with cold input (empty caches). The second table has the whitepaper's four cells, {CPU,
GPU} x {files, table}, as the time of 5 epochs of 650,000 volumes in batches of 32, extrapolated from the measured rate.
A machine without a GPU fills the CPU's cells and leaves the GPU's empty; on one with a GPU `--cpu` measures both.

    python -m benchmarks gpu                       # on a GPU: about 15 minutes
    python -m benchmarks gpu --small               # a try of it anywhere
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.data import shape_of
from benchmarks.reports import Report, Table

if TYPE_CHECKING:
    from engine.bench.options import BenchOptions
    from engine.bench.result import BenchResult, BenchRow

INPUTS = {"table": "arrow", ".npy": "npy", "synthetic": ""}
EPOCHS, VOLUMES, BATCH = 5, 650_000, 32
PAPER = {("CPU", ".npy"): "7.4", ("CPU", "table"): "11.0", ("GPU", ".npy"): "14.8", ("GPU", "table"): "84.2"}
"""Samples a second of DeepIQ, "Deep Learning on Cloud": 96,000 in 3.59, 2.42 and 1.8 hours and 19 minutes."""
NO_GPU = "This machine has no GPU: its figures are the CPU's, and the GPU's cells are empty."
NOT_USED = "TensorFlow did not use the GPU of this machine: the figures are the CPU's, and the GPU's cells are empty."


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--shape", default="30,30,10,10", help="of a volume, float32 (default: 30,30,10,10)")
    parser.add_argument("--batches", type=int, nargs="+", default=[32, 128, 512], help="(default: 32 128 512)")
    parser.add_argument("--steps", type=int, default=20, help="measured steps of a row (default: 20)")
    parser.add_argument("--depth", type=int, default=18, help="layers of the network (default: 18)")
    parser.add_argument(
        "--storage", default="", help="where the volumes lie: a folder or URL (default: a temporary one)"
    )
    parser.add_argument("--plain", action="store_true", help="without bfloat16 and XLA")
    parser.add_argument("--cpu", action="store_true", help="on a GPU: measure the CPU's cells too")
    parser.add_argument("--small", action="store_true", help="small volumes, one batch size, few steps")
    parser.set_defaults(rounds=1)


def run(options: argparse.Namespace, folder: Path) -> Report:
    from engine.bench.result import write_result
    from nodes.bench.measure import bench

    def measured(wanted: BenchOptions, name: str) -> BenchResult:
        # After each row: a machine with a GPU may be taken back before the last.
        path = options.out / name
        result = bench(
            wanted,
            folder / "bench",
            report=lambda line: print(line, flush=True),
            keep=lambda result: write_result(path, result),
        )
        write_result(path, result)
        return result

    wanted = bench_options(options)
    result = measured(wanted, "gpu-result.json")
    device, note = device_of(result)
    cells = {(device, name): row_of(result, name, BATCH) for name in (".npy", "table")}
    if options.cpu and device == "GPU":
        with _without_gpu():
            only = replace(wanted, batch_sizes=(BATCH,), mixed_precision=(False,), jit=(False,))
            again = measured(only, "gpu-result-cpu.json")
        cells |= {("CPU", name): row_of(again, name, BATCH) for name in (".npy", "table")}
    title = f"{device}, ResNet-{options.depth}, volumes of {' x '.join(map(str, wanted.shape))}"
    tables = [rates_table(result, f"{title}: samples/s"), cells_table(cells)]
    notes = [f"{result.machine.describe()}; {', '.join(f'{k} {v}' for k, v in result.versions.items())}"]
    return Report("gpu", tables=tables, notes=[*notes, *filter(None, [note])])


def bench_options(options: argparse.Namespace) -> BenchOptions:
    """What is to be measured."""
    from engine.bench.options import QUICK_SHAPE, BenchOptions

    switch = (False,) if options.plain else (False, True)
    wanted = BenchOptions(
        storage=options.storage,
        shape=shape_of(options.shape),
        depths=(options.depth,),
        batch_sizes=tuple(options.batches),
        inputs=("synthetic", "cold"),
        mixed_precision=switch,
        jit=switch,
        # As fast as the device can: what has no repeatable form on GPUs is not left out.
        deterministic=False,
        steps=options.steps,
        repeats=options.rounds,
    )
    if options.small:
        wanted = replace(wanted, shape=QUICK_SHAPE, batch_sizes=(BATCH,), steps=2)
    return wanted


def device_of(result: BenchResult) -> tuple[str, str]:
    """What computed, and a note where that is not the GPU."""
    if any(row.device_bytes for row in result.measured):
        return "GPU", ""
    return "CPU", NOT_USED if result.machine.gpus else NO_GPU


@contextmanager
def _without_gpu() -> Iterator[None]:
    before = os.environ.get("CUDA_VISIBLE_DEVICES")
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    try:
        yield
    finally:
        if before is None:
            del os.environ["CUDA_VISIBLE_DEVICES"]
        else:
            os.environ["CUDA_VISIBLE_DEVICES"] = before


def row_of(
    result: BenchResult, name: str, batch: int, *, precision: bool = False, jit: bool = False
) -> BenchRow | None:
    """The row of an input, "table", ".npy" or "synthetic"; None where it was not measured."""
    for row in result.typical:
        case = row.configuration
        if (case.loader, case.batch_size, case.mixed_precision, case.jit) == (INPUTS[name], batch, precision, jit):
            return row
    return None


def rates_table(result: BenchResult, title: str) -> Table:
    """A line for each batch size and way to compute: samples/s of each input, and the share of waiting."""
    cases = [row.configuration for row in result.rows]
    ways = list(dict.fromkeys((case.batch_size, case.mixed_precision, case.jit) for case in cases))
    rows: list[Sequence[Any]] = []
    for batch, precision, jit in sorted(ways):
        found = {name: row_of(result, name, batch, precision=precision, jit=jit) for name in INPUTS}
        line: list[Any] = [batch, "on" if precision else "off", "on" if jit else "off"]
        line += ["" if row is None else row.samples_per_s for row in found.values()]
        line += [_waiting(found[name]) for name in ("table", ".npy")]
        peaks = [row.device_bytes or row.memory_bytes for row in found.values() if row is not None]
        rows.append([*line, f"{max(peaks) / 1e9:.1f}" if peaks else ""])
    columns = ["batch", "bfloat16", "XLA", *INPUTS, "table: waiting", ".npy: waiting", "peak memory GB"]
    return Table(title, columns, rows)


def _waiting(row: BenchRow | None) -> str:
    return "" if row is None or not row.total_s else f"{row.waiting_s / row.total_s:.0%}"


def cells_table(cells: dict[tuple[str, str], BenchRow | None]) -> Table:
    """The whitepaper's four cells; what was not measured is empty."""
    rows = []
    for device in ("CPU", "GPU"):
        for name in (".npy", "table"):
            row = cells.get((device, name))
            rate, hours = "", ""
            if row is not None and row.samples_per_s:
                rate, hours = f"{row.samples_per_s:,.1f}", f"{EPOCHS * VOLUMES / row.samples_per_s / 3600:,.2f} h"
            rows.append([device, name, rate, hours, PAPER[device, name]])
    title = f"{EPOCHS} epochs of {VOLUMES:,} volumes in batches of {BATCH}, extrapolated"
    return Table(title, ["", "from", "samples/s", "time", "the whitepaper's samples/s"], rows)

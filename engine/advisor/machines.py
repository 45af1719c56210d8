"""The machines that a training could run on, and what is known of how fast they compute.

A machine that was benchmarked has a law of its own. Any other has that of one which was, each term multiplied by the
ratio of what their figures promise: cores for processors, the data sheet's rates for accelerators.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from engine.advisor.steps import CPU, MeasuredStep, StepModel, Terms, fit

if TYPE_CHECKING:
    from engine.bench.result import BenchResult, BenchRow, Configuration
    from engine.declare.workload import Network
    from engine.prices import Machine
    from engine.profiles import Profile


@dataclass(frozen=True)
class Accelerator:
    """A GPU as its maker's data sheet gives it: 32-bit TFLOPS outside matrix units, GB a second, GB of memory."""

    tflops: float
    gb_s: float
    memory_gb: float


ACCELERATORS: Mapping[str, Accelerator] = {
    "T4": Accelerator(8.1, 300, 16),
    "V100": Accelerator(14.0, 900, 16),
    "A10G": Accelerator(31.2, 600, 24),
    "A10": Accelerator(31.2, 600, 24),
    "L40S": Accelerator(91.6, 864, 48),
    "L4": Accelerator(30.3, 300, 24),
    "A100 40GB": Accelerator(19.5, 1555, 40),
    "A100": Accelerator(19.5, 1935, 80),
    "H100": Accelerator(51.0, 2000, 80),
    "H200": Accelerator(67.0, 4800, 141),
}
"""NVIDIA's data sheets (nvidia.com/data-center), the PCIe form where there are several; a longer name goes first."""
DATA_SHEET = "data sheet"
"""What is known of a machine with an accelerator where none was ever measured."""
_OF_PEAK = 0.3
"""Share of its peak that an accelerator reaches in convolutions of small volumes."""
_TOUCHES = 12
"""How often a training step reads or writes each value of a layer, and each weight."""
_LAUNCH_S = 1.5e-4
"""Of a layer, forwards and backwards: launching its kernels, the framework's own work."""
_BATCHED = 1e-14
"""A weight for a further volume: it takes the whole batch through a layer at once."""
_MOST_GAIN = math.log(3.0)


@dataclass(frozen=True)
class Candidate:
    """A machine that a training could run on. `origin` is "profile", "bench" or "prices"; None is what is not known."""

    name: str
    cores: int
    memory_bytes: int | None = None
    gpu: str = ""
    gpus: int = 0
    price_per_hour: float | None = None
    currency: str = ""
    disk_mb_s: float | None = None
    network_mb_s: float | None = None
    origin: str = "prices"

    @property
    def accelerator(self) -> Accelerator | None:
        """The data sheet of its GPUs; None without one, and of one that is not in the table."""
        return accelerator(self.gpu) if self.gpus else None


def accelerator(name: str) -> Accelerator | None:
    """The data sheet of a GPU by any name that holds its model's: `NVIDIA A100 80GB`, `Tesla T4`."""
    words = name.replace("-", " ").upper()
    return next((sheet for key, sheet in ACCELERATORS.items() if all(w in words.split() for w in key.split())), None)


def promised(candidate: Candidate) -> Terms:
    """Seconds for each term of a step by the machine's figures alone: good for ratios, not as a prediction."""
    sheet = candidate.accelerator
    if candidate.gpus and sheet is not None:
        # Several devices share a batch; what does not grow with it stays.
        touch = 4 * _TOUCHES / (sheet.gb_s * 1e9)
        arithmetic = 3 * 2 / (sheet.tflops * 1e12 * _OF_PEAK)
        return Terms(_LAUNCH_S, touch, _BATCHED, arithmetic / candidate.gpus, touch / candidate.gpus)
    cores = max(1, candidate.cores)
    return Terms(
        CPU.layers,
        CPU.parameters / math.sqrt(cores),
        CPU.weights / cores,
        CPU.multiply_adds / cores,
        CPU.values / cores,
    )


@dataclass(frozen=True)
class Measured:
    """A machine that was benchmarked: the law of each way of computing, by (mixed precision, XLA)."""

    candidate: Candidate
    result: BenchResult
    models: Mapping[tuple[bool, bool], StepModel] = field(default_factory=dict)


@dataclass(frozen=True)
class Computing:
    """How fast a machine computes. `source` says in words where that is from, "" where the machine was measured."""

    model: StepModel
    source: str = ""
    scale_spread: float = 0.0
    """Relative error (one deviation) of taking over another machine's law."""


def measured_machine(
    result: BenchResult, network_of: Callable[[Configuration], Network | None], table: Sequence[Machine] = ()
) -> Measured | None:
    """The machine of a benchmark with its laws; None when no row says how fast it computes.

    Rows without a loader say it best. Where there are none, the computing part of the others is taken.
    """
    found = result.machine
    known = next((m for m in table if m.key == result.machine_type), None)
    candidate = Candidate(
        name=result.machine_type or result.name,
        cores=result.cores or found.cores,
        memory_bytes=found.memory_bytes or None,
        gpu=found.gpus[0] if found.gpus else "",
        gpus=len(found.gpus),
        price_per_hour=result.price_per_hour,
        currency=result.currency,
        disk_mb_s=known.disk_mb_s if known else None,
        network_mb_s=known.network_mb_s if known else None,
        origin="bench",
    )
    best: dict[tuple[bool, bool, Network, int, int], MeasuredStep] = {}
    for row in result.measured:
        configuration, network = row.configuration, network_of(row.configuration)
        if network is None or not row.steps:
            continue
        step = _computed(row, network)
        kind = (configuration.mixed_precision, configuration.jit)
        key = (*kind, network, step.batch_size, step.workers)
        # Others at work on the machine, and reading, make a step longer and never shorter.
        if key not in best or step.seconds < best[key].seconds:
            best[key] = step
    by_kind: dict[tuple[bool, bool], list[MeasuredStep]] = {}
    for (mixed_precision, jit, *_), step in best.items():
        by_kind.setdefault((mixed_precision, jit), []).append(step)
    if not by_kind:
        return None
    reference = promised(candidate)
    return Measured(candidate, result, {kind: fit(rows, reference) for kind, rows in by_kind.items()})


def _computed(row: BenchRow, network: Network) -> MeasuredStep:
    """What a step of the row computed. Of one without a loader each step is known, and what others' work added to some
    of them is left out with the upper half."""
    configuration = row.configuration
    steps = sorted(row.step_s) if configuration.input == "synthetic" else []
    seconds = steps[(len(steps) - 1) // 2] if steps else (row.computing_s + row.rest_s) / row.steps
    scatter = 0.0
    if len(steps) > 2:
        low, high = steps[len(steps) // 4], steps[len(steps) * 3 // 4]
        # By the quartiles, which no single slow step moves: the relative deviation of a median.
        scatter = (high - low) / 1.35 / seconds * 1.25 / math.sqrt(len(steps))
    return MeasuredStep(network, configuration.batch_size, seconds, configuration.workers, scatter)


def computing_on(
    candidate: Candidate, machines: Sequence[Measured], *, mixed_precision: bool | None, jit: bool | None
) -> Computing | None:
    """How fast the candidate computes; None when nothing was ever measured.

    The nearest machine is taken: the same one, one with the same GPU, the same kind with the most similar cores.
    """
    if not machines:
        return None
    nearest = min(machines, key=lambda one: _distance(candidate, one.candidate))
    fast = bool(candidate.gpus)
    wanted = (fast if mixed_precision is None else mixed_precision, bool(jit))
    model = nearest.models.get(wanted) or next(iter(nearest.models.values()))
    if _same(candidate, nearest.candidate):
        note = "" if wanted in nearest.models else "measured in another precision"
        return Computing(model, note, 0.0 if not note else 0.2)
    if bool(candidate.gpus) != bool(nearest.candidate.gpus):
        # How fast processors are says nothing of an accelerator.
        model = StepModel(promised(candidate), model.exchange, 0.0)
        return Computing(model, DATA_SHEET, _MOST_GAIN / 1.3)
    here, there = promised(nearest.candidate), promised(candidate)
    ratio = Terms(*(new / old for new, old in zip(there, here, strict=True)))
    # As if half of the gain, or of the loss, failed to come; up to three times.
    gain = min(_MOST_GAIN, abs(math.log(ratio.multiply_adds)) / 2)
    return Computing(model.scaled(ratio), f"scaled from {nearest.candidate.name}", max(gain, 0.1) / 1.3)


def _same(candidate: Candidate, measured: Candidate) -> bool:
    return candidate.name == measured.name or (
        candidate.origin == "profile"
        and (candidate.cores, candidate.gpus, candidate.gpu) == (measured.cores, measured.gpus, measured.gpu)
    )


def _distance(candidate: Candidate, measured: Candidate) -> tuple[int, float]:
    if _same(candidate, measured):
        return (0, 0.0)
    if candidate.gpus and measured.gpus:
        same = candidate.accelerator is not None and candidate.accelerator == measured.accelerator
        return (1 if same else 2, abs(math.log(candidate.gpus / measured.gpus)))
    if bool(candidate.gpus) == bool(measured.gpus):
        return (2, abs(math.log(max(1, candidate.cores) / max(1, measured.cores))))
    return (3, -measured.cores)


def from_prices(machine: Machine) -> Candidate:
    """A row of the table of prices."""
    return Candidate(
        name=machine.key,
        cores=machine.cores or 1,
        memory_bytes=None if machine.memory_gib is None else int(machine.memory_gib * 2**30),
        gpu=machine.gpu,
        gpus=machine.gpus or 0,
        price_per_hour=machine.price_per_hour,
        currency=machine.currency,
        disk_mb_s=machine.disk_mb_s,
        network_mb_s=machine.network_mb_s,
    )


def from_profile(profile: Profile) -> Candidate:
    """The machine of a compute profile, under the profile's name."""
    return Candidate(
        name=profile.name,
        cores=profile.cores,
        memory_bytes=profile.memory_bytes,
        gpus=profile.gpus,
        price_per_hour=profile.hourly_price,
        currency=profile.currency,
        origin="profile",
    )


def all_candidates(profile: Profile, measured: Sequence[Measured], table: Iterable[Machine]) -> list[Candidate]:
    """Each machine once: the profile's own first, those that were measured, all of the table that can be paid for."""
    own = from_profile(profile)
    named = next((m for m in table if profile.machine and m.key == profile.machine), None)
    if named is not None:
        own = replace(own, gpu=named.gpu, disk_mb_s=named.disk_mb_s, network_mb_s=named.network_mb_s)
    elif own.gpus:
        gpu = next((m.candidate.gpu for m in measured if m.candidate.gpus == own.gpus), "")
        own = replace(own, gpu=gpu)
    out = {own.name: own}
    for one in measured:
        if not _same(own, one.candidate):
            out.setdefault(one.candidate.name, one.candidate)
    for machine in table:
        if machine.cores and machine.key != profile.machine and not (machine.gpus and not accelerator(machine.gpu)):
            out.setdefault(machine.key, from_prices(machine))
    return list(out.values())

"""The machines that a training could run on, and what is known of how fast they compute.

A machine that was benchmarked has a law of its own: its figures are measured. Any other has that of one which was:
scaled by the ratio of cores for processors, and for accelerators by what others have measured of the same two; where
nobody did, guessed by the ratio of their data sheets' rates.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from engine.advisor.steps import CPU, MeasuredStep, StepModel, Terms, fit
from engine.prices.dbu import dbu_table
from engine.text import plural

if TYPE_CHECKING:
    from engine.bench.result import BenchResult, BenchRow, Configuration
    from engine.declare.workload import Network
    from engine.environment import Machine as Hardware
    from engine.prices import Machine
    from engine.profiles import Profile


@dataclass(frozen=True)
class Accelerator:
    """A GPU as its maker's data sheet gives it: 32-bit TFLOPS outside matrix units, GB a second, GB of memory."""

    tflops: float
    gb_s: float
    memory_gb: float
    bfloat16: bool = True
    """Whether it has units for it (NVIDIA's compute capability 8.0, Ampere, or later): a training then computes in it
    unless it is told otherwise (`runtime.mixed_precision_pays` in `nodes.tensorflow_keras`), and else never."""


ACCELERATORS: Mapping[str, Accelerator] = {
    "T4": Accelerator(8.1, 300, 16, bfloat16=False),
    "V100": Accelerator(14.0, 900, 16, bfloat16=False),
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
GAINS: Mapping[tuple[str, str], tuple[float, float]] = {("A100", "H100"): (1.57, 1.97)}
"""How many times as fast the second model trains as the first, in mixed precision, from the least to the most of what
was measured: seconds a batch of CosmoFlow, ResNet-50 and U-Net3D in MLPerf Storage's settings (`computation_time`,
github.com/mlcommons/storage, configs/dlio/workload). Of the V100 there are such ratios too, in float16: trainings
compute in bfloat16, which it has no units for."""
Basis = Literal["measured", "scaled", "guessed"]
DATA_SHEET = "by its data sheet"
"""What is known of a machine with an accelerator where none was ever measured."""
NO_SHEET = "as for its processors, since nothing is known of its GPU"
"""What is known where its accelerator is in no table either."""
_OF_PEAK = 0.4
"""Share of its peak that an accelerator reaches in convolutions of small volumes."""
_TOUCHES = 12
"""How often a training step reads or writes each value of a layer, and each weight."""
_LAUNCH_S = 3e-4
"""Of a layer, forwards and backwards: launching its kernels, the framework's own work. With both figures the
steps of 32, 128 and 512 volumes (ResNet-18) on an H200 are put at 15, 24 and 63 ms; measured were 20, 24 and 57."""
_BATCHED = 1e-14
"""A weight for a further volume: it takes the whole batch through a layer at once."""
_MOST_GAIN = math.log(3.0)
_OTHER_PRECISION = 0.2
"""Relative error (one deviation) of taking the law of another precision, or of another use of XLA."""
DEVIATIONS = 1.3
"""Half of the width of an error bar: the true value lies within it four times of five."""
_SAME = 0.1
"""Of the logarithm: how far two machines of equal figures may lie apart."""


@dataclass(frozen=True)
class Candidate:
    """A machine that a training could run on. `origin` is "profile", "bench" or "prices"; None is what is not known.

    `machine_type` is its key in the table of prices, `name@region`, and `processor` as the system calls it; "" where
    that is not known.
    """

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
    machine_type: str = ""
    processor: str = ""
    remote: bool = False
    """Of a profile: its trainings run on another machine than this, so that nothing measured here is of it."""
    machines: int = 1
    """On how many machines of a cluster a training has its workers: `cores` and `gpus` are those of all of them,
    `memory_bytes` is that of each. `price_per_hour` is of the whole cluster."""
    dbu_per_hour: float = 0.0
    """Databricks' units that its price has in it."""

    @property
    def accelerator(self) -> Accelerator | None:
        """The data sheet of its GPUs; None without one, and of one that is not in the table."""
        return accelerator(self.gpu) if self.gpus else None


def accelerator(name: str) -> Accelerator | None:
    """The data sheet of a GPU by any name that holds its model's: `NVIDIA A100 80GB`, `Tesla T4`; None of a part of
    one, as `1/2 NVIDIA A10`."""
    key = _key(name)
    return ACCELERATORS[key] if key else None


def _key(gpu: str) -> str:
    """The GPU's name in the table of data sheets; "" of one that is not there, and of a part of one."""
    words = gpu.replace("-", " ").upper().split()
    if any("/" in word for word in words):
        return ""
    return next((key for key in ACCELERATORS if all(word in words for word in key.split())), "")


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
    """How fast a machine computes. `source` says in words from what that is scaled or guessed, "" where it was
    measured."""

    model: StepModel
    source: str = ""
    basis: Basis = "measured"
    scale_spread: float = 0.0
    """Relative error (one deviation) of taking over another machine's law."""


def measured_machine(
    result: BenchResult, network_of: Callable[[Configuration], Network | None], table: Sequence[Machine] = ()
) -> Measured | None:
    """The machine of a benchmark with its laws; None when no row says how fast it computes.

    Rows without a loader say it best. Where there are none, the computing part of the others is taken.
    """
    found = result.machine
    # One that came with a price of its own is in the table by its name.
    name = result.machine_type or result.name
    known = next((m for m in table if m.key.casefold() == name.casefold()), None)
    # Prices change after a benchmark: the table has today's, beside those of the machines that it is compared with.
    priced = result if known is None or known.price_per_hour is None else known
    if result.machine_type and result.cores < found.cores:
        # The machine type's own name is that of all of it.
        name = f"{name}, {result.cores:,} of {plural(found.cores, 'cores')}"
    candidate = Candidate(
        name=name,
        cores=result.cores or found.cores,
        memory_bytes=found.memory_bytes or None,
        gpu=found.gpus[0] if found.gpus else "",
        gpus=len(found.gpus),
        price_per_hour=priced.price_per_hour,
        currency=priced.currency,
        disk_mb_s=known.disk_mb_s if known else None,
        network_mb_s=known.network_mb_s if known else None,
        origin="bench",
        machine_type=known.key if known else result.machine_type,
        processor=found.processor,
    )
    best: dict[tuple[bool, bool, Network, int, int], MeasuredStep] = {}
    for row in result.measured:
        configuration, network = row.configuration, network_of(row.configuration)
        if network is None or not row.steps:
            continue
        step = _computed(row, network)
        if step.seconds <= 0:
            continue
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
    if len(steps) > 2 and seconds > 0:
        low, high = steps[len(steps) // 4], steps[len(steps) * 3 // 4]
        # By the quartiles, which no single slow step moves: the relative deviation of a median.
        scatter = (high - low) / 1.35 / seconds * 1.25 / math.sqrt(len(steps))
    return MeasuredStep(network, configuration.batch_size, seconds, configuration.workers, scatter)


def computing_on(
    candidate: Candidate, machines: Sequence[Measured], *, mixed_precision: bool | None, jit: bool | None
) -> Computing | None:
    """How fast the candidate computes; None when nothing was ever measured.

    The nearest machine is taken: the same one, one with the same GPU, one with a GPU that others have measured beside
    this, the same kind with the most similar cores. Without a value for `mixed_precision` it is what a training there
    computes in.
    """
    if not machines:
        return None
    wanted = (_computes_bfloat16(candidate, machines) if mixed_precision is None else mixed_precision, bool(jit))
    nearest = min(machines, key=lambda one: _distance(candidate, one, wanted))
    kind = _kind(nearest, wanted)
    model, other = nearest.models[kind], kind[0] != wanted[0]
    if _same(candidate, nearest.candidate):
        if kind == wanted:
            return Computing(model)
        way = "in another precision" if other else f"with{'' if kind[1] else 'out'} XLA"
        return Computing(model, f"from its benchmark {way}", "guessed", _OTHER_PRECISION)
    if bool(candidate.gpus) != bool(nearest.candidate.gpus):
        # How fast processors are says nothing of an accelerator.
        model = StepModel(promised(candidate), model.exchange, 0.0)
        known = not candidate.gpus or candidate.accelerator is not None
        return Computing(model, DATA_SHEET if known else NO_SHEET, "guessed", _MOST_GAIN / DEVIATIONS)
    found = _scaled(model, nearest.candidate, candidate, mixed_precision=kind[0] and wanted[0])
    if not other:
        return found
    source = found.source if found.source == NO_SHEET else f"{found.source}, in another precision"
    return replace(found, source=source, basis="guessed", scale_spread=math.hypot(found.scale_spread, _OTHER_PRECISION))


def _computes_bfloat16(candidate: Candidate, machines: Sequence[Measured]) -> bool:
    """Whether a training there computes in bfloat16 by default."""
    if not candidate.gpus:
        return False
    if candidate.accelerator is not None:
        return candidate.accelerator.bfloat16
    # A GPU that is in no table has said so where it was benchmarked; most that are in use have units for it.
    like = [m.result.bfloat16 for m in machines if m.candidate.gpus and _gpu(m.candidate) == _gpu(candidate)]
    return next((said for said in like if said is not None), True)


def _kind(measured: Measured, wanted: tuple[bool, bool]) -> tuple[bool, bool]:
    """The way of computing that it was measured in: as wanted, else in the same precision, else any."""
    same = [kind for kind in measured.models if kind[0] == wanted[0]]
    return wanted if wanted in same else next(iter(same or measured.models))


def _scaled(model: StepModel, measured: Candidate, candidate: Candidate, *, mixed_precision: bool) -> Computing:
    """The law of another machine of the same kind; `mixed_precision` says whether both compute in it."""
    gain = measured_gain(measured, candidate, mixed_precision=mixed_precision)
    if gain is not None:
        # In the middle between that ratio and none: small volumes wait for launches, which no GPU does faster.
        ratio = Terms(*[1 / math.sqrt(gain)] * len(Terms._fields))
        spread = max(abs(math.log(gain)) / 2, _SAME)
        return Computing(model.scaled(ratio), f"from {measured.name}", "scaled", spread / DEVIATIONS)
    here, there = promised(measured), promised(candidate)
    ratio = Terms(*(new / old for new, old in zip(there, here, strict=True)))
    # As if half of the gain, or of the loss, failed to come; up to three times.
    half = min(_MOST_GAIN, abs(math.log(ratio.multiply_adds)) / 2)
    source = f"from {measured.name}" + (" by their data sheets" if candidate.gpus else "")
    if candidate.gpus and candidate.accelerator is None:
        source = f"from {measured.name}" if measured.accelerator is None else NO_SHEET
    return Computing(
        model.scaled(ratio), source, "guessed" if candidate.gpus else "scaled", max(half, _SAME) / DEVIATIONS
    )


def measured_gain(of: Candidate, over: Candidate, *, mixed_precision: bool) -> float | None:
    """How many times as fast the GPUs of `over` train as those of `of`, at best, by what was measured of both models.

    Devices of one model count in proportion. `mixed_precision` says whether both compute in it; None where nobody has
    measured one beside the other so.
    """
    one, other = _model(of), _model(over)
    if not one or not other or not of.gpus or not over.gpus:
        return None
    devices = over.gpus / of.gpus
    if one == other:
        return devices
    if not mixed_precision:
        return None
    if (one, other) in GAINS:
        return devices * GAINS[one, other][1]
    return devices / GAINS[other, one][1] if (other, one) in GAINS else None


def _model(candidate: Candidate) -> str:
    """The GPU's model, whatever its memory: `A100`; "" of one that is not in the table."""
    return _key(candidate.gpu).partition(" ")[0]


def _same(candidate: Candidate, measured: Candidate) -> bool:
    """Whether what was measured is true of the candidate, too."""
    # A profile may give its tasks a part of the machine, and so may a benchmark.
    alike = (candidate.cores, candidate.gpus) == (measured.cores, measured.gpus)
    if candidate.machine_type and measured.machine_type:
        return alike and _type(candidate) == _type(measured)
    if candidate.origin != "profile" or candidate.remote:
        return candidate.name == measured.name and (alike or not candidate.remote)
    processors = {candidate.processor, measured.processor} - {""}
    return alike and len(processors) < 2 and (not candidate.gpus or _gpu(candidate) == _gpu(measured))


def _type(candidate: Candidate) -> str:
    """The machine type in any region: its hardware is the same."""
    return candidate.machine_type.partition("@")[0].casefold()


def _gpu(candidate: Candidate) -> str:
    """The GPU by one name: drivers call a `NVIDIA T4` a `Tesla T4`."""
    return _key(candidate.gpu) or candidate.gpu.casefold()


def _distance(candidate: Candidate, one: Measured, wanted: tuple[bool, bool]) -> tuple[int, float]:
    measured = one.candidate
    if _same(candidate, measured):
        return (0, 0.0)
    if candidate.gpus and measured.gpus:
        devices = abs(math.log(candidate.gpus / measured.gpus))
        if candidate.accelerator is not None and candidate.accelerator == measured.accelerator:
            return (1, devices)
        both = wanted[0] and _kind(one, wanted)[0]
        known = measured_gain(measured, candidate, mixed_precision=both) is not None
        return (2 if known else 3, devices)
    if bool(candidate.gpus) == bool(measured.gpus):
        return (3, abs(math.log(max(1, candidate.cores) / max(1, measured.cores))))
    return (4, -measured.cores)


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
        machine_type=machine.key,
    )


def _on_databricks(candidate: Candidate, profile: Profile) -> Candidate:
    """With Databricks' units in its price, where the profile pays for those; without a price where they are unknown, or
    are paid in another currency."""
    if profile.price_per_dbu is None or candidate.price_per_hour is None:
        return candidate
    units = dbu_table().get(_type(candidate))
    if units is None or profile.currency not in ("", candidate.currency):
        return replace(candidate, price_per_hour=None)
    price = candidate.price_per_hour + units.dbu_per_hour * profile.price_per_dbu
    return replace(candidate, price_per_hour=price, dbu_per_hour=units.dbu_per_hour)


def from_profile(
    profile: Profile, named: Machine | None = None, here: Hardware | None = None, workers: int = 1
) -> Candidate:
    """The machine of a compute profile, under the profile's name: `named` is the row in the table of prices of the one
    that trains, `here` this machine. On a cluster it is the machines of so many `workers`, an executor each; without
    such a row it has the cores of these executors, and nothing is known of its memory."""
    own = Candidate(
        name=profile.name,
        cores=profile.cores,
        memory_bytes=profile.memory_bytes,
        gpus=profile.gpus,
        price_per_hour=profile.hourly_price,
        currency=profile.currency,
        origin="profile",
        machine_type=trains_on(profile),
        remote=not profile.is_here,
    )
    if here is not None and not own.remote:
        # A training takes the GPUs that are there, also under a profile that names none.
        gpus = own.gpus or (len(here.gpus) if named is None or named.gpus != 0 else 0)
        own = replace(own, processor=here.processor, gpus=gpus, gpu=here.gpus[0] if gpus and here.gpus else "")
    if named is not None:
        own = replace(own, gpu=named.gpu or own.gpu, disk_mb_s=named.disk_mb_s, network_mb_s=named.network_mb_s)
    if not own.remote:
        return own
    # The profile's own figures are those of this machine, from which jobs are sent there.
    if named is None:
        return replace(own, cores=_executor_cores(profile, workers) or own.cores, memory_bytes=None)
    machines = max(1, min(workers, profile.executors.count or workers))
    cores, gpus = named.cores or own.cores, own.gpus if named.gpus is None else named.gpus
    memory_bytes = from_prices(named).memory_bytes
    return replace(own, cores=cores * machines, memory_bytes=memory_bytes, gpus=gpus * machines, machines=machines)


def trains_on(profile: Profile) -> str:
    """The machine type on which the profile's trainings run; "" where none is named."""
    return profile.machine if profile.is_here else profile.executor_machine or profile.machine


def _executor_cores(profile: Profile, workers: int) -> int:
    """Cores of the executors on which so many workers train, by the profile's Spark settings; 0 where these do not say
    it. Their memory says nothing: `spark.executor.memory` is Java's, and the training is in a process beside it."""

    def count(name: str) -> int:
        setting = profile.spark.get(f"spark.executor.{name}", "").strip()
        return int(setting) if re.fullmatch("[0-9]{1,6}", setting) else 0

    return count("cores") * min(workers, count("instances") or workers)


def all_candidates(
    profile: Profile,
    measured: Sequence[Measured],
    table: Sequence[Machine],
    here: Hardware | None = None,
    *,
    workers: int = 1,
) -> list[Candidate]:
    """Each machine once: the profile's own first, those that were measured, all of the table that can be paid for.

    `here` is this machine, by which a profile's own is known among those that were measured; `workers` are those of
    the training.
    """
    of = trains_on(profile)
    named = next((m for m in table if of and m.key == of), None)
    own = from_profile(profile, named, here, workers)
    if named is None and own.gpus and not own.gpu:
        gpu = next((m.candidate.gpu for m in measured if m.candidate.gpus == own.gpus), "")
        own = replace(own, gpu=gpu)
    out = {own.name: own}
    for one in measured:
        # The same machine type in another region has another price.
        there = one.candidate.machine_type and own.machine_type and one.candidate.machine_type != own.machine_type
        if there or not _same(own, one.candidate):
            out.setdefault(one.candidate.name, _on_databricks(one.candidate, profile))
    for machine in table:
        if machine.cores and machine.key != of and not (machine.gpus and not accelerator(machine.gpu)):
            out.setdefault(machine.key, _on_databricks(from_prices(machine), profile))
    return list(out.values())

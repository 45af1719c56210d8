"""The result of `voxelflow bench`: what training steps took on one machine, as one JSON file to be taken anywhere.

`bench/20261122-201500-m5.2xlarge.json` of a workspace is one result, its fields those of `BenchResult`. Fields may be
added: a reader ignores those that it does not know. A change of their meaning raises `FORMAT`, and a file of a newer
format is refused by name. No path, host name or user name of the machine is in it.

A row is one configuration, trained for some steps in processes of its own by the code that `voxelflow run` trains with.
Three kinds of input separate what a step waits for, as DS-Analyzer does (Mohan et al., "Analyzing and Mitigating Data
Stalls in DNN Training", VLDB 2021):

    synthetic   the same batches again and again, from memory: what the machine computes
    cached      the loader, with all volumes in the system's cache (or the local cache of a remote table)
    cold        the loader, with empty caches: what the storage adds
"""

from __future__ import annotations

import itertools
import json
import math
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from engine.bench import FOLDER
from engine.declare.field_rules import control_character
from engine.environment import Machine
from engine.errors import UsageError
from engine.storage.files import read_document, write_whole
from engine.storage.io_errors import remedy
from engine.text import number as figure
from engine.text import plural
from engine.workspace import Workspace

FORMAT = 1
Input = Literal["synthetic", "cached", "cold"]
INPUTS: tuple[Input, ...] = ("synthetic", "cached", "cold")
Outcome = Literal["measured", "out of memory", "not possible", "not tried"]
CacheState = Literal["cold", "warm", "unknown", "none"]
_LAST_MOMENT = 253_370_764_800
"""The end of the year 9998: later ones are no date in some place on earth."""
_SAME_MEMORY = 1 << 29
"""One machine says some megabytes more or less of its memory after an update of its system."""


def _without_control(text: str) -> str:
    if bad := control_character(text):
        raise ValueError(f"holds the control character {bad!r}")
    return text


def _as_code(currency: str) -> str:
    """In the spelling of the table of prices, as far as it is a code at all: earlier versions took any text."""
    code = currency.strip()
    return code.upper() if re.fullmatch(r"[A-Za-z]{3}", code) else currency


def _in_bounds(machine: Machine) -> Machine:
    """What goes into the table of prices."""
    for name in ("cores", "memory_bytes"):
        if getattr(machine, name) < 0:
            raise ValueError(f"has {name} below 0")
        if getattr(machine, name) > _MOST:
            raise ValueError(f"has {name} above {_MOST:,}")
    if bad := control_character(machine.gpus):
        raise ValueError(f"holds the control character {bad!r} in its gpus")
    return machine


_Line = Annotated[str, AfterValidator(_without_control)]
_DTYPE = r"(?:float|int|uint)(8|16|32|64)"
_MOST = 10**15
"""Larger counts are slips, and too large to compute with."""
_Count = Annotated[int, Field(ge=0, le=_MOST)]
_AtLeastOne = Annotated[int, Field(ge=1, le=_MOST)]
_Seconds = Annotated[float, Field(ge=0)]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)


class Configuration(_Frozen):
    """What was trained, and how its volumes came: two rows with equal configurations measured the same thing.

    `shape` is (X, Y, Z, channels) or (X, Y, Z), `dtype` the type that is stored. `batch_size` counts the volumes of a
    global batch, over all `workers`. `loader` is that of TrainResNet3D, "" with synthetic input, which has none.
    """

    depth: int
    shape: tuple[_AtLeastOne, ...]
    dtype: Annotated[str, Field(pattern=f"^{_DTYPE}$")]
    batch_size: _AtLeastOne
    workers: _AtLeastOne = 1
    loader: str = ""
    input: Input = "synthetic"
    storage: str = ""
    """"local", or the scheme of an object store ("az", "s3", "gs"); "" with synthetic input."""
    mixed_precision: bool = False
    jit: bool = False
    deterministic: bool = True
    optimizer: str = "adam"
    stem: str = "standard"
    width: _AtLeastOne = 64

    @property
    def volume_bytes(self) -> int:
        """Bytes of a volume as it is stored."""
        found = re.fullmatch(_DTYPE, self.dtype)
        assert found is not None
        out = int(found[1]) // 8
        for length in self.shape:
            out *= length
        return out


class Curves(_Frozen):
    """The machine while a row was measured. Every list has a value for each of `seconds`, None where none is known.

    `values` are by MLflow's names for system metrics, as on the page of a run; the ones that are always asked for:
    `cpu_utilization_percentage` (of all cores), `busiest_core_percentage`, `system_memory_usage_percentage`,
    `run_processes_cpu_percentage` (200 is two cores), `run_processes_memory_usage_megabytes`,
    `swap_usage_megabytes`, `swap_in_megabytes_per_second`, `swap_out_megabytes_per_second`,
    `io_wait_percentage`, `disk_read_megabytes_per_second`, `disk_write_megabytes_per_second`,
    `network_receive_megabytes_per_second`, `network_transmit_megabytes_per_second`; of each GPU
    `gpu_0_utilization_percentage`, `gpu_0_memory_usage_megabytes` and more. Megabytes are 10**6 bytes.
    """

    seconds: tuple[float, ...] = ()
    """Since the row's processes were started."""
    values: dict[str, tuple[float | None, ...]] = {}
    measured_from_s: float = 0.0
    """About when the measured steps began; before are imports, the graph's compilation and the warm-up."""

    def of(self, name: str) -> list[float]:
        """The known values of a curve during the measured steps, in their order; empty where nothing is known.

        Of steps that were over before a sample was taken, it is the last one.
        """
        both = [(s, v) for s, v in zip(self.seconds, self.values.get(name, ()), strict=False) if v is not None]
        return [v for s, v in both if s >= self.measured_from_s] or [v for _, v in both[-1:]]

    def peak(self, name: str) -> float | None:
        """The largest value during the measured steps; None where nothing is known."""
        return max(self.of(name), default=None)

    def mean(self, name: str) -> float | None:
        """The mean during the measured steps; None where nothing is known."""
        found = self.of(name)
        return sum(found) / len(found) if found else None


class BenchRow(_Frozen):
    """One configuration, and what its measured steps took. Seconds are wall time in all, unless said otherwise.

    A step is waiting for its batch, computing (with the copy to the device) and the rest (figures, bookkeeping). They
    are those of the leading worker; memory is that of the worker that took most.
    """

    configuration: Configuration
    outcome: Outcome
    note: str = ""
    """Why there are no figures; or, of a cold row, how the caches were emptied."""
    steps: _Count = 0
    warmup: _Count = 0
    """Steps before the measured ones."""
    waiting_s: _Seconds = 0.0
    computing_s: _Seconds = 0.0
    rest_s: _Seconds = 0.0
    step_s: tuple[_Seconds, ...] = ()
    """Of each measured step, in their order: how much they scatter says how far a figure can be trusted."""
    processor_s: _Seconds = 0.0
    """Processor seconds (user and system) of all workers' processes during the measured steps."""
    memory_bytes: int = 0
    """Most that one process had resident, all that Python and the framework need included; 0 where not known."""
    device_bytes: int = 0
    """Most that the framework had on one device; 0 without one."""
    cache: CacheState = "none"
    """Of a cold row: whether the system's cache was empty, as far as the system says; "none" for an object store."""
    latency_ms: _Seconds | None = None
    """Median of a 4 kB read from where the volumes lie, with empty caches; None with synthetic input."""
    curves: Curves = Curves()

    @property
    def total_s(self) -> float:
        """Seconds of the measured steps."""
        return self.waiting_s + self.computing_s + self.rest_s

    @property
    def volumes(self) -> int:
        """Volumes of the measured steps, over all workers."""
        return self.configuration.batch_size * self.steps

    @property
    def samples_per_s(self) -> float:
        """Volumes a second; 0 where nothing was measured."""
        return self.volumes / self.total_s if self.total_s > 0 else 0.0

    @property
    def processor_s_per_volume(self) -> float:
        """Processor seconds a volume; 0 where nothing was measured."""
        return self.processor_s / self.volumes if self.volumes else 0.0


class BenchData(_Frozen):
    """The volumes that were trained on: made by the benchmark, or the person's own."""

    volumes: int
    bytes: int
    """Of the volumes as they are stored."""
    made: bool = True


class BenchResult(_Frozen):
    """All that one machine was measured for, in one go."""

    format: Literal[1] = 1
    name: _Line
    """What people call the machine: --name, else its type, else its processor."""
    measured_at: Annotated[float, Field(ge=0, lt=_LAST_MOMENT)]
    """Seconds since the epoch."""
    seconds: float
    """How long the benchmark took, from the first volume that was made."""
    machine: Annotated[Machine, AfterValidator(_in_bounds)]
    cores: _Count
    """Those that the training was given."""
    bfloat16: bool | None = None
    """Whether a training there computes in it by default; None: unknown."""
    machine_type: _Line = ""
    """Its key in the table of prices (`m5.2xlarge@us-east-1`); "" where that is not known."""
    price_per_hour: Annotated[float, Field(ge=0)] | None = None
    """Of the whole machine, when it was measured; None where none is known."""
    currency: Annotated[_Line, AfterValidator(_as_code)] = ""
    versions: dict[str, str] = {}
    """Of voxelflow, python, the framework and the libraries; `platform` is that of the system."""
    data: BenchData
    rows: tuple[BenchRow, ...] = ()
    quick: bool = False
    """Of --quick: a try of the command, whose figures are not to be gone by."""
    planned: int = 0
    """Rows that were asked for: more than there are when the benchmark was ended early. 0 where that is not known."""

    @property
    def missing(self) -> int:
        """Rows that were asked for and not tried, because the benchmark was ended early."""
        return max(self.planned - len(self.rows), 0)

    @property
    def measured(self) -> tuple[BenchRow, ...]:
        """The rows that have figures; a configuration that was measured several times has as many."""
        return tuple(r for r in self.rows if r.outcome == "measured" and 0 < r.samples_per_s < math.inf)

    @property
    def typical(self) -> tuple[BenchRow, ...]:
        """Of each configuration the measured row whose rate is the median (of two the lower), in their first order."""
        found: dict[Configuration, list[BenchRow]] = {}
        for row in self.measured:
            found.setdefault(row.configuration, []).append(row)
        return tuple(sorted(rows, key=lambda r: r.samples_per_s)[(len(rows) - 1) // 2] for rows in found.values())

    @property
    def without_figures(self) -> tuple[BenchRow, ...]:
        """The rows of configurations that could never be measured, each configuration once."""
        known = {row.configuration for row in self.measured}
        return tuple({r.configuration: r for r in self.rows if r.configuration not in known}.values())

    @property
    def file_name(self) -> str:
        """The name in letters that every file system takes."""
        return re.sub(r"[^A-Za-z0-9.]+", "-", self.name).strip("-.")[:40] or "machine"

    def cost(self, seconds: float) -> float | None:
        """What so many seconds of the machine cost; None where no price is known."""
        return None if self.price_per_hour is None else self.price_per_hour * seconds / 3600


# --- files ---------------------------------------------------------------------------------------


def to_json(result: BenchResult) -> str:
    """The text of a result's file."""
    return result.model_dump_json(indent=1) + "\n"


def write_result(path: Path, result: BenchResult) -> None:
    """Write the file whole. Raises `UsageError` when it cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, to_json(result), durable=True)
    except OSError as exc:
        raise UsageError(f"{path} cannot be written: {exc.strerror or exc}", hint=remedy(exc)) from exc


def read_result(path: Path) -> BenchResult:
    """The result in a file.

    Raises `UsageError` with the file's name when there is none, when it is damaged or something else, or when a newer
    Voxelflow wrote it.
    """
    try:
        text = read_document(path)
    except FileNotFoundError:
        raise UsageError(f"there is no file {path}", hint="`voxelflow bench` writes one.") from None
    except OSError as exc:
        raise UsageError(f"{path} cannot be read: {exc.strerror or exc}", hint=remedy(exc)) from exc
    try:
        value = json.loads(text)
    except (UnicodeDecodeError, ValueError, RecursionError) as exc:
        raise UsageError(
            f"{path} is damaged: {_first_line(exc)}", hint="Copy it again, or run `voxelflow bench` again."
        ) from None
    found = value.get("format") if isinstance(value, dict) else None
    if isinstance(found, int) and found > FORMAT and "rows" in value:
        raise UsageError(
            f"{path} was written by a newer Voxelflow (format {found}; this one reads {FORMAT})",
            hint="Update Voxelflow.",
        )
    try:
        return BenchResult.model_validate(value)
    except ValidationError as exc:
        problem = exc.errors()[0]
        where = ".".join(map(str, problem["loc"]))
        what = problem["msg"].removeprefix("Value error, ")
        raise UsageError(
            f"{path} is no result of `voxelflow bench`: {where + ': ' if where else ''}{what}",
            hint="Name files that `voxelflow bench` wrote.",
        ) from None


def bench_folder(workspace: Workspace) -> Path:
    """Where the workspace keeps results; it need not exist."""
    return workspace.root / FOLDER


def keep_result(workspace: Workspace, result: BenchResult, instead_of: Path | None = None) -> Path:
    """Keep the result in the workspace; gives its file. Raises `UsageError`.

    One that is there already is kept once. `instead_of` is the file of the same result with fewer rows.
    """
    if instead_of is not None:
        write_result(instead_of, result)
        return instead_of
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(result.measured_at))
    begin = bench_folder(workspace) / f"{stamp}-{result.file_name}"
    for number in itertools.count(1):
        path = begin.with_name(begin.name + (f"-{number}.json" if number > 1 else ".json"))
        if not path.exists():
            break
        with suppress(UsageError):
            if read_result(path) == result:
                return path
    write_result(path, result)
    return path


def bench_results(workspace: Workspace) -> list[BenchResult]:
    """The results that the workspace keeps, the newest first. Files that are none, or newer, are left out."""
    found = list(_read_all(sorted(bench_folder(workspace).glob("*.json"))))
    return sorted(found, key=lambda result: result.measured_at, reverse=True)


def _read_all(paths: Iterable[Path]) -> Iterator[BenchResult]:
    for path in paths:
        with suppress(UsageError):
            yield read_result(path)


def by_machine(results: Iterable[BenchResult]) -> list[list[BenchResult]]:
    """The results of each machine, the one that counts first; the machine whose counting result is newest first.

    The newest result that has figures to go by counts; of a machine that has none the newest quick one, else the newest
    in which nothing could be measured. A name alone is no machine: a processor is in machines of many sizes.
    """
    found: dict[tuple[Any, ...], list[list[BenchResult]]] = {}
    for result in sorted(results, key=lambda r: (bool(r.measured), not r.quick, r.measured_at), reverse=True):
        machine = result.machine
        type_ = result.machine_type or result.name
        alike = found.setdefault((result.name, type_, result.cores, machine.cores, machine.gpus), [])
        same = next((each for each in alike if _same_memory(each[0].machine, machine)), None)
        if same is None:
            alike.append([result])
        else:
            same.append(result)
    out = [each for alike in found.values() for each in alike]
    return sorted(out, key=lambda each: each[0].measured_at, reverse=True)


def same_machine(one: BenchResult, other: BenchResult) -> bool:
    """Whether both were measured on one machine, or on parts of it: by its type, else its name, and what it has."""
    mine, theirs = one.machine, other.machine
    types = {found.machine_type or found.name for found in (one, other)}
    same = len(types) == 1 and (mine.cores, mine.gpus) == (theirs.cores, theirs.gpus)
    return same and _same_memory(mine, theirs)


def _same_memory(one: Machine, other: Machine) -> bool:
    return abs(one.memory_bytes - other.memory_bytes) < _SAME_MEMORY


def newest_by_machine(results: Iterable[BenchResult]) -> list[BenchResult]:
    """Of each machine the result that counts (see `by_machine`), the newest first; no two of them have the same name.

    Where several machines are called the same, what they differ in is added: `AMD EPYC 7763, 16 cores`.
    """
    return _told_apart([each[0] for each in by_machine(results)])


def _told_apart(results: Sequence[BenchResult]) -> list[BenchResult]:
    alike: dict[str, list[BenchResult]] = {}
    for result in results:
        alike.setdefault(result.name, []).append(result)
    taken, out = {name for name, group in alike.items() if len(group) == 1}, []
    for result in results:
        name = result.name
        if len(group := alike[name]) > 1:
            wanted = name = _distinct(result, group)
            for count in itertools.count(2):
                # Another machine may have this name already.
                if name not in taken:
                    break
                name = f"{wanted} ({count})"
            taken.add(name)
        out.append(result if name == result.name else result.model_copy(update={"name": name}))
    return out


def _distinct(result: BenchResult, group: Sequence[BenchResult]) -> str:
    """The name, and as many of GPUs, cores, memory and type as make it differ from others of the same name."""
    if result.cores == result.machine.cores and all(_part_of(result, other) for other in group):
        # The table of prices has the whole machine by this name.
        return result.name
    told: tuple[Callable[[BenchResult], str], ...] = ()
    for part in (_gpus, _cores, _memory, _type):
        if len({part(each) for each in group}) > 1:
            told = (*told, part)
        if len({_title(each, told) for each in group}) == len(group):
            break
    return _title(result, told)


def _part_of(whole: BenchResult, result: BenchResult) -> bool:
    """Whether it was measured on the same machine, with no more cores than that has."""
    return same_machine(whole, result) and result.cores <= whole.machine.cores


def _title(result: BenchResult, parts: Sequence[Callable[[BenchResult], str]]) -> str:
    """`lab, 16 cores`; of a machine that is called after its GPU `8 x NVIDIA H100`."""
    told = [part(result) for part in parts]
    if told and told[0].endswith(f" x {result.name}"):
        return ", ".join(filter(None, told))
    return ", ".join(filter(None, [result.name, *told]))


def _gpus(result: BenchResult) -> str:
    gpus = result.machine.gpus
    return " and ".join(f"{gpus.count(name)} x {name}" for name in dict.fromkeys(gpus)) or "no GPU"


def _cores(result: BenchResult) -> str:
    whole = result.machine.cores
    return f"{result.cores:,} of {plural(whole, 'cores')}" if result.cores < whole else plural(result.cores, "cores")


def _memory(result: BenchResult) -> str:
    return f"{figure(round(result.machine.memory_bytes / 2**30, 1))} GiB"


def _type(result: BenchResult) -> str:
    return "" if result.machine_type == result.name else result.machine_type


def _first_line(exc: Any) -> str:
    return next(iter(str(exc).splitlines()), type(exc).__name__)

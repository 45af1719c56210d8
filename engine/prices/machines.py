"""The table of machine types: a CSV file that is shipped, and `machines.csv` of a workspace over it.

Both have the columns `COLUMNS`, in any order; `name` is needed, all others may be empty or left out. A row is known by
its name and region, and a workspace's row replaces the shipped one of the same name and region; figures that it leaves
empty, such as the cores, stay as shipped. An empty price means that none is known: nothing is then computed from it.

The shipped prices are on-demand prices without discounts, taxes, disks and traffic, each with the document that it was
read from and that document's date, where it says one. Sources of other figures are documents at a commit, and Google's
pages as of April 2026; AWS's guide of its instance types (2024) is read in a public copy. A part of a GPU is listed
as one, named `1/2 NVIDIA A10`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache, partial
from pathlib import Path

from engine.errors import UsageError
from engine.prices.csv_rows import Layout, brought_rows, merged_rows, own_rows, read_rows, write_rows
from engine.text import did_you_mean
from engine.workspace import Workspace

FILE = "machines.csv"
_SHIPPED = Path(__file__).with_name(FILE)
_FIGURES = ("provider", "cores", "memory_gib", "gpus", "gpu", "disk_mb_s", "network_mb_s")
"""What a machine type is, whatever it costs."""
_SHOWN = 5
"""Names that a message lists."""


@dataclass(frozen=True)
class Machine:
    """A machine type in one region. What is not known is "" or None.

    `memory_gib` is in GiB (2**30 bytes), as providers give it; `disk_mb_s` and `network_mb_s` are what its disks (those
    of the network, uncached) and its network carry at most, in MB (10**6 bytes) a second: all day, not in the bursts
    that smaller sizes may have. `price_per_hour` is the price on demand, by which costs are counted; `spot_per_hour`
    that of a machine which the provider may take back, for profiles that say so. `date` (ISO 8601) and `source` are
    those of the prices, `specs_source` names where the other figures stand. `origin` is "shipped" or the workspace's
    file.
    """

    name: str
    provider: str = ""
    region: str = ""
    cores: int | None = None
    memory_gib: float | None = None
    gpus: int | None = None
    gpu: str = ""
    disk_mb_s: float | None = None
    network_mb_s: float | None = None
    price_per_hour: float | None = None
    spot_per_hour: float | None = None
    currency: str = ""
    date: str = ""
    source: str = ""
    specs_source: str = ""
    origin: str = "shipped"

    @property
    def key(self) -> str:
        """What names it among all: `m5.2xlarge@us-east-1`, or its name where it has no region."""
        return f"{self.name}@{self.region}" if self.region else self.name

    def filled(self, known: Machine) -> Machine:
        """With the figures of the same machine type where it has none of its own; never with prices."""
        more = {
            column: value
            for column in _FIGURES
            if getattr(self, column) in ("", None) and (value := getattr(known, column)) not in ("", None)
        }
        if self.gpus == 0:
            more.pop("gpu", None)
        if more and not self.specs_source:
            more["specs_source"] = known.specs_source
        return replace(self, **more)


COLUMNS = tuple(field.name for field in fields(Machine) if field.name != "origin")
_LAYOUT = Layout(
    COLUMNS,
    needed=("name",),
    numbers=("memory_gib", "disk_mb_s", "network_mb_s", "price_per_hour", "spot_per_hour"),
    whole=("cores", "gpus"),
    rows="machine",
)


@dataclass(frozen=True)
class MachineTable:
    """All machines, the workspace's own first. `problem` is why its file cannot be used; the shipped ones then stay."""

    machines: tuple[Machine, ...]
    problem: UsageError | None = None

    def find(self, name: str) -> Machine:
        """The machine of that name, or `name@region`; upper and lower case are the same.

        Raises `UsageError` when there is none, when it is in several regions and none is given, or when the
        workspace's file cannot be read.
        """
        if self.problem is not None:
            # It may say another price than the shipped table.
            raise self.problem
        wanted = name.casefold()
        found = [m for m in self.machines if wanted == m.key.casefold()]
        # A key is one machine's alone, though its name may be that of others which have regions.
        found = found or [m for m in self.machines if wanted == m.name.casefold()]
        if len(found) == 1:
            return found[0]
        if found:
            raise UsageError(
                f"the machine {name} is in {len(found)} regions", hint=f"Write one of {_some(m.key for m in found)}."
            )
        near = did_you_mean(name, (each for m in self.machines for each in (m.key, m.name)), most=3)
        raise UsageError(
            f"there is no machine {name} in the table of prices",
            hint=f"{near} `voxelflow prices` lists them; a row in {FILE} of the workspace adds one.".lstrip(),
        )


def machines_file(workspace: Workspace) -> Path:
    """Where the workspace's own machines stand; it need not exist."""
    return workspace.root / FILE


def machine_table(workspace: Workspace | None = None) -> MachineTable:
    """The workspace's machines, and the shipped ones that they do not replace. Raises nothing.

    What an own row does not say of a shipped machine type, such as its cores, is as shipped; its prices are its own.
    """
    own, problem = _own(workspace)
    keys = {machine.key.casefold() for machine in own}
    return MachineTable((*with_figures(own), *(m for m in _shipped() if m.key.casefold() not in keys)), problem)


def with_figures(machines: Iterable[Machine]) -> list[Machine]:
    """The machines with the shipped figures where they have none of their own; their prices stay as they are."""
    # In another region, or in none, a machine type has the same figures.
    known = {m.name.casefold(): m for m in _shipped()} | {m.key.casefold(): m for m in _shipped()}
    found = [(m, known.get(m.key.casefold()) or known.get(m.name.casefold())) for m in machines]
    return [m if type_ is None else m.filled(type_) for m, type_ in found]


def own_machines(workspace: Workspace) -> tuple[Machine, ...]:
    """The workspace's rows as they are written; none where its file cannot be read."""
    return tuple(_own(workspace)[0])


def _own(workspace: Workspace | None) -> tuple[list[Machine], UsageError | None]:
    return own_rows(None if workspace is None else machines_file(workspace), _read_own)


def import_machines(file: Path, workspace: Workspace) -> tuple[int, int]:
    """Take the rows of a CSV file into the workspace's own; gives how many were added and how many replaced.

    Rows of the same name and region are replaced, all others stay. Raises `UsageError` when one of the two files
    cannot be read, with the line, or the workspace's cannot be written; then nothing has changed.
    """
    return add_machines(read_machines(file), workspace)


def read_machines(file: Path, data: bytes | None = None) -> list[Machine]:
    """The rows of a CSV file that a person brings along. Raises `UsageError`, with the line.

    `data` is its content where it lies on no disk here, as one from a browser; `file` then only names it.
    """
    return brought_rows(file, partial(_read_own, codes=True, data=data), "machine")


def add_machines(new: Sequence[Machine], workspace: Workspace) -> tuple[int, int]:
    """Take machines into the workspace's own; see `import_machines`."""
    path = machines_file(workspace)
    rows, replaced = merged_rows(new, path, _read_own, lambda machine: machine.key.casefold())
    _write(path, rows)
    return len(new) - replaced, replaced


def remove_machine(key: str, workspace: Workspace) -> None:
    """Take the workspace's own row of that key (`name@region`) out; the shipped one, if there is one, counts again.

    Raises `UsageError` when there is none, the workspace's file cannot be read, with the line, or written; then nothing
    has changed.
    """
    path = machines_file(workspace)
    rows, _ = merged_rows([], path, _read_own, lambda machine: machine.key.casefold())
    kept = [machine for machine in rows if machine.key.casefold() != key.casefold()]
    if len(kept) == len(rows):
        raise UsageError(f"{path} has no machine {key}", hint="`voxelflow prices` lists them all.")
    _write(path, kept)


def _write(path: Path, rows: Iterable[Machine]) -> None:
    write_rows(path, COLUMNS, ([getattr(machine, column) for column in COLUMNS] for machine in rows))


@cache
def _shipped() -> tuple[Machine, ...]:
    return tuple(_read(_SHIPPED, origin="shipped"))


def _read_own(path: Path, *, codes: bool = False, data: bytes | None = None) -> list[Machine]:
    return _read(path, origin=FILE, codes=codes, data=data)


def _read(path: Path, *, origin: str, codes: bool = True, data: bytes | None = None) -> list[Machine]:
    """The rows of a file. Raises `FileNotFoundError`, and `UsageError` with the line for anything wrong."""
    out: dict[str, Machine] = {}
    for where, cells in read_rows(path, _LAYOUT, codes=codes, data=data):
        machine = Machine(**cells, origin=origin)  # type: ignore[arg-type]
        if machine.key.casefold() in out:
            raise UsageError(f"{where}: {machine.key} is listed twice", hint="Remove one of the rows.")
        out[machine.key.casefold()] = machine
    return list(out.values())


def _some(names: Iterable[str]) -> str:
    listed = list(names)
    return ", ".join(listed[:_SHOWN]) + (" ..." if len(listed) > _SHOWN else "")

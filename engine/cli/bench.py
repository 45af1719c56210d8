"""`voxelflow bench`: what training steps take on this machine, and what several machines' results say together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from engine.cli.finite import Finite
from engine.cli.session import F, Session, json_option, workspace_option

if TYPE_CHECKING:
    from engine.bench.result import BenchResult
    from engine.workspace import Workspace

_SWITCH = {"off": (False,), "on": (True,), "both": (False, True)}
_LEAST = 1
_PAGE = "bench-compare.html"
"""In the workspace's folder bench, or beside the first file that is compared."""


class _Numbers(click.ParamType[Any]):
    """Whole numbers of at least 1 with commas between them; where they are `distinct`, each once."""

    name = "N,N"

    def __init__(self, *, distinct: bool = True) -> None:
        self._distinct = distinct

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        try:
            out = tuple(int(part) for part in value.split(","))
        except ValueError:
            self.fail(f"{value!r} is no list of whole numbers such as 8,32.", param, ctx)
        if not all(number >= _LEAST for number in out):
            self.fail(f"{value!r} holds a number below 1.", param, ctx)
        return tuple(dict.fromkeys(out)) if self._distinct else out


class _Names(click.ParamType[Any]):
    """Some of the known names, with commas between them."""

    name = "NAME,NAME"

    def __init__(self, *known: str) -> None:
        self._known = known

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        out = tuple(dict.fromkeys(part.strip() for part in value.split(",")))
        for name in out:
            if name not in self._known:
                self.fail(f"{name!r} is none of {', '.join(self._known)}.", param, ctx)
        return out


def _switch(name: str, help_text: str, default: str = "off") -> Callable[[F], F]:
    known = list(_SWITCH) if default in _SWITCH else [default, *_SWITCH]
    return click.option(name, type=click.Choice(known), default=default, show_default=True, help=help_text)


@click.group("bench", short_help="Measure training on this machine; compare machines.", invoke_without_command=True)
@click.option("--quick", is_flag=True, help="Tiny volumes and few steps: a try of the command, no figures to go by.")
@click.option("--data", default="", metavar="PLACE", help="Your own labelled volumes: a folder of .npy files, a table.")
@click.option("--storage", default="", metavar="PLACE", help="Where made volumes lie: a folder, az://..., s3://...")
@click.option(
    "--shape", type=_Numbers(distinct=False), metavar="X,Y,Z,C", help="Of made volumes. Default: 30,30,10,10."
)
@click.option("--volumes", type=click.IntRange(8), metavar="N", help="How many are made. Default: eight batches.")
@click.option("--depth", "depths", type=_Numbers(), help="Layers of the network: 18, 34, 50, 101, 152. Default: 18.")
@click.option("--batch-sizes", type=_Numbers(), help="Volumes in a batch. Default: 8,32.")
@click.option("--workers", type=_Numbers(), help="Processes that share every batch. Default: 1.")
@click.option("--loaders", type=_Names("arrow", "npy", "petastorm"), help="arrow, npy, petastorm. Default: arrow,npy.")
@click.option("--inputs", type=_Names("synthetic", "cached", "cold"), help="Default: synthetic,cached,cold.")
@_switch("--mixed-precision", "Compute in bfloat16. auto: as a training does on this machine.", default="auto")
@_switch("--xla", "Compile steps with XLA.")
@click.option(
    "--deterministic/--no-deterministic",
    default=True,
    show_default=True,
    help="Results that repeat bit for bit, as TrainResNet3D's are by default.",
)
@click.option("--steps", type=click.IntRange(1, 1000), metavar="N", help="Measured steps of a row. Default: 8.")
@click.option(
    "--warmup", type=click.IntRange(1, 100), metavar="N", help="Steps before them. Default: 2; with a GPU 10."
)
@click.option(
    "--repeats", type=click.IntRange(1, 100), default=1, show_default=True, help="Measure all of it so often."
)
@click.option("--cores", type=click.IntRange(1), metavar="N", help="Cores that a training may use. Default: all.")
@click.option("--name", default="", help="What to call this machine. Default: its type, GPU or processor.")
@click.option("--machine", default="", metavar="TYPE", help="Its type in `voxelflow prices`, which has its price.")
@click.option("--price", type=Finite(0), metavar="P", help="What an hour of it costs. Default: as the profile local.")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE.json", help="Another copy of it.")
@json_option
@workspace_option
@click.pass_context
def command(ctx: click.Context, /, **given: Any) -> int | None:
    """Train for some steps in every way that is asked for, and keep the rates as a result of this machine.

    Each row is trained by the code that `voxelflow run` trains with, in processes of its own, with three kinds of
    input: batches that stay in memory (synthetic: what the machine computes), volumes in full caches (cached: what
    the loader costs), empty caches (cold: what the storage costs). Cores, memory, swap, disk, network and GPUs are
    sampled meanwhile. By default it takes about three minutes on two cores.

    It fails (status 1) when not a single row could be measured.

    The result is one JSON file in the workspace's folder bench; take those of other machines in with
    `voxelflow bench add`, and compare them with `voxelflow bench compare`.
    """
    return _measure(ctx.obj, **given) if ctx.invoked_subcommand is None else None


def _measure(
    session: Session,
    *,
    quick: bool,
    mixed_precision: str,
    xla: str,
    machine: str,
    price: float | None,
    name: str,
    out: Path | None,
    as_json: bool,
    root: Path | None,
    **given: Any,
) -> int:
    from engine.bench.compare import stalls
    from engine.bench.options import BenchOptions
    from engine.bench.result import bench_folder, keep_result, write_result
    from engine.bench.tables import (
        HARDWARE,
        HARDWARE_RIGHT,
        STALLS,
        STALLS_RIGHT,
        disturbance,
        hardware_rows,
        stalls_rows,
    )
    from engine.cli.screen import say, say_json, table
    from engine.text import duration

    workspace = session.workspace(root)
    values = {key: value for key, value in given.items() if value is not None}
    options = BenchOptions(
        mixed_precision=_SWITCH.get(mixed_precision),
        jit=_SWITCH[xla],
        name=name,
        **_priced(machine, price, workspace),
        **values,
    )

    def report(line: str) -> None:
        if not as_json:
            say(line, error=True)

    path: Path | None = None

    def marked(result: BenchResult) -> BenchResult:
        return result.model_copy(update={"quick": quick})

    def keep(result: BenchResult) -> None:
        nonlocal path
        path = keep_result(workspace, marked(result), path)
        if out is not None:
            write_result(out, marked(result))

    try:
        result = session.work.run_bench(
            options.quick(values) if quick else options, bench_folder(workspace) / ".work", report=report, keep=keep
        )
    except BaseException:
        if path is not None and not as_json:
            say(f"what was measured until then is kept as {out or path}", error=True)
        raise
    keep(result)
    _join_prices(result, workspace)
    status = 0 if result.measured else 1
    if status:
        say("not a single row could be measured; each says why", error=True)
    if as_json:
        say_json({**marked(result).model_dump(mode="json"), "file": str(path)})
        return status
    table(STALLS, stalls_rows(stalls(result)), right=STALLS_RIGHT)
    say("")
    table(HARDWARE, hardware_rows(result), right=HARDWARE_RIGHT)
    say("")
    if line := disturbance([result]):
        say(line)
    say(f"{result.name}, in {duration(result.seconds)}; rates are volumes/s")
    say(f"kept as {out or path}")
    if quick:
        say("--quick is a try of the command: no prediction goes by it")
    return status


def _priced(machine: str, price: float | None, workspace: Workspace) -> dict[str, Any]:
    """The machine's type and price: as given, else as the profile local has them, else by what the system calls it."""
    from engine.bench.machine_type import ThisMachine, this_machine
    from engine.prices import machine_table

    machines = machine_table(workspace)
    if machine:
        named = machines.find(machine)
        found = ThisMachine(named.key, named.price_per_hour, named.currency)
    else:
        found = this_machine(machines, workspace)
    own = found.price_per_hour if price is None else price
    if own is not None and not found.machine_type and machines.problem is not None:
        # Its price joins that table once all is measured: it is not measured in vain.
        raise machines.problem
    return {"machine_type": found.machine_type, "currency": found.currency, "price_per_hour": own}


def _brings_price(result: BenchResult) -> bool:
    """Whether it has a price of its own that may be in no table."""
    return _has_no_type(result) and result.price_per_hour is not None


def _has_no_type(result: BenchResult) -> bool:
    return not result.machine_type and bool(result.name.strip())


def _join_prices(result: BenchResult, workspace: Workspace, *, also_unpriced: bool = False) -> None:
    """A machine that no table has joins the workspace's own machines, with its price; one without a price where
    `also_unpriced`.

    A row that is there stays: a person wrote it, and may know more of the machine than its result says.
    """
    import re
    from datetime import UTC, datetime

    from engine.cli.screen import say
    from engine.prices import Machine, add_machines, machine_table
    from engine.text import hourly

    name = result.name.strip()
    # A try of the command is no machine to choose from.
    unpriced = also_unpriced and _has_no_type(result) and result.price_per_hour is None and not result.quick
    if not _brings_price(result) and not unpriced:
        return
    table = machine_table(workspace)
    if table.problem is not None:
        if unpriced:  # nothing is lost: its result is kept
            return
        raise table.problem
    there = next((m for m in table.machines if name.casefold() in (m.key.casefold(), m.name.casefold())), None)
    if there is not None:
        if not unpriced and (there.price_per_hour, there.currency) != (result.price_per_hour, result.currency):
            known = "without a price" if there.price_per_hour is None else hourly(there.price_per_hour, there.currency)
            say(f"{there.key} stays in the table of prices as it is: {known}", error=True)
        return
    gpus = result.machine.gpus
    row = Machine(
        name=name,
        cores=result.machine.cores,
        memory_gib=round(result.machine.memory_bytes / 2**30, 1),
        gpus=len(gpus),
        gpu=gpus[0] if gpus else "",
        price_per_hour=result.price_per_hour,
        # A table with a currency that is none could not be read again.
        currency=result.currency if re.fullmatch("[A-Z]{3}", result.currency) and not unpriced else "",
        date=datetime.fromtimestamp(result.measured_at, UTC).date().isoformat(),
        source="voxelflow bench" if unpriced else "given to voxelflow bench",
    )
    add_machines([row], workspace)


@command.command("compare", short_help="Compare the results of several machines.")
@click.argument("files", nargs=-1, type=click.Path(path_type=Path), metavar="[FILE.json ...]")
@click.option(
    "--input",
    "kind",
    type=click.Choice(["synthetic", "cached", "cold"]),
    help="Default: that of most machines, of these the coldest.",
)
@click.option(
    "--epoch", type=click.IntRange(1, 10**15), default=650_000, show_default=True, help="Volumes that are priced."
)
@click.option(
    "--page", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE.html", help="Where the page goes."
)
@json_option
@workspace_option
@click.pass_obj
def compare_results(
    session: Session,
    files: Sequence[Path],
    kind: str | None,
    epoch: int,
    page: Path | None,
    as_json: bool,
    root: Path | None,
) -> int:
    """Compare results by time and cost, and say what each machine is bound by; without FILEs those in the workspace.

    Of a machine with several results the newest that has figures to go by counts; machines with the same name and other
    cores, GPUs or memory are several. Compared is the work that most of them did: the same network on volumes of the
    same shape. The page has the same as pictures: time against cost with the efficient frontier, where the time of a
    volume goes, and what cores, memory, swap, disk and network did.
    """
    from engine.bench.compare import Work, common_input, compare, stalls, works
    from engine.bench.result import bench_folder, bench_results, by_machine, newest_by_machine, read_result
    from engine.bench.tables import (
        COMPARED,
        COMPARED_RIGHT,
        STALLS,
        STALLS_RIGHT,
        compared_rows,
        meaning,
        stalls_rows,
    )
    from engine.cli.screen import say, say_json, table
    from engine.errors import UsageError

    workspace, files = session.workspace_to_look_at(root), list(dict.fromkeys(files))
    found = [read_result(path) for path in files] if files else bench_results(workspace)
    results = newest_by_machine(found)
    paths = {id(result): path for result, path in zip(found, files, strict=False)}
    older = {paths[id(r)]: paths[id(used)] for used, *rest in by_machine(found) for r in rest if files}
    if not results:
        raise UsageError(
            f"there are no results in {bench_folder(workspace)}",
            hint="`voxelflow bench` measures this machine; `voxelflow bench add FILE.json` takes in another's result.",
        )
    known = works(results)
    if not known:
        raise UsageError(
            f"none of the {len(results)} results has a row that was measured",
            hint="Look at the rows of their files, which say why.",
        )
    work = known[0]
    comparison = compare(results, work, kind or common_input(results, work), epoch)  # type: ignore[arg-type]
    if not comparison.points:
        raise UsageError(f"no result has {kind} input", hint="Leave --input out.")
    beside = files[0].parent if files else bench_folder(workspace)
    written = page or (None if as_json else beside / _PAGE)
    if written is not None:
        session.work.write_bench_page(comparison, results, written)
    if as_json:
        say_json({**_as_json(comparison, written), "older": {str(path): str(newer) for path, newer in older.items()}})
        return 0
    say(f"{work.describe()}, {comparison.input} input, an epoch of {epoch:,} volumes")
    table(COMPARED, compared_rows(comparison), right=COMPARED_RIGHT)
    say("")
    lines = [line for result in results for line in stalls(result) if Work.of(line.configuration) == work]
    table(STALLS, stalls_rows(lines), right=STALLS_RIGHT)
    say("")
    for line in meaning(comparison):
        say(line)
    if len(known) > 1:
        say(f"Not compared: {'; '.join(other.describe() for other in known[1:])}.")
    for path, newer in older.items():
        say(f"{path} is left out: {newer} is of the same machine, and newer or with more to go by.")
    say(f"page: {written}")
    return 0


def _as_json(comparison: Any, page: Path | None) -> dict[str, Any]:
    return {
        "work": comparison.work._asdict(),
        "input": comparison.input,
        "volumes": comparison.volumes,
        "currency": comparison.currency,
        "left_out": list(comparison.left_out),
        "page": str(page) if page is not None else "",
        "points": [
            {
                "machine": point.result.name,
                "configuration": point.row.configuration.model_dump(mode="json"),
                "samples_per_s": point.row.samples_per_s,
                "seconds": point.seconds,
                "cost": point.cost,
                "time_ratio": point.time_ratio,
                "cost_ratio": point.cost_ratio,
                "efficient": point.efficient,
                "bound": point.bound,
            }
            for point in comparison.points
        ],
    }


@command.command("add", short_help="Take results of other machines into the workspace.")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE.json ...")
@workspace_option
@click.pass_obj
def add(session: Session, files: Sequence[Path], root: Path | None) -> int:
    """Take results of other machines into the workspace, where the page Compute and `compare` find them.

    A machine that is in no table of prices joins the workspace's own, its price empty where its result has none; a row
    that is there stays.
    """
    from engine.bench.result import keep_result, read_result
    from engine.cli.screen import say
    from engine.prices import machine_table

    workspace = session.workspace(root)
    results = [read_result(path) for path in files]
    problem = machine_table(workspace).problem
    if problem is not None and any(map(_brings_price, results)):
        raise problem
    for result in results:
        path = keep_result(workspace, result)
        _join_prices(result, workspace, also_unpriced=True)
        say(f"{result.name}: kept as {path}")
    return 0

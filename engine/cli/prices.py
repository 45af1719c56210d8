"""`voxelflow prices`: machine types and what an hour of them costs: list, show, import; what object storage costs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from engine.cli.session import Listing, Session, json_option, workspace_option

if TYPE_CHECKING:
    from engine.bench.compare import Point
    from engine.prices import Machine
    from engine.workspace import Workspace


@click.group("prices", cls=Listing, short_help="What machines and object storage cost: list, show, import.")
def command() -> None:
    """Machine types with their figures and prices, each with the document and date that the price comes from.

    A compute profile names one (machine = "m5.2xlarge" in profiles.toml); its runs then show what they have cost.
    The workspace's file machines.csv adds machines and replaces shipped ones, as with your own discount.

    Without a command it is `list`, with the options of that.
    """


@command.command("list", short_help="List the machines.")
@click.argument("words", nargs=-1, metavar="[WORD ...]")
@json_option
@workspace_option
@click.pass_obj
def list_all(session: Session, words: tuple[str, ...], as_json: bool, root: Path | None) -> int:
    """List the machines, the cheapest first; with WORDs those that have them all, such as: azure westeurope t4.

    Prices are on demand, without discounts, taxes, disks and traffic. Machines that `voxelflow bench` measured show
    the volumes a second of their fastest training.
    """
    from engine.cli.screen import say, say_json, table
    from engine.prices import machine_table, machines_file
    from engine.prices.doubts import own_doubts

    workspace = session.workspace_to_look_at(root)
    found, measured = machine_table(workspace), _measured(workspace)
    wanted = [word.casefold() for word in words]
    shown = [m for m in found.machines if all(word in _searched(m) for word in wanted)]
    shown.sort(key=lambda m: (m.price_per_hour is None, m.price_per_hour or 0.0, m.key))
    problem = found.problem.line() if found.problem is not None else ""
    doubtful = own_doubts(workspace)
    if as_json:
        own = str(machines_file(workspace))
        rates = {machine.key: _rate(machine, measured) for machine in shown}
        machines = [{**asdict(machine), "measured_samples_per_s": rates[machine.key]} for machine in shown]
        say_json({"file": own, "problem": problem, "doubts": doubtful, "machines": machines})
        return 0
    if shown:
        columns: tuple[str, ...] = (
            "machine",
            "region",
            "cores",
            "GiB",
            "GPUs",
            "disk MB/s",
            "network MB/s",
            "an hour",
            "as of",
            "from",
        )
        right = ("cores", "GiB", "disk MB/s", "network MB/s", "an hour", "volumes/s")
        rows = [_row(machine) for machine in shown]
        if any(_rate(machine, measured) is not None for machine in shown):
            # Only where something was measured: the table is wide.
            columns += ("volumes/s",)
            rows = [(*row, _rate_text(_rate(machine, measured))) for machine, row in zip(shown, rows, strict=True)]
        table(columns, rows, right=right)
    else:
        say("no machine has " + " and ".join(words))
    _say_problems("machines.csv", doubtful, problem)
    return 0


@command.command("show", short_help="Show all of a machine, with its sources.")
@click.argument("name")
@json_option
@workspace_option
@click.pass_obj
def show(session: Session, name: str, as_json: bool, root: Path | None) -> int:
    """Show all figures of the machine NAME, or NAME@REGION where it is in several, with the sources."""
    from engine.cli.screen import say_json, table
    from engine.prices import machine_table

    workspace = session.workspace_to_look_at(root)
    machine, measured = machine_table(workspace).find(name), _measured(workspace)
    if as_json:
        say_json({**asdict(machine), "measured_samples_per_s": _rate(machine, measured)})
    else:
        table(("field", "value"), [*_fields(machine), *_measured_fields(_point(machine, measured))])
    return 0


@command.command("import", short_help="Take the rows of a CSV file into the workspace's own machines.")
@click.argument("file", type=click.Path(path_type=Path), metavar="FILE.csv")
@click.option("--anyway", is_flag=True, help="Take prices that look wrong, too.")
@json_option
@workspace_option
@click.pass_obj
def import_file(session: Session, file: Path, anyway: bool, as_json: bool, root: Path | None) -> int:
    """Take the rows of FILE.csv into machines.csv of the workspace; a row of the same name and region is replaced.

    The first line names the columns, in any order: name is needed; provider, region, cores, memory_gib, gpus, gpu,
    disk_mb_s, network_mb_s, price_per_hour, spot_per_hour, currency, date (2026-06-18), source and specs_source may be
    there. An empty price means that none is known; costs are counted by price_per_hour, which is the one on demand, and
    by spot_per_hour under a profile with spot = true. A text that a spreadsheet would compute (=, +, - or @ before it)
    is refused.

    Nothing is taken when a price looks wrong: one that does not fit those of the other sizes of its family, that is the
    price of the machine's Databricks units, that is older than the known one and very different, or on the spot market
    higher than on demand.
    """
    from engine.prices import add_machines, machine_table, machines_file, read_machines
    from engine.prices.doubts import doubts

    workspace = session.workspace(root)
    new = read_machines(file)
    _refuse(file, doubts(new, machine_table(workspace).machines), anyway)
    added, replaced = add_machines(new, workspace)
    _say_imported("machines", added, replaced, machines_file(workspace), as_json)
    return 0


@command.group("storage", short_help="What object storage costs: list, import.", invoke_without_command=True)
@json_option
@workspace_option
@click.pass_context
def storage(ctx: click.Context, as_json: bool, root: Path | None) -> None:
    """List what requests to object storage cost, and keeping data there for a month; empty is what is not known.

    Without discounts, taxes and traffic. Predictions use the first class of each store, wherever its data lies. The
    workspace's file storage.csv adds rows, which go before the shipped ones, and replaces those of the same store,
    class and region.
    """
    from engine.cli.screen import say_json, table
    from engine.prices import storage_file, storage_table
    from engine.prices.doubts import own_storage_doubts
    from engine.prices.storage import SHOWN

    if ctx.invoked_subcommand is not None:
        return
    workspace = ctx.ensure_object(Session).workspace_to_look_at(root)
    found, doubtful = storage_table(workspace), own_storage_doubts(workspace)
    problem = found.problem.line() if found.problem is not None else ""
    if as_json:
        prices = [asdict(price) for price in found.prices]
        say_json({"file": str(storage_file(workspace)), "problem": problem, "doubts": doubtful, "storage": prices})
        return
    table(SHOWN, [price.row() for price in found.prices], right=SHOWN[3:6])
    _say_problems("storage.csv", doubtful, problem)


@storage.command("import", short_help="Take the rows of a CSV file into the workspace's own prices of storage.")
@click.argument("file", type=click.Path(path_type=Path), metavar="FILE.csv")
@click.option("--anyway", is_flag=True, help="Take prices that look wrong, too.")
@json_option
@workspace_option
@click.pass_obj
def import_storage(session: Session, file: Path, anyway: bool, as_json: bool, root: Path | None) -> int:
    """Take the rows of FILE.csv into storage.csv of the workspace, before those that it has; a row of the same store,
    class and region is replaced.

    The first line names the columns, in any order: provider (az, s3 or gs), class and region are needed;
    per_10000_reads, per_10000_writes, per_month, unit (GB or GiB), currency, date (2026-06-18) and source may be there.
    An empty price means that none is known.

    Nothing is taken when a price looks wrong: reading that costs more than writing, a price far from those of the same
    class, as one for 1,000 requests is, or one that is older than the known one and very different.
    """
    from engine.prices import add_storage, read_storage, storage_file, storage_table
    from engine.prices.doubts import storage_doubts

    workspace = session.workspace(root)
    new = read_storage(file)
    _refuse(file, storage_doubts(new, storage_table(workspace).prices), anyway)
    added, replaced = add_storage(new, workspace)
    _say_imported("prices", added, replaced, storage_file(workspace), as_json)
    return 0


def _say_problems(file: str, doubtful: list[str], problem: str) -> None:
    """What looks wrong in a file of the workspace's own prices, and why it cannot be read."""
    from engine.cli.screen import COLOURS, say

    for text in doubtful:
        say(f"warning: {file}: {text}", style=COLOURS["warning"], error=True)
    if problem:
        say(f"error: {problem}", style=COLOURS["error"], error=True)


def _refuse(file: Path, doubtful: list[str], anyway: bool) -> None:
    """Raise `UsageError` with the first price that looks wrong, unless all are to be taken anyway."""
    from engine.errors import UsageError

    if doubtful and not anyway:
        more = f" (and {len(doubtful) - 1} more)" if len(doubtful) > 1 else ""
        raise UsageError(
            f"{file}: {doubtful[0]}{more}",
            hint="Look the price up and correct the row; --anyway takes all of them as they are.",
        )


def _say_imported(what: str, added: int, replaced: int, into: Path, as_json: bool) -> None:
    from engine.cli.screen import say, say_json
    from engine.text import plural

    if as_json:
        say_json({"file": str(into), "added": added, "replaced": replaced})
    else:
        say(f"{plural(added, what)} added, {replaced:,} replaced in {into}")


def _measured(workspace: Workspace) -> dict[str, Point]:
    """The fastest training of each machine that was measured. Without results nothing is imported for it."""
    from engine.bench import FOLDER

    if not (workspace.root / FOLDER).is_dir():
        return {}
    from engine.bench.compare import best_by_machine
    from engine.bench.result import bench_results

    return best_by_machine(bench_results(workspace))


def _point(machine: Machine, measured: dict[str, Point]) -> Point | None:
    return measured.get(machine.key.casefold())


def _rate(machine: Machine, measured: dict[str, Point]) -> float | None:
    point = _point(machine, measured)
    return None if point is None else round(point.row.samples_per_s, 3)


def _rate_text(rate: float | None) -> str:
    from engine.text import number

    return "" if rate is None else number(float(f"{rate:.3g}"))


def _measured_fields(point: Point | None) -> Iterator[tuple[str, str]]:
    if point is None:
        return
    from engine.bench.compare import Work
    from engine.bench.tables import way
    from engine.text import duration, moment, money

    result, case = point.result, point.row.configuration
    yield "volumes/s, measured", _rate_text(point.row.samples_per_s)
    yield "measured with", f"{Work.of(case).describe()}, {case.input} input, {way(case)}; bound by {point.bound}"
    cost = "" if point.cost is None else f", {money(point.cost, result.currency)}"
    yield "650,000 volumes", duration(point.seconds) + cost
    yield "measured on", moment(result.measured_at)


def _searched(machine: Machine) -> str:
    return f"{machine.key} {machine.provider} {machine.gpu} {machine.origin}".casefold()


def _row(machine: Machine) -> tuple[str, ...]:
    from engine.text import hourly

    price = "" if machine.price_per_hour is None else hourly(machine.price_per_hour, machine.currency, an_hour="")
    rates = (_figure(machine.disk_mb_s), _figure(machine.network_mb_s))
    origin = machine.provider if machine.origin == "shipped" else machine.origin
    sizes = (_figure(machine.cores), _figure(machine.memory_gib))
    return (machine.name, machine.region, *sizes, _gpus(machine), *rates, price, machine.date, origin)


def _gpus(machine: Machine) -> str:
    return f"{machine.gpus} x {machine.gpu}".removesuffix(" x ") if machine.gpus else ""


def _figure(value: float | None) -> str:
    from engine.text import number

    return "" if value is None else number(value)


def _fields(machine: Machine) -> Iterator[tuple[str, str]]:
    from engine.text import hourly

    price = machine.price_per_hour
    yield "machine", machine.key
    yield "provider", machine.provider
    yield "cores", _figure(machine.cores)
    yield "memory, GiB", _figure(machine.memory_gib)
    yield "GPUs", _gpus(machine)
    yield "disk, MB/s at most", _figure(machine.disk_mb_s)
    yield "network, MB/s at most", _figure(machine.network_mb_s)
    yield "price an hour", "not known" if price is None else hourly(price, machine.currency, an_hour="")
    if machine.spot_per_hour is not None:
        yield "spot price an hour", hourly(machine.spot_per_hour, machine.currency, an_hour="")
    yield "price as of", machine.date
    yield "price from", machine.source
    for source in machine.specs_source.split():
        yield "figures from", source
    yield "stands in", "the table that is shipped" if machine.origin == "shipped" else machine.origin

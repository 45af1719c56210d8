"""`voxelflow advise`: where to run a training, what it takes and costs there, and why."""

from __future__ import annotations

from dataclasses import replace
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING

import click

from engine.cli.finite import Finite
from engine.cli.session import Session, json_option, pipeline_options, profile_option, workspace_option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.advisor.advice import Advice
    from engine.advisor.sources import Training
    from engine.bench.result import BenchResult
    from engine.profiles import Profile
    from engine.workspace import Workspace


@click.command("advise", short_help="Predict time and cost of a training on each machine, and recommend one.")
@pipeline_options
@profile_option
@click.option(
    "--bench",
    "benches",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A result of `voxelflow bench` from any machine; can be repeated. Those in the workspace are known already.",
)
@click.option("--within", "hours", type=Finite(0, min_open=True), metavar="HOURS", help="Be done by then.")
@click.option(
    "--latency-ms",
    type=Finite(0),
    default=0.0,
    metavar="MS",
    help="As if the storage were farther away: each request to it takes so much longer.",
)
@click.option("--all", "show_all", is_flag=True, help="List every machine of the price table.")
@json_option
@workspace_option
@click.pass_obj
def command(
    session: Session,
    pipeline: str,
    settings: tuple[str, ...],
    profile: str | None,
    benches: tuple[Path, ...],
    hours: float | None,
    latency_ms: float,
    show_all: bool,
    as_json: bool,
    root: Path | None,
) -> int:
    """Predict what each training of PIPELINE takes and costs on the profile's machine and on those of the price table.

    Computing is predicted from the benchmarks of `voxelflow bench`, reading from the probes of `voxelflow probe`, and
    the work from the pipeline and a look at its data; nothing is started. A machine that was never benchmarked is
    scaled from one that was, or guessed, with a wider error bar. A time lies within its bar four times of five.

    With the data in each other place that `voxelflow probe` has measured, the time is predicted, too.

    Recommended is the cheapest machine, or a faster one that costs at most a tenth more; with --within among those that
    are done in time.
    """
    from engine.advisor.report import as_json as advice_as_json
    from engine.advisor.sources import advise_training, read_known, trainings
    from engine.cli.screen import say, say_diagnostics, say_json
    from engine.document.checks import check
    from engine.document.resolve import resolve
    from engine.observe.observe import observe
    from engine.profiles import find_profile
    from engine.store.runs import RunStore

    workspace = session.workspace(root)
    document, catalog, values = session.pipeline(pipeline, settings, workspace)
    where = find_profile(profile, workspace)
    known = read_known(workspace, [_result_in(path) for path in benches])
    resolved = resolve(document, catalog, values, base=Path.cwd())
    named = [v for v in values.values() if isinstance(v, str)]
    observation = observe(resolved, workspace, RunStore(workspace), extra_roots=named)
    checked = check(resolved, observation, where)
    within_s = None if hours is None else 3600 * hours
    found = [
        (each, advise_training(each, known, workspace, where, within_s=within_s, farther_s=latency_ms / 1000))
        for each in trainings(resolved, checked.previews, observation, checked.diagnostics)
    ]
    if as_json:
        say_json(
            {
                "pipeline": document.name,
                "profile": where.name,
                "trainings": [
                    {"node": each.node, "unknown": each.unknown}
                    | ({} if advice is None else advice_as_json(advice, _place(each, workspace.root)))
                    for each, advice in found
                ],
            }
        )
        return 0
    if not found:
        say_diagnostics(resolved.problems)
        say(f"{document.name} has no node that trains, so there is nothing to advise.")
    alike: dict[str, list[tuple[Training, Advice | None]]] = {}
    for each, advice in found:
        shown = each.unknown if advice is None else dumps(advice_as_json(advice, _place(each, workspace.root)))
        alike.setdefault(shown, []).append((each, advice))
    for number, together in enumerate(alike.values()):
        if number:
            say("")
        title, (each, advice) = _titles([training for training, _ in together]), together[0]
        if advice is None:
            say(f"{title}: no prediction yet: {each.unknown.removesuffix('.')}.")
        else:
            _show(title, each, advice, workspace, where, show_all)
    return 0


def _titles(trainings: Sequence[Training]) -> str:
    """What trainings are called of which the same is said, such as those of the folds of a cross-validation."""
    first, *others = trainings
    return f"{first.title}, and the same for {', '.join(each.title for each in others)}" if others else first.title


def _result_in(path: Path) -> BenchResult:
    """The benchmark in a file that was named. Raises `UsageError`, also for one that has no figures to go by."""
    from engine.bench.result import read_result
    from engine.errors import UsageError

    found = read_result(path)
    if found.quick:
        raise UsageError(
            f"{path} is of `voxelflow bench --quick`, whose figures say nothing of a training",
            hint="Run `voxelflow bench` on that machine without --quick.",
        )
    if not found.measured:
        raise UsageError(
            f"{path} has no row that was measured, so nothing can be predicted from it",
            hint="Look at its rows, which say why, and run `voxelflow bench` on that machine again.",
        )
    return found


def _place(training: Training, root: Path) -> str:
    """Where its data lie, or will lie."""
    return (training.work.uri if training.work is not None else "") or str(root)


def _show(
    title: str, training: Training, advice: Advice, workspace: Workspace, profile: Profile, show_all: bool
) -> None:
    from engine.advisor import report
    from engine.advisor.run_estimate import UNITS, not_included, price_in_table
    from engine.cli.screen import say, table
    from engine.text import plural

    say(f"{title}: {report.subject(advice)}")
    shown = report.chosen_few(advice, len(advice.estimates) if show_all else report.SHOWN)
    if shown:
        say("")
        table(report.COLUMNS, [report.row(each) for each in shown], right=("cores", "time", "cost"))
        left = len(advice.estimates) - len(shown)
        if left:
            say(f"{plural(left, 'other machines')}: --all lists them")
    best = advice.recommended
    storage = advice.storage
    if shown:
        units = profile.price_per_dbu is not None
        beside = *report.left_out(advice), *not_included("traffic" if storage is not None else "", units=units)
        price = f"the price of the machine and its {UNITS}" if units else "the machine's price"
        price += " an hour by the time"
        if profile.executors.count:
            price += f", of {profile.name} that of {profile.counted_text or 'all its machines'}"
        say(f"cost: {price}; not in it: {', '.join(beside)}")
    if storage is not None:
        say(f"storage: {storage.line()}")
    if best is not None:
        say("")
        say(f"recommended: {best.machine.name}")
        of, amount = best.machine, best.machine.price_per_hour
        if of.origin == "prices" and amount is not None:
            found = price_in_table(of.name, amount, of.currency, workspace)
            found = replace(found, units=of.dbu_per_hour, unit_price=profile.price_per_dbu)
            say(f"  Its price: {found.line()}.")
        for line in report.reasons(advice):
            say(f"  {line}")
    for title, lines in (
        ("what would change it", report.changes(advice)),
        ("with the data elsewhere", report.elsewhere(advice)),
    ):
        if lines:
            say("")
            say(title)
            for line in lines:
                say(f"  {line}")
    if advice.settings:
        where = advice.own or best
        say("")
        say(f"better settings on {where.machine.name}" if where is not None else "better settings")
        for setting in advice.settings:
            say(f"  {setting.name} = {setting.advised} instead of {setting.now}: {setting.why}")
    missing = report.missing(advice, _place(training, workspace.root))
    if missing:
        say("")
        for line in missing:
            say(line)

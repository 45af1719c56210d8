"""`voxelflow runs reproduce`: do a run over, and report what is not the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from engine.catalog import Catalog
from engine.cli.following import follow_to_end
from engine.cli.screen import say, say_diagnostics, say_json
from engine.document.values import read_settings
from engine.environment import Difference, Environment, differences, environment_of, kept_environment
from engine.errors import UsageError
from engine.profiles import find_profile
from engine.reproduction.comparison import Comparison, CurveCompared, compare
from engine.reproduction.recorded import Recorded, find_recorded, read_from_store
from engine.reproduction.replay import replay
from engine.run import launch
from engine.run.start_lock import starting
from engine.store.runs import RunStore
from engine.text import number
from engine.workspace import Workspace

_NAMED = 12
"""Equal curves that are named one by one."""


def reproduce(
    workspace: Workspace,
    store: RunStore,
    catalog: Catalog,
    run: str,
    *,
    settings: Sequence[str],
    profile: str | None,
    as_json: bool,
) -> int:
    """Do `run` over, follow it, compare. Gives 0 when all is equal, 1 when not, else what following a run gives."""
    recorded = find_recorded(workspace, store, run)
    options = {"start": None, "end": None, "fresh": True, "reproduces": recorded.mlflow_run or recorded.run_id}
    with starting(workspace):
        ready = replay(
            recorded,
            catalog,
            workspace,
            store,
            values=read_settings(settings, recorded.pipeline, catalog),
            profile=find_profile(profile or recorded.profile, workspace),
            base=Path.cwd(),
        )
        found = _apart(recorded, environment_of(workspace, ready.plan, catalog))
        if not as_json:
            say_diagnostics(ready.plan.diagnostics, error=True)
            for line in _environment_lines(recorded, found):
                say(line)
        run_id = launch.begin(ready.document, ready.plan, workspace, store, options)
    status = follow_to_end(workspace, store, run_id, attempt=1, after=0, detach=False, as_json=as_json)
    if store.run(run_id).state != "done":
        if not as_json:
            say(f"once it is done, `voxelflow runs reproduce {recorded.run_id} --with {run_id}` compares")
        return status
    return _compare(recorded, read_from_store(workspace, store, store.run(run_id)), found, as_json=as_json)


def compare_with(workspace: Workspace, store: RunStore, run: str, other: str, *, as_json: bool) -> int:
    """Compare `run` with a run of this workspace that is done already. Gives 0 when all is equal, else 1."""
    recorded, done = find_recorded(workspace, store, run), store.run(other)
    if done.state != "done":
        raise UsageError(
            f"run {done.run_id} is {done.state}, not done", hint=f"`voxelflow runs resume {done.run_id}` goes on."
        )
    now = kept_environment(workspace, done.run_id)
    found = _apart(recorded, now)
    if not as_json:
        for line in _environment_lines(recorded, found):
            say(line)
    return _compare(recorded, read_from_store(workspace, store, done), found, as_json=as_json, other=done.run_id)


def _apart(recorded: Recorded, now: Environment | None) -> list[Difference] | None:
    """None: nothing is known of one of them."""
    if recorded.environment is None or now is None:
        return None
    return differences(recorded.environment, now, recorded.nodes.keys())


def _environment_lines(recorded: Recorded, found: list[Difference] | None) -> Iterator[str]:
    if found is None:
        yield f"the environment of run {recorded.run_id} is not known: it was made by an earlier version"
    elif not found:
        yield f"the environment is that of run {recorded.run_id}"
    else:
        yield f"not as in run {recorded.run_id}:"
        yield from (f"  {difference.line()}" for difference in found)


def _compare(
    recorded: Recorded, now: Recorded, found: list[Difference] | None, *, as_json: bool, other: str = ""
) -> int:
    """`other`: the run that was there already; "" where the training was repeated for this."""
    comparison = compare(recorded, now)
    if as_json:
        say_json(_as_json(recorded, now, found, comparison))
    else:
        for line in _lines(recorded, comparison, other):
            say(line)
    return 0 if comparison.equal else 1


def _lines(recorded: Recorded, comparison: Comparison, other: str) -> Iterator[str]:
    equal = [c for c in comparison.curves if c.equal]
    for curve in equal[:_NAMED]:
        earlier = f"; {curve.earlier:,} earlier ones were another run's then" if curve.earlier else ""
        yield f"{curve.node}.{curve.name}: {curve.points:,} points, all equal{earlier}"
    if len(equal) > _NAMED:
        yield f"... and {len(equal) - _NAMED} more curves, all equal"
    for curve in comparison.curves:
        if not curve.equal:
            yield f"{curve.node}.{curve.name}: {_how(curve)}"
    for figure in comparison.figures:
        if not figure.equal:
            yield f"{figure.node}.{figure.name}: {_or_none(figure.before)} then, {_or_none(figure.now)} now"
    same = sum(f.equal for f in comparison.figures)
    if same:
        yield f"{same} of {len(comparison.figures)} figures equal"
    if comparison.measured:
        yield f"not compared, since they measure the machine: {', '.join(comparison.measured)}"
    if other:
        yield f"runs {recorded.run_id} and {other} {'are equal' if comparison.equal else 'differ'}"
    else:
        yield f"run {recorded.run_id} is {'reproduced exactly' if comparison.equal else 'not reproduced'}"


def _how(curve: CurveCompared) -> str:
    parts = []
    if curve.differing:
        parts.append(
            f"{curve.differing:,} of {curve.points:,} points differ, by {curve.largest:.3g} at most,"
            f" first at step {number(curve.first or 0)}"
        )
    for steps, what in ((curve.missing, "missing now"), (curve.extra, "that were not there then")):
        if steps:
            parts.append(f"{len(steps):,} points {what} (from step {number(steps[0])} on)")
    return "; ".join(parts)


def _or_none(value: str | None) -> str:
    return "none" if value is None else value


def _as_json(
    recorded: Recorded, now: Recorded, found: list[Difference] | None, comparison: Comparison
) -> dict[str, Any]:
    return {
        "event": "reproduced",
        "run_id": recorded.run_id,
        "mlflow_run": recorded.mlflow_run,
        "by": now.run_id,
        "equal": comparison.equal,
        "environment": None if found is None else [asdict(difference) for difference in found],
        "curves": [asdict(curve) | {"equal": curve.equal} for curve in comparison.curves],
        "figures": [asdict(figure) | {"equal": figure.equal} for figure in comparison.figures],
        "measured": list(comparison.measured),
    }

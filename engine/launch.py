"""Prepare, start, resume and cancel runs: what the command line, the app and notebooks call.

Preparing observes and plans in the caller's process, so that every problem is told at once. The run
itself is a process of its own.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import JsonValue

from engine.catalog import Catalog
from engine.context import SAVE_REQUEST
from engine.diagnostics import Diagnostic
from engine.errors import ExecutionError, UsageError
from engine.observation import Observation
from engine.observe import observe
from engine.pipeline import Pipeline, PipelineParameter, dump
from engine.plan import Choice, Plan, plan
from engine.profiles import Profile, find_profile
from engine.resolve import Resolved, resolve
from engine.run_lock import is_held
from engine.runs import Run, RunStore
from engine.storage import is_url, place_from
from engine.worker_process import PROGRAM
from engine.workspace import Workspace, storage_of


@dataclass(frozen=True)
class Prepared:
    """A pipeline that is ready to run: what was observed and the plan made from it."""

    resolved: Resolved
    observation: Observation
    plan: Plan


def prepare(
    pipeline: Pipeline,
    catalog: Catalog,
    workspace: Workspace,
    store: RunStore,
    *,
    values: Mapping[str, JsonValue] | None = None,
    profile: Profile | None = None,
    choice: Choice | None = None,
    base: Path | None = None,
    fresh_suffix: str = "",
) -> Prepared:
    """Observe and plan. `values` are the person's own, so the folders they name are allowed.

    Raises `CheckFailed` with every problem found.
    """
    resolved = resolve(pipeline, catalog, values, base=base or workspace.root)
    texts = [v for v in (values or {}).values() if isinstance(v, str) and v]
    roots = [place for v in texts if is_url(place := place_from(base or workspace.root, v)) or os.path.isabs(place)]
    profile = profile or find_profile("local", workspace)
    storage = storage_of(workspace, profile.storage_root).root if profile.storage_root else None
    observation = observe(resolved, workspace, store, extra_roots=roots, storage=storage)
    made = plan(resolved, profile, observation, choice, fresh_suffix=fresh_suffix)
    return Prepared(resolved, observation, with_problems(made, catalog.problems))


def new_suffix() -> str:
    """What the new folders of forced work are named after: the plan needs it before the run is recorded."""
    return f"{time.time_ns():x}"[-10:]


def with_problems(made: Plan, problems: Iterable[Diagnostic]) -> Plan:
    """The plan with the catalogue's problems among its diagnostics."""
    return made.model_copy(update={"diagnostics": (*problems, *made.diagnostics)})


def start(
    pipeline: Pipeline,
    catalog: Catalog,
    workspace: Workspace,
    store: RunStore,
    *,
    values: Mapping[str, JsonValue] | None = None,
    profile: Profile | None = None,
    choice: Choice | None = None,
    base: Path | None = None,
) -> tuple[str, Plan]:
    """Plan a new run and start its process. Gives the run's id and its plan.

    Raises as `prepare` does; then no run was recorded.
    """
    choice = choice or Choice()
    suffix = new_suffix()
    ready = prepare(
        pipeline, catalog, workspace, store,
        values=values, profile=profile, choice=choice, base=base, fresh_suffix=suffix,
    )  # fmt: skip
    options: dict[str, JsonValue] = {"start": choice.start, "end": choice.end, "fresh": choice.fresh}
    return begin(with_values(pipeline, values or {}), ready.plan, workspace, store, options), ready.plan


def begin(
    document: Pipeline, made: Plan, workspace: Workspace, store: RunStore, options: Mapping[str, JsonValue]
) -> str:
    """Record a new run of the plan that was made for `document`, and start its process. Gives the run's id."""
    text, used = dump(document), made.profile
    kept: dict[str, JsonValue] = {**options, "backend": used.backend}
    if used.price_per_hour is not None:
        # As it was then: the file may name another price when someone asks what the run has cost.
        kept["price_per_hour"] = used.price_per_hour
    run_id = store.create_run(document.name, text, kept, used.name)
    folder = workspace.run_folder(run_id)
    (folder / "pipeline.json").write_text(text, encoding="utf-8")
    (folder / "plan.json").write_text(made.model_dump_json(indent=1), encoding="utf-8")
    _spawn(workspace, run_id)
    return run_id


def read_plan(workspace: Workspace, run_id: str) -> Plan | None:
    """The plan that a run was started with; None when it is gone or cannot be read."""
    try:
        return Plan.model_validate_json((workspace.run_folder(run_id) / "plan.json").read_bytes())
    except (OSError, ValueError):
        return None


def with_values(pipeline: Pipeline, values: Mapping[str, JsonValue]) -> Pipeline:
    """The document as it ran: its parameters hold the values given."""
    parameters = {
        name: PipelineParameter(value=values.get(name, p.value), help=p.help) for name, p in pipeline.parameters.items()
    }
    return pipeline.model_copy(update={"parameters": parameters})


def resume(workspace: Workspace, store: RunStore, run_id: str) -> Run:
    """Go on with a run that was lost, failed or was cancelled: finished tasks stay.

    Raises `UsageError` when it is still running or is done.
    """
    run = store.run(run_id)
    if run.active:
        raise UsageError(f"run {run.run_id} is still running", hint=f"`voxelflow runs cancel {run.run_id}` stops it.")
    if run.state == "done":
        raise UsageError(f"run {run.run_id} is done", hint="`voxelflow run` starts a new one.")
    _spawn(workspace, run.run_id)
    return run


def cancel(store: RunStore, run_id: str) -> Run:
    """Ask a run to stop. Raises `UsageError` when it is not running."""
    run = store.run(run_id)
    if not run.active:
        raise UsageError(f"run {run.run_id} is not running: it is {run.state}")
    store.request_cancel(run.run_id)
    return run


def request_save(workspace: Workspace, store: RunStore, run_id: str) -> list[str]:
    """Ask the tasks of a run that can to save their half-done work, without stopping; gives their nodes.

    Raises `UsageError` when there is none.
    """
    run = store.run(run_id)
    plan = read_plan(workspace, run.run_id)
    running = {task.node for task in store.tasks(run.run_id) if task.state == "running"} if run.active else set()
    asked = []
    if plan is not None:
        for task in plan.tasks:
            scratch = plan.scratch_root(workspace) / task.identity.fingerprint
            if task.saves_on_request and task.node in running and scratch.is_dir():
                (scratch / SAVE_REQUEST).touch()
                asked.append(task.node)
    if not asked:
        raise UsageError(
            f"no task of run {run.run_id} is at work that can save what is half done",
            hint=f"`voxelflow runs show {run.run_id}` tells what it does. Training saves by itself now and then.",
        )
    return asked


def wait_started(workspace: Workspace, store: RunStore, run_id: str, attempt: int, timeout_s: float = 60) -> None:
    """Wait until the run's process has begun its attempt. Raises `ExecutionError` when it does not."""
    until = time.monotonic() + timeout_s
    while time.monotonic() < until:
        # In this order: a process that has ended said before whether it began.
        child = _children.get(run_id)
        died = child is not None and child.poll() is not None
        if store.run(run_id).attempt >= attempt:
            return
        if died:
            break
        time.sleep(0.05)
    log = workspace.run_folder(run_id) / "supervisor.log"
    raise ExecutionError("the run's process did not start", hint=f"See {log}.")


def ended(workspace: Workspace, store: RunStore, run_id: str, poll_s: float = 0.1) -> Iterator[Run]:
    """Yield the run about every `poll_s` seconds until it has ended; the last one is the ended run."""
    while True:
        run = store.run(run_id)
        yield run
        if not run.active:
            return
        time.sleep(poll_s)


def _spawn(workspace: Workspace, run_id: str) -> None:
    with (workspace.run_folder(run_id) / "supervisor.log").open("ab") as output:
        process = subprocess.Popen(
            [*PROGRAM, "_supervise", str(workspace.root), run_id],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    _children[run_id] = process
    # Reaped by a thread of its own: a long-lived caller must not collect dead processes.
    threading.Thread(target=process.wait, daemon=True).start()


_children: dict[str, subprocess.Popen[bytes]] = {}
"""By run. Kept to notice one that dies at once; they live on when the caller ends."""


def kill_run(workspace: Workspace, run: Run) -> None:
    """End the run's process at once, without a word. Its workers end with it."""
    if run.pid is not None and is_held(workspace.run_folder(run.run_id) / "lock"):
        with contextlib.suppress(ProcessLookupError):
            os.kill(run.pid, signal.SIGKILL)

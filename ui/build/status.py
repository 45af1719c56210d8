"""Runs and their tasks as the canvas is told of them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.cli.wording import made
from engine.events import Progress
from engine.runs import Run, Task
from ui.build.wording import finite, outputs_in_words
from ui.protocol.status import FailureInfo, NodeStatus, ProgressInfo, RunInfo


def run_info(run: Run) -> RunInfo:
    return RunInfo(
        run_id=run.run_id,
        state=run.state,
        profile=run.profile,
        error=run.error,
        created=run.created,
        started=run.started,
        ended=run.ended,
        cancelling=run.cancel and run.active,
    )


def node_status(task: Task) -> NodeStatus:
    return NodeStatus(
        state=task.state,
        reason=task.reason,
        attempt=task.attempt,
        started=task.started,
        ended=task.ended,
        progress=_progress(task.progress) if task.progress else None,
        made=made(task.outputs),
        outputs=outputs_in_words(task.outputs),
        failure=_failure(task.failure) if task.failure else None,
    )


def _progress(progress: Progress) -> ProgressInfo:
    return ProgressInfo(
        done=finite(progress.done) or 0.0,
        total=finite(progress.total),
        unit=progress.unit,
        label=progress.label,
        rate=finite(progress.rate),
        seconds_left=finite(progress.seconds_left),
    )


def _failure(failure: Mapping[str, Any]) -> FailureInfo:
    return FailureInfo(
        code=str(failure.get("code", "")),
        message=str(failure.get("message", "")),
        hint=str(failure.get("hint", "")),
        parameter=failure.get("parameter"),
    )

"""What is stale, found out in the background: plans say which results the next runs would make again."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

from engine.diagnostics.rule import CheckFailed
from engine.document.pipeline import Pipeline, display_names, load
from engine.errors import UsageError, VoxelflowError
from engine.lineage import Verdicts, judge
from engine.run.launch import prepare
from ui.build.background import LOG, Loop
from ui.build.catalogue import Catalogue
from ui.build.library import Library
from ui.studio_context import Studio

MOST_PIPELINES = 40
"""Those that ran last: a plan lists the folders that a pipeline reads."""
_AGAIN_S = 2.0
"""An answer that is younger is no news to somebody who opens the page."""


@dataclass(frozen=True)
class Judged:
    """What the plans say by now. `problems` are those of pipelines that could not be planned, by their names: the
    first of each in words, and how many more there are."""

    verdicts: Verdicts = field(default_factory=Verdicts)
    done: int = 0
    of: int = 0
    problems: dict[str, str] = field(default_factory=dict)
    complete: bool = False


class Judging:
    """Plans the pipelines of a workspace, one after another. May be used by any thread."""

    def __init__(self, studio: Studio, files: Library, catalogue: Catalogue) -> None:
        self.studio, self._files, self._catalogue = studio, files, catalogue
        self._lock = threading.Condition()
        self._judged = Judged()
        self._ended = 0.0
        self._seen: object = None
        self._loop = Loop("lineage", self._step, ended=studio.store.close)

    def now(self, *, anew: bool = False, first_within_s: float = 0.0) -> Judged:
        """What is known. Begins again when results or pipelines have changed since, with `anew` in any case.

        Only this notices what a folder holds: a new file is not reported. Where nothing has been answered yet, this
        waits `first_within_s` seconds at most for the first answer.
        """
        seen = (self.studio.store.results.state(), self._files.state())
        with self._lock:
            running = self._seen is not None and not self._judged.complete
            due = seen != self._seen or (anew and time.monotonic() - self._ended > _AGAIN_S)
            begins = due and not running
            if begins:
                self._seen = seen
                # What is known is shown until the new answer is complete.
                self._judged = Judged(self._judged.verdicts)
            judged = self._judged
        if begins:
            self._loop.poke()
        if not self._ended and first_within_s:
            with self._lock:
                self._lock.wait_for(lambda: self._judged.complete, first_within_s)
                judged = self._judged
        return judged

    def close(self) -> None:
        """End the thread."""
        self._loop.close()

    def _step(self) -> None:
        with self._lock:
            if self._judged.complete or self._seen is None:
                return
            before = self._judged.verdicts
        verdicts, problems = Verdicts(), dict[str, str]()
        names = self.studio.store.latest_pipelines(MOST_PIPELINES)
        saved = {item.stored.pipeline.name: item.stored.pipeline for item in self._files.listed() if item.stored}
        for number, name in enumerate(names, 1):
            try:
                verdicts |= self._judge(name, saved.get(name))
            except VoxelflowError as error:
                problems[name] = error.message
            except Exception as error:  # the other pipelines have their plans in any case
                LOG.exception("the lineage of %s cannot be planned", name)
                problems[name] = f"{type(error).__name__}: {error}"
            self._keep(Judged(before, number, len(names), problems))
        self._keep(Judged(verdicts, len(names), len(names), problems, complete=True))

    def _judge(self, name: str, saved: Pipeline | None) -> Verdicts:
        """By the pipeline as it is saved; else, or when that has no plan, as it ran last.

        A run's document has the values that it was started with.
        """
        found: UsageError | None = None
        if saved is not None:
            try:
                return self._plan(saved)
            except CheckFailed as error:
                # What can be put right is the saved one.
                found = UsageError(first_problem(error, saved))
        run = self.studio.store.runs(limit=1, pipeline=name)[0]
        ran = load(run.document, f"the document of run {run.run_id}")
        try:
            return self._plan(ran)
        except CheckFailed as error:
            raise found or UsageError(first_problem(error, ran)) from error

    def _plan(self, pipeline: Pipeline) -> Verdicts:
        studio = self.studio
        ready = prepare(pipeline, self._catalogue.catalog, studio.workspace, studio.store, base=studio.base)
        return judge(ready.plan, ready.observation)

    def _keep(self, judged: Judged) -> None:
        with self._lock:
            self._judged = judged
            if judged.complete:
                self._ended = time.monotonic()
                self._lock.notify_all()


def first_problem(error: CheckFailed, pipeline: Pipeline) -> str:
    """The first problem that keeps the pipeline from being planned, with its node as the canvas calls it, and how many
    more there are: `Patches: the table is gone; 2 more problems`."""
    errors = [problem for problem in error.diagnostics if problem.severity == "error"]
    if not errors:
        return error.message
    first, more = errors[0], len(errors) - 1
    where = display_names(pipeline.nodes).get(first.node or "", first.node)
    place = ", ".join(filter(None, (where, first.parameter)))
    said = f"{place}: {first.message}" if place else first.message
    return f"{said}; {more} more {'problem' if more == 1 else 'problems'}" if more else said

"""Sweeps for real, in the tests: what is swept, started, waited for, and what became of the runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from building import box, pipeline
from waiting import wait_until

from engine.catalog import Catalog, build_catalog
from engine.document.pipeline import Pipeline
from engine.limit import Limit
from engine.profiles import Profile
from engine.store.runs import RunStore
from engine.store.sweeps import Sweep, Trial
from engine.sweep.options import SweepOptions
from engine.sweep.space import read_space
from engine.sweep.start import resume_sweep, start_sweep
from engine.sweep.trials import SweepInputs
from engine.workspace import Workspace, trust

_HERE = Path(__file__).parent
LOCAL = Profile(name="local", cores=2, memory_bytes=1 << 30)


class Swept:
    """Sweeps in one workspace, with the probes and a node that reports a model of a given quality."""

    def __init__(self, workspace: Workspace) -> None:
        for name in ("probes", "scored_nodes", "gated_nodes"):
            (workspace.my_nodes / f"{name}.py").write_text((_HERE / f"{name}.py").read_text())
        trust(workspace)
        self.workspace, self.store = workspace, RunStore(workspace)
        self.catalog: Catalog = build_catalog((), workspace)

    def options(self, document: Pipeline, *settings: str, **more: Any) -> SweepOptions:
        space = read_space(settings, document, self.catalog, searched=more.get("trials") is not None)
        return SweepOptions(space, base=self.workspace.root, **more)

    def start(self, document: Pipeline, *settings: str, profile: Profile = LOCAL, **more: Any) -> Sweep:
        options = self.options(document, *settings, **more)
        return start_sweep(SweepInputs(document, self.catalog, self.workspace, self.store, options, profile))

    def finished(self, sweep: Sweep) -> tuple[Sweep, list[Trial]]:
        """The sweep and its trials once it is at work no more."""
        wait_until(lambda: not self.store.sweeps.find(sweep.sweep_id).active, "the sweep's end")
        return self.store.sweeps.find(sweep.sweep_id), self.store.sweeps.trials(sweep.sweep_id)

    def run(self, document: Pipeline, *settings: str, **more: Any) -> tuple[Sweep, list[Trial]]:
        return self.finished(self.start(document, *settings, **more))

    def resume(self, sweep: Sweep, limit: Limit | None = None) -> tuple[Sweep, list[Trial]]:
        return self.finished(resume_sweep(self.workspace, self.store, sweep.sweep_id, limit=limit))

    def states(self, sweep: Sweep) -> dict[int, dict[str, str]]:
        """By trial, the states of its run's tasks."""
        runs = self.store.sweeps.runs_of_trials(sweep.sweep_id)
        return {number: {t.node: t.state for t in self.store.tasks(run)} for number, run in runs.items()}

    def runs(self, sweep: Sweep) -> list[str]:
        """All runs that were started for it."""
        return [run.run_id for run in self.store.runs(-1) if run.options.get("sweep") == sweep.sweep_id]


def document(**model: Any) -> Pipeline:
    """Data, and beside it a model: `Scored` has an edge to nothing, so the data is what trials share."""
    return pipeline(box("data", "Make", steps=3), box("words", "Join"), box("model", "Scored", **model),
                    wires="data.out>words.first", name="swept")  # fmt: skip

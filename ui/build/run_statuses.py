"""What the cards show of a run: each task's state, the loss of a training, and keys to look at what was made."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from engine.declare.dataset_type import Dataset
from engine.store.run_records import as_it_is
from engine.store.runs import Run, RunStore
from ui.build.loss_curves import LossCurves
from ui.build.run_document import RunDocument
from ui.build.status import ViewOf, node_status
from ui.protocol.status import NodeStatus
from ui.views.shown import ShownDatasets


class RunStatuses:
    """Follows one run. The browser may look at what the run has made: `shown` has it."""

    def __init__(self, run: Run, shown: ShownDatasets) -> None:
        self.run_id = run.run_id
        self._shown = shown
        self._curves = LossCurves(run.run_id)
        self.document = RunDocument.of(run)

    def read(self, store: RunStore, run: Run) -> dict[str, NodeStatus]:
        """By node: its task as it is now. `run` was read before: once it has ended, its tasks are as they will stay."""
        self._curves.read(store)
        tasks = store.tasks(run.run_id)
        outputs = {task.node: task.outputs for task in tasks}
        return {
            task.node: node_status(as_it_is(task, run), self._view_of(task.node, outputs), self._curves.of(task.node))
            for task in tasks
        }

    def _view_of(self, node: str, outputs: Mapping[str, Mapping[str, Dataset]]) -> ViewOf:
        """Gives keys to what the node made, along with what it was given."""
        made_from = {
            port: dataset
            for port, source, source_port in self.document.sources(node)
            if (dataset := outputs.get(source, {}).get(source_port))
        }
        return partial(self._shown.key, made_from=made_from)

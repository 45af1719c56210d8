"""What the run store knows of a training that an input of a task refers to, whichever run made it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from engine.declare.datasets import Dataset
from engine.declare.events import Facts, Metrics, SystemSample
from engine.errors import DataError
from engine.storage.urls import is_url, parse_url
from nodes.comparison.record import CPU, Epoch, Sample, Training

if TYPE_CHECKING:
    from engine.document.plan import Plan, PlannedTask
    from engine.store.results import Result
    from engine.store.runs import RunStore, Task
    from engine.workspace import Workspace

_ORDER_ONLY = ("RunAfter", "after")
"""The input of a node type that says when, and not from what."""
_SETTINGS = ("depth", "width", "stem", "optimizer", "learning_rate", "steps_per_epoch", "seed", "validation_share")
_GAP_S = 60.0
"""Samples come every few seconds: a longer silence is left open."""
_MOST_EVENTS = 1_000_000


def measured_trainings(
    workspace: Workspace, run_id: str, node: str, ports: Sequence[str], plain: str, note: str
) -> list[Training]:
    """The trainings that made what comes into `ports` of a run's task, in that order.

    `plain` is the port of the one whose data needed no preparation: what the others' data took beyond it is theirs.
    Raises `DataError` for an input that no training made or whose run is gone.
    """
    from engine.document.plan import require_plan
    from engine.store.runs import RunStore

    store = RunStore(workspace)
    try:
        plan = require_plan(workspace, run_id)
        inputs = plan.task(node).inputs
        reader = _Reader(workspace, store, plan)
        common = set(reader.upstream(inputs[plain].node))
        return [reader.training(inputs[port].node, common, note) for port in ports if port in inputs]
    finally:
        store.close()


class _Reader:
    def __init__(self, workspace: Workspace, store: RunStore, plan: Plan) -> None:
        self._workspace, self._store, self._plan = workspace, store, plan

    def upstream(self, node: str) -> dict[str, None]:
        """The nodes that made the data of this one, not those that it only had to wait for."""
        out: dict[str, None] = {}
        task = self._plan.task(node)
        for port, source in task.inputs.items():
            if (task.node_type, port) != _ORDER_ONLY:
                out |= {source.node: None} | self.upstream(source.node)
        return out

    def training(self, node: str, common: set[str], note: str) -> Training:
        from engine.environment import kept_environment
        from engine.text import safe

        planned = self._plan.task(node)
        made, task = self._made(planned)
        if made is None or task is None or task.started is None:
            raise DataError(
                f"the run that trained {node} is not recorded any more, and with it its times are gone",
                hint=f"Run the pipeline again with --from {node}.",
            )
        run = self._store.run(made.run_id)
        figures = [e for _, e in self._store.events(run.run_id, kinds=("metrics",), limit=_MOST_EVENTS)]
        metrics = [e for e in figures if isinstance(e, Metrics) and e.node == made.node]
        facts = self._facts(made)
        data = self._input(planned)
        environment = kept_environment(self._workspace, run.run_id)
        price = run.options.get("price_per_hour")
        before = [self._seconds(name) for name in self.upstream(node) if name not in common]
        volume_bytes = spec.volume_bytes if (spec := getattr(data, "spec", None)) is not None else 0
        count = int(getattr(data, "count", 0))
        ended = task.ended or task.started
        return Training(
            run_id=run.run_id,
            node=made.node,
            title=safe(task.title or node),
            device=str(facts.get("device", CPU)),
            machine=environment.machine.describe() if environment is not None else "",
            machine_type=str(run.options.get("machine") or ""),
            loader=str(facts.get("loader", planned.params.get("loader", "arrow"))),
            storage=_storage(data.uri if data is not None else ""),
            note=note,
            volumes=int(facts.get("training_volumes", 0)) or count,
            prepared_volumes=count,
            volume_bytes=volume_bytes,
            batch_size=int(planned.params.get("batch_size", 0)),
            epochs_wanted=int(planned.params.get("epochs", 0)),
            settings={name: planned.params[name] for name in _SETTINGS if name in planned.params},
            epochs=tuple(epochs_of(metrics)),
            attempts=task.attempt,
            preparation_s=None if None in before else sum(s for s in before if s is not None),
            price_per_hour=price if isinstance(price, int | float) else None,
            currency=run.currency,
            losses=losses_of(metrics),
            samples=tuple(samples_of(self._system(run.run_id), task.started, ended)),
        )

    def _made(self, planned: PlannedTask) -> tuple[Result | None, Task | None]:
        """The result that the task made or reused, and the task that made it in its run."""
        result = self._store.results.find(planned.identity.fingerprint)
        if result is None:
            return None, None
        tasks = (task for task in self._store.tasks(result.run_id) if task.node == result.node)
        return result, next(tasks, None)

    def _seconds(self, node: str) -> float | None:
        _, task = self._made(self._plan.task(node))
        return None if task is None else task.seconds

    def _input(self, planned: PlannedTask) -> Dataset | None:
        source = planned.inputs.get("data")
        result = (
            self._store.results.find(self._plan.task(source.node).identity.fingerprint) if source is not None else None
        )
        return None if result is None or source is None else result.outputs.get(source.port)

    def _facts(self, made: Result) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for _, event in self._store.events(made.run_id, kinds=("facts",), limit=_MOST_EVENTS):
            if isinstance(event, Facts) and event.node == made.node:
                out |= event.values
        return out

    def _system(self, run_id: str) -> list[SystemSample]:
        events = self._store.events(run_id, kinds=("system",), limit=_MOST_EVENTS)
        return [event for _, event in events if isinstance(event, SystemSample)]


def _storage(uri: str) -> str:
    return parse_url(uri).scheme if is_url(uri) else "local disk"


def epochs_of(metrics: Iterable[Metrics]) -> Iterator[Epoch]:
    """The epochs by number; of one that was reported twice, after a kill, the later report."""
    found: dict[int, dict[str, float]] = {}
    for event in metrics:
        if "samples_per_second" in event.values or "loss" in event.values:
            found.setdefault(event.step, {}).update(event.values)
    for number, values in sorted(found.items()):
        if "epoch_seconds_compute" in values:
            yield Epoch(
                number=number,
                data_s=values.get("epoch_seconds_data", 0.0),
                compute_s=values["epoch_seconds_compute"],
                checkpoint_s=values.get("epoch_seconds_checkpoint", 0.0),
                evaluate_s=values.get("epoch_seconds_evaluate", 0.0),
                volumes_per_s=values.get("samples_per_second", 0.0),
                loss=values.get("loss"),
            )


def losses_of(metrics: Iterable[Metrics]) -> tuple[tuple[int, float], ...]:
    """The loss of each reported step."""
    return tuple(sorted({e.step: e.values["step_loss"] for e in metrics if "step_loss" in e.values}.items()))


def samples_of(samples: Sequence[SystemSample], started: float, ended: float) -> Iterator[Sample]:
    """The machine between two moments. Counts that only grow become rates, which a gap or a new count leaves out."""
    for before, now in pairwise(samples):
        seconds = now.time - before.time
        if not started <= now.time <= ended:
            continue
        values = now.values
        gpus = [v for name, v in values.items() if name.startswith("gpu_") and name.endswith("_utilization_percentage")]

        def rate(name: str, before: Mapping[str, float] = before.values, now: Mapping[str, float] = values,
                 seconds: float = seconds) -> float | None:  # fmt: skip
            if name not in before or name not in now or not 0 < seconds <= _GAP_S or now[name] < before[name]:
                return None
            return (now[name] - before[name]) / seconds

        received = rate("network_receive_megabytes")
        yield Sample(
            at_s=round(now.time - started, 1),
            cpu_percent=values.get("cpu_utilization_percentage"),
            memory_mb=values.get("run_processes_memory_usage_megabytes"),
            network_mbit_s=None if received is None else 8 * received,
            disk_read_mb_s=rate("disk_read_megabytes"),
            disk_write_mb_s=rate("disk_write_megabytes"),
            gpu_percent=sum(gpus) / len(gpus) if gpus else None,
        )

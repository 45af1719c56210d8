"""What is on its way to one MLflow run: points, parameters and tags, each of them once.

MLflow only ever adds points. After a kill, or a request whose answer never came, it is unknown which
points arrived; so the next ones are compared with what the server has. The same comparison leaves
out the steps that a training repeats when it goes on from its last checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from engine.tracking.mlflow_api import RunDeleted, is_gone, is_refusal, key, line, milliseconds, param_text, tag_text

if TYPE_CHECKING:
    from mlflow.entities import Metric
    from mlflow.tracking import MlflowClient


@dataclass(frozen=True)
class Point:
    """One value of a metric. `at` is in ms; `series` marks a curve, which has one point per step."""

    key: str
    value: float
    at: int
    step: int
    series: bool


class _Arrived:
    """The points of one metric that the server has."""

    def __init__(self, history: Iterable[Metric]) -> None:
        self._moments = {(m.step, m.timestamp) for m in history}
        self._steps = {step for step, _ in self._moments}
        self._newest = max(self._moments, default=(-1, 0))

    def has(self, point: Point, replayed: bool) -> bool:
        return (point.step, point.at) in self._moments or (replayed and point.series and point.step in self._steps)

    def is_behind(self, points: Iterable[Point]) -> bool:
        return all((p.step, p.at) > self._newest for p in points)


class MlflowRun:
    """The way to one MLflow run. `created`: it was made just now, so nothing has arrived."""

    def __init__(
        self,
        client: MlflowClient,
        run: str,
        note: Callable[[str], None],
        *,
        created: bool = False,
        replayed: bool = False,
    ) -> None:
        self.id = run
        self._client, self._note = client, note
        self._doubtful, self._replayed = not created, replayed
        self._arrived: dict[str, _Arrived | None] = {}
        self._on_server: dict[str, str] | None = {} if created else None
        self._points: list[Point] = []
        self._params: list[tuple[str, str]] = []
        self._tags: dict[str, str] = {}
        self._tags_sent: dict[str, str] = {}
        self._untagged: set[str] = set()

    def point(self, name: str, value: float, time: float, step: int = 0, *, series: bool = False) -> None:
        """`time` is in seconds since the epoch."""
        self._points.append(Point(key(name), float(value), milliseconds(time), step, series))

    def param(self, name: str, value: Any) -> None:
        """A parameter; one that MLflow has with another value becomes a tag."""
        self._params.append((key(name), param_text(value)))

    def tag(self, name: str, value: str) -> None:
        """A tag; the last value counts."""
        self._tags[key(name)] = tag_text(value)
        self._untagged.discard(key(name))

    def untag(self, *names: str) -> None:
        """Take away the tags that do not hold any more, where MLflow has them. Raises as `flush` does."""
        wanted = {key(name) for name in names} - self._untagged
        if not wanted:
            return
        for name in wanted:
            self._tags.pop(name, None)
            self._tags_sent.pop(name, None)
        for name in sorted(wanted & self._client.get_run(self.id).data.tags.keys()):
            try:
                self._client.delete_tag(self.id, name)
            except Exception as exc:
                if is_refusal(exc):
                    self._stop_if_deleted()
                    self._note(f"MLflow does not take tag {name} away: {line(exc)}")
                elif not is_gone(exc):
                    raise
        self._untagged |= wanted

    def replay(self) -> None:
        """From here on, steps that were sent before may come again: the first ones stay."""
        self.flush()
        self._doubtful = self._replayed = True
        self._arrived = {}

    def reopen(self) -> None:
        """The run goes on. MLflow keeps the end it had until it ends again."""
        self._set_status(lambda: self._client.update_run(self.id, status="RUNNING"))

    def close(self, status: str, ended: float) -> None:
        """The run ended, with one of MLflow's statuses, at `ended` seconds since the epoch."""
        self.flush()
        self._set_status(lambda: self._client.set_terminated(self.id, status, milliseconds(ended)))

    def flush(self) -> None:
        """Send all that waits. On an error nothing is known of what arrived; make a new `MlflowRun`.

        Raises `RunDeleted` when the run was deleted, and what MLflow raises when it cannot be reached.
        """
        from mlflow.entities import Metric, Param, RunTag

        params, self._params = self._new_params(), []
        self._send("params", [Param(k, v) for k, v in params.items()], 100)
        tags = {k: v for k, v in self._tags.items() if self._tags_sent.get(k) != v}
        self._send("tags", [RunTag(k, v) for k, v in tags.items()], 100)
        self._tags_sent |= tags
        self._tags = {}
        points, self._points = self._points, []
        fresh = [p for p in points if not self._has_arrived(p)]
        self._send("metrics", [Metric(p.key, p.value, p.at, p.step) for p in fresh], 1000)
        self._settle(points)

    def params_on_server(self) -> dict[str, str]:
        """The run's parameters, those included that were sent just now."""
        if self._on_server is None:
            self._on_server = dict(self._client.get_run(self.id).data.params)
        return self._on_server

    def _new_params(self) -> dict[str, str]:
        """The waiting parameters that MLflow does not have. It never changes one: a new value becomes a tag."""
        out: dict[str, str] = {}
        if not self._params:
            return out
        there = self.params_on_server()
        for name, value in self._params:
            if name not in there:
                out[name] = there[name] = value
            elif there[name] != value:
                self.tag(f"voxelflow.changed.{name}", value)
        return out

    def _has_arrived(self, point: Point) -> bool:
        if not self._doubtful:
            return False
        if point.key not in self._arrived:
            history = self._client.get_metric_history(self.id, point.key)
            self._arrived[point.key] = _Arrived(history)
        arrived = self._arrived[point.key]
        return arrived is not None and arrived.has(point, self._replayed)

    def _settle(self, sent: Sequence[Point]) -> None:
        """Forget what arrived of each metric that has gone beyond it, so that its history need not be kept."""
        for name, arrived in self._arrived.items():
            points = [p for p in sent if p.key == name]
            if arrived is not None and points and arrived.is_behind(points):
                self._arrived[name] = None

    def _send(self, kind: str, items: Sequence[Any], at_once: int) -> None:
        for start in range(0, len(items), at_once):
            self._send_batch(kind, items[start : start + at_once])

    def _send_batch(self, kind: str, items: Sequence[Any]) -> None:
        """Send items; those that MLflow refuses are found by halving and passed over."""
        try:
            batch: dict[str, Any] = {kind: items}
            self._client.log_batch(self.id, **batch)
        except Exception as exc:
            if not is_refusal(exc):
                raise
            self._stop_if_deleted()
            if len(items) == 1:
                self._note(f"MLflow does not take {kind[:-1]} {items[0].key}: {line(exc)}")
                return
            half = len(items) // 2
            self._send_batch(kind, items[:half])
            self._send_batch(kind, items[half:])

    def _set_status(self, send: Callable[[], Any]) -> None:
        try:
            send()
        except Exception as exc:
            if is_refusal(exc):
                self._stop_if_deleted()
            raise

    def _stop_if_deleted(self) -> None:
        if self._client.get_run(self.id).info.lifecycle_stage == "deleted":
            raise RunDeleted(
                f"the run {self.id} was deleted in MLflow", hint="Restore it in MLflow to have the rest sent."
            )

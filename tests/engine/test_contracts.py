"""The contracts that everything else stands on: dataset references, events, TaskContext, progress."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from engine.declare.context import TaskContext
from engine.declare.datasets import (
    BUILT_IN_TYPES,
    DTYPES,
    Predictions,
    Preview,
    Report,
    Selection,
    TrainedModel,
    VolumeDelta,
    VolumeFiles,
    VolumeParquet,
    VolumeSpec,
    dataset_from_json,
    id_fraction,
)
from engine.declare.events import (
    Artifact,
    Event,
    Facts,
    Failure,
    Message,
    Metrics,
    Outputs,
    Progress,
    RunStateChanged,
    SystemSample,
    TaskStarted,
    TaskStateChanged,
    event_from_json,
)
from engine.declare.progress import Meter, current_reporter, track
from engine.errors import Cancelled

SPEC = VolumeSpec(shape=(30, 30, 10, 10), dtype="float32", classes=("no", "yes"))
DATASETS = [
    VolumeFiles(uri="/d", count=2, bytes=10, spec=SPEC, manifest="/m"),
    VolumeParquet(uri="/d", count=2, bytes=10, spec=SPEC, manifest="/m", found=3, quarantined=1, labelled=2),
    VolumeDelta(
        uri="/d", count=2, bytes=10, spec=SPEC, version=4, data_version=3, files=1,
        selections=(Selection(salt="s", low=0.25, high=0.5),),
    ),
    TrainedModel(uri="/d", spec=SPEC, metrics={"loss": 0.5}, parameters=7),
    Predictions(uri="/d", count=1, bytes=9, version=1, model="ab", files=1, labelled=1, classes=("no", "yes")),
    Report(uri="/d", figures={"a": 1, "b": 2.5, "c": "x"}),
]  # fmt: skip


PUBLISHED = {"a/0001.npy": 0.6542863988217312, "é.npy": 0.29439500185425005}


# --- dataset references ------------------------------------------------------------------------


@pytest.mark.parametrize("dataset", DATASETS, ids=lambda d: d.kind)
def test_a_reference_survives_json_and_cannot_be_changed(dataset) -> None:
    assert dataset_from_json(dataset.model_dump_json()) == dataset
    assert dataset_from_json(json.loads(dataset.model_dump_json())) == dataset
    with pytest.raises(ValidationError):
        dataset.uri = "elsewhere"
    with pytest.raises(ValidationError):
        dataset_from_json(dataset.model_dump() | {"surprise": 1})
    assert isinstance(dataset.details(), dict)
    assert Preview.of(dataset).kind == dataset.kind


def test_every_kind_is_covered_here() -> None:
    assert {d.kind for d in DATASETS} == {each.__name__ for each in BUILT_IN_TYPES}


def test_a_spec_knows_its_bytes_and_refuses_other_types() -> None:
    assert SPEC.volume_bytes == 360_000
    assert all(VolumeSpec(shape=(2,), dtype=d).volume_bytes in (2, 4, 8, 16) for d in DTYPES)
    for dtype in ("object", "bool", "complex64", "<f4", "U5"):
        with pytest.raises(ValidationError):
            VolumeSpec(shape=(1,), dtype=dtype)


@given(st.text(max_size=40), st.text(max_size=10), st.floats(0, 1), st.floats(0, 1))
def test_a_split_puts_every_id_on_exactly_one_side(volume_id: str, salt: str, a: float, b: float) -> None:
    low, high = sorted((a, b))
    parts = [(0.0, low), (low, high), (high, 1.0)]
    assert sum(Selection(salt=salt, low=x, high=y).holds(volume_id) for x, y in parts) == 1
    assert 0 <= id_fraction(volume_id, salt) < 1


def test_the_hash_of_an_id_is_the_same_for_ever() -> None:
    # Published: a change would move volumes between training and validation in every saved pipeline.
    assert id_fraction("a/0001.npy", "validation") == pytest.approx(PUBLISHED["a/0001.npy"], abs=0)
    assert id_fraction("é.npy", "validation") == pytest.approx(PUBLISHED["é.npy"], abs=0)


# --- events ------------------------------------------------------------------------------------

EVENTS: list[Event] = [
    RunStateChanged(state="done"),
    TaskStateChanged(node="a", state="running", attempt=2, reason="why"),
    TaskStarted(node="a", pid=3),
    Progress(node="a", done=1, total=4, unit="volumes", label="epoch 1/2", rate=2.0),
    Message(node="a", level="warning", text="<b>\x1b[31m"),
    Metrics(node="a", values={"loss": 0.5}, step=3),
    Facts(node="a", values={"rows": 3, "name": "x", "ok": True}),
    Artifact(node="a", role="model", name="model", path="/p"),
    Outputs(node="a", outputs={d.kind: d for d in DATASETS}),  # type: ignore[misc]
    Failure(node="a", code="data", message="m", hint="h", parameter="p", details="t"),
    SystemSample(values={"cpu": 1.0}),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda e: e.event)
def test_an_event_is_one_json_line_and_comes_back_equal(event: Event) -> None:
    line = event.model_dump_json(exclude_none=True)
    assert "\n" not in line
    assert event_from_json(line) == event


def test_an_unknown_event_is_refused() -> None:
    with pytest.raises(ValidationError):
        event_from_json('{"event": "surprise"}')


def test_time_left_follows_from_the_rate() -> None:
    assert Progress(done=1, total=5, rate=2).seconds_left == 2
    assert Progress(done=1, rate=2).seconds_left is None
    assert Progress(done=1, total=5).seconds_left is None


# --- TaskContext -------------------------------------------------------------------------------


def _context(tmp_path: Path, **fields) -> TaskContext:
    values = {"run_id": "r", "node_id": "n", "fingerprint": "f" * 32}
    return TaskContext(**values, out=tmp_path / "o", shared=tmp_path / "s", scratch=tmp_path / "x", **fields)


def test_a_context_names_the_node_in_all_it_sends(tmp_path: Path) -> None:
    sent: list[Event] = []
    ctx = _context(tmp_path, emit=sent.append)
    ctx.info("a")
    ctx.warn("b")
    ctx.metrics(3, loss=0.5)
    ctx.facts(rows=2)
    ctx.artifact("plot", tmp_path / "p.png")
    assert [e.event for e in sent] == ["message", "message", "metrics", "facts", "artifact"]
    assert {e.node for e in sent} == {"n"}
    assert sent[-1].name == "p.png"  # type: ignore[attr-defined]


def test_a_transaction_belongs_to_the_fingerprint(tmp_path: Path) -> None:
    one, same = _context(tmp_path).transaction, _context(tmp_path).transaction
    assert one == same
    assert _context(tmp_path).fingerprint in one.app_id


def test_a_context_says_when_to_stop(tmp_path: Path) -> None:
    _context(tmp_path).check_cancelled()
    with pytest.raises(Cancelled):
        _context(tmp_path, is_cancelled=lambda: True).check_cancelled()


@pytest.mark.slow
@pytest.mark.parametrize(("name", "status"), [("here", -signal.SIGKILL), ("here#2", -signal.SIGKILL), ("elsewhere", 0)])
def test_a_commit_point_kills_only_where_asked(name: str, status: int, tmp_path: Path) -> None:
    code = "from engine.failpoints import failpoint; failpoint('here'); failpoint('here')"
    once = tmp_path / "once"
    environment = os.environ | {"VOXELFLOW_KILL_AT": name, "VOXELFLOW_KILL_ONCE": str(once)}
    assert subprocess.run([sys.executable, "-c", code], env=environment, check=False).returncode == status
    # The mark is there now, so the second attempt passes.
    assert subprocess.run([sys.executable, "-c", code], env=environment, check=False).returncode == 0


# --- progress ----------------------------------------------------------------------------------


class Listener:
    def __init__(self, stop_after: int | None = None) -> None:
        self.heard: list[Progress] = []
        self.stop_after = stop_after

    def emit(self, event: Progress) -> None:
        self.heard.append(event)

    def cancelled(self) -> bool:
        return self.stop_after is not None and len(self.heard) >= self.stop_after


@pytest.fixture
def listener():
    out = Listener()
    token = current_reporter.set(out)
    yield out
    current_reporter.reset(token)


def test_track_yields_everything_and_ends_at_the_total(listener: Listener) -> None:
    assert list(track([1, 2, 3], unit="volumes", amount=lambda i: 10 * i, total=60)) == [1, 2, 3]
    assert listener.heard[-1].done == 60
    assert listener.heard[-1].unit == "volumes"
    assert len(listener.heard) <= 3


def test_track_counts_on_from_where_a_resumed_task_starts(listener: Listener) -> None:
    list(track(range(2), total=10, start=8))
    assert (listener.heard[-1].done, listener.heard[-1].total) == (10, 10)


def test_track_stops_between_two_items_when_cancelled(listener: Listener) -> None:
    listener.stop_after = 1
    items = track(range(100))
    assert next(items) == 0
    with pytest.raises(Cancelled):
        next(items)


def test_progress_outside_a_run_only_yields() -> None:
    assert list(track(iter("ab"))) == ["a", "b"]
    Meter(None, "", "").add()

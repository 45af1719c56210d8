"""A training that was given GPUs and computes on the CPU says so, once."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from training_scenarios import Place

from engine.declare.context import Resources, TaskContext
from engine.declare.events import Event, Facts, Message
from nodes.train_resnet3d import train_resnet3d
from nodes.training import session
from nodes.training.idle_gpus import warning_of_idle_gpus
from nodes.training.workers import group


@pytest.mark.parametrize(
    ("gpus", "devices", "warned"),
    [
        (0, ["CPU"], False),
        (1, ["NVIDIA H100 80GB HBM3"], False),
        (1, ["GPU"], False),
        (1, [], False),
        (1, ["CPU"], True),
        (4, ["CPU", "CPU"], True),
    ],
)
def test_it_is_said_once_where_gpus_are_not_used(tmp_path: Path, gpus: int, devices: list[str], warned: bool) -> None:
    events: list[Event] = []
    ctx = warning_of_idle_gpus(Place(tmp_path).context(emit=events.append), lambda: gpus)
    for device in devices:
        ctx.facts(device=device, replicas=1)
        ctx.metrics(1, loss=0.5)
    ctx.facts(weights="abc")
    warnings = [e.text for e in events if isinstance(e, Message) and e.level == "warning"]
    assert len(warnings) == warned
    assert [e.values.get("device") for e in events if isinstance(e, Facts)] == [*devices, None], "all goes on"
    if warned:
        assert "CPU" in warnings[0]
        assert "pip install 'voxelflow[gpu]'" in warnings[0]
        assert "voxelflow profiles test" in warnings[0]
        assert f"{gpus} GPU" in warnings[0]


def test_the_resources_of_the_task_say_how_many(tmp_path: Path) -> None:
    events: list[Event] = []
    ctx = warning_of_idle_gpus(Place(tmp_path).context(emit=events.append, resources=Resources(cores=1, gpus=2)))
    ctx.facts(device="CPU")
    assert any(isinstance(e, Message) and "2 GPUs" in e.text for e in events)


@pytest.mark.parametrize(
    ("backend", "workers", "here", "master", "of_a_task", "told"),
    [
        ("embedded", 1, 1, "", None, 1),
        ("embedded", 2, 2, "", None, 2),
        ("embedded", 1, 0, "", None, 0),
        ("spark", 1, 1, "local[2]", None, 1),
        ("spark", 2, 0, "local[2]", None, 0),
        ("spark", 1, 1, "spark://host:7077", None, 0),  # those of the driver's machine are not for training
        ("spark", 1, 0, "spark://host:7077", "2", 2),
        ("spark", 2, 0, "yarn", "0.5", 1),
        ("spark", 1, 0, "yarn", "0", 0),
    ],
)
def test_every_way_of_training_tells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    backend: str, workers: int, here: int, master: str, of_a_task: str | None, told: int,
) -> None:  # fmt: skip
    monkeypatch.setattr(session, "train_and_publish", lambda data, validation, settings, ctx, *_, **__: trained(ctx))
    monkeypatch.setattr(group, "train_with_workers", lambda data, validation, settings, ctx, *_, **__: trained(ctx))
    settings = {} if of_a_task is None else {"spark.task.resource.gpu.amount": of_a_task}
    conf = SimpleNamespace(get=lambda name, default=None: settings.get(name, default))
    spark: Any = SimpleNamespace(sparkContext=SimpleNamespace(master=master, getConf=lambda: conf))
    events: list[Event] = []
    ctx = Place(tmp_path).context(emit=events.append, resources=Resources(cores=2, gpus=here), open_spark=lambda: spark)
    train_resnet3d.backends[backend](None, workers=workers, ctx=ctx)
    warnings = [e.text for e in events if isinstance(e, Message) and e.level == "warning"]
    assert len(warnings) == bool(told)
    assert all(f"gives it {told} GPU" in text for text in warnings)


def trained(ctx: TaskContext) -> None:
    """What the leading worker of a training says when it starts."""
    ctx.facts(device="CPU")

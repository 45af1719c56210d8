"""A training, a machine that was measured and what is known of others, as the advisor has them."""

from __future__ import annotations

from typing import Any

from pretended_benches import SHAPE, bench_result

from engine.advisor.advice import Estimate, Knowledge, estimate
from engine.advisor.machines import (
    Candidate,
    computing_on,
    measured_machine,
)
from engine.advisor.reading import InputModel
from engine.advisor.sources import networks
from engine.declare.check_context import CheckContext
from engine.declare.datasets import Preview, VolumeSpec
from engine.declare.workload import TrainingWork
from nodes.train_resnet3d import train_resnet3d

HERE = Candidate("local", 2, 16 * 10**9, price_per_hour=0.1, currency="USD", origin="profile")
MACHINE = measured_machine(bench_result(), networks(train_resnet3d))
assert MACHINE is not None


def work(volumes: int = 20_000, *, kind: str = "VolumeDelta", **params: Any) -> TrainingWork:
    """As the node says it."""
    defaults = {p.name: p.default for p in train_resnet3d.parameters}
    data = Preview(kind=kind, count=volumes, spec=VolumeSpec(shape=SHAPE, dtype="float32"), uri="/data")
    hook = train_resnet3d.workload_hook
    assert hook is not None
    own = {"loader": "npy"} if kind == "VolumeFiles" else {}
    found = hook(CheckContext(params=defaults | own | params, inputs={"data": data}))
    assert found is not None
    return found


def reading(latency_s: float = 0.0, byte_s: float = 0.0, way: str = "files") -> InputModel:
    return InputModel(latency_s, byte_s, work().access[way], 1e-4, work().volume_bytes, 0.05, "a test")


def known(*candidates: Candidate, **more: Any) -> Knowledge:
    return Knowledge(candidates=candidates or (HERE,), measured=(MACHINE,), **more)


def one(training: TrainingWork, candidate: Candidate = HERE, **more: Any) -> Estimate:
    computing = computing_on(candidate, (MACHINE,), mixed_precision=None, jit=None)
    assert computing is not None
    return estimate(training, "files", candidate, computing, known(candidate, **more))

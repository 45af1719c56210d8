"""A node that makes a model of a given quality, without training one; loaded as `my_nodes/scored_nodes.py`."""

from __future__ import annotations

import json
import struct
import time
import zlib
from pathlib import Path
from typing import Annotated

from voxelflow import Policy, TaskContext, TrainedModel, VolumeSpec, node


@node("Scored", version=1, category="Probes")
def scored(*, auc: float = 0.5, gate: Annotated[str, Policy()] = "", ctx: TaskContext) -> TrainedModel:
    """Report two epochs, a picture and a model that reaches `auc`, once the test's gate is there."""
    while gate and not Path(gate).exists():
        time.sleep(0.02)
        ctx.check_cancelled()
    history = [{"loss": 1.0, "val_auc": auc / 2}, {"loss": 0.5, "val_auc": auc}]
    for epoch, figures in enumerate(history, 1):
        ctx.metrics(epoch, step_loss=figures["loss"], **figures)
    (ctx.out / "history.json").write_text(json.dumps(history))
    (ctx.out / "model.json").write_text("{}")
    picture = ctx.out / "curves.png"
    picture.write_bytes(_png(8, 8))
    ctx.artifact("plot", picture)
    spec = VolumeSpec(shape=(4, 4, 4), dtype="float32", classes=("a", "b"))
    return TrainedModel(uri=str(ctx.out), spec=spec, metrics={"val_auc": auc, "loss": 0.5})


def _png(width: int, height: int) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + bytes(range(width)) for _ in range(height))
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(kind, data) for kind, data in parts)

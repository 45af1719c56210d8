"""Predictions in processes of their own, which can be killed."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from training_scenarios import PROCESSES, Place

from engine.declare.datasets import Dataset, TrainedModel, dataset_from_json


def run_prediction(place: Place, model: TrainedModel, data: Dataset, *, kill_at: str = "", **params: Any) -> int:
    """Predict in a new process; its exit status (3: an error, in `failure.json`)."""
    order = [str(place.root), model.model_dump_json(), data.model_dump_json(), kill_at, params]
    process = PROCESSES.Process(target=_child, args=order)
    process.start()
    process.join(120)
    return -99 if process.exitcode is None else process.exitcode


def _child(root: str, model: str, data: str, kill_at: str, params: dict[str, Any]) -> None:
    os.environ["VOXELFLOW_KILL_AT"] = kill_at
    from engine.errors import VoxelflowError
    from nodes.batch_predict import batch_predict

    place = Place(Path(root))
    with (place.root / "events.jsonl").open("a") as sink:
        ctx = place.context(
            "predict",
            fingerprint="1" * 64,
            emit=lambda event: print(event.model_dump_json(), file=sink, flush=True),
        )
        given = dataset_from_json(model)
        assert isinstance(given, TrainedModel)
        try:
            made = batch_predict(given, dataset_from_json(data), **params, ctx=ctx)  # type: ignore[arg-type]
        except VoxelflowError as exc:
            (place.root / "failure.json").write_text(json.dumps({"code": exc.code, "message": exc.message}))
            sys.exit(3)
        (place.root / "result.json").write_text(made.model_dump_json())

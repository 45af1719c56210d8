"""Nodes that read what is there already (a table, a model, recorded trainings), measure, compare and wait."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from building import box, pipeline
from volumes import write_volumes

from engine.document.pipeline import Pipeline
from tests.torture.judge import Check, Row, rows_of
from tests.torture.reported import BATCH_SIZES, check_comparison, check_folds, check_listing, check_probe, check_profile

MORE = (
    "own", "one_fold", "other_fold", "one", "other", "folds", "files", "later", "by_files", "compared", "loaded",
    "kept", "asked", "probe", "profile",
)  # fmt: skip
_SINGLE = 8


def fill_more(root: Path, shape: tuple[int, ...], model: str, table: str) -> dict[str, list[Row]]:
    """Write what the nodes of `MORE` read, with copies of a model and a table of this or another workspace.

    Gives the rows of the nodes that do not hold all volumes.
    """
    shutil.copytree(model, root / "model")
    shutil.copytree(table, root / "own")
    single = write_volumes(root / "single", _SINGLE, shape=shape)
    (root / "place").mkdir()
    listed = rows_of({name: volume.tobytes() for name, volume in single.items()})
    return dict.fromkeys(("files", "later"), listed)


def more_document(root: Path, run_id: str) -> Pipeline:
    """Two folds of an own table and their mean; files that wait for them, and both ways of reading compared; models
    of a folder and of a run; a probe of a place, a profile of a training."""
    training = {"epochs": 1, "batch_size": 4, "learning_rate": 0.003, "checkpoint_every_s": 0}
    return pipeline(
        box("own", "DeltaTable", table=str(root / "own")),
        box("one_fold", "SplitDataset", folds=2, fold=1),
        box("other_fold", "SplitDataset", folds=2, fold=2),
        box("one", "TrainResNet3D", **training),
        box("other", "TrainResNet3D", **training),
        box("folds", "CrossValidation"),
        box("files", "VolumeFolder", folder=str(root / "single")),
        box("later", "RunAfter"),
        box("by_files", "TrainResNet3D", loader="npy", validation_share=0, **training),
        box("compared", "CompareTrainings"),
        box("loaded", "LoadModel", folder=str(root / "model")),
        box("kept", "LoadModel", run=run_id, run_node="train"),
        box("asked", "BatchPredict", batch_size=8, rows_per_part=8),
        box("probe", "ProbeStorage", place=str(root / "place"), seconds=5, limit_mb=4),
        box("profile", "ProfileTraining", batch_sizes=list(BATCH_SIZES), steps=2, warmup=0),
        wires="own.out>one_fold.table own.out>other_fold.table one_fold.train>one.data"
        " one_fold.validation>one.validation other_fold.train>other.data other_fold.validation>other.validation"
        " one.out>folds.fold_1 other.out>folds.fold_2 files.out>later.files folds.out>later.after"
        " later.out>by_files.data by_files.out>compared.files one.out>compared.table loaded.out>asked.model"
        " own.out>asked.data files.out>probe.volumes own.out>profile.data",
    )


def checks_of_more(root: Path, others: Mapping[str, list[Row]]) -> dict[str, Check]:
    """What must be true of the outputs beyond their rows."""
    names = [name for name, _, _ in others["files"]]
    return {
        "files": lambda output, _: check_listing("files", output, names),
        "later": lambda output, _: check_listing("later", output, names),
        "folds": lambda output, outputs: check_folds(output, outputs, ("one", "other")),
        "compared": lambda output, _: check_comparison(output, {"by_files", "one"}, {"by_files": len(names)}),
        "probe": lambda output, _: check_probe(output, root / "place", len(names)),
        "profile": lambda output, _: check_profile(output),
    }

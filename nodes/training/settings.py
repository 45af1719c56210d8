"""The parameters of a training: those that decide its result, and those that only say how it is come by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from nodes.loaders import LoaderName
from nodes.training.history import Judge
from nodes.training.learning_rate import ScheduleName
from nodes.training.model_ends import volume_shape
from nodes.training.objective import Task
from nodes.training.own_model import ModelFile
from nodes.training.resnet3d import Depth, Stem, Width

Flips = Literal["none", "X", "Y", "Z", "XY", "XZ", "YZ", "XYZ"]
"""The axes along which a volume may be mirrored."""


def cannot_turn(shape: Sequence[int]) -> str:
    """Why volumes of this shape cannot be turned by a quarter in the X-Y plane; empty when they can."""
    x, y, *_ = volume_shape(shape)
    if x == y:
        return ""
    return f"volumes of {x}x{y} voxels in X and Y cannot be turned by a quarter, which makes them {y}x{x}"


@dataclass(frozen=True)
class Settings:
    """What decides the result. All but `epochs` must be equal for one training to continue another."""

    depth: Depth
    epochs: int
    batch_size: int
    steps_per_epoch: int
    learning_rate: float
    optimizer: Literal["adam", "sgd"]
    schedule: ScheduleName
    decay_epochs: int
    warmup_steps: int
    validation_share: float
    seed: int
    loader: LoaderName
    classes: int
    mixed_precision: bool | None
    plateau_factor: float
    plateau_patience: int
    early_stopping_epochs: int
    class_weights: Literal["none", "balanced"]
    keep: Literal["last", "best"]
    best_by: Judge
    task: Task = "classification"
    stem: Stem = "standard"
    width: Width = 64
    model_file: ModelFile | None = None
    flips: Flips = "none"
    quarter_turns: bool = False
    intensity: float = 0.0
    noise: float = 0.0

    @property
    def judged_by_validation(self) -> str:
        """The parameter that cannot be kept to without validation volumes; empty when there is none."""
        if self.keep == "best":
            return "keep"
        if self.early_stopping_epochs:
            return "early_stopping_epochs"
        return "schedule" if self.schedule == "plateau" else ""

    @property
    def for_classes_only(self) -> str:
        """The parameter that a regression cannot keep to; empty when there is none."""
        if self.class_weights != "none":
            return "class_weights"
        return "best_by" if self.keep == "best" and self.best_by != "val_loss" else ""


@dataclass(frozen=True)
class Manner:
    """How it is come by: nothing here enters the fingerprint, and any of it may be another one after a resume."""

    workers: int
    jit: bool | None
    deterministic: bool
    checkpoint_every_s: int
    checkpoint_every_steps: int
    keep_checkpoints: int

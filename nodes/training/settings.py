"""The parameters of a training, and what its processes know of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Annotated, Any, Literal

from engine.declare.parameter_class import parameters_of
from engine.declare.parameters import Added, Advanced, Extendable, PathIn, Policy, Range, Unit
from nodes.loaders import LoaderChoice
from nodes.training.architecture import Depth, Stem, Width, volume_shape
from nodes.training.history import Judge, ScheduleName
from nodes.training.labels import Task
from nodes.training.model_file import ModelFile, read_model_file

Flips = Literal["none", "X", "Y", "Z", "XY", "XZ", "YZ", "XYZ"]
"""The axes along which a volume may be mirrored."""


def cannot_turn(shape: Sequence[int]) -> str:
    """Why volumes of this shape cannot be turned by a quarter in the X-Y plane; empty when they can."""
    x, y, *_ = volume_shape(shape)
    if x == y:
        return ""
    return f"volumes of {x}x{y} voxels in X and Y cannot be turned by a quarter, which makes them {y}x{x}"


@dataclass(frozen=True)
class TrainParameters:
    """The parameters of TrainResNet3D.

    Attributes:
        depth: layers of the network; more are slower and need more volumes.
        task: classification, or regression for labels that are any numbers.
        stem: with "standard" the first stage sees a quarter of each axis, which suits large volumes: 30x30x10 voxels
            end as one. With "small" it sees all: 30x30x10 end as 4x4x2, for some 20 times the work at the same width.
        width: filters of the first stage; later ones have 2, 4 and 8 times as many. Half of them make a quarter
            of the parameters; 16 make up for the work of the small stem.
        model_file: a Keras model of your own instead of the ResNet: a file in a trusted workspace's my_models/
            with a function build(shape, outputs).
        flips: axes along which a training volume is mirrored, each in half of the epochs.
        quarter_turns: turn training volumes by 0 to 3 quarters in the X-Y plane.
        intensity: stretch each channel of a training volume by up to this share, and shift it by up to so
            many of the channel's deviations. Try 0.1.
        noise: add Gaussian noise of so many deviations to each training volume. Try 0.1.
        epochs: passes over the training volumes.
        batch_size: volumes in a step. A smaller one needs less memory.
        steps_per_epoch: end an epoch after so many steps; 0 for all.
        learning_rate: the highest rate. Try a third of it when the loss jumps.
        optimizer: Adam, or stochastic gradient descent with Nesterov momentum 0.9.
        schedule: cosine falls from the rate to a hundredth of it, constant stays, plateau lowers it whenever the
            validation loss has stopped falling.
        decay_epochs: the epochs over which the cosine falls. It is separate from the number of
            epochs, so that a training can be made longer.
        warmup_steps: steps over which the rate rises at first.
        validation_share: part of the volumes held back for validation, chosen by the hash of their
            id, so that a volume stays on its side when others are added.
        validation_group: column of the table (patient, survey, well) whose equal values are never parted: whole
            groups are held back, by the hash of that value. Without it those that SplitDataset kept together.
        seed: decides initial weights and the order of volumes.
        loader: arrow reads tables fastest; petastorm is the package of that name; npy reads a
            folder's files one by one, for comparison.
        verify: compare each volume with its checksum whenever it is read, so that nothing is trained on that the
            disk has damaged (loaders of tables). Costs 0.05 ms of processor time for 360 kB.
        workers: TensorFlow processes that share every batch, on this machine or on Spark's
            executors. What is learned stays the same; the batch size must be a multiple of it.
        classes: number of classes; 0 takes it from the class names or labels.
        mixed_precision: compute in bfloat16. Faster on recent GPUs, slower on most CPUs; without a value
            that decides, before the first step.
        jit: compile with XLA. Faster on GPUs when deterministic is false, which is when it is used without a value;
            much slower on CPUs, and on GPUs when deterministic is true.
        deterministic: equal runs give equal weights, bit for bit. May cost speed on GPUs.
        checkpoint_every_s: least time between two checkpoints within an epoch.
        checkpoint_every_steps: a checkpoint after every so many steps, too; 0 for by time only.
        keep_checkpoints: how many of the newest checkpoints stay while the training runs.
        keep: publish the model as it is after the last epoch, or after the best.
        best_by: the figure of the validation volumes by which epochs are compared.
        early_stopping_epochs: end when the validation loss has had no new low for so many epochs; 0 for never.
        plateau_factor: with the schedule plateau, what the rate is multiplied by, down to a hundredth of it.
        plateau_patience: with the schedule plateau, epochs without a new low of the validation loss before that.
        class_weights: balanced lets all classes count alike in the training loss, however many volumes they have.
    """

    depth: Annotated[Depth, Unit("layers")] = 18
    task: Task = "classification"
    stem: Stem = "standard"
    width: Annotated[Width, Unit("filters")] = 64
    model_file: Annotated[str | None, PathIn("file"), Advanced()] = None
    flips: Flips = "none"
    quarter_turns: bool = False
    intensity: Annotated[float, Range(0, 0.9)] = 0.0
    noise: Annotated[float, Range(0, 10)] = 0.0
    epochs: Annotated[int, Range(1, 100_000), Extendable()] = 5
    batch_size: Annotated[int, Range(1, 65_536), Unit("volumes")] = 32
    steps_per_epoch: Annotated[int, Range(0)] = 0
    learning_rate: Annotated[float, Range(1e-9, 10)] = 3e-4
    optimizer: Literal["adam", "sgd"] = "adam"
    schedule: ScheduleName = "cosine"
    decay_epochs: Annotated[int, Range(1, 100_000), Unit("epochs"), Advanced()] = 20
    warmup_steps: Annotated[int, Range(0, 1_000_000), Unit("steps"), Advanced()] = 20
    validation_share: Annotated[float, Range(0, 0.9)] = 0.2
    validation_group: Annotated[str, Added()] = ""
    seed: int = 0
    loader: LoaderChoice = "arrow"
    verify: Annotated[bool, Policy(), Advanced(), Added()] = True
    workers: Annotated[int, Range(1, 64), Policy()] = 1
    classes: Annotated[int, Range(0, 10_000), Advanced()] = 0
    mixed_precision: Annotated[bool | None, Advanced()] = None
    jit: Annotated[bool | None, Policy(), Advanced()] = None
    deterministic: Annotated[bool, Policy(), Advanced()] = True
    checkpoint_every_s: Annotated[int, Range(0), Unit("s"), Policy(), Advanced()] = 120
    checkpoint_every_steps: Annotated[int, Range(0), Unit("steps"), Policy(), Advanced()] = 0
    keep_checkpoints: Annotated[int, Range(1, 1_000), Policy(), Advanced()] = 2
    keep: Literal["last", "best"] = "last"
    best_by: Annotated[Judge, Advanced()] = "val_loss"
    early_stopping_epochs: Annotated[int, Range(0, 100_000), Unit("epochs")] = 0
    plateau_factor: Annotated[float, Range(0.001, 0.999), Advanced()] = 0.5
    plateau_patience: Annotated[int, Range(1, 100_000), Unit("epochs"), Advanced()] = 5
    class_weights: Literal["none", "balanced"] = "none"


_STATE_ORDER = (
    "depth", "batch_size", "steps_per_epoch", "learning_rate", "optimizer", "schedule", "decay_epochs", "warmup_steps",
    "validation_share", "seed", "loader", "classes", "mixed_precision", "plateau_factor", "plateau_patience",
    "early_stopping_epochs", "class_weights", "keep", "best_by", "task", "stem",
)  # fmt: skip
"""Training states on the disk carry a hash of the deciding parameters in this order; others follow as declared."""


@dataclass(frozen=True)
class Settings(TrainParameters):
    """A training's parameters with the text of its own model, as they travel to workers."""

    own_model: ModelFile | None = None

    @classmethod
    def of(cls, parameters: TrainParameters) -> Settings:
        """Raises `UsageError` when the model's file may not run or cannot be read."""
        values = {field.name: getattr(parameters, field.name) for field in fields(TrainParameters)}
        return cls(**values, own_model=read_model_file(parameters.model_file) if parameters.model_file else None)

    def deciding(self) -> dict[str, Any]:
        """What decides the result: all parameters that are not `Policy`; those may be others after a resume.

        All but `epochs` must be equal for one training to continue another.
        """
        found = (p for p in parameters_of(TrainParameters) if not p.policy)
        # A parameter that is newer than a training's state was at its default for it.
        names = [p.name for p in found if not (p.added and getattr(self, p.name) == p.default)]
        ordered = [*(n for n in _STATE_ORDER if n in names), *(n for n in names if n not in _STATE_ORDER)]
        own_model = asdict(self.own_model) if self.own_model is not None else None
        return {name: getattr(self, name) for name in ordered} | {"model_file": own_model}

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

"""What the training loop knows of a model: the contract between it and a framework.

    Framework   sets a process up, makes learners, loads published models; one folder of `nodes/` for each
    Learner     a model with its optimizer: steps, evaluation, a state that can be saved
    Predictor   a published model: volumes in, scores out

Nothing here, nor anything else in `nodes.training`, imports a framework.
`nodes.testing.learner.LearnerConformance` holds a learner to this contract.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from engine.errors import DataError, VoxelflowError
from nodes.loaders.interface import Batch
from nodes.training.labels import Target
from nodes.training.settings import Settings

Arrays = dict[str, NDArray[Any]]
"""A learner's state by name, as a checkpoint keeps it."""
WEIGHT = "weight-"
"""Begins the names of the arrays that a prediction needs, in the model's order; all others are the optimizer's."""
FRAMEWORKS = {"keras": "nodes.tensorflow_keras.framework:KerasFramework"}
"""Where the class of each framework is. A model's folder names one of these and can cause no other import."""


@dataclass(frozen=True)
class Sums:
    """Losses and scores added up over rows, exactly enough to be interrupted and continued.

    `right` counts right answers; of a regression it adds up absolute errors, in deviations of the labels.
    """

    loss: float = 0.0
    right: float = 0.0
    rows: int = 0

    def __add__(self, other: Sums) -> Sums:
        return Sums(self.loss + other.loss, self.right + other.right, self.rows + other.rows)


NOTHING = Sums()


@dataclass(frozen=True)
class Evaluated:
    """A batch in inference mode: its sums, and the logits (n, outputs) and labels (n,) of its rows, both float32.

    With several workers they are those of all, in the order of the global batch.
    """

    sums: Sums
    logits: NDArray[np.float32]
    labels: NDArray[np.float32]


@dataclass(frozen=True)
class Team:
    """This process is worker `rank` of `ranks`. The first one leads: it alone reports, saves and publishes."""

    rank: int = 0
    ranks: int = 1

    @property
    def leads(self) -> bool:
        return self.rank == 0

    def share(self, rows: int) -> int:
        """The most rows of a global batch of `rows` that one worker has."""
        return -(-rows // self.ranks)


ALONE = Team()


@dataclass(frozen=True)
class LearnerSpec:
    """What a framework must know to make a learner.

    Volumes are float32 (n, *shape) in the data's own units; `mean` and `variance` (channels,) normalise them. A
    classifier tells `classes` apart; a regression has a `target` and no classes. `class_weights`, one per class,
    multiply the losses of training, not those of evaluation.
    """

    settings: Settings
    shape: tuple[int, ...]
    classes: int
    target: Target | None
    mean: tuple[float, ...]
    variance: tuple[float, ...]
    mixed_precision: bool = False
    class_weights: tuple[float, ...] | None = None


class Learner(ABC):
    """A model with its optimizer. Equal states and equal calls give equal results, bit for bit.

    With several workers, or several devices in this process, all of them make the same calls at the same time, each
    with its part of the global batch; every result is over the rows of all, and the same for all.
    """

    model_file: ClassVar[str]
    """Name of the file that `save` writes; `Framework.predictor` reads it."""
    replicas: int = 1
    """Devices that share every batch, over all processes."""

    @abstractmethod
    def train(self, batch: Batch, *, learning_rate: float, global_rows: int) -> Sums:
        """Take one optimizer step on the sum of all workers' gradients of their summed losses divided by `global_rows`.

        `batch` is this process' part of `global_rows` rows. Gives the sums over all of them, before the step. A loss
        that is not a number is returned, not raised. Raises `UsageError` when the device has too little memory.
        """

    @abstractmethod
    def evaluate(self, batch: Batch, *, rows: int) -> Evaluated:
        """Inference mode, changing nothing. `batch` has at most `rows` rows; it may be empty where others' are not."""

    @abstractmethod
    def arrays(self) -> Arrays:
        """Copies of all weights, optimizer variables and random states: what a checkpoint keeps."""

    @abstractmethod
    def restore(self, arrays: Arrays) -> None:
        """Take the state that `arrays` gave. Raises `DataError` when it is that of another model or optimizer."""

    @abstractmethod
    def set_weights(self, arrays: Arrays) -> None:
        """Take only the weights, those whose names begin with `WEIGHT`. Raises `DataError` for another model's."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """For `model.json`: `format` 1, `parameters` (total, trainable, non_trainable) and `software` by version.

        A framework other than Keras adds its name in `FRAMEWORKS` as `framework`, and its model's file as `file`.
        """

    @abstractmethod
    def save(self, folder: Path, *, shape: Sequence[int], metadata: Mapping[str, Any]) -> None:
        """Write the model as `model_file`, whole and durable, and what else the framework publishes of it.

        `shape` is that of one volume; `metadata` describes the model (task, class names, input).
        """

    def single(self) -> Learner:
        """The same model on one device, to be tested and saved; its weights are yet to be set."""
        return self

    def digest(self) -> str:
        """Hash of every weight's shape, type and bytes, in the model's order: equal for equal weights, bit for bit."""
        digest = hashlib.blake2b(digest_size=16)
        for name, array in self.arrays().items():
            if name.startswith(WEIGHT):
                value = np.ascontiguousarray(array)
                digest.update(f"{value.dtype.name}{value.shape}".encode())
                digest.update(value.tobytes())
        return digest.hexdigest()


class Predictor(ABC):
    """A published model that sees batches of one size, so that its scores do not depend on the batch."""

    @abstractmethod
    def scores(self, volumes: NDArray[np.float32]) -> NDArray[np.float32]:
        """float32 (n, *shape) with n up to the batch size -> float32 (n, scores): the probability of each class.

        A regression gives one value, in the labels' units. Raises `UsageError` when the device has too little memory.
        """

    def warm_up(self) -> None:  # noqa: B027 - not every framework compiles something first
        """Do what the first call would do besides, so that the first batch takes as long as any other."""


class Framework(ABC):
    """One framework in this process. Making one imports little: the framework itself comes with `load`.

    Call `set_up` before the first learner or predictor, and `join` between them where workers share each batch.
    """

    title: ClassVar[str] = "the framework"
    """Its name for people."""

    @abstractmethod
    def load(self) -> None:
        """Import the framework, which may take seconds."""

    @abstractmethod
    def set_up(self, *, cores: int, deterministic: bool, seed: int, team: Team = ALONE) -> list[str]:
        """Set threads, determinism and seeds of this process; gives what could not be set, in words."""

    @abstractmethod
    def join(self, addresses: Sequence[str], rank: int, warn: Callable[[str], None]) -> None:
        """From here on share each batch with the workers at `addresses` (host:port by rank), as worker `rank`."""

    @abstractmethod
    def share_devices(self, addresses: Sequence[str], rank: int) -> None:
        """Divide this machine's devices among its workers, before `set_up`. Raises `UsageError` with too few."""

    @abstractmethod
    def mixed_precision_pays(self) -> bool:
        """Whether this machine's devices compute faster in bfloat16."""

    @abstractmethod
    def learner(self, spec: LearnerSpec, warn: Callable[[str], None]) -> Learner:
        """A new learner; equal specs after equal `set_up` give equal weights. Raises `UsageError` for an unfit one."""

    @abstractmethod
    def predictor(self, file: Path, shape: Sequence[int], scores: int, batch_size: int) -> Predictor:
        """Load a model from the file that `Learner.save` wrote, running no code from it.

        It takes volumes of `shape` and gives `scores` figures. Raises `DataError` when it cannot be loaded or differs.
        """

    def lost_workers(self, exc: BaseException) -> bool:
        """Whether the error means that another worker is gone."""
        return False

    def device_memory(self) -> int:
        """The most bytes that this process had on one of its devices; 0 without one."""
        return 0

    def device(self) -> str:
        """What computes: the accelerator's name, "CPU" without one."""
        return "CPU"


def framework_named(name: str) -> Framework:
    """A framework by its name in `FRAMEWORKS`. Raises `DataError` for another name."""
    if name not in FRAMEWORKS:
        raise DataError(f"the framework {name} is not known", hint="Update Voxelflow.")
    found: Framework = resolve_name(FRAMEWORKS[name])()
    return found


def starting(framework: Framework, ranks: int = 1) -> str:
    """The name of a training's first phase."""
    return f"Starting {framework.title}" + (f" in {ranks} processes" if ranks > 1 else "")


class LostWorkers(VoxelflowError):
    """The framework in a worker cannot reach another one, whose end may be the cause."""

    code = "lost-others"

"""What ProfileTraining measures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from engine.declare.parameters import Added, Advanced, Range, Unit
from nodes.loaders import LoaderChoice
from nodes.training.architecture import Depth
from nodes.training.labels import Task
from nodes.training.settings import Settings


@dataclass(frozen=True)
class ProfileParameters:
    """The parameters of ProfileTraining.

    Attributes:
        depth: layers of the network.
        task: classification, or regression for labels that are any numbers.
        batch_sizes: the sizes to measure, over all workers.
        workers: numbers of TensorFlow processes that share every batch; each is measured with each size.
        optimizer: Adam keeps two more values for each weight than the gradient, momentum one.
        loader: what reads the volumes, as in TrainResNet3D.
        mixed_precision: compute in bfloat16.
        jit: compile with XLA, where a worker is alone.
        deterministic: as in TrainResNet3D; it may cost speed on GPUs.
        steps: measured steps for a row.
        warmup: steps before them, in which TensorFlow compiles and caches fill.
    """

    depth: Annotated[Depth, Unit("layers")] = 18
    task: Annotated[Task, Added()] = "classification"
    batch_sizes: Annotated[tuple[int, ...], Range(1, 65_536), Unit("volumes")] = (1, 2, 4, 8, 16, 32, 64)
    workers: Annotated[tuple[int, ...], Range(1, 64)] = (1,)
    optimizer: Literal["adam", "sgd"] = "adam"
    loader: LoaderChoice = "arrow"
    mixed_precision: bool = False
    jit: bool = False
    deterministic: bool = True
    steps: Annotated[int, Range(1, 150), Unit("steps"), Advanced()] = 10
    warmup: Annotated[int, Range(0, 50), Unit("steps"), Advanced()] = 2

    def settings(self, batch_size: int, workers: int = 1) -> Settings:
        """Of the training that is measured: without validation or checkpoints, all else at its defaults."""
        return Settings(
            depth=self.depth,
            task=self.task,
            batch_size=batch_size,
            workers=workers,
            optimizer=self.optimizer,
            loader=self.loader,
            mixed_precision=self.mixed_precision,
            jit=self.jit,
            deterministic=self.deterministic,
            epochs=1_000_000,
            validation_share=0.0,
            checkpoint_every_s=1_000_000_000,
        )

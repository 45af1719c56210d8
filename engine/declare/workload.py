"""What a training has to do, as its node knows it beforehand: the arithmetic of its network, and how it reads.

A node that trains declares a hook (`NodeType.workload`); `engine.advisor` makes times and costs of what it gives.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Network:
    """The arithmetic of one volume through a network, forwards; a training step takes about three times as much."""

    layers: int
    """Layers with weights, batch norms among them."""
    parameters: int
    multiply_adds: int
    values: int
    """What all layers hand on."""


@dataclass(frozen=True)
class Access:
    """How a loader reaches its volumes."""

    requests: float
    """Reads or requests for a volume, each of which waits for the storage once."""
    streams: int
    """Of them under way at a time: as many as a process has cores, at most so many."""
    least_streams: int = 1
    """And at least so many."""
    window_bytes: int = 0
    """Volumes as float32 that must have come before an epoch's first batch; 0: those of the batch alone."""
    overlap: float = 1.0
    """Share of the shorter of reading and computing that the longer hides: 1 of a loader that reads ahead, 0 of one
    that reads when it is asked for a batch."""

    def on(self, cores: int, workers: int = 1) -> int:
        """Reads under way at a time, of workers that share so many cores."""
        return workers * max(self.least_streams, min(self.streams, cores // workers))


@dataclass(frozen=True)
class Saving:
    """What a training writes while it stands still: a checkpoint after each epoch, and within it whenever so many
    seconds, or steps, have passed."""

    checkpoint_bytes: int
    best_bytes: int = 0
    """Beside it after an epoch that is the best so far, at most after each."""
    every_s: float = 120.0
    every_steps: int = 0
    """0: by time only."""


@dataclass(frozen=True)
class TrainingWork:
    """One training. Counts are of volumes; `batch_size` is over all `workers`.

    `kind` and `uri` are those of the dataset it reads; `uri` is "" while the pipeline has yet to make it. `access` says
    how each way of reading reaches its volumes: by "files" (one each), from a "table", from a "remote table".
    """

    network: Network
    shape: tuple[int, ...]
    dtype: str
    volume_bytes: int
    volumes: int
    """Trained on in an epoch."""
    validation: int
    """Looked at after each epoch, without learning."""
    epochs: int
    batch_size: int
    workers: int = 1
    loader: str = "arrow"
    kind: str = "VolumeDelta"
    uri: str = ""
    kept_bytes: int = 0
    """Of all volumes that lie there for it, also of those that it does not read; 0: of those that it reads."""
    mixed_precision: bool | None = None
    """None: where the device computes faster in it."""
    jit: bool | None = None
    access: Mapping[str, Access] = field(default_factory=dict)
    saving: Saving | None = None
    """None: it writes nothing that counts."""
    exact_network: bool = True
    """Whether `network` is the one that is trained; a person's own model is known only while it runs."""

    @property
    def steps(self) -> int:
        """Steps of an epoch."""
        return self.volumes // self.batch_size

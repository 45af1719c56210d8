"""What a training took, as a portable record: JSON that another machine's comparison can join."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from engine.errors import DataError
from engine.storage.files import read_document, write_whole
from engine.storage.io_errors import remedy

FORMAT = 1
CPU = "CPU"


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, ser_json_inf_nan="strings")


class Epoch(_Frozen):
    """Seconds of one epoch by kind of work, and volumes a second over data and compute."""

    number: int
    data_s: float
    compute_s: float
    checkpoint_s: float = 0.0
    evaluate_s: float = 0.0
    volumes_per_s: float
    loss: float | None = None

    @property
    def training_s(self) -> float:
        """Without checkpoints and evaluation."""
        return self.data_s + self.compute_s


class Sample(_Frozen):
    """The machine at one moment, `at_s` seconds after the training's start. What could not be read is None.

    Rates are means since the sample before: megabits (10**6 bits) received, megabytes read from and written to disks.
    """

    at_s: float
    cpu_percent: float | None = None
    memory_mb: float | None = None
    network_mbit_s: float | None = None
    disk_read_mb_s: float | None = None
    disk_write_mb_s: float | None = None
    gpu_percent: float | None = None


class Training(_Frozen):
    """One training: where it ran, what it read, how long everything took. Seconds, bytes, MB of 10**6 bytes."""

    run_id: str
    node: str
    title: str
    device: str = CPU
    """"CPU", or the accelerator's name."""
    machine: str = ""
    """In words: processor, cores, memory, GPUs."""
    machine_type: str = ""
    """By its name in the table of prices; "" where the profile names none."""
    loader: str
    storage: str
    """"local disk", or the scheme of the object storage."""
    note: str = ""
    """What the person says of the storage."""
    volumes: int
    """Those of one epoch: without what a split or a validation share holds back."""
    prepared_volumes: int = 0
    """All of the table or folder, those held back too; 0 in records that do not say it."""
    volume_bytes: int
    batch_size: int
    epochs_wanted: int
    settings: dict[str, str | int | float | bool | None] = {}
    """Parameters that decide what is computed."""
    epochs: tuple[Epoch, ...] = ()
    """Those that this training ran itself, in order; after an interruption with the rest of one."""
    attempts: int = 1
    preparation_s: float | None = None
    """Work on the data that the files one by one do without; None where some of it is not recorded any more."""
    price_per_hour: float | None = None
    currency: str = ""
    losses: tuple[tuple[int, float], ...] = ()
    """Step, counted from 1, and its loss."""
    samples: tuple[Sample, ...] = ()

    @property
    def on_gpu(self) -> bool:
        return self.device != CPU

    @property
    def one_by_one(self) -> bool:
        """Whether each volume is read from a file or object of its own."""
        return self.loader == "npy"

    @property
    def steady(self) -> tuple[Epoch, ...]:
        """The epochs after the first, in which TensorFlow compiles and caches fill; the first where it is alone."""
        return self.epochs[1:] or self.epochs

    @property
    def volumes_per_s(self) -> float | None:
        """The median epoch's rate."""
        rates = [epoch.volumes_per_s for epoch in self.steady if epoch.volumes_per_s > 0]
        return statistics.median(rates) if rates else None

    @property
    def waiting_share(self) -> float | None:
        """The share of data and compute that was waiting for data, from 0 to 1."""
        data, both = sum(epoch.data_s for epoch in self.steady), sum(epoch.training_s for epoch in self.steady)
        return data / both if both > 0 else None

    @property
    def epoch_s(self) -> float | None:
        """An epoch of all its volumes at that rate."""
        return self.seconds_for(self.volumes, 1)

    @property
    def measured_s(self) -> float:
        """All recorded epochs together, without checkpoints and evaluation."""
        return sum(epoch.training_s for epoch in self.epochs)

    @property
    def trained_volumes(self) -> int:
        """Volumes of all recorded epochs together, each counted in each epoch."""
        return round(sum(epoch.volumes_per_s * epoch.training_s for epoch in self.epochs))

    @property
    def complete(self) -> bool:
        """Whether the times are those of one undisturbed training from its beginning."""
        return len(self.epochs) == self.epochs_wanted and self.attempts == 1

    def seconds_for(self, volumes: int, epochs: int) -> float | None:
        """So many epochs of so many volumes at its rate: an extrapolation."""
        return None if self.volumes_per_s is None else volumes * epochs / self.volumes_per_s

    def preparation_for(self, volumes: int) -> float | None:
        """The preparation of so many volumes, taken as proportional to their number."""
        prepared = self.prepared_volumes or self.volumes
        return None if self.preparation_s is None else self.preparation_s * volumes / max(1, prepared)

    def cost(self, seconds: float | None) -> float | None:
        """What so many seconds of its machine cost, in `currency`; None without a price."""
        return None if seconds is None or self.price_per_hour is None else self.price_per_hour * seconds / 3600

    @property
    def input_mbit_s(self) -> float | None:
        """Bits of volumes that reached the training each second, in 10**6."""
        return None if self.volumes_per_s is None else self.volumes_per_s * self.volume_bytes * 8 / 1e6

    def peak(self, name: str) -> float | None:
        """The highest value of a field of its samples; None when none was read."""
        return max((value for sample in self.samples if (value := getattr(sample, name)) is not None), default=None)


class Trainings(_Frozen):
    """The file's content."""

    format: int = FORMAT
    trainings: tuple[Training, ...]


def write_trainings(path: Path, trainings: Iterable[Training]) -> None:
    """Write the file, whole and durable."""
    write_whole(path, Trainings(trainings=tuple(trainings)).model_dump_json(indent=1) + "\n", durable=True)


def read_trainings(path: Path) -> tuple[Training, ...]:
    """The trainings in a file. Raises `DataError`, with its name, for one that is damaged or of a newer Voxelflow."""
    hint = "Take a comparison.json that CompareTrainings wrote."
    try:
        content = json.loads(read_document(path))
        number = content["format"]
        if isinstance(number, int) and number > FORMAT:
            raise DataError(
                f"{path} has format {number}, this Voxelflow reads {FORMAT}", hint="Update Voxelflow on this machine."
            )
        return Trainings.model_validate(content).trainings
    except OSError as exc:
        raise DataError(f"{path} cannot be read: {exc.strerror or exc}", hint=remedy(exc)) from exc
    except (ValidationError, ValueError, KeyError, TypeError, RecursionError) as exc:
        raise DataError(f"{path} is no comparison of trainings", hint=hint) from exc


def joined(here: Sequence[Training], others: Iterable[Training]) -> tuple[Training, ...]:
    """Those of this run and, after them, the others; each once, by run and node."""
    found = {(training.run_id, training.node): training for training in here}
    for training in others:
        found.setdefault((training.run_id, training.node), training)
    return tuple(found.values())

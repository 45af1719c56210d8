"""What a function of `write_volumes` gives: called, checked, and taken apart into rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from engine.declare.datasets import DTYPES, Transform, VolumeSpec
from engine.errors import DataError
from engine.text import plural
from nodes.conversion.columns import of_label_table
from nodes.writing.volumes import MakeVolumes, Volumes


@dataclass(frozen=True)
class Checked:
    """What a function gives, as it will be stored: `spec` and `columns` are those of all its batches."""

    spec: VolumeSpec
    columns: pa.Schema

    @classmethod
    def by_probe(
        cls,
        made: Volumes,
        classes: Sequence[str],
        carried: pa.Schema,
        given: Mapping[str, pa.DataType],
        chain: tuple[Transform, ...] = (),
    ) -> Checked:
        """As the first batch has it: shape, dtype, and the types of columns that are neither carried nor `given`.

        `chain` is what was done to the volumes, the function included. Raises `DataError` for volumes or columns that a
        table cannot hold.
        """
        found = made.volumes
        if found.dtype.name not in DTYPES:
            raise DataError(
                f"the function gave volumes of type {found.dtype.name}, which no table of volumes holds",
                hint=f"Give one of {', '.join(sorted(DTYPES))}, for example with volumes.astype('uint8').",
            )
        if found.ndim < 2 or 0 in found.shape[1:]:
            raise DataError(
                f"the function gave an array of the shape {found.shape} for {plural(len(made), 'volumes')}",
                hint="Give an array of (n, *shape): one volume after the other, none of them empty.",
            )
        known = {field.name: field.type for field in carried} | dict(given)
        types = {
            name: known[name] if name in known else _stored(name, pa.array(list(values)))
            for name, values in made.columns.items()
        }
        if missing := next((name for name in given if name not in types), ""):
            raise DataError(
                f"the function gave no column {missing}, which column_types names",
                hint="Give it with each batch, or do not name it.",
            )
        spec = VolumeSpec(shape=found.shape[1:], dtype=found.dtype.name, classes=tuple(classes), transforms=chain)
        return cls(spec, pa.schema(list(types.items())))

    def rows(self, made: Volumes) -> Iterator[tuple[NDArray[np.uint8], float | None, tuple[Any, ...]]]:
        """Each volume's bytes, label and columns. Raises `DataError` when they are not as in the first batch."""
        shape, dtype = made.volumes.shape[1:], made.volumes.dtype.name
        if (shape, dtype) != (self.spec.shape, self.spec.dtype):
            found = VolumeSpec.model_construct(shape=shape, dtype=dtype).describe()
            raise DataError(
                f"the function made {found} of {made.ids[0]!r}, and {self.spec.describe()} of the first volume",
                hint="Give all volumes of a dataset one shape and type.",
            )
        if made.columns.keys() != set(self.columns.names):
            raise DataError(
                f"the function gave the columns {_listed(made.columns)} for {made.ids[0]!r}, and"
                f" {_listed(self.columns.names)} for the first volume",
                hint="Give the same columns with each batch; None stands for a value that is not known.",
            )
        order = np.dtype(self.spec.dtype).newbyteorder("<")
        data = np.ascontiguousarray(made.volumes, order).reshape(len(made), -1).view(np.uint8)
        labels = [None if np.isnan(label) else float(label) for label in made.labels]
        columns = [_values(field, made.columns[field.name], made.ids[0]) for field in self.columns]
        for row in range(len(made)):
            yield data[row], labels[row], tuple(values[row] for values in columns)


def call(function: MakeVolumes, batch: Volumes, *, keeps_values: bool = False) -> Volumes:
    """What the function makes of the batch; with `keeps_values` no voxel may become another.

    Raises what it raises, and `DataError` for what is no batch.
    """
    named = batch.ids[0] if len(batch) == 1 else f"{batch.ids[0]} ... {batch.ids[-1]}"
    before = batch.volumes.copy() if keeps_values else None  # its own may be changed in place
    try:
        given = function(batch)
    except Exception as exc:
        exc.add_note(f"while making volumes of {named}")
        raise
    made = given if isinstance(given, Volumes) else replace(batch, volumes=np.asarray(given))
    volumes, labels = np.asarray(made.volumes), np.asarray(made.labels, np.float32)
    lengths = {len(volumes) if volumes.ndim else 0, len(labels) if labels.ndim == 1 else -1}
    lengths |= {len(values) for values in made.columns.values()}
    if tuple(made.ids) != batch.ids or lengths != {len(batch)}:
        raise DataError(
            f"the function gave {_counts(volumes, labels, made)} for the {plural(len(batch), 'volumes')} {named}",
            hint="Give as many volumes as it gets, in their order and with their ids.",
        )
    if np.isinf(labels).any():
        raise DataError(
            f"the function gave an infinite label for {batch.ids[int(np.isinf(labels).argmax())]!r}",
            hint="Give NaN for a volume without a label.",
        )
    if before is not None and not _same(before, volumes):
        raise DataError(
            f"the function changed the volumes of {named}, and keeps_values says that it changes none",
            hint="Leave keeps_values out.",
        )
    return replace(made, volumes=volumes, labels=labels)


def _same(before: NDArray[Any], after: NDArray[Any]) -> bool:
    """Whether shape, dtype and every bit are equal: NaN is the same as itself."""
    if (before.shape, before.dtype.name) != (after.shape, after.dtype.name):
        return False
    plain = np.ascontiguousarray(after, before.dtype)
    return np.array_equal(before.reshape(-1).view(np.uint8), plain.reshape(-1).view(np.uint8))


def _counts(volumes: NDArray[Any], labels: NDArray[Any], made: Volumes) -> str:
    found = [f"an array of the shape {volumes.shape}", plural(labels.size, "labels"), plural(len(made.ids), "ids")]
    return ", ".join([*found, *(f"{plural(len(values), 'values')} of {name}" for name, values in made.columns.items())])


def _listed(names: Any) -> str:
    return ", ".join(sorted(names)) or "(none)"


def _stored(name: str, values: pa.Array) -> pa.DataType:
    """The type of a table's column for such values, under that very name."""
    named = of_label_table(pa.table({name: values}))
    if named.remarks:
        raise DataError(
            f"the column {name} that the function gave cannot be stored: {named.remarks[0]}",
            hint="Give numbers or text.",
        )
    return named.table.schema.field(name).type


def _values(field: pa.Field, values: Sequence[Any], first: str) -> list[Any]:
    try:
        out: list[Any] = pa.array(list(values), field.type).to_pylist()
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as exc:
        raise DataError(
            f"the function gave values of {field.name} from {first!r} on that are not {field.type}: {exc}",
            hint=f"Say the column's type: column_types={{{field.name!r}: 'float64'}}.",
        ) from exc
    return out

"""What all volumes of a dataset have in common: shape, dtype, classes, and what was done to them."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import Any, Literal, get_args

from pydantic import SerializerFunctionWrapHandler, field_validator, model_serializer

from engine.declare.dataset_type import Frozen as _Frozen
from engine.declare.dataset_type import without_defaults
from engine.text import label_text

FORMAT_VERSION = 1
"""Version of the volume table layout, kept in schema metadata and table properties."""

DTypeName = Literal[
    "float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"
]
"""NumPy dtype names a volume may have; bool, complex, strings, objects and records are refused."""
DTYPES: frozenset[str] = frozenset(get_args(DTypeName))


class Transform(_Frozen):
    """A step of a chain that changes volumes: its name, the version of what it does, and its parameters as JSON.

    `nodes.transforms.steps` says what the steps are. `words` is what it does, for people: "crop 64x64x48".
    """

    name: str
    version: int = 1
    parameters: dict[str, Any] = {}
    words: str = ""

    @field_validator("parameters")
    @classmethod
    def _as_json(cls, value: dict[str, Any]) -> dict[str, Any]:
        # With lists for tuples: one that was stored meanwhile is the same.
        parsed: dict[str, Any] = json.loads(json.dumps(value))
        return parsed


def words_of(transforms: Iterable[Transform]) -> str:
    """`resample 1 mm, crop 64x64x48, z-score`."""
    return ", ".join(each.words or each.name for each in transforms)


class VolumeSpec(_Frozen):
    """What all volumes of a dataset have in common.

    `shape` is the array's shape, axes X, Y, Z, then channels, e.g. (30, 30, 10, 10); `dtype` a
    NumPy name in `DTYPES` (stored little-endian, C order); `classes` the names of the labels
    0, 1, ... when they are known; `transforms` what was done to the volumes since their files were read.
    """

    shape: tuple[int, ...]
    dtype: str
    classes: tuple[str, ...] = ()
    transforms: tuple[Transform, ...] = ()

    @model_serializer(mode="wrap")
    def _as_before(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return without_defaults(self, handler(self), ("transforms",))

    @field_validator("dtype")
    @classmethod
    def _known_dtype(cls, value: str) -> str:
        if value not in DTYPES:
            raise ValueError(f"dtype {value} is not supported; use one of {', '.join(sorted(DTYPES))}")
        return value

    @property
    def volume_bytes(self) -> int:
        """Bytes of one volume."""
        size = int("".join(c for c in self.dtype if c.isdigit())) // 8
        for length in self.shape:
            size *= length
        return size

    def label_name(self, label: float) -> str:
        """The name of the label's class, else the number; "" for NaN."""
        if math.isnan(label):
            return ""
        is_class = label.is_integer() and 0 <= label < len(self.classes)
        return self.classes[int(label)] if is_class else label_text(label)

    def describe(self) -> str:
        """`30x30x10x10 float32`."""
        return f"{'x'.join(map(str, self.shape))} {self.dtype}"

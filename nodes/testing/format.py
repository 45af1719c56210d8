"""The laws of a format of volumes as tests: what is read is what was written, and a bad file is refused.

    class TestSegy(FormatConformance):
        format_name = "segy"

        def write(self, path, volume):  # axes X, Y, Z, then channels
            ...

The format must be built in or registered (`nodes.conversion.formats`). A volume of several files: override
`write` and `damaged`.
"""

from __future__ import annotations

import os
import random
import tracemalloc
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from engine.declare.datasets import VolumeSpec
from engine.storage import manifest
from nodes.conversion.formats import Reading, VolumeFormat, format_named
from nodes.conversion.formats.interface import Box
from nodes.conversion.formats.reader import FormatReader, header_of, read_volume
from nodes.conversion.quarantine import REASONS, Refused


class FormatConformance:
    """Subclass it, with `format_name` and `write`."""

    format_name: ClassVar[str]
    dtypes: ClassVar[tuple[str, ...]] = ("uint8", "int16", "float32")
    """What the format can hold."""
    shape: ClassVar[tuple[int, ...]] = (5, 4, 3)
    """Of the volumes that are written; other lengths for each axis, so that none is taken for another."""
    dataset: ClassVar[str] = ""
    name: ClassVar[str] = ""
    """Of the file; by default "volume" with the first ending."""
    most_copies: ClassVar[float] = 4.0
    """Times its own size that reading a volume may take at the peak."""

    def write(self, path: Path, volume: NDArray[Any]) -> None:
        """Write `volume`, axes X, Y, Z, then channels, so that it is read from `path`."""
        raise NotImplementedError

    def damaged(self, path: Path) -> Iterator[tuple[str, bytes]]:
        """Contents of the file at `path` that are not whole or not true, each with a word for it."""
        whole = path.read_bytes()
        yield "empty", b""
        yield "noise", random.Random(5).randbytes(2_000)
        for share in (0.01, 0.1, 0.3, 0.5, 0.8, 0.99):
            yield f"cut at {share}", whole[: int(len(whole) * share)]
        draw = random.Random(7)
        for number in range(40):
            flipped = bytearray(whole)
            # Mostly in the beginning, where headers are.
            at = draw.randrange(min(len(whole), 400 if number % 4 else len(whole)))
            flipped[at] ^= 1 << draw.randrange(8)
            yield f"bit flipped in byte {at}", bytes(flipped)

    # --- the laws --------------------------------------------------------------------------

    @pytest.fixture
    def format(self) -> VolumeFormat:
        """The format under test."""
        return format_named(self.format_name)

    @pytest.fixture
    def path(self, tmp_path: Path, format: VolumeFormat) -> Path:
        """Where a test writes its volume."""
        return tmp_path / (self.name or f"volume{format.all_endings[0]}")

    @property
    def reading(self) -> Reading:
        """How the format is read: by its name, and of several arrays `dataset`."""
        return Reading(self.format_name, self.dataset)

    def volume(self, dtype: str, shape: tuple[int, ...] = ()) -> NDArray[Any]:
        """A volume whose voxels all differ, as far as its dtype allows."""
        shape = shape or self.shape
        return np.arange(1, 1 + int(np.prod(shape))).astype(dtype).reshape(shape)

    def read(self, path: Path, spec: VolumeSpec) -> tuple[NDArray[Any], tuple[object, ...]]:
        """Read it as a conversion does: the volume, and the values of its columns."""
        reader = FormatReader(str(path.parent), self.reading, spec, finite=False)
        row = np.zeros(spec.volume_bytes, np.uint8)
        size, mtime_ns = format_named(self.format_name).stamper()(path)
        columns = reader.read(path.name, size, mtime_ns, row)
        return row.view(np.dtype(spec.dtype).newbyteorder("<")).reshape(spec.shape), columns

    def _refusal_or_volume(self, path: Path, spec: VolumeSpec) -> Refused | NDArray[Any]:
        try:
            return self.read(path, spec)[0]
        except Refused as refused:
            return refused

    def test_its_endings_are_in_small_letters_and_begin_with_a_dot(self, format: VolumeFormat) -> None:
        assert format.all_endings
        for ending in (*format.all_endings, *format.companions):
            assert ending.startswith(".")
            assert ending == ending.lower()

    def test_every_voxel_is_where_it_was_written(self, path: Path, format: VolumeFormat) -> None:
        for dtype in self.dtypes:
            volume = self.volume(dtype)
            self.write(path, volume)
            header = header_of(str(path.parent), path.name, self.reading)
            assert (header.shape, header.dtype) == (volume.shape, dtype)
            read, columns = self.read(path, VolumeSpec(shape=header.shape, dtype=header.dtype))
            assert np.array_equal(read, volume)
            assert columns == tuple(header.columns.get(name) for name, _ in format.columns)
            assert np.array_equal(read_volume(str(path.parent), path.name, self.reading), volume)

    def test_a_box_is_that_part_of_the_volume(self, path: Path, format: VolumeFormat) -> None:
        for dtype in self.dtypes:
            volume = self.volume(dtype)
            self.write(path, volume)
            with format.opener()(path, self.dataset) as opened:
                if opened.read_box is None:
                    continue
                draw = random.Random(3)
                for _ in range(20):
                    ends = [sorted(draw.sample(range(length + 1), 2)) for length in volume.shape[:3]]
                    (x, x_end), (y, y_end), (z, z_end) = ends
                    box = Box((x, y, z), (x_end, y_end, z_end))
                    out = np.zeros((*box.shape, *volume.shape[3:]), np.dtype(dtype).newbyteorder("<"))
                    opened.read_box(box, out)
                    assert np.array_equal(out, volume[box.slices])

    def test_columns_are_those_that_it_declares(self, path: Path, format: VolumeFormat) -> None:
        self.write(path, self.volume(self.dtypes[0]))
        header = header_of(str(path.parent), path.name, self.reading)
        declared = dict(format.columns)
        for name, value in header.columns.items():
            assert name.isidentifier(), name
            assert type(value) in (int, float, str), name
            assert len(str(value)) < 1_000
            assert pa.scalar(value, pa.type_for_alias(declared[name])).as_py() == value
        assert header_of(str(path.parent), path.name, self.reading).columns == header.columns

    def test_another_shape_or_dtype_is_refused_before_the_data_is_read(self, path: Path) -> None:
        self.write(path, self.volume(self.dtypes[0]))
        for spec, reason in (
            (VolumeSpec(shape=self.shape, dtype="float64"), "dtype-differs"),
            (VolumeSpec(shape=(2, 2, 2), dtype=self.dtypes[0]), "shape"),
        ):
            with pytest.raises(Refused) as refused:
                self.read(path, spec)
            assert refused.value.reason == reason

    def test_a_damaged_file_is_refused_and_nothing_else_happens(self, path: Path) -> None:
        volume = self.volume(self.dtypes[0])
        self.write(path, volume)
        spec = VolumeSpec(shape=volume.shape, dtype=self.dtypes[0])
        for what, content in list(self.damaged(path)):
            path.write_bytes(content)
            found = self._refusal_or_volume(path, spec)
            if isinstance(found, Refused):
                assert found.reason in REASONS, what
                assert found.message, what
            else:
                assert what.startswith("bit flipped") or np.array_equal(found, volume), what

    def test_a_file_that_is_gone_or_has_changed_is_refused(self, path: Path, format: VolumeFormat) -> None:
        volume = self.volume(self.dtypes[0])
        self.write(path, volume)
        spec = VolumeSpec(shape=volume.shape, dtype=self.dtypes[0])
        reader = FormatReader(str(path.parent), self.reading, spec, finite=False)
        size, mtime_ns = format.stamper()(path)
        row = np.zeros(spec.volume_bytes, np.uint8)
        for name, when in ((path.name, mtime_ns + 1), (f"no-such{path.name}", mtime_ns)):
            with pytest.raises(Refused) as refused:
                reader.read(name, size, when, row)
            assert refused.value.reason == "changed-during-run"

    def test_what_cannot_be_opened_is_refused(self, path: Path, format: VolumeFormat) -> None:
        os.mkfifo(path)
        self._list(path.parent, format)
        with suppress(OSError):
            format.stamper()(path)
        with pytest.raises(Refused):
            header_of(str(path.parent), path.name, self.reading)

    def test_nothing_waits_for_a_pipe_in_place_of_one_of_its_files(self, path: Path, format: VolumeFormat) -> None:
        volume = self.volume(self.dtypes[0])
        self.write(path, volume)
        spec = VolumeSpec(shape=volume.shape, dtype=self.dtypes[0])
        for file in sorted(each for each in path.parent.rglob("*") if each.is_file()):
            aside = path.parent.with_name("aside")
            file.rename(aside)
            os.mkfifo(file)
            self._list(path.parent, format)
            with pytest.raises((Refused, OSError)):  # the latter of the stamp, where no volume is left
                self.read(path, spec)
            file.unlink()
            aside.rename(file)
        assert np.array_equal(self.read(path, spec)[0], volume)

    def _list(self, folder: Path, format: VolumeFormat) -> None:
        listed = manifest.list_folder(folder, format.kind.patterns, format.kind.folders)
        if (collect := format.collector()) is not None:
            collect(folder, listed)

    def test_memory_is_that_of_a_few_volumes(self, path: Path) -> None:
        volume = self.volume(self.dtypes[-1], (64, 64, 64))
        self.write(path, volume)
        spec = VolumeSpec(shape=volume.shape, dtype=self.dtypes[-1])
        self.read(path, spec)
        tracemalloc.start()
        try:
            self.read(path, spec)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < self.most_copies * volume.nbytes + (4 << 20)

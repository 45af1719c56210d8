"""HDF5 and what is stored in it, MATLAB: held to the laws of a format."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from numpy.typing import NDArray
from refused_files import refusal
from scipy import io

from engine.declare.datasets import VolumeSpec
from nodes.conversion.formats import Reading
from nodes.conversion.formats.reader import FormatReader, header_of, read_volume
from nodes.conversion.quarantine import Refused
from nodes.testing.format import FormatConformance


class TestHdf5(FormatConformance):
    format_name = "hdf5"
    dtypes = ("uint8", "int16", "float32", "float64", "uint64")

    def write(self, path: Path, volume: NDArray[Any]) -> None:
        with h5py.File(path, "w") as file:
            file.create_dataset("scan/volume", data=volume, compression="gzip")

    def test_one_of_several_datasets(self, tmp_path: Path) -> None:
        path = tmp_path / "a.h5"
        with h5py.File(path, "w") as file:
            file["image"] = np.arange(24, dtype=">i4").reshape(2, 3, 4)
            file["mask"] = np.ones((2, 3, 4), np.uint8)
            file["names"] = np.array(["a", "b"], object)
        assert "several arrays: image, mask; name one" in refusal(path, "hdf5")
        assert refusal(path, "hdf5", "names").startswith("pickle: ")
        assert "has no array 'nope'" in refusal(path, "hdf5", "nope")
        read = read_volume(str(tmp_path), "a.h5", Reading("hdf5", "/image"))
        assert np.array_equal(read, np.arange(24).reshape(2, 3, 4))

    def test_links_inside_the_file_are_followed_and_no_further(self, tmp_path: Path) -> None:
        with h5py.File(tmp_path / "b.h5", "w") as file:
            file["x"] = np.full((2, 3, 4), 7)
        with h5py.File(tmp_path / "a.h5", "w") as file:
            file["deep/volume"] = np.arange(24).reshape(2, 3, 4)
            file["link"] = h5py.ExternalLink("b.h5", "/x")
            soft = {"soft": "/deep/volume", "deep/beside": "volume", "folder": "/deep", "again": "soft"}
            bad = {"around": "/link", "circle": "/circle", "lost": "/nothing"}
            for name, target in {**soft, **bad}.items():
                file[name] = h5py.SoftLink(target)
        for name in ("", "soft", "deep/beside", "folder/volume", "again"):
            read = read_volume(str(tmp_path), "a.h5", Reading("hdf5", name))
            assert np.array_equal(read, np.arange(24).reshape(2, 3, 4)), name
        assert "has /link in another file, which is not opened" in refusal(tmp_path / "a.h5", "hdf5", "around")
        for name in ("circle", "lost"):
            assert f"has no array '{name}'" in refusal(tmp_path / "a.h5", "hdf5", name)

    def test_nothing_outside_the_file_is_read(self, tmp_path: Path) -> None:
        secret = tmp_path / "secret"
        secret.write_bytes(bytes(range(24)))
        with h5py.File(tmp_path / "b.h5", "w") as file:
            file["x"] = np.ones((2, 3, 4))
        with h5py.File(tmp_path / "a.h5", "w") as file:
            file.create_dataset("raw", (2, 3, 4), "u1", external=[(str(secret), 0, 24)])
            file["link"] = h5py.ExternalLink("b.h5", "/x")
            layout = h5py.VirtualLayout((2, 3, 4), "f8")
            layout[:] = h5py.VirtualSource(tmp_path / "b.h5", "x", (2, 3, 4))
            file.create_virtual_dataset("virtual", layout)
        for name in ("raw", "link", "virtual"):
            assert "which are not opened" in refusal(tmp_path / "a.h5", "hdf5", name) or "another file" in refusal(
                tmp_path / "a.h5", "hdf5", name
            )

    def test_a_dataset_that_promises_much_takes_no_memory(self, tmp_path: Path) -> None:
        with h5py.File(tmp_path / "a.h5", "w") as file:
            empty = file.create_dataset("x", (100_000, 100_000, 100), "f4", chunks=(1, 100, 100), fillvalue=np.nan)
            empty[0, 0, 0] = 1
        header = header_of(str(tmp_path), "a.h5", Reading("hdf5"))
        assert header.shape == (100_000, 100_000, 100)
        spec = VolumeSpec(shape=(2, 2, 2), dtype="float32")
        found = (tmp_path / "a.h5").stat()
        reader = FormatReader(str(tmp_path), Reading("hdf5"), spec, finite=True)
        with pytest.raises(Refused, match="the dataset is 2x2x2"):
            reader.read("a.h5", found.st_size, found.st_mtime_ns, np.zeros(spec.volume_bytes, np.uint8))

    def test_data_that_was_never_written_is_no_zeros(self, tmp_path: Path) -> None:
        path = tmp_path / "a.h5"
        with h5py.File(path, "w") as file:
            file.create_dataset("chunked", (5, 4, 4), "f4", chunks=(2, 2, 2))[:2] = 1
            file.create_dataset("filled", (4, 4, 4), "i2", chunks=(2, 2, 2), fillvalue=7)
            file.create_dataset("contiguous", (4, 4, 4), "f4")
        advice = "it was not written to its end; if it is empty on purpose, write the values"
        assert refusal(path, "hdf5", "chunked") == (f"truncated: lacks 8 of 12 chunks, which would be 0.0: {advice}")
        assert refusal(path, "hdf5", "filled") == f"truncated: lacks 8 of 8 chunks, which would be 7: {advice}"
        assert refusal(path, "hdf5", "contiguous") == f"truncated: has no data, all would be 0.0: {advice}"
        shutil.copy(path, tmp_path / "a.mat")
        assert refusal(tmp_path / "a.mat", "matlab", "contiguous").startswith("truncated: has no data")

    def test_zeros_that_were_written_are_read(self, tmp_path: Path) -> None:
        zeros = np.zeros((4, 4, 4), np.float32)
        with h5py.File(tmp_path / "a.h5", "w") as file:
            file.create_dataset("chunked", data=zeros, chunks=(2, 2, 2), compression="gzip")
            file["contiguous"] = zeros
            space = h5py.h5s.create_simple(zeros.shape)
            for name in ("compact", "early"):
                how = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
                if name == "compact":
                    how.set_layout(h5py.h5d.COMPACT)
                else:
                    how.set_chunk((2, 2, 2))
                    how.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
                h5py.h5d.create(file.id, name.encode(), h5py.h5t.NATIVE_FLOAT, space, how)
            missing = file.create_dataset("missing", (4, 4, 4), "f4", chunks=(2, 2, 2), fillvalue=np.nan)
            missing[:2] = 0
        for name in ("chunked", "contiguous", "compact", "early"):
            assert np.array_equal(read_volume(str(tmp_path), "a.h5", Reading("hdf5", name)), zeros)
        read = read_volume(str(tmp_path), "a.h5", Reading("hdf5", "missing"))
        assert np.array_equal(np.isnan(read), np.indices(read.shape)[0] > 1)


class TestMatlab(FormatConformance):
    format_name = "matlab"
    dtypes = ("uint8", "int16", "float32", "float64", "int64")
    most_copies = 6.0

    def write(self, path: Path, volume: NDArray[Any]) -> None:
        io.savemat(path, {"volume": volume, "about": "words"}, do_compression=True)

    def test_complex_numbers_and_cells_are_refused(self, tmp_path: Path) -> None:
        cells = np.empty((1, 1), object)
        cells[0, 0] = np.ones(3)
        path = tmp_path / "a.mat"
        io.savemat(path, {"a": np.ones((2, 2, 2)) * 1j, "b": cells, "c": np.ones((2, 2, 2), bool)})
        assert refusal(path, "matlab", "a").startswith("dtype: holds complex")
        assert refusal(path, "matlab", "b").startswith("dtype: is cell")
        assert read_volume(str(tmp_path), "a.mat", Reading("matlab", "c")).dtype == np.uint8


class TestMatlab73(FormatConformance):
    format_name = "matlab"
    dtypes = ("uint8", "float64")

    def test_texts_structures_and_cells_are_no_other_volumes(self, tmp_path: Path) -> None:
        volume = np.arange(24.0).reshape(2, 3, 4)
        arrays = [("about/spacing", "double"), ("name", "char"), ("#refs#/a", "double"), ("volume", "double")]
        for left in range(len(arrays)):
            with h5py.File(tmp_path / "a.mat", "w", userblock_size=512) as file:
                for name, kind in arrays[left:]:
                    file[name] = volume.transpose()
                    file[name].attrs["MATLAB_class"] = np.bytes_(kind)
            assert np.array_equal(read_volume(str(tmp_path), "a.mat", Reading("matlab")), volume)
            assert np.array_equal(read_volume(str(tmp_path), "a.mat", Reading("matlab", arrays[left][0])), volume)
        with h5py.File(tmp_path / "a.mat", "w", userblock_size=512) as file:
            file["volume"], file["affine"], file["rate"] = volume.transpose(), np.eye(4), np.ones((1, 1))
        assert np.array_equal(read_volume(str(tmp_path), "a.mat", Reading("matlab")), volume)
        with h5py.File(tmp_path / "b.mat", "w", userblock_size=512) as file:
            file["about/volume"], file["rate"] = volume.transpose(), np.ones((1, 1))
        assert refusal(tmp_path / "b.mat", "matlab").startswith("format: holds several arrays: rate, about/volume;")
        with h5py.File(tmp_path / "b.mat", "w", userblock_size=512) as file:
            file["about/volume"] = volume.transpose()
        assert np.array_equal(read_volume(str(tmp_path), "b.mat", Reading("matlab")), volume)
        with h5py.File(tmp_path / "b.mat", "a") as file:
            file["one"] = file["two"] = volume
        assert refusal(tmp_path / "b.mat", "matlab").startswith("format: holds several arrays: one, two;")

    def write(self, path: Path, volume: NDArray[Any]) -> None:
        with h5py.File(path, "w", userblock_size=512) as file:
            file["volume"] = volume.transpose()
        head = b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM"
        with path.open("r+b") as file:
            file.write(head)

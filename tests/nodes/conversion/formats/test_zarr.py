"""Zarr and OME-Zarr, held to the laws of a format."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from numpy.typing import NDArray
from refused_files import refusal, spacing_in

from nodes.conversion.formats import Reading
from nodes.conversion.formats.reader import read_volume
from nodes.testing.format import FormatConformance


class TestZarr(FormatConformance):
    format_name = "zarr"
    dtypes = ("uint8", "int16", "float32", "float64", "uint64")
    most_copies = 5.0

    def write(self, path: Path, volume: NDArray[Any]) -> None:
        shutil.rmtree(path, ignore_errors=True)
        array = zarr.create_array(store=str(path), shape=volume.shape, chunks=volume.shape, dtype=volume.dtype)
        array[...] = volume

    def damaged(self, path: Path) -> Iterator[tuple[str, bytes]]:
        # The folder's files are damaged below; that the path is a file is one kind of damage more.
        shutil.rmtree(path)
        yield "empty", b""
        yield "noise", bytes(range(256))

    @pytest.mark.parametrize("version", [2, 3])
    def test_damaged_chunks_and_metadata_are_refused(self, tmp_path: Path, version: Any) -> None:
        path = tmp_path / "a.zarr"
        array = zarr.create_array(store=str(path), shape=(4, 3, 2), chunks=(4, 3, 2), dtype="u2", zarr_format=version)
        array[...] = np.arange(24).reshape(4, 3, 2)
        for file in [each for each in path.rglob("*") if each.is_file() and each.name != ".zattrs"]:
            whole = file.read_bytes()
            for content in (b"", whole[: len(whole) // 2], b"\xff" * 50):
                file.write_bytes(content)
                assert refusal(path, "zarr").split(":")[0] in ("format", "truncated")
            file.write_bytes(whole)
        assert np.array_equal(read_volume(str(tmp_path), "a.zarr", Reading("zarr")), np.arange(24).reshape(4, 3, 2))

    @pytest.mark.parametrize("version", [2, 3])
    @pytest.mark.parametrize("lost", ["deleted", "a link without its target"])
    def test_a_missing_chunk_is_no_zeros(self, tmp_path: Path, version: Any, lost: str) -> None:
        path = tmp_path / "a.zarr"
        array = zarr.create_array(store=str(path), shape=(4, 4, 4), chunks=(2, 2, 2), dtype="u2", zarr_format=version)
        array[...] = self.volume("uint16", (4, 4, 4))
        assert np.array_equal(read_volume(str(tmp_path), "a.zarr", Reading("zarr")), self.volume("uint16", (4, 4, 4)))
        chunk = "0.1.1" if version == 2 else "c/0/1/1"
        (path / chunk).unlink()
        if lost != "deleted":
            (path / chunk).symlink_to(tmp_path / "annexed")
        assert refusal(path, "zarr") == (
            f"truncated: 1 of 8 chunks are missing, the first is {chunk}: the copy is not whole; if they are empty on"
            " purpose, write with write_empty_chunks=True"
        )

    def test_chunks_under_other_names_are_no_zeros(self, tmp_path: Path) -> None:
        path = tmp_path / "a.zarr"
        encoding: Any = {"name": "v2", "separator": "/"}
        array = zarr.create_array(
            store=str(path), shape=(4, 4), chunks=(2, 2), dtype="u2", zarr_format=2, chunk_key_encoding=encoding
        )
        array[...] = 1
        assert read_volume(str(tmp_path), "a.zarr", Reading("zarr")).all()
        metadata = json.loads((path / ".zarray").read_text())
        del metadata["dimension_separator"]
        (path / ".zarray").write_text(json.dumps(metadata))
        assert refusal(path, "zarr") == (
            "truncated: has none of its 4 chunks, not even 0.0: the copy is not whole, or .zarray lacks its"
            " dimension_separator"
        )

    def test_chunks_that_are_empty_on_purpose(self, tmp_path: Path) -> None:
        half = np.zeros((8, 4, 4), np.float32)
        half[:3] = 1
        # A shard lists its chunks; those that read as NaN say themselves that they are missing.
        forms: tuple[tuple[str, Any], ...] = (
            ("written", {"chunks": (2, 2, 2), "config": {"write_empty_chunks": True}}),
            ("shards", {"chunks": (2, 2, 2), "shards": (8, 4, 4)}),
            ("nan", {"chunks": (2, 2, 2), "fill_value": np.nan}),
            ("zeros", {"chunks": (2, 2, 2)}),
            ("lost shards", {"chunks": (2, 2, 2), "shards": (4, 4, 4)}),
        )
        for name, form in forms:
            volume = np.where(half == 0, np.nan, half) if name == "nan" else half
            array = zarr.create_array(str(tmp_path / f"{name}.zarr"), shape=half.shape, dtype="f4", **form)
            array[...] = volume
            if name in ("zeros", "lost shards"):
                what = "8 of 16 chunks" if name == "zeros" else "1 of 2 shards"
                assert refusal(tmp_path / f"{name}.zarr", "zarr").startswith(
                    f"truncated: {what} are missing, the first"
                )
            else:
                read = read_volume(str(tmp_path), f"{name}.zarr", Reading("zarr"))
                assert np.array_equal(read, volume, equal_nan=True)

    @pytest.mark.slow
    def test_any_number_of_missing_chunks_is_soon_refused(self, tmp_path: Path) -> None:
        path = tmp_path / "a.zarr"
        array = zarr.create_array(str(path), shape=(10**12,) * 3, chunks=(10, 10, 10), dtype="u1")
        assert refusal(path, "zarr").startswith(f"truncated: has none of the first 1000 of its {10**33} chunks, ")
        array[0, 0, 0] = 1
        assert refusal(path, "zarr").startswith(f"truncated: 1000 or more of {10**33} chunks are missing, ")
        late = zarr.create_array(
            str(tmp_path / "b.zarr"), shape=(1100, 2), chunks=(1, 2), dtype="f4", fill_value=np.nan
        )
        late[1099] = 1
        assert np.isnan(read_volume(str(tmp_path), "b.zarr", Reading("zarr"))).sum() == 2198

    def test_code_is_not_run(self, tmp_path: Path) -> None:
        path = tmp_path / "a.zarr"
        zarr.create_array(store=str(path), shape=(2, 2), chunks=(2, 2), dtype="u1", zarr_format=2)
        metadata = json.loads((path / ".zarray").read_text())
        metadata["filters"] = [{"id": "pickle", "protocol": 5}]
        (path / ".zarray").write_text(json.dumps(metadata))
        assert refusal(path, "zarr").startswith("pickle: ")

    @pytest.mark.parametrize(
        ("unit", "size"),
        [
            ("micrometer", 0.0005),
            ("um", 0.0005),
            ("\u00b5m", 0.0005),
            ("\u03bcm", 0.0005),
            ("mm", 0.5),
            ("parsec", None),
        ],
    )
    def test_lengths_become_millimetres_however_their_unit_is_written(
        self, tmp_path: Path, unit: str, size: float | None
    ) -> None:
        group = zarr.open_group(str(tmp_path / "a.zarr"), mode="w", zarr_format=2)
        group.create_array("0", shape=(3, 4, 5), dtype=np.uint8)[...] = np.ones((3, 4, 5), np.uint8)
        axes = [{"name": name, "type": "space", "unit": unit} for name in "zyx"]
        levels = [{"path": "0", "coordinateTransformations": [{"type": "scale", "scale": [0.5] * 3}]}]
        group.attrs["multiscales"] = [{"version": "0.4", "axes": axes, "datasets": levels}]
        wanted = {} if size is None else {f"spacing_{axis}": size for axis in "xyz"}
        assert spacing_in(tmp_path / "a.zarr", "zarr") == pytest.approx(wanted)

    @pytest.mark.parametrize(("version", "names"), [("0.5", ("0", "1")), ("0.4", ("0", "1")), ("0.4", ("s0", "s1"))])
    def test_an_ome_image_has_its_axes_turned(self, tmp_path: Path, version: str, names: tuple[str, str]) -> None:
        group = zarr.open_group(str(tmp_path / "a.ome.zarr"), mode="w", zarr_format=3 if version == "0.5" else 2)
        stored = np.arange(2 * 3 * 4 * 5, dtype=np.uint8).reshape(2, 3, 4, 5)  # C, Z, Y, X
        for name, level in zip(names, (stored, stored[..., ::2]), strict=True):
            group.create_array(name, shape=level.shape, dtype=level.dtype)[...] = level
        micrometer = {"type": "space", "unit": "micrometer"}
        axes = [{"name": "c", "type": "channel"}, *({"name": name, **micrometer} for name in "zyx")]
        scale = [{"type": "scale", "scale": [1.0, 4.0, 2.0, 1.0]}]
        levels = [{"path": name, "coordinateTransformations": scale} for name in names]
        image = {"axes": axes, "datasets": levels}
        if version == "0.5":
            group.attrs["ome"] = {"version": version, "multiscales": [image]}
        else:
            group.attrs["multiscales"] = [{"version": version, **image}]
        read = read_volume(str(tmp_path), "a.ome.zarr", Reading("zarr"))
        assert np.array_equal(read, stored.transpose(3, 2, 1, 0))
        assert spacing_in(tmp_path / "a.ome.zarr", "zarr") == pytest.approx(
            {"spacing_x": 0.001, "spacing_y": 0.002, "spacing_z": 0.004}
        )
        plain = zarr.open_group(str(tmp_path / "b.zarr"), mode="w")
        for name in ("image", "mask"):
            plain.create_array(name, shape=(2, 2), dtype="u1")[...] = 1
        assert "several arrays: " in refusal(tmp_path / "b.zarr", "zarr")
        assert read_volume(str(tmp_path), "b.zarr", Reading("zarr", "mask")).shape == (2, 2)

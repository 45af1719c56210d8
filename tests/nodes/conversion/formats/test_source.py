"""What a table says of the files that its volumes came from: hash, stored type, scale, unit, channels, decoder."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import nibabel
import nrrd
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tifffile
import zarr
from npy_folders import context, convert, parts_of, take

from engine.declare.datasets import VolumeParquet
from nodes.conversion.formats import Reading, formats
from nodes.conversion.formats import source as source_module
from nodes.conversion.formats.geometry import affine_in, columns_of, text_of
from nodes.conversion.formats.reader import header_of
from nodes.conversion.formats.source import sha256_of
from nodes.conversion.whole_volumes import moved
from nodes.numpy_to_parquet import numpy_to_parquet
from nodes.transform_volumes import transform_volumes

VOLUME = np.arange(24, dtype=np.int16).reshape(2, 3, 4)


def known(path: Path, format: str, dataset: str = "") -> dict[str, Any]:
    """The columns of the source that the header gives, and no others."""
    found = header_of(str(path.parent), path.name, Reading(format, dataset)).columns
    return {name.removeprefix("source_"): value for name, value in found.items() if name.startswith("source_")}


def table_of(made: VolumeParquet) -> pa.Table:
    return pa.concat_tables(pq.read_table(Path(made.uri) / part.path) for part in parts_of(made).parts)


def of_nifti(path: Path) -> None:
    image = nibabel.Nifti1Image(VOLUME.astype(">i2"), np.eye(4), nibabel.Nifti1Header(endianness=">"))
    image.set_data_dtype(np.int16)
    data = bytearray(image.to_bytes())
    data[112:120] = np.array([0.5, -3], ">f4").tobytes()
    path.write_bytes(data)


def of_nrrd(path: Path) -> None:
    nrrd.write(str(path), VOLUME, {"sample units": "mGal"})


def of_hdf5(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file["a"] = VOLUME.astype(">f8")
        file["a"].attrs["units"] = "K"


def of_zarr(path: Path) -> None:
    root = zarr.open_group(str(path), mode="w")
    array = root.create_array("0", data=np.ones((2, 3, 4, 5), np.uint16))
    array.attrs["units"] = "counts"
    axes = [{"name": name} for name in "czyx"]
    root.attrs["multiscales"] = [{"axes": axes, "datasets": [{"path": "0"}]}]
    root.attrs["omero"] = {"channels": [{"label": "DAPI"}, {"label": "GFP"}]}


def of_ome(path: Path) -> None:
    tifffile.imwrite(
        path, np.ones((2, 3, 4, 5), np.uint16), ome=True, byteorder=">",
        metadata={"axes": "CZYX", "Channel": {"Name": ["DAPI", "GFP & more"]}},
    )  # fmt: skip


def of_rgb(path: Path) -> None:
    tifffile.imwrite(path, np.ones((4, 5, 3), np.uint8), photometric="rgb")


def of_npz(path: Path) -> None:
    np.savez(path, VOLUME)


@pytest.mark.parametrize(
    ("name", "format", "write", "wanted", "package"),
    [
        ("a.nii", "nifti", of_nifti, {"dtype": ">i2", "slope": 0.5, "intercept": -3.0}, "nibabel"),
        ("a.nrrd", "nrrd", of_nrrd, {"dtype": "<i2", "unit": "mGal"}, "pynrrd"),
        ("a.h5", "hdf5", of_hdf5, {"dtype": ">f8", "unit": "K"}, "h5py"),
        ("a.zarr", "zarr", of_zarr, {"dtype": "<u2", "channels": '["DAPI", "GFP"]'}, "zarr"),
        ("a.ome.tif", "tiff", of_ome, {"dtype": ">u2", "channels": '["DAPI", "GFP & more"]'}, "tifffile"),
        ("a.tif", "tiff", of_rgb, {"dtype": "|u1", "channels": '["red", "green", "blue"]'}, "tifffile"),
        ("a.npz", "npz", of_npz, {"dtype": "<i2"}, "numpy"),
    ],
)
def test_a_header_says_how_values_are_stored(
    tmp_path: Path, name: str, format: str, write: Callable[[Path], None], wanted: dict[str, Any], package: str
) -> None:
    write(tmp_path / name)
    found = known(tmp_path / name, format)
    decoder = found.pop("decoder")
    assert decoder.startswith(f"{package} {source_module.version(package)}")
    if format == "zarr":
        assert found.pop("unit") == "counts"
    assert found == wanted


def test_names_that_do_not_fit_the_channels_are_left_out() -> None:
    assert source_module.channels(["a", "b"], 3) == source_module.channels(["a", ""], 2) == {}
    assert source_module.channels(["a", None], 2) == source_module.channels([], 0) == {}
    assert source_module.channels(["x" * 500, "y" * 500], 2) == {}
    assert source_module.unit(b" m/s ") == {"source_unit": "m/s"}
    assert source_module.unit(3) == source_module.unit(None) == source_module.unit("  ") == {}


def _as_sha256sum(folder: Path) -> str:
    """What a person gets in the shell."""
    command = r"find . -type f | sed 's|^\./||' | LC_ALL=C sort | xargs -d '\n' sha256sum | sha256sum"
    done = subprocess.run(["bash", "-c", command], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.split()[0]


def test_the_hash_is_that_of_the_shell(tmp_path: Path) -> None:
    of_npz(tmp_path / "a.npz")
    assert sha256_of(tmp_path / "a.npz", (), 48) == hashlib.sha256((tmp_path / "a.npz").read_bytes()).hexdigest()
    of_zarr(tmp_path / "a.zarr")
    assert sha256_of(tmp_path / "a.zarr", (), 48) == _as_sha256sum(tmp_path / "a.zarr")
    pair = tmp_path / "pair"
    pair.mkdir()
    nrrd.write(str(pair / "a.nhdr"), VOLUME, detached_header=True, relative_data_path=True)
    (pair / "other.nrrd").write_bytes(b"of another volume")
    whole = table_of(convert(tmp_path / "pair", tmp_path / "work", max_bad_files=1))["source_sha256"].to_pylist()
    (pair / "other.nrrd").unlink()
    assert whole == [_as_sha256sum(pair)]


def test_a_small_array_of_a_large_file_costs_no_hash_of_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    of_npz(tmp_path / "a.npz")
    size = (tmp_path / "a.npz").stat().st_size
    monkeypatch.setattr(source_module, "_MOST_MORE", size - 4 * 48)
    assert sha256_of(tmp_path / "a.npz", (), 48) is not None
    monkeypatch.setattr(source_module, "_MOST_MORE", size - 4 * 48 - 1)
    assert sha256_of(tmp_path / "a.npz", (), 48) is None
    of_zarr(tmp_path / "a.zarr")
    assert sha256_of(tmp_path / "a.zarr", (), 48) is None


def test_a_transform_keeps_what_is_known_of_the_source(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    of_nifti(tmp_path / "in" / "a.nii")
    changed = transform_volumes(take(tmp_path / "in", tmp_path / "look"), size=(2, 2, 2), ctx=context(tmp_path, "crop"))
    (row,) = table_of(numpy_to_parquet(changed, ctx=context(tmp_path, "convert"))).to_pylist()
    assert row["source_sha256"] == hashlib.sha256((tmp_path / "in" / "a.nii").read_bytes()).hexdigest()
    assert (row["source_dtype"], row["source_slope"]) == (">i2", 0.5)
    of_npy = tmp_path / "npy"
    of_npy.mkdir()
    np.save(of_npy / "a.npy", VOLUME)
    assert table_of(convert(of_npy, tmp_path / "plain")).column_names == ["id", "label", "volume"]


def test_an_affine_of_twelve_numbers_is_read_too() -> None:
    affine = np.array([[2.0, 0, 0, 5], [0, 3, 0, 6], [0, 0, 4, 7], [0, 0, 0, 1]])
    assert text_of(affine) == "2 0 0 5 0 3 0 6 0 0 4 7 0 0 0 1"
    older = "2 0 0 5 0 3 0 6 0 0 4 7"
    for text in (text_of(affine), older):
        found = affine_in(text)
        assert found is not None
        assert np.array_equal(found, affine)
    for wrong in (None, "", 5, "1 2 3", "a b c d e f g h i j k l"):
        assert affine_in(wrong) is None
    shift = np.eye(4)
    shift[0, 3] = 1
    row = moved({"affine": older, "spacing_x": 2.0, "spacing_y": 3.0, "spacing_z": 4.0}, shift)
    assert (row["affine"], "affine_space" in row) == ("2 0 0 7 0 3 0 6 0 0 4 7 0 0 0 1", False)
    survey = {"affine": older, "affine_space": "CDP X, CDP Y, ms"}
    assert moved(survey, shift)["affine_space"] == "CDP X, CDP Y, ms"
    assert moved(survey, None) == {"affine": None, "affine_space": None}
    assert columns_of(affine)["affine_space"] == "RAS mm"


def test_every_format_declares_them() -> None:
    assert len(formats()) > 9
    for each in formats().values():
        assert {"source_dtype", "source_decoder"} <= {name for name, _ in each.columns}, each.name

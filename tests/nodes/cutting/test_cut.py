"""CutVolumes on real files: what is cut, kept, refused, resumed and added."""

from __future__ import annotations

import os
import tracemalloc
from pathlib import Path
from typing import Any

import h5py
import nibabel
import numpy as np
import pytest
import segyio
import tifffile
import zarr
from cuts import add_up, cut, parts, rows_of, sliced, volume_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from laws import examples
from npy_folders import reasons
from numpy.typing import NDArray

from engine.errors import DataError
from nodes.cutting import tiles


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "in"
    folder.mkdir()
    return folder


@st.composite
def cuts(draw: st.DrawFn) -> tuple[Any, ...]:
    length = st.integers(1, 14)
    shape = tuple(draw(length) for _ in range(3)) + draw(st.sampled_from([(), (1,), (3,)]))
    size = tuple(draw(st.integers(1, 6)) for _ in range(3))
    stride = tuple(draw(st.integers(1, 7)) for _ in range(3))
    return shape, size, stride, draw(st.sampled_from(["drop", "zeros", "repeat"])), draw(st.booleans())


@pytest.mark.slow
@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(case=cuts(), tile=st.tuples(st.integers(1, 5), st.integers(1, 5)))
def test_patches_are_what_numpy_slices(
    case: tuple[Any, ...], tile: tuple[int, int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    shape, size, stride, edges, fortran = case
    base = tmp_path_factory.mktemp("cut")
    volume = volume_of(shape, "int16")
    (base / "in").mkdir()
    np.save(base / "in/a.npy", np.asfortranarray(volume) if fortran else volume)
    wanted = dict(sliced(volume, size, stride, edges))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiles, "_THICK", tile[0])
        patch.setattr(tiles, "_WIDE", tile[1])
        given: dict[str, Any] = {"size": size, "stride": stride, "edges": edges, "row_group_rows": 5}
        if not wanted:
            with pytest.raises(DataError, match="no patch of"):
                cut(base / "in", base / "work", **given)
            return
        out = cut(base / "in", base / "work", **given)
    found = rows_of(out)
    assert {(row["x"], row["y"], row["z"]) for row in found.values()} == wanted.keys()
    for row in found.values():
        assert row["source"] == "a.npy"
        assert np.array_equal(row["volume"], wanted[row["x"], row["y"], row["z"]])
    assert out.count == out.found == len(wanted)


def test_a_survey_in_segy_with_attributes_as_channels(root: Path, tmp_path: Path) -> None:
    volume = volume_of((20, 18, 16, 3))
    for channel, name in enumerate(("amplitude", "inst_freq", "phase")):
        attribute = np.ascontiguousarray(volume[..., channel])
        segyio.tools.from_array3D(str(root / f"f3_{name}.sgy"), attribute, format=5, delrt=200)
    out = cut(
        root, tmp_path / "work", size=(8, 8, 8), stride=(4, 5, 8),
        channels_from="{cube}_{channel}.sgy", channels="phase, amplitude, inst_freq",
    )  # fmt: skip
    found = rows_of(out)
    wanted = dict(sliced(volume[..., [2, 0, 1]], (8, 8, 8), (4, 5, 8)))
    assert len(found) == len(wanted) == 4 * 3 * 2
    for row in found.values():
        place = row["x"], row["y"], row["z"]
        assert np.array_equal(row["volume"], wanted[place])
        assert (row["source"], row["inline"], row["crossline"]) == ("f3", place[0] + 1, place[1] + 1)
        assert row["time"] == 200 + 4 * place[2]
        assert row["id"] == "f3/x{:05d}-y{:05d}-z{:05d}".format(*place)


@pytest.mark.slow
def test_missing_traces_are_quarantined_and_everything_adds_up(root: Path, tmp_path: Path) -> None:
    volume = volume_of((12, 12, 8))
    spec = segyio.spec()
    places = [(x, y) for x in range(12) for y in range(12) if (x, y) != (5, 6)]
    spec.samples, spec.format, spec.tracecount = np.arange(8) * 4, 5, len(places)
    with segyio.create(str(root / "a.sgy"), spec) as file:
        for number, (x, y) in enumerate(places):
            file.trace[number] = np.ascontiguousarray(volume[x, y])
            file.header[number] = {189: x + 1, 193: y + 1}
    out = cut(root, tmp_path / "work", size=(4, 4, 8), keep="unlabelled=0.6", seed=3)
    add_up(out)
    assert out.found == 9
    assert out.left_out > 0
    assert set(reasons(out).values()) <= {"not-finite"}
    everything = cut(root, tmp_path / "all", size=(4, 4, 8))
    assert (everything.count, everything.quarantined, everything.left_out) == (8, 1, 0)
    kept = cut(root, tmp_path / "nan", size=(4, 4, 8), not_finite="keep")
    assert (kept.count, kept.quarantined) == (9, 0)


def test_voxels_without_data(root: Path, tmp_path: Path) -> None:
    volume = volume_of((8, 8, 8))
    volume[0, 0, 0] = -999.25
    np.save(root / "a.npy", volume)
    out = cut(root, tmp_path / "work", size=(4, 4, 4), no_data=-999.25)
    assert reasons(out) == {"a.npy/x00000-y00000-z00000": "no-data"}
    add_up(out)


# --- formats -------------------------------------------------------------------------------------


def _nifti(root: Path, volume: NDArray[Any], ending: str = ".nii") -> None:
    image = nibabel.Nifti1Image(volume, np.diag([2.0, 2.0, 3.0, 1.0]))
    image.header.set_xyzt_units("mm")
    nibabel.save(image, root / f"a{ending}")


def _zarr(root: Path, volume: NDArray[Any]) -> None:
    zarr.save_array(str(root / "a.zarr"), volume)


def _chunked_zarr(root: Path, volume: NDArray[Any]) -> None:
    zarr.create_array(str(root / "a.zarr"), data=volume, chunks=(5, 7, 4))


def _tiff(root: Path, volume: NDArray[Any]) -> None:
    tifffile.imwrite(root / "a.tif", volume.transpose(2, 1, 0), metadata={"axes": "ZYX"}, photometric="minisblack")


def _hdf5(root: Path, volume: NDArray[Any]) -> None:
    with h5py.File(root / "a.h5", "w") as file:
        file.create_dataset("volume", data=volume, chunks=(4, 6, 5))


def _npz(root: Path, volume: NDArray[Any]) -> None:
    np.savez(root / "a.npz", volume)


FORMATS = {
    "nifti": _nifti,
    "nifti.gz": lambda root, volume: _nifti(root, volume, ".nii.gz"),
    "zarr": _zarr,
    "chunked zarr": _chunked_zarr,
    "tiff": _tiff,
    "hdf5": _hdf5,
    "npz": _npz,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMATS)
def test_each_format_is_cut_alike(name: str, root: Path, tmp_path: Path) -> None:
    volume = volume_of((21, 17, 13), "int16")
    FORMATS[name](root, volume)
    out = cut(root, tmp_path / "work", size=(6, 5, 4), stride=(5, 4, 3), edges="repeat")
    wanted = dict(sliced(volume, (6, 5, 4), (5, 4, 3), "repeat"))
    found = rows_of(out)
    assert len(found) == len(wanted)
    for row in found.values():
        assert np.array_equal(row["volume"], wanted[row["x"], row["y"], row["z"]])
        if name.startswith("nifti"):
            assert row["spacing_z"] == 3
            affine = np.array(row["affine"].split(), float).reshape(4, 4)
            assert np.allclose(affine[:, 3], (2 * row["x"], 2 * row["y"], 3 * row["z"], 1))


def test_a_volume_that_must_be_read_whole_says_how_large_it_is(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nodes.cutting.cut._LEAST_TILES", 1 << 20)
    np.savez_compressed(root / "a.npz", np.zeros((64, 128, 128), np.float32))
    with pytest.raises(DataError, match=r"has 4.2 MB when it is unpacked, and its format has to be read whole"):
        cut(root, tmp_path / "work", memory_bytes=1 << 20)


@pytest.mark.slow
def test_a_volume_larger_than_memory_is_read_slab_by_slab(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each tile is read once, also where patches overlap, and few are held at a time."""
    volume = volume_of((128, 96, 64), "float32")
    np.save(root / "a.npy", volume)
    monkeypatch.setattr("nodes.cutting.cut._LEAST_TILES", 1 << 20)
    monkeypatch.setattr("nodes.cutting.cut._TILE_SHARE", 4)
    read: list[Any] = []
    whole = tiles.TiledVolume.read_tile

    def listening(self: tiles.TiledVolume, key: Any) -> Any:
        read.append(key)
        return whole(self, key)

    monkeypatch.setattr(tiles.TiledVolume, "read_tile", listening)
    out = cut(root, tmp_path / "work", size=(16, 16, 16), stride=(8, 8, 16), memory_bytes=6 << 20)
    assert out.count == 15 * 11 * 4
    assert len(read) == len(set(read)) == 8 * 2


@pytest.mark.slow
def test_memory_is_that_of_a_slab_whatever_the_length_of_a_volume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nodes.cutting.cut._LEAST_TILES", 1 << 20)
    peaks = []
    for number, length in enumerate((16, 128, 512)):  # the first one imports
        root = tmp_path / f"{number}"
        root.mkdir()
        np.save(root / "a.npy", volume_of((length, 96, 64), "float32"))
        if number:
            tracemalloc.start()
        try:
            cut(root, tmp_path / f"work{number}", size=(16, 16, 16), target_file_mb=1, memory_bytes=6 << 20, threads=1)
            if number:
                peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    longer = (512 - 128) * 96 * 64 * 4
    assert peaks[1] - peaks[0] < longer / 8, "what is kept of each patch, and no voxels"


@pytest.mark.slow
def test_keep_follows_from_place_and_seed(root: Path, tmp_path: Path) -> None:
    np.save(root / "a.npy", volume_of((40, 40, 40), "uint8"))
    given: dict[str, Any] = {"size": (4, 4, 4), "keep": "unlabelled=0.3"}
    one = rows_of(cut(root, tmp_path / "one", **given))
    assert 0.2 < len(one) / 1000 < 0.4
    np.save(root / "b.npy", volume_of((40, 40, 40), "uint8"))
    two = rows_of(cut(root, tmp_path / "two", **given))
    assert {name for name in two if name.startswith("a.npy")} == one.keys()
    assert rows_of(cut(root, tmp_path / "three", seed=1, **given)).keys() != two.keys()


# --- growing, broken and killed ------------------------------------------------------------------


def test_a_further_volume_adds_its_patches_alone(root: Path, tmp_path: Path) -> None:
    for number in range(3):
        np.save(root / f"{number}.npy", volume_of((16, 16, 16), seed=number))
    given: dict[str, Any] = {"size": (8, 8, 8), "target_file_mb": 1}
    before = cut(root, tmp_path / "work", **given)
    times = parts(before)
    np.save(root / "3.npy", volume_of((16, 16, 16), seed=3))
    messages: list[str] = []
    after = cut(root, tmp_path / "work", previous=before, messages=messages, **given)
    assert after.count == 32
    assert times.items() < parts(after).items()
    assert "8 patches" in messages[-1]
    # A volume that changed is cut again, and with it those that share a file with it.
    np.save(root / "0.npy", volume_of((16, 16, 16), seed=9))
    last = cut(root, tmp_path / "work", previous=after, **given)
    assert len(rows_of(last)) == 32
    assert parts(last).items() & parts(after).items() == parts(after).items() - times.items()
    assert np.array_equal(
        rows_of(last)["0.npy/x00000-y00000-z00000"]["volume"][..., 0], volume_of((16, 16, 16), seed=9)[:8, :8, :8]
    )


def test_a_broken_volume_stops_the_run_or_is_left_out(root: Path, tmp_path: Path) -> None:
    for number in range(3):
        nibabel.save(nibabel.Nifti1Image(volume_of((8, 8, 8), seed=number), np.eye(4)), root / f"{number}.nii")
    (root / "1.nii").write_bytes((root / "1.nii").read_bytes()[:100])
    with pytest.raises(DataError, match=r"1 volume of 3 cannot be cut: 1.nii"):
        cut(root, tmp_path / "work", size=(4, 4, 4))
    messages: list[str] = []
    out = cut(root, tmp_path / "work", size=(4, 4, 4), bad_volumes="leave out", messages=messages)
    assert (out.count, out.quarantined) == (16, 1)
    assert reasons(out) == {"1.nii": "truncated"}
    add_up(out)


def test_a_volume_whose_voxels_cannot_be_read(root: Path, tmp_path: Path) -> None:
    _nifti(root, volume_of((32, 32, 32)), ".nii.gz")
    np.save(tmp_path / "b.npy", volume_of((32, 32, 32)))
    os.truncate(root / "a.nii.gz", (root / "a.nii.gz").stat().st_size - 40)
    with pytest.raises(DataError, match=r"a.nii.gz cannot be read: it cannot be read as NIfTI"):
        cut(root, tmp_path / "work", size=(16, 16, 16))
    with pytest.raises(DataError, match=r"none of the 8 patches can be converted, for example a.nii.gz/x00000"):
        cut(root, tmp_path / "work", size=(16, 16, 16), bad_volumes="leave out")


def test_volumes_that_differ(root: Path, tmp_path: Path) -> None:
    np.save(root / "a.npy", volume_of((8, 8, 8)))
    np.save(root / "b.npy", volume_of((12, 8, 8)))
    np.save(root / "c.npy", volume_of((8, 8, 8, 2)))
    out = cut(root, tmp_path / "work", size=(4, 4, 4), bad_volumes="leave out")
    assert out.count == 8 + 12
    assert reasons(out) == {"c.npy": "shape"}


def test_channels_that_do_not_fit(root: Path, tmp_path: Path) -> None:
    np.save(root / "s_a.npy", volume_of((8, 8, 8)))
    np.save(root / "s_b.npy", volume_of((8, 8, 7)))
    with pytest.raises(DataError, match=r"is 8x8x7 voxels, s_a.npy is 8x8x8"):
        cut(root, tmp_path / "work", size=(4, 4, 4), channels_from="{cube}_{channel}.npy")
    np.save(root / "t_a.npy", volume_of((8, 8, 8)))
    with pytest.raises(DataError, match=r"of 2 volumes 1 do not have all channels: t has no b"):
        cut(root, tmp_path / "work", size=(4, 4, 4), channels_from="{cube}_{channel}.npy")


@pytest.mark.parametrize("params", [{"size": (8, 8, 8)}, {"size": (2, 2, 2), "keep": "unlabelled=0"}])
def test_where_no_patch_is_left_that_is_said_also_beside_a_volume_that_is_left_out(
    root: Path, tmp_path: Path, params: dict[str, Any]
) -> None:
    np.save(root / "a.npy", volume_of((4, 4, 4)))
    (root / "b.npy").write_bytes(b"no volume")
    with pytest.raises(DataError, match=r"no patch of .* is left of 1 volume") as caught:
        cut(root, tmp_path / "work", bad_volumes="leave out", **params)
    assert caught.value.parameter == ("keep" if "keep" in params else "size")

"""NIfTI, npz, NRRD and MetaImage, held to the laws of a format; the files are written by their libraries."""

from __future__ import annotations

import bz2
import gzip
import os
import struct
import zlib
from pathlib import Path
from typing import Any

import nibabel
import nrrd
import numpy as np
import pytest
from nibabel.testing import data_path
from numpy.typing import NDArray
from refused_files import refusal

from engine.declare.datasets import VolumeSpec
from nodes.conversion.formats import Reading, format_named
from nodes.conversion.formats.geometry import affine_in
from nodes.conversion.formats.reader import FormatReader, guarded, header_of, read_volume
from nodes.conversion.quarantine import Refused
from nodes.testing.format import FormatConformance


def test_a_library_s_words_name_a_file_by_its_name_alone(tmp_path: Path) -> None:
    """Its folder may be one for a copy of an object, which is gone when the words are read."""
    place = tmp_path / "scan.nii"

    def fail() -> None:
        raise RuntimeError(f'Cannot work out the type of "{place}", nor open {tmp_path}/scan.raw')

    with pytest.raises(Refused) as caught:
        guarded(place, "NIfTI", fail)
    said = 'cannot be read as NIfTI: Cannot work out the type of "scan.nii", nor open scan.raw'
    assert caught.value.message == said


class TestNifti(FormatConformance):
    format_name = "nifti"
    dtypes = ("uint8", "int16", "int32", "float32", "float64", "uint64")

    def write(self, path: Path, volume: NDArray[Any]) -> None:
        image = nibabel.Nifti1Image(volume, np.diag([2.0, 3.0, 4.0, 1.0]), dtype=volume.dtype)
        image.header.set_xyzt_units("mm")
        nibabel.save(image, path)

    @pytest.mark.parametrize("name", ["example4d.nii.gz", "example_nifti2.nii.gz", "anatomical.nii", "functional.nii"])
    def test_nibabels_own_images(self, name: str) -> None:
        image: Any = nibabel.load(Path(data_path) / name)
        read = read_volume(str(data_path), name, Reading("nifti"))
        assert read.shape == image.shape
        assert np.allclose(read, image.get_fdata())
        columns = header_of(str(data_path), name, Reading("nifti")).columns
        spacing = [columns[f"spacing_{axis}"] for axis in "xyz"]
        assert np.allclose(spacing, nibabel.affines.voxel_sizes(image.affine))
        assert columns["orientation"] == "".join(nibabel.aff2axcodes(image.affine))
        affine = affine_in(columns["affine"])
        assert affine is not None
        assert np.allclose(affine, image.affine, atol=1e-6)

    def test_without_a_code_of_space_only_the_spacing_is_known(self, tmp_path: Path) -> None:
        affine = np.diag([2.0, 3.0, 4.0, 1.0])
        image = nibabel.Nifti1Image(np.ones((2, 3, 4), np.int16), affine)
        image.header.set_xyzt_units("micron")
        for qform, sform, known in ((0, 0, False), (1, 0, True), (0, 1, True)):
            image.set_qform(affine, qform)
            image.set_sform(affine, sform)
            nibabel.save(image, tmp_path / "a.nii")
            columns = header_of(str(tmp_path), "a.nii", Reading("nifti")).columns
            spacing = {axis: columns[f"spacing_{axis}"] for axis in "xyz"}
            assert spacing == pytest.approx({"x": 0.002, "y": 0.003, "z": 0.004})
            assert ("affine" in columns, columns.get("orientation")) == (known, "RAS" if known else None)

    @pytest.mark.filterwarnings("ignore")
    @pytest.mark.parametrize("qform", [0, 1])
    @pytest.mark.parametrize(
        ("at", "value"),
        [
            (76, struct.pack("<f", 0)),  # no sign of the third axis
            (76, struct.pack("<f", 3)),
            (80, struct.pack("<f", -2)),
            (88, struct.pack("<f", -4)),
            (123, b"\x3a"),  # millimetres, and a unit of time that there is not
            (123, b"\x07"),
        ],
    )
    def test_what_other_programs_leave_in_a_header(self, tmp_path: Path, at: int, value: bytes, qform: int) -> None:
        image = nibabel.Nifti1Image(np.ones((2, 3, 4), np.int16), None)
        image.set_qform(np.diag([2.0, 3, 4, 1]), qform)
        image.set_sform(None, 0)
        data = bytearray(image.to_bytes())
        data[at : at + len(value)] = value
        (tmp_path / "a.nii").write_bytes(data)
        columns = header_of(str(tmp_path), "a.nii", Reading("nifti")).columns
        assert [columns[f"spacing_{axis}"] for axis in "xyz"] == [2, 3, 4]
        loaded: Any = nibabel.load(tmp_path / "a.nii")
        affine = affine_in(columns.get("affine"))
        assert affine is None if not qform else np.array_equal(np.asarray(affine), loaded.affine)

    def test_scaled_integers_become_floats(self, tmp_path: Path) -> None:
        image = nibabel.Nifti1Image(np.arange(24, dtype=np.int16).reshape(2, 3, 4), np.eye(4))
        image.header.set_slope_inter(0.5, -3)
        # `save` would undo the scaling for data that it was given as floats, and keeps it for these bytes.
        data = bytearray(image.to_bytes())
        data[112:120] = struct.pack("<ff", 0.5, -3)
        (tmp_path / "a.nii").write_bytes(data)
        read = read_volume(str(tmp_path), "a.nii", Reading("nifti"))
        assert read.dtype == np.float32
        assert np.array_equal(read, np.arange(24).reshape(2, 3, 4) * 0.5 - 3)

    def test_big_endian_vectors_and_colours(self, tmp_path: Path) -> None:
        volume = np.arange(2 * 3 * 4 * 5, dtype=">i2").reshape(2, 3, 4, 1, 5)
        header = nibabel.Nifti1Header(endianness=">")
        header.set_data_dtype(">i2")
        nibabel.save(nibabel.Nifti1Image(volume, np.eye(4), header), tmp_path / "v.nii")
        read = read_volume(str(tmp_path), "v.nii", Reading("nifti"))
        assert np.array_equal(read, volume[:, :, :, 0])
        colours = np.zeros((2, 3, 4), [("R", "u1"), ("G", "u1"), ("B", "u1")])
        colours["G"] = np.arange(24).reshape(2, 3, 4)
        nibabel.save(nibabel.Nifti1Image(colours, np.eye(4)), tmp_path / "c.nii")
        read = read_volume(str(tmp_path), "c.nii", Reading("nifti"))
        assert read.shape == (2, 3, 4, 3)
        assert np.array_equal(read[..., 1], colours["G"])
        assert not read[..., [0, 2]].any()

    def test_a_small_file_that_promises_much_is_refused_unread(self, tmp_path: Path) -> None:
        header = nibabel.Nifti1Header()
        header.set_data_shape((2000, 2000, 2000))
        header.set_data_dtype(np.uint8)
        header["vox_offset"] = 352
        header["magic"] = b"n+1"
        path = tmp_path / "bomb.nii.gz"
        path.write_bytes(gzip.compress(header.binaryblock + bytes(100)))
        assert refusal(path, "nifti").startswith("truncated: has")
        header["vox_offset"] = 1e12
        header.set_data_shape((2, 2, 2))
        path.write_bytes(gzip.compress(header.binaryblock + bytes(100)))
        assert refusal(path, "nifti").startswith("format: says that its data begins at")

    @pytest.mark.slow
    def test_a_bomb_after_the_data_is_not_unpacked(self, tmp_path: Path) -> None:
        image = nibabel.Nifti1Image(np.zeros((2, 2, 2), np.uint8), np.eye(4))
        path = tmp_path / "a.nii.gz"
        path.write_bytes(gzip.compress(image.to_bytes() + bytes(50_000_000)))
        assert refusal(path, "nifti").startswith("too-long: ")

    def test_a_wrong_checksum_is_noticed(self, tmp_path: Path) -> None:
        image = nibabel.Nifti1Image(np.zeros((9, 9, 9), np.uint8), np.eye(4))
        data = bytearray(gzip.compress(image.to_bytes()))
        data[-6] ^= 1
        path = tmp_path / "a.nii.gz"
        path.write_bytes(data)
        assert refusal(path, "nifti").startswith("format: ")

    def test_the_header_of_a_pair_is_named(self, tmp_path: Path) -> None:
        image = nibabel.Nifti1Pair(np.zeros((2, 2, 2), np.uint8), np.eye(4))
        nibabel.save(image, tmp_path / "a.hdr")
        (tmp_path / "a.hdr").rename(tmp_path / "a.nii")
        assert "pair of NIfTI files" in refusal(tmp_path / "a.nii", "nifti")


class TestNpz(FormatConformance):
    format_name = "npz"
    dtypes = ("uint8", "int16", "float32", "float64", "int64")

    def write(self, path: Path, volume: NDArray[Any]) -> None:
        np.savez_compressed(path, volume=volume)

    def test_one_of_several_arrays(self, tmp_path: Path) -> None:
        path = tmp_path / "a.npz"
        big = np.arange(6, dtype=">f4").reshape(1, 2, 3)
        np.savez(path, image=np.asfortranarray(big), mask=np.ones(3))
        assert refusal(path, "npz") == (
            "format: holds several arrays: image, mask; name one with the parameter dataset"
        )
        assert refusal(path, "npz", "nope") == "format: has no array 'nope'; it has image, mask"
        assert np.array_equal(read_volume(str(tmp_path), "a.npz", Reading("npz", "image")), big)

    def test_objects_are_not_unpickled(self, tmp_path: Path) -> None:
        path = tmp_path / "a.npz"
        np.savez(path, a=np.array([print], dtype=object), allow_pickle=True)
        assert refusal(path, "npz", "a").startswith("pickle: ")

    def test_a_member_that_promises_much_is_refused_unread(self, tmp_path: Path) -> None:
        path = tmp_path / "a.npz"
        np.savez_compressed(path, a=np.zeros((2, 2, 2), np.uint8))
        data = bytearray(path.read_bytes())
        for at in range(len(data) - 4):
            if data[at : at + 4] in (b"PK\x03\x04", b"PK\x01\x02"):
                place = at + (22 if data[at + 2] == 3 else 24)
                data[place : place + 4] = (2**31).to_bytes(4, "little")
        path.write_bytes(data)
        assert refusal(path, "npz").split(":")[0] in ("truncated", "too-long", "format")


def test_not_finite_values_are_refused(tmp_path: Path) -> None:
    volume = np.ones((2, 2, 2), np.float32)
    volume[0, 0, 0] = np.nan
    np.savez(tmp_path / "a.npz", volume)
    spec = VolumeSpec(shape=(2, 2, 2), dtype="float32")
    found = (tmp_path / "a.npz").stat()
    row = np.zeros(spec.volume_bytes, np.uint8)
    reader = FormatReader(str(tmp_path), Reading("npz"), spec, finite=True)
    with pytest.raises(Refused, match=r"^holds 1 value that is NaN or infinite$"):
        reader.read("a.npz", found.st_size, found.st_mtime_ns, row)


class TestNiftiGzipped(TestNifti):
    name = "volume.nii.gz"
    dtypes = ("uint8", "float32")


class TestNrrd(FormatConformance):
    format_name = "nrrd"
    dtypes = ("uint8", "int16", "float32", "float64", "uint64")

    def write(self, path: Path, volume: NDArray[Any]) -> None:
        directions = np.array([[2.0, 0, 0], [0, 3.0, 0], [0, 0, 4.0]])
        fields = {"space": "left-posterior-superior", "space directions": directions, "space origin": [1.0, 2, 3]}
        nrrd.write(str(path), volume, fields, compression_level=1)

    def test_spacing_and_orientation(self, tmp_path: Path) -> None:
        self.write(tmp_path / "a.nrrd", self.volume("uint8"))
        columns = header_of(str(tmp_path), "a.nrrd", Reading("nrrd")).columns
        assert [columns[f"spacing_{axis}"] for axis in "xyz"] == [2.0, 3.0, 4.0]
        assert columns["orientation"] == "LPS"
        assert columns["affine"] == "-2 0 0 -1 0 -3 0 -2 0 0 4 3 0 0 0 1"

    def test_channels_come_last(self, tmp_path: Path) -> None:
        stored = np.arange(3 * 4 * 5 * 6, dtype=np.int16).reshape(3, 4, 5, 6)
        nrrd.write(str(tmp_path / "a.nrrd"), stored, {"kinds": ["vector", "domain", "domain", "domain"]})
        read = read_volume(str(tmp_path), "a.nrrd", Reading("nrrd"))
        assert np.array_equal(read, np.moveaxis(stored, 0, -1))

    def _columns(self, path: Path, stored: NDArray[Any], fields: dict[str, Any]) -> dict[str, Any]:
        """What the header of such a file says, but of its source."""
        nrrd.write(str(path), stored, fields)
        found = header_of(str(path.parent), path.name, Reading("nrrd")).columns
        return {name: value for name, value in found.items() if not name.startswith("source_")}

    @pytest.mark.parametrize(
        ("unit", "factor"),
        [("um", 1e-3), ("Micron", 1e-3), ("nm", 1e-6), ("mm", 1), ("", 1), ("cm", 10), ("m", 1000)],
    )
    def test_lengths_become_millimetres(self, tmp_path: Path, unit: str, factor: float) -> None:
        stored = np.arange(4 * 5 * 6, dtype=np.int16).reshape(4, 5, 6)
        fields = {"space": "LPS", "space directions": np.diag([325.0, 325, 1000]), "space origin": [1.0, 2, 3]}
        columns = self._columns(tmp_path / "a.nrrd", stored, fields | {"space units": [unit] * 3})
        wanted = np.diag([-325.0, -325, 1000, 1 / factor]) + np.array(
            [[0, 0, 0, -1], [0, 0, 0, -2], [0, 0, 0, 3], [0] * 4]
        )
        # The text of an affine has nine digits.
        assert np.allclose(affine_in(columns["affine"]), wanted * factor, rtol=1e-8, atol=0)
        spacings = [columns[f"spacing_{axis}"] for axis in "xyz"]
        assert np.allclose(spacings, np.array([325, 325, 1000]) * factor, rtol=1e-12)
        columns = self._columns(tmp_path / "a.nrrd", stored, {"spacings": [325.0, 325, 1000], "units": [unit] * 3})
        assert list(columns) == ["spacing_x", "spacing_y", "spacing_z"]
        assert np.allclose(list(columns.values()), spacings, rtol=1e-12)

    @pytest.mark.parametrize("micro", ["\u00b5", "\u03bc"])
    def test_micrometres_are_written_with_either_letter(self, tmp_path: Path, micro: str) -> None:
        path = tmp_path / "a.nrrd"
        nrrd.write(str(path), np.zeros((4, 5, 6), np.int16), {"spacings": [325.0, 2, 3], "units": ["MICRO_m"] * 3})
        path.write_bytes(path.read_bytes().replace(b"MICRO_", micro.encode()))
        columns = header_of(str(tmp_path), "a.nrrd", Reading("nrrd")).columns
        assert columns["spacing_x"] == pytest.approx(0.325, rel=1e-12)

    def test_each_length_has_its_unit(self, tmp_path: Path) -> None:
        stored = np.zeros((4, 5, 6), np.int16)
        units = {"units": ["um", "parsec", "cm"]}
        columns = self._columns(tmp_path / "a.nrrd", stored, {"spacings": [500.0, 2, 3], **units})
        assert columns == {"spacing_x": 0.5, "spacing_z": 30}
        turned = {"space": "LPS", "space directions": np.array([[0, 500.0, 0], [0, 0, 2], [1, 0, 0]])}
        columns = self._columns(tmp_path / "a.nrrd", stored, turned | {"space units": ["cm", "um", "mm"]})
        assert columns == {
            "spacing_x": 0.5, "spacing_y": 2, "spacing_z": 10, "orientation": "PSL", "affine_space": "RAS mm",
            "affine": "0 0 -10 0 -0.5 0 0 0 0 2 0 0 0 0 0 1",
        }  # fmt: skip
        alone = {"orientation": "PSL"}
        assert self._columns(tmp_path / "a.nrrd", stored, turned | {"space units": ["cm", "parsec", "mm"]}) == alone
        # Units of axes where directions want those of space: one that all have.
        assert self._columns(tmp_path / "a.nrrd", stored, turned | units) == alone
        assert self._columns(tmp_path / "a.nrrd", stored, turned | {"units": ["um"] * 3})["spacing_x"] == 0.5

    @pytest.mark.parametrize(
        ("fields", "space"),
        [
            ({"kinds": ["time", "domain", "domain", "domain"], "spacings": [np.nan, 1, 2, 3]}, (1, 2, 3)),
            ({"kinds": ["time", "domain", "domain", "domain"], "spacings": [0.5, 1, 2, 3]}, (1, 2, 3)),
            ({"kinds": ["domain", "time", "space", "space"], "spacings": [1, 0.5, 2, 3]}, (0, 2, 3)),
            ({"spacings": [1, 2, np.nan, 3]}, (0, 1, 3)),
            ({"kinds": ["domain"] * 4, "spacings": [np.nan, 1, 2, 3]}, (1, 2, 3)),
            ({"kinds": ["time", "space", "space", "space"], "space": "LPS",
              "space directions": np.array([[np.nan] * 3, [1, 0, 0], [0, 2, 0], [0, 0, 3.0]])}, (1, 2, 3)),
        ],
    )  # fmt: skip
    def test_axes_that_are_not_in_space_become_channels(
        self, tmp_path: Path, fields: dict[str, Any], space: tuple[int, ...]
    ) -> None:
        stored = np.arange(2 * 4 * 5 * 6, dtype=np.int16).reshape(2, 4, 5, 6)
        columns = self._columns(tmp_path / "a.nrrd", stored, fields)
        (channel,) = {0, 1, 2, 3} - set(space)
        read = read_volume(str(tmp_path), "a.nrrd", Reading("nrrd"))
        assert np.array_equal(read, np.moveaxis(stored, channel, -1))
        assert [columns[f"spacing_{axis}"] for axis in "xyz"] == [1, 2, 3]

    def test_axes_that_may_be_in_space_are_where_others_are_few(self, tmp_path: Path) -> None:
        stored = np.arange(4 * 5 * 6, dtype=np.int16).reshape(4, 5, 6)
        for fields, known in (
            ({"spacings": [np.nan] * 3}, {}),
            ({"spacings": [1, 2, np.nan]}, {"spacing_x": 1, "spacing_y": 2}),
            ({"kinds": ["time", "domain", "domain"], "spacings": [0.5, 1, 2]}, {"spacing_y": 1, "spacing_z": 2}),
        ):
            assert self._columns(tmp_path / "a.nrrd", stored, fields) == known
            assert np.array_equal(read_volume(str(tmp_path), "a.nrrd", Reading("nrrd")), stored)

    @pytest.mark.parametrize(
        ("kinds", "sizes", "space"),
        [
            ("domain domain ???", (4, 5, 6), (0, 1, 2)),
            ("??? ??? ???", (4, 5, 6), (0, 1, 2)),
            ("none none none", (4, 5, 6), (0, 1, 2)),
            ("??? space space space", (2, 4, 5, 6), (1, 2, 3)),
            ("domain domain ??? domain", (4, 5, 2, 6), (0, 1, 3)),
            ("vector domain domain ???", (2, 4, 5, 6), (1, 2, 3)),
        ],
    )
    def test_an_axis_of_no_known_kind_is_in_space_where_others_are_few(
        self, tmp_path: Path, kinds: str, sizes: tuple[int, ...], space: tuple[int, ...]
    ) -> None:
        stored = np.arange(np.prod(sizes), dtype=np.int16).reshape(sizes)
        nrrd.write(str(tmp_path / "a.nrrd"), stored, {"kinds": kinds.split()})
        others = [axis for axis in range(len(sizes)) if axis not in space]
        read = read_volume(str(tmp_path), "a.nrrd", Reading("nrrd"))
        assert np.array_equal(read, stored.transpose([*space, *others]))

    @pytest.mark.parametrize("encoding", ["raw", "gzip", "bzip2"])
    def test_data_beside_the_header(self, tmp_path: Path, encoding: str) -> None:
        volume = self.volume("int16")
        path = tmp_path / "a.nhdr"
        nrrd.write(str(path), volume, {"encoding": encoding})
        assert np.array_equal(read_volume(str(tmp_path), "a.nhdr", Reading("nrrd")), volume)
        data = next(each for each in tmp_path.iterdir() if each != path)
        before = format_named("nrrd").stamper()(path)
        data.write_bytes(data.read_bytes() + b" ")
        assert format_named("nrrd").stamper()(path) != before, "a changed data file is a changed volume"
        text = path.read_text().replace(data.name, "../elsewhere.raw")
        path.write_text(text)
        assert "not a file beside it" in refusal(path, "nrrd")

    @pytest.mark.slow
    def test_a_bomb_is_not_unpacked(self, tmp_path: Path) -> None:
        head = "NRRD0004\ntype: uchar\ndimension: 3\nsizes: {0} {0} {0}\nencoding: {1}\n\n"
        path = tmp_path / "a.nrrd"
        path.write_bytes(head.format(2000, "gzip").encode() + gzip.compress(bytes(1000)))
        assert refusal(path, "nrrd").startswith("truncated: has")
        path.write_bytes(head.format(2, "bzip2").encode() + bz2.compress(bytes(50_000_000)))
        assert refusal(path, "nrrd").startswith("too-long: ")


def metaimage(path: Path, volume: NDArray[Any], data: str = "LOCAL", **fields: object) -> None:
    """A MetaImage as ITK writes it."""
    names = {"uint8": "UCHAR", "int16": "SHORT", "float32": "FLOAT", "float64": "DOUBLE", "uint16": "USHORT"}
    head = {
        "ObjectType": "Image", "NDims": 3, "BinaryData": True, "BinaryDataByteOrderMSB": False, "CompressedData": False,
        "TransformMatrix": "1 0 0 0 1 0 0 0 1", "Offset": "1 2 3", "ElementSpacing": "2 3 4",
        "DimSize": " ".join(map(str, volume.shape[:3])), "ElementType": f"MET_{names[volume.dtype.name]}", **fields,
        "ElementDataFile": data,
    }  # fmt: skip
    raw = np.moveaxis(volume, 3, 0).tobytes("F") if volume.ndim == 4 else volume.tobytes("F")
    raw = zlib.compress(raw) if head["CompressedData"] else raw
    text = "".join(f"{name} = {value}\n" for name, value in head.items()).encode()
    path.write_bytes(text + (raw if data == "LOCAL" else b""))
    if data != "LOCAL":
        (path.parent / data).write_bytes(raw)


class TestMetaImage(FormatConformance):
    format_name = "metaimage"
    dtypes = ("uint8", "int16", "float32", "float64")

    def write(self, path: Path, volume: NDArray[Any]) -> None:
        metaimage(path, volume, CompressedData=True)

    def test_channels_byte_order_and_space(self, tmp_path: Path) -> None:
        volume = np.arange(2 * 3 * 4 * 5, dtype=np.uint16).reshape(2, 3, 4, 5)
        swapped = volume.byteswap()
        metaimage(tmp_path / "a.mha", swapped, BinaryDataByteOrderMSB=True, ElementNumberOfChannels=5)
        assert np.array_equal(read_volume(str(tmp_path), "a.mha", Reading("metaimage")), volume)
        columns = header_of(str(tmp_path), "a.mha", Reading("metaimage")).columns
        assert (columns["spacing_z"], columns["orientation"]) == (4.0, "LPS")
        assert columns["affine"] == "-2 0 0 -1 0 -3 0 -2 0 0 4 3 0 0 0 1"

    def test_lengths_become_millimetres(self, tmp_path: Path) -> None:
        for unit, factor in (("um", 1e-3), ("cm", 10), ("mm", 1), ("?", 1)):
            metaimage(tmp_path / "a.mha", self.volume("int16"), DistanceUnits=unit)
            columns = header_of(str(tmp_path), "a.mha", Reading("metaimage")).columns
            wanted = np.diag([*np.array([-2.0, -3, 4]) * factor, 1])
            wanted[:3, 3] = np.array([-1.0, -2, 3]) * factor
            affine = affine_in(columns["affine"])
            assert affine is not None
            assert np.allclose(affine, wanted, rtol=1e-8, atol=0)
        metaimage(tmp_path / "a.mha", self.volume("int16"), DistanceUnits="parsec")
        assert "spacing_x" not in header_of(str(tmp_path), "a.mha", Reading("metaimage")).columns

    def test_four_axes_lie_where_their_first_three_do(self, tmp_path: Path) -> None:
        volume = np.arange(2 * 3 * 4 * 5, dtype=np.int16).reshape(2, 3, 4, 5)
        turned = {"NDims": 4, "TransformMatrix": "0 1 0 0 -1 0 0 0 0 0 1 0 0 0 0 1", "DimSize": "2 3 4 5"}
        places = {"Offset": "1 2 3 0", "ElementSpacing": "2 3 4 0.5"}
        metaimage(tmp_path / "a.mha", volume, **turned, **places)
        # Its channels come first, and time comes last.
        path = tmp_path / "a.mha"
        head = path.read_bytes().partition(b"LOCAL\n")
        path.write_bytes(head[0] + head[1] + volume.tobytes("F"))
        assert np.array_equal(read_volume(str(tmp_path), "a.mha", Reading("metaimage")), volume)
        columns = header_of(str(tmp_path), "a.mha", Reading("metaimage")).columns
        assert [columns[f"spacing_{axis}"] for axis in "xyz"] == [2, 3, 4]
        assert (columns["orientation"], columns["affine"]) == ("PRS", "0 3 0 -1 -2 0 0 -2 0 0 4 3 0 0 0 1")
        for mixed in ("0 0 0 1 0 1 0 0 0 0 1 0 1 0 0 0", "1 0 0 0 1 0 0 0 1"):
            metaimage(tmp_path / "b.mha", volume, **turned | {"TransformMatrix": mixed}, **places)
            found = header_of(str(tmp_path), "b.mha", Reading("metaimage")).columns
            assert not {"spacing_x", "orientation", "affine"} & {*found}

    def test_data_beside_the_header(self, tmp_path: Path) -> None:
        volume = self.volume("int16")
        path = tmp_path / "a.mhd"
        metaimage(path, volume, "a.raw")
        assert np.array_equal(read_volume(str(tmp_path), "a.mhd", Reading("metaimage")), volume)
        before = format_named("metaimage").stamper()(path)
        os.utime(tmp_path / "a.raw", ns=(1, 1))
        assert format_named("metaimage").stamper()(path) != before
        (tmp_path / "a.raw").unlink()
        assert refusal(path, "metaimage") == "unreadable: has its data in a.raw, which is missing"
        for name in ("/etc/hostname", "../a.raw", "LIST", "a%03d.raw 1 3 1", ".", "./"):
            metaimage(path, volume, "a.raw")
            path.write_text(path.read_text().replace("a.raw", name))
            assert refusal(path, "metaimage").startswith("format: has its data in ")

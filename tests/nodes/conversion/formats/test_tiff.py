"""TIFF, held to the laws of a format; the files are written by its library."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
from numpy.typing import NDArray
from refused_files import refusal, spacing_in

from nodes.conversion.formats import Reading
from nodes.conversion.formats.interface import Box
from nodes.conversion.formats.reader import opened, read_volume
from nodes.conversion.formats.tiff import open_tiff
from nodes.testing.format import FormatConformance


class TestTiff(FormatConformance):
    format_name = "tiff"
    dtypes = ("uint8", "int16", "float32", "float64")

    def write(self, path: Path, volume: NDArray[Any]) -> None:
        tifffile.imwrite(path, volume.transpose(), photometric="minisblack", compression="zlib")

    def test_channels_and_spacing_of_ome_and_imagej(self, tmp_path: Path) -> None:
        stored = np.arange(5 * 3 * 4 * 2, dtype=np.uint16).reshape(5, 3, 4, 2)  # Z, C, Y, X
        sizes = {"PhysicalSizeX": 0.5, "PhysicalSizeXUnit": "µm", "PhysicalSizeZ": 2, "PhysicalSizeZUnit": "mm"}
        tifffile.imwrite(tmp_path / "a.ome.tif", stored, photometric="minisblack", metadata={"axes": "ZCYX", **sizes})
        about = {"axes": "ZCYX", "spacing": 2.5, "unit": "mm"}
        tifffile.imwrite(tmp_path / "b.tif", stored, imagej=True, resolution=(2, 4), metadata=about)
        for name, columns in (
            ("a.ome.tif", {"spacing_x": 0.0005, "spacing_z": 2.0}),
            ("b.tif", {"spacing_x": 0.5, "spacing_y": 0.25, "spacing_z": 2.5}),
        ):
            read = read_volume(str(tmp_path), name, Reading("tiff"))
            assert np.array_equal(read, stored.transpose(3, 2, 0, 1))
            assert spacing_in(tmp_path / name, "tiff") == pytest.approx(columns)

    @pytest.mark.parametrize("unit", ["µm", "\u03bcm", "&#181;m", "&#xB5;m"])
    def test_micrometres_of_ome_however_they_are_written(self, tmp_path: Path, unit: str) -> None:
        stored = np.zeros((5, 3, 4), np.uint16)
        sizes = {"PhysicalSizeX": 0.5, "PhysicalSizeXUnit": "µm", "PhysicalSizeZ": 2, "PhysicalSizeZUnit": "mm"}
        tifffile.imwrite(tmp_path / "a.ome.tif", stored, photometric="minisblack", metadata={"axes": "ZYX", **sizes})
        with tifffile.TiffFile(tmp_path / "a.ome.tif") as file:
            about = str(file.ome_metadata).replace("µm", unit).encode()
        tifffile.imwrite(tmp_path / "b.ome.tif", stored, photometric="minisblack", description=about, metadata=None)
        assert spacing_in(tmp_path / "b.ome.tif", "tiff") == pytest.approx({"spacing_x": 0.0005, "spacing_z": 2.0})

    @pytest.mark.parametrize("unit", ["um", "micron", "\\u00B5m", "\\u00b5m"])
    def test_micrometres_of_imagej_however_they_are_written(self, tmp_path: Path, unit: str) -> None:
        about = {"axes": "ZYX", "spacing": 2.5, "unit": unit}
        stored = np.zeros((5, 3, 4), np.uint16)
        tifffile.imwrite(tmp_path / "a.tif", stored, imagej=True, resolution=(2, 4), metadata=about)
        wanted = {"spacing_x": 0.0005, "spacing_y": 0.00025, "spacing_z": 0.0025}
        assert spacing_in(tmp_path / "a.tif", "tiff") == pytest.approx(wanted)

    @pytest.mark.parametrize(
        ("axes", "stored", "shape"),
        [
            ("TZCYX", (1, 5, 1, 3, 4), (4, 3, 5)),
            ("TZCYX", (1, 1, 2, 3, 4), (4, 3, 1, 2)),
            ("TCYX", (1, 1, 3, 4), (4, 3, 1)),
            ("ZYX", (5, 1, 4), (4, 1, 5)),
        ],
    )
    @pytest.mark.parametrize("name", ["a.ome.tif", "a.tif"])
    def test_axes_of_length_one(
        self, tmp_path: Path, name: str, axes: str, stored: tuple[int, ...], shape: tuple[int, ...]
    ) -> None:
        given = np.arange(np.prod(stored), dtype=np.uint16).reshape(stored)
        tifffile.imwrite(
            tmp_path / name, given, photometric="minisblack", imagej=name == "a.tif", metadata={"axes": axes}
        )
        read = read_volume(str(tmp_path), name, Reading("tiff"))
        wanted = given.transpose(
            [axes.index(axis) for axis in "XYZ" if axis in axes]
            + [place for place, axis in enumerate(axes) if axis not in "XYZ"]
        )
        assert read.shape == shape
        assert np.array_equal(read, wanted.reshape(shape))

    def test_one_page_is_one_deep_and_colours_are_channels(self, tmp_path: Path) -> None:
        tifffile.imwrite(tmp_path / "a.tif", np.arange(12, dtype=np.uint8).reshape(3, 4), photometric="minisblack")
        assert read_volume(str(tmp_path), "a.tif", Reading("tiff")).shape == (4, 3, 1)
        rgb = np.arange(2 * 8 * 9 * 3, dtype=np.uint8).reshape(2, 8, 9, 3)
        tifffile.imwrite(tmp_path / "b.tif", rgb, photometric="rgb")
        read = read_volume(str(tmp_path), "b.tif", Reading("tiff"))
        assert np.array_equal(read, rgb.transpose(2, 1, 0, 3))

    @pytest.mark.filterwarnings("ignore")
    @pytest.mark.parametrize("shape", [(3, 8, 9), (8, 9, 3), (4, 8, 9), (8, 9, 4)])
    def test_three_or_four_planes_of_bytes_are_colours(self, tmp_path: Path, shape: tuple[int, ...]) -> None:
        stored = np.arange(np.prod(shape), dtype=np.uint8).reshape(shape)
        tifffile.imwrite(tmp_path / "a.tif", stored)  # without a photometric: tifffile guesses, and writes so
        colours = 0 if shape[0] < 8 else 2
        read = read_volume(str(tmp_path), "a.tif", Reading("tiff"))
        assert np.array_equal(read[:, :, 0], np.moveaxis(stored, colours, 2).transpose(1, 0, 2))
        tifffile.imwrite(tmp_path / "b.tif", stored, photometric="minisblack", metadata={"axes": "ZYX"})
        assert np.array_equal(read_volume(str(tmp_path), "b.tif", Reading("tiff")), stored.transpose())

    def slices(self, path: Path, *planes: NDArray[Any], **how: Any) -> None:
        """A TIFF file whose images are written one by one."""
        with tifffile.TiffWriter(path) as file:
            for plane in planes:
                file.write(plane, **how)

    @pytest.mark.parametrize("how", [{}, {"compression": "zlib"}, {"photometric": "rgb"}, {"metadata": None}])
    def test_a_stack_that_is_written_slice_by_slice(self, tmp_path: Path, how: dict[str, Any]) -> None:
        stored = np.arange(10 * 20 * 24 * 3, dtype=np.uint16).reshape(10, 20, 24, 3)
        stored = stored if "photometric" in how else stored[..., 0]
        self.slices(tmp_path / "a.tif", *stored, **how)
        for plane in stored:
            tifffile.imwrite(tmp_path / "b.tif", plane, append=True, **how)
        self.slices(tmp_path / "c.tif", *stored[:, np.newaxis], **how)
        wanted = np.moveaxis(stored, 0, 2).swapaxes(0, 1)
        for name in ("a.tif", "b.tif", "c.tif"):
            with opened(tmp_path / name, Reading("tiff")) as volume:
                assert (volume.header.shape, volume.header.dtype) == (wanted.shape, "uint16")
                out = np.empty(wanted.shape, "<u2")
                volume.fill(out)
                assert np.array_equal(out, wanted)
                if volume.read_box is None:
                    assert set(how) & {"compression", "metadata"}
                    continue
                box = Box((2, 3, 4), (9, 8, 7))
                part = np.empty((*box.shape, *wanted.shape[3:]), "<u2")
                volume.read_box(box, part)
                assert np.array_equal(part, wanted[box.slices])

    def test_images_that_would_be_left_out_are_a_reason_to_refuse(self, tmp_path: Path) -> None:
        plane = np.arange(20 * 24, dtype=np.uint16).reshape(20, 24)
        stack = np.stack([plane, plane + 1])
        unlike = "images of different shapes or types, of which only the first would be read; write them as one stack"
        for others in ([plane[:19]], [plane.astype(np.float32)], [plane, plane[:10, :12]]):
            self.slices(tmp_path / "a.tif", plane, *others)
            assert refusal(tmp_path / "a.tif", "tiff") == f"format: holds {1 + len(others)} {unlike}"
        self.slices(tmp_path / "a.tif", plane[:10, :12], stack)
        assert refusal(tmp_path / "a.tif", "tiff") == f"format: holds 2 {unlike}"
        self.slices(tmp_path / "a.tif", stack, stack)
        assert refusal(tmp_path / "a.tif", "tiff").startswith("format: holds 2 stacks of the shape (2, 20, 24), of ")

    @pytest.mark.parametrize("one_by_one", [True, False])
    @pytest.mark.parametrize("marked", [True, False])
    def test_a_small_picture_beside_a_stack_is_not_read(self, tmp_path: Path, one_by_one: bool, marked: bool) -> None:
        stored = np.arange(10 * 20 * 24, dtype=np.uint16).reshape(10, 20, 24)
        path = tmp_path / "a.tif"
        with tifffile.TiffWriter(path) as file:
            for each in stored if one_by_one else [stored]:
                file.write(each)
            file.write(stored[0, ::4, ::4], subfiletype=1 if marked else 0)
        if one_by_one and not marked:
            assert refusal(path, "tiff").startswith("format: holds 11 images of different shapes")
        else:
            assert np.array_equal(read_volume(str(tmp_path), "a.tif", Reading("tiff")), stored.transpose())
        with tifffile.TiffWriter(path) as file:  # an overview of each slice
            file.write(stored, subifds=1)
            file.write(stored[:, ::2, ::2], subfiletype=1)
        assert np.array_equal(read_volume(str(tmp_path), "a.tif", Reading("tiff")), stored.transpose())

    def test_what_the_file_says_is_a_smaller_picture_is_none_of_the_slices(self, tmp_path: Path) -> None:
        stored = np.arange(10 * 30 * 30, dtype=np.uint16).reshape(10, 30, 30)
        picture = np.zeros((64, 64, 3), np.uint8)
        plain: dict[str, Any] = {"metadata": None}
        for first, second in (
            ({}, (picture, {"photometric": "rgb", "subfiletype": 1})),
            (plain, (picture[:30, :30], {"photometric": "rgb", "subfiletype": 1, **plain})),
            ({"subifds": 1}, (stored[:, :, ::2], {"subfiletype": 1})),
            ({}, (stored[::2], {"subfiletype": 1})),
            ({"subifds": 1}, (stored[:, ::2, ::2], {})),
        ):
            with tifffile.TiffWriter(tmp_path / "a.tif") as file:
                file.write(stored, **first)
                file.write(second[0], **second[1])
            assert np.array_equal(read_volume(str(tmp_path), "a.tif", Reading("tiff")), stored.transpose())

    def test_masks_that_are_written_slice_by_slice_are_a_stack(self, tmp_path: Path) -> None:
        with tifffile.TiffWriter(tmp_path / "a.tif") as file:
            for _ in range(10):
                file.write(np.zeros((30, 30), bool), photometric=4, subfiletype=4)
        with open_tiff(tmp_path / "a.tif", "") as volume:
            assert volume.header.shape == (30, 30, 10)

    def test_of_several_ome_images_none_is_taken_for_all(self, tmp_path: Path) -> None:
        stored = np.arange(10 * 30 * 30, dtype=np.uint16).reshape(10, 30, 30)
        with tifffile.TiffWriter(tmp_path / "a.ome.tif", ome=True) as file:
            file.write(stored, metadata={"axes": "ZYX"})
            file.write(stored, metadata={"axes": "ZYX"})
        assert refusal(tmp_path / "a.ome.tif", "tiff").startswith("format: holds 2 ")

    @pytest.mark.parametrize(
        ("stored", "how", "order"),
        [
            ((2, 10, 20, 24), {}, (3, 2, 1, 0)),
            ((10, 1, 20, 24), {}, (3, 2, 0, 1)),
            ((2, 2, 10, 20, 24), {}, (4, 3, 2, 0, 1)),
            ((2, 10, 3, 20, 24), {"photometric": "rgb"}, (4, 3, 1, 0, 2)),
            ((2, 10, 20, 24, 3), {"photometric": "rgb"}, (3, 2, 1, 0, 4)),
            ((2, 10, 20, 24), {"metadata": {"axes": "TZYX"}}, (3, 2, 1, 0)),
            ((10, 2, 20, 24), {"metadata": {"axes": "ZQYX"}}, (3, 2, 0, 1)),
        ],
    )
    def test_axes_without_names_before_z_are_channels(
        self, tmp_path: Path, stored: tuple[int, ...], how: dict[str, Any], order: tuple[int, ...]
    ) -> None:
        given = np.arange(np.prod(stored), dtype=np.uint16).reshape(stored)
        tifffile.imwrite(tmp_path / "a.tif", given, **how)
        wanted = given.transpose(order)
        wanted = wanted.reshape(*wanted.shape[:3], -1)
        with opened(tmp_path / "a.tif", Reading("tiff")) as volume:
            assert volume.header.shape == wanted.shape
            out = np.empty(wanted.shape, "<u2")
            volume.fill(out)
            assert np.array_equal(out, wanted)
            assert volume.read_box is not None
            box = Box((2, 3, 1), (9, 8, 7))
            part = np.empty((*box.shape, wanted.shape[3]), "<u2")
            volume.read_box(box, part)
            assert np.array_equal(part, wanted[box.slices])

    def ome(self, path: Path, planes: NDArray[Any], about: str = "", uuid: str = "", sizes: str = "") -> None:
        """An OME-TIFF of `planes`, whose metadata says six of them along Z, and `about` where they are."""
        x, y = planes.shape[2], planes.shape[1]
        lengths = sizes or 'SizeZ="6" SizeC="1" SizeT="1"'
        sizes = f'SizeX="{x}" SizeY="{y}" {lengths}'
        pixels = f'<Pixels ID="Pixels:0" DimensionOrder="XYZCT" Type="uint16" {sizes}>{about}</Pixels>'
        space = 'xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06"'
        text = f'<?xml version="1.0"?><OME {space} UUID="{uuid}"><Image ID="Image:0">{pixels}</Image></OME>'
        with tifffile.TiffWriter(path) as file:
            for number, plane in enumerate(planes):
                said: Any = {"description": text} if number == 0 else {}
                file.write(plane, photometric="minisblack", contiguous=False, metadata=None, **said)

    @pytest.mark.filterwarnings("ignore")
    def test_planes_that_an_ome_tiff_lacks(self, tmp_path: Path) -> None:
        stored = np.arange(1, 121, dtype=np.uint16).reshape(6, 4, 5)
        here = '<TiffData IFD="0" PlaneCount="6"/>'
        self.ome(tmp_path / "whole.ome.tif", stored, here)
        assert np.array_equal(read_volume(str(tmp_path), "whole.ome.tif", Reading("tiff")), stored.transpose())
        lost = "they are in other files, or lost"
        path = tmp_path / "a.ome.tif"
        self.ome(path, stored[:3], here)
        assert refusal(path, "tiff") == f"truncated: lacks 3 of 6 planes: {lost}"
        self.ome(path, stored[:1], "<TiffData/>")
        assert refusal(path, "tiff") == f"truncated: lacks 5 of 6 planes: {lost}"
        self.ome(path, stored[:1])
        assert refusal(path, "tiff").startswith("truncated: has 1 of the 6 planes that its OME metadata says: ")
        path.write_bytes(path.read_bytes().replace(b'<Pixels ID="Pixels:0"', b'<Pixelz ID="Pixels:0"'))
        assert refusal(path, "tiff").startswith("format: is a part of an OME-TIFF that another file describes")

    def test_a_file_of_an_ome_tiff_of_several_is_no_volume(self, tmp_path: Path) -> None:
        stored = np.arange(1, 121, dtype=np.uint16).reshape(6, 4, 5)

        def parts(count: int) -> str:
            each = 6 // count
            return "".join(
                f'<TiffData IFD="0" FirstZ="{n * each}" PlaneCount="{each}"><UUID FileName="{n}.ome.tif">u{n}</UUID>'
                "</TiffData>"
                for n in range(count)
            )

        for count in (6, 2):
            for n in range(count):
                self.ome(tmp_path / f"{n}.ome.tif", stored[n * 6 // count :][: 6 // count], parts(count), f"u{n}")
            for n in range(count):
                said = refusal(tmp_path / f"{n}.ome.tif", "tiff")
                assert said.startswith(f"truncated: has {6 // count} of the 6 planes that its OME metadata says: ")
        # All planes are here, but in which order is said of another file.
        self.ome(tmp_path / "a.ome.tif", stored, parts(2), "u7", 'SizeZ="3" SizeC="2" SizeT="1"')
        assert refusal(tmp_path / "a.ome.tif", "tiff").startswith("format: has channels or times in an order")

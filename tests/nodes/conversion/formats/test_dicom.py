"""DICOM series: written by pydicom, and pydicom's own test files."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import nrrd
import numpy as np
import pyarrow.parquet as pq
import pydicom
import pytest
from dicom_series import DICOM, refusal, volume, write_series, write_slice
from npy_folders import convert, look, parts_of, rows, sources_of, take, write_labels
from numpy.typing import NDArray
from pydicom.data import get_testdata_file
from pydicom.uid import RLELossless

from engine.storage import manifest
from nodes.conversion.formats.dicom import open_series
from nodes.conversion.formats.reader import header_of, read_volume
from nodes.conversion.quarantine import Refused
from nodes.prediction.few_files import ask
from nodes.testing.format import FormatConformance


class TestDicom(FormatConformance):
    """A file of several frames, which is a volume by itself."""

    format_name = "dicom"
    dtypes = ("uint8", "int16", "uint16")
    most_copies = 6.0

    def write(self, path: Path, volume: NDArray[Any]) -> None:
        frames = np.ascontiguousarray(volume.transpose())
        data = frames.tobytes() + b"\0" * (frames.nbytes % 2)
        write_slice(path, volume[:, :, 0], 0.0, NumberOfFrames=volume.shape[2], PixelData=data)


def test_a_series_is_one_volume_sorted_by_position(tmp_path: Path) -> None:
    written = volume()
    write_series(tmp_path / "a", written)
    assert np.array_equal(read_volume(str(tmp_path), "a", DICOM), written)
    columns = header_of(str(tmp_path), "a", DICOM).columns
    assert columns == {
        "spacing_x": 2.0, "spacing_y": 3.0, "spacing_z": 4.0, "orientation": "LPS",
        "affine": "-2 0 0 -1 0 -3 0 -2 0 0 4 0 0 0 0 1", "affine_space": "RAS mm",
        "modality": "CT", "patient_id": "p7", "study_uid": "9.9", "series_uid": "1.2.3",
        "source_dtype": "<i2", "source_slope": 1.0, "source_intercept": 0.0,
        "source_decoder": f"pydicom {pydicom.__version__}",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("slope", "intercept", "dtype"), [(1, -1024, "int16"), (3, 0, "int16"), (300, 0, "int32"), (0.5, 1, "float32")]
)
def test_values_are_rescaled_into_the_smallest_type(tmp_path: Path, slope: float, intercept: float, dtype: str) -> None:
    written = volume("uint16")
    fields = {"RescaleSlope": slope, "RescaleIntercept": intercept, "BitsStored": 12, "HighBit": 11}
    write_series(tmp_path / "a", written, **fields)
    read = read_volume(str(tmp_path), "a", DICOM)
    assert read.dtype == dtype
    assert np.array_equal(read, written.astype(float) * slope + intercept)


@pytest.mark.parametrize("first", [12, 16])
def test_slices_that_use_different_numbers_of_bits(tmp_path: Path, first: int) -> None:
    stored = {12: np.array([[0, 100], [1024, 4095]], np.uint16), 16: np.array([[0, 100], [40_000, 65_535]], np.uint16)}
    for z, bits in enumerate((first, 28 - first)):
        fields = {"RescaleSlope": 1, "RescaleIntercept": -1024, "BitsStored": bits, "HighBit": bits - 1}
        write_slice(tmp_path / "a" / f"{z}.dcm", stored[bits], float(z), **fields)
    read = read_volume(str(tmp_path), "a", DICOM)
    assert read.dtype == "int32"
    for z, bits in enumerate((first, 28 - first)):
        assert np.array_equal(read[:, :, z], stored[bits].astype(int) - 1024)


@pytest.mark.parametrize(("slope", "intercept"), [(1, -1024), (1, 0)])
def test_values_that_the_type_does_not_hold_are_refused(tmp_path: Path, slope: int, intercept: int) -> None:
    """Not wrapped around. Here a file becomes another one between its header and its values."""
    plane = np.array([[0, 100], [1024, 4095]], np.uint16)
    fields: dict[str, object] = {"RescaleIntercept": intercept, "BitsStored": 12, "HighBit": 11}
    for z in range(2):
        write_slice(tmp_path / "a" / f"{z}.dcm", plane, float(z), RescaleSlope=slope + z, **fields)
    with open_series(tmp_path / "a", "") as opened:
        assert opened.header.dtype == "int16"
        out = np.empty(opened.header.shape, opened.header.dtype)
        opened.fill(out)
        assert np.array_equal(out[:, :, 1], plane.astype(int) * (slope + 1) + intercept)
        write_slice(tmp_path / "a" / "0.dcm", np.full((2, 2), 40_000, np.uint16), 0.0)
        with pytest.raises(
            Refused, match=r"to 38976 in 0\.dcm, beyond" if intercept else r"to 40000 in 0\.dcm, beyond"
        ):
            opened.fill(out)


@pytest.mark.parametrize("copied", [1, 4])
def test_copies_of_slices_are_no_phases(tmp_path: Path, copied: int) -> None:
    """As a browser names what it downloads twice."""
    write_series(tmp_path / "a", volume())
    for place in sorted((tmp_path / "a").iterdir())[:copied]:
        shutil.copy(place, place.with_name(f"{place.stem} (1).dcm"))
    assert refusal(tmp_path, "a") == "format: has s000 (1).dcm and s000.dcm, copies of one slice: remove one"


def test_phases_of_files_that_share_a_uid_are_channels(tmp_path: Path) -> None:
    """Some anonymise a UID by one that all files have."""
    phases = [volume(seed=seed) for seed in range(2)]
    for number, each in enumerate(phases):
        for z in range(4):
            fields = {"SOPInstanceUID": "1.2", "InstanceNumber": 4 * number + z}
            write_slice(tmp_path / "a" / f"{number}{z}.dcm", each[:, :, z], 4.0 * z, **fields)
    assert np.array_equal(read_volume(str(tmp_path), "a", DICOM), np.stack(phases, -1))


def test_the_source_says_scale_unit_and_the_decoder_that_was_used(tmp_path: Path) -> None:
    def known(name: str) -> dict[str, Any]:
        found = header_of(str(tmp_path / "in"), name, DICOM).columns
        return {column: value for column, value in found.items() if column.startswith("source_")}

    written = volume("uint16")
    write_series(tmp_path / "in" / "a", written, RescaleSlope=2, RescaleIntercept=-10, RescaleType="HU")
    decoder = f"pydicom {pydicom.__version__}"
    assert known("a") == {
        "source_dtype": "<u2", "source_slope": 2.0, "source_intercept": -10.0, "source_unit": "HU",
        "source_decoder": decoder,
    }  # fmt: skip
    for number, z in enumerate((0.0, 4.0)):
        write_slice(tmp_path / "in" / "b" / f"{z}.dcm", written[:, :, 0], z, RescaleSlope=number + 1, RescaleType="US")
    assert known("b") == {"source_dtype": "<u2", "source_decoder": decoder}, "slices differ, US means unspecified"
    shutil.rmtree(tmp_path / "in" / "b")
    for path in (tmp_path / "in" / "a").iterdir():
        packed = pydicom.dcmread(path)
        packed.compress(RLELossless, encoding_plugin="pydicom")
        packed.save_as(path)
    made = convert(tmp_path / "in", tmp_path / "work")
    table = pq.read_table(Path(made.uri) / parts_of(made).parts[0].path)
    (row,) = table.to_pylist()
    assert made.spec is not None
    assert row["volume"] == (written.astype(made.spec.dtype) * 2 - 10).astype(made.spec.dtype).tobytes()
    assert row["source_decoder"].startswith(decoder)
    lines = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n"
        for path in sorted((tmp_path / "in" / "a").iterdir())
    ]
    assert row["source_sha256"] == hashlib.sha256("".join(lines).encode()).hexdigest()


def test_phases_at_the_same_positions_are_channels(tmp_path: Path) -> None:
    first, second = volume(seed=1), volume(seed=2)
    for number, phase in enumerate((first, second)):
        for z in range(4):
            path = tmp_path / "a" / f"{number}-{z}.dcm"
            write_slice(path, phase[:, :, z], 4.0 * z, TemporalPositionIdentifier=number + 1)
    assert np.array_equal(read_volume(str(tmp_path), "a", DICOM), np.stack([first, second], axis=-1))
    (tmp_path / "a" / "1-2.dcm").unlink()
    assert "from 1 to 2 slices at one position" in refusal(tmp_path, "a")


def test_a_missing_slice_and_other_slices_are_refused(tmp_path: Path) -> None:
    write_series(tmp_path / "a", volume())
    (next(p for p in (tmp_path / "a").iterdir() if pydicom.dcmread(p).ImagePositionPatient[2] == 8)).unlink()
    assert refusal(tmp_path, "a") == "format: misses slices: they are 4 to 8 mm apart"
    write_series(tmp_path / "b", volume())
    write_slice(tmp_path / "b" / "more.dcm", np.zeros((2, 2), np.int16), 16.0)
    assert "has slices of" in refusal(tmp_path, "b")


def test_a_localizer_in_the_series_is_named(tmp_path: Path) -> None:
    write_series(tmp_path / "a", volume())
    for name in ("0.dcm", "z.dcm"):  # the first that is read, and the last
        path = tmp_path / "a" / name
        write_slice(path, volume()[:, :, 0], 16.0, ImageOrientationPatient=[0, 1, 0, 0, 0, -1])
        assert refusal(tmp_path, "a").startswith(f"format: has {name} in another direction than the other slices")
        path.unlink()
    write_slice(tmp_path / "a" / "b.dcm", volume()[:, :, 0], 16.0, ImagePositionPatient=None)
    assert refusal(tmp_path, "a") == "format: has 1 of 5 slices without a position"


def test_a_tilted_gantry_is_refused_and_an_oblique_series_is_read(tmp_path: Path) -> None:
    written = volume()
    for z in range(4):
        place = [1.0, 2.0 + 0.3 * z, 4.0 * z]
        write_slice(tmp_path / "tilted" / f"{z}.dcm", written[:, :, z], 4.0 * z, ImagePositionPatient=place)
    assert "1.dcm 0.3 mm beside the slice before it" in refusal(tmp_path, "tilted")
    angle = np.deg2rad(33)
    down = [0.0, np.cos(angle), np.sin(angle)]
    normal = np.cross([1, 0, 0], down)
    for z in range(4):
        # As scanners round them.
        fields = {
            "ImagePositionPatient": [round(float(v), 2) for v in (1, 2, 3) + 0.7 * z * normal],
            "ImageOrientationPatient": [1, 0, 0, *(round(float(v), 3) for v in down)],
        }
        write_slice(tmp_path / "oblique" / f"{z}.dcm", written[:, :, z], float(z), "1.2.4", **fields)
    assert np.array_equal(read_volume(str(tmp_path), "oblique", DICOM), written)
    assert header_of(str(tmp_path), "oblique", DICOM).columns["spacing_z"] == pytest.approx(0.7, rel=0.01)


@pytest.mark.parametrize(
    ("places", "refused"),
    [
        ((0, 2, 4, 6.8), "format: has slices at unequal distances: 2 to 2.8 mm"),
        ((0, 2, 4, 6.05), "format: has slices at unequal distances: 2 to 2.05 mm"),
        ((0, 0.01, 0.02, 0.04), "format: misses slices: they are 0.01 to 0.02 mm apart"),
        ((0, 3.33, 6.67, 10), ""),
        ((0, 0.01, 0.02, 0.03), ""),
    ],
)
def test_distances_of_slices(tmp_path: Path, places: tuple[float, ...], refused: str) -> None:
    written = volume()
    for number, z in enumerate(places):
        write_slice(tmp_path / "a" / f"{number}.dcm", written[:, :, number], z)
    if refused:
        assert refusal(tmp_path, "a") == refused
    else:
        assert np.array_equal(read_volume(str(tmp_path), "a", DICOM), written)


def test_each_slice_has_its_own_scale_and_numbers_do_not_order_them(tmp_path: Path) -> None:
    written = volume("uint16")
    for z in range(4):
        fields = {"RescaleSlope": z + 1, "RescaleIntercept": -10 * z, "InstanceNumber": 100 - z}
        write_slice(tmp_path / "a" / f"{z}.dcm", written[:, :, z], 4.0 * z, **fields)
    read = read_volume(str(tmp_path), "a", DICOM)
    assert np.array_equal(read, written * np.arange(1, 5) - 10 * np.arange(4))


def test_values_of_monochrome1_stay_as_they_are_stored(tmp_path: Path) -> None:
    written = volume()
    write_series(tmp_path / "a", written, PhotometricInterpretation="MONOCHROME1")
    assert np.array_equal(read_volume(str(tmp_path), "a", DICOM), written)
    write_slice(tmp_path / "a" / "more.dcm", written[:, :, 0], 16.0)
    assert "small values are black and others in which they are white" in refusal(tmp_path, "a")


@pytest.mark.slow
def test_a_folder_of_patients_becomes_parts(tmp_path: Path) -> None:
    root, scans = tmp_path / "in", {}
    for number in range(3):
        scans[f"p{number}"] = volume(seed=number)
        write_series(root / f"p{number}", scans[f"p{number}"], f"1.2.{number}")
    for uid in ("5.1", "5.2"):  # two series in one folder
        scans[f"both/{uid}"] = volume(seed=int(uid[2:]) + 10)
        for z in range(4):
            write_slice(root / "both" / f"{uid}-{z}.dcm", scans[f"both/{uid}"][:, :, z], 4.0 * z, uid)
    single = volume(seed=20)
    TestDicom().write(root / "multi.dcm", single)
    scans["multi.dcm"] = single
    (root / "report.dcm").write_bytes(b"no DICOM file")
    write_labels(root / "labels.csv", [("p0", 1), ("multi", 0), ("both/5.1", 1)])
    made = convert(root, tmp_path / "work", max_bad_files=1)
    assert {name: data for name, (_, data) in rows(made).items()} == {k: v.tobytes() for k, v in scans.items()}
    assert made.labelled == 3
    assert {s["path"] for s in sources_of(made) if s["reason"]} == {"report.dcm"}
    # Unchanged: the same listing, and nothing is converted again. One more series: the others stay.
    before = manifest.read(take(root, tmp_path / "again").manifest)
    assert manifest.read(take(root, tmp_path / "again").manifest).equals(before)
    write_series(root / "p9", volume(seed=9), "1.2.9")
    messages: list[str] = []
    more = convert(root, tmp_path / "work", previous=made, messages=messages, max_bad_files=1)
    assert len(rows(more)) == 7
    assert "1 file converted now" in messages[-1]


def test_a_slice_that_changes_after_the_listing_is_noticed(tmp_path: Path) -> None:
    root = tmp_path / "in"
    write_series(root / "a", volume())
    write_series(root / "b", volume(seed=4), "1.2.4")
    files = take(root, tmp_path / "work")
    write_slice(root / "a" / "s000.dcm", np.zeros((6, 5), np.int16), 0.0)
    from nodes.conversion.volume_sources import open_reader

    assert files.spec is not None
    reader = open_reader(str(root), files.spec, finite=True, reading=DICOM)
    found: dict[str, str] = {}
    for entry in manifest.entries(manifest.read(files.manifest)):
        try:
            reader.read(*entry, np.zeros(files.spec.volume_bytes, np.uint8))
        except Refused as refused:
            found[entry.path] = refused.reason
    assert found == {"a": "changed-during-run"}


@pytest.mark.parametrize(
    "name", ["CT_small.dcm", "MR_small.dcm", "MR_small_RLE.dcm", "MR_small_bigendian.dcm", "rtdose.dcm"]
)
def test_pydicoms_own_files(tmp_path: Path, name: str) -> None:
    source = get_testdata_file(name, download=False)
    assert isinstance(source, str)
    shutil.copy(source, tmp_path / name)
    data = pydicom.dcmread(source)
    pixels = data.pixel_array * float(data.get("RescaleSlope", 1)) + float(data.get("RescaleIntercept", 0))
    pixels = pixels if pixels.ndim == 3 else pixels[np.newaxis]
    read = read_volume(str(tmp_path), name, DICOM)
    assert np.array_equal(read, pixels.transpose(2, 1, 0))
    columns = header_of(str(tmp_path), name, DICOM).columns
    assert columns["modality"] == data.Modality
    assert [columns["spacing_y"], columns["spacing_x"]] == pytest.approx([float(v) for v in data.PixelSpacing])


def test_what_cannot_be_unpacked_safely_is_refused(tmp_path: Path) -> None:
    for name, reason in (("image_dfl.dcm", "format: is deflated"), ("MR_truncated.dcm", "")):
        source = get_testdata_file(name, download=False)
        assert isinstance(source, str)
        shutil.copy(source, tmp_path / name)
        assert refusal(tmp_path, name).startswith(reason)


REAL = Path(pydicom.__file__).parent / "data" / "test_files" / "dicomdirtests"
"""What pydicom has of several CDs: series of scanners in files without an ending, and the directory of them."""


@pytest.mark.slow
def test_series_in_files_without_an_ending_are_found_when_the_format_is_chosen(tmp_path: Path) -> None:
    root = tmp_path / "in"
    for name in ("98892001/CT5N", "98892003/MR700"):
        shutil.copytree(REAL / name, root / name)
    shutil.copy(REAL / "DICOMDIR", root)
    (root / "98892001" / "README").write_text("no DICOM file")
    np.save(root / "98892003" / "other.npy", np.zeros((2, 2, 2)))
    write_labels(root / "labels.csv", [("98892001/CT5N", 1), ("98892003/MR700", 0)])
    files = take(root, tmp_path / "work", format="dicom")
    assert {entry.path for entry in manifest.entries(manifest.read(files.manifest))} == {
        "98892001/CT5N", "98892003/MR700"
    }  # fmt: skip
    found = look(root, tmp_path, format="dicom")
    assert [(each.ending, each.count) for each in found.left_out] == [(".npy", 1)]
    slices = sorted(map(pydicom.dcmread, (REAL / "98892001" / "CT5N").iterdir()), key=lambda one: one.SliceLocation)
    expected = [one.pixel_array.T * int(one.RescaleSlope) + int(one.RescaleIntercept) for one in slices]
    assert np.array_equal(read_volume(str(root), "98892001/CT5N", DICOM), np.stack(expected, axis=-1))
    # Slices that the scanner turned against each other: no box.
    assert "has 4528 in another direction than the other slices: a localizer?" in refusal(root, "98892003/MR700")
    made = convert(root / "98892001", tmp_path / "made", source={"format": "dicom"})
    assert (made.count, made.quarantined) == (1, 0)


@pytest.mark.slow
def test_slices_of_a_series_are_one_volume_to_a_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[NDArray[Any]] = []

    class Model:
        def scores(self, batch: NDArray[Any]) -> NDArray[Any]:
            seen.extend(batch)
            return np.tile([0.25, 0.75], (len(batch), 1))

    monkeypatch.setattr("nodes.prediction.few_files._predictor", lambda card, size: Model())
    # With such a chain a single slice would fit the model as well, and be answered.
    chain = [{"name": "crop-pad", "version": 1, "parameters": {"size": [6, 5, 5]}}]
    model, root = tmp_path / "model", tmp_path / "in"
    model.mkdir()
    (model / "model.keras").write_bytes(b"")
    described = {"class_names": ["no", "yes"], "input": {"shape": [6, 5, 5]}, "transforms": chain}
    (model / "model.json").write_text(json.dumps(described))
    one, two, three = (volume(seed=seed) for seed in range(3))
    write_series(root / "one", one, "1.1")
    write_series(root / "both", one, "1.1")
    for z in range(4):
        write_slice(root / "both" / f"t{z}.dcm", two[:, :, z], 4.0 * z, "1.2")
    nrrd.write(str(root / "both" / "a.nhdr"), three, {"encoding": "raw"})

    def asked(*files: Path) -> dict[str, str]:
        seen.clear()
        found = [(str(answer.file.relative_to(root)), answer.error) for answer in ask(model, files).answers]
        assert len(found) == len(dict(found))
        return dict(found)

    slices = sorted((root / "one").iterdir())
    for given in ((root / "one",), slices, slices[::-1]):
        assert asked(*given) == {"one": ""}
        assert np.array_equal(seen, [np.pad(one, ((0, 0), (0, 0), (0, 1)))])
    part = f"is a part of a volume of several files (DICOM): give all of them, or their folder {root / 'one'}"
    assert asked(slices[2]) == {f"one/{slices[2].name}": part}
    assert asked(*slices[1:]) == {"one": part}
    assert seen == []
    everything = {"both/1.1": "", "both/1.2": "", "both/a.nhdr": ""}
    assert asked(root / "both") == everything
    assert len(seen) == 3
    assert asked(*sorted((root / "both").glob("*.*[mr]"))) == everything
    assert asked(root) == everything | {"one": ""}
    assert asked(*(root / "both").glob("t*"), root / "both" / "a.nhdr") == {"both/1.2": "", "both/a.nhdr": ""}
    for number, path in enumerate(slices):
        path.rename(root / "one" / f"IM{number:06d}")
    slices = sorted((root / "one").iterdir())
    assert asked(root / "one") == asked(*slices) == {"one": ""}
    assert asked(slices[0]) == {"one/IM000000": part}

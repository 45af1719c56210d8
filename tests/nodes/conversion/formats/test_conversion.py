"""Folders of other formats than `.npy`, from VolumeFolder's look at them to the parts."""

from __future__ import annotations

import errno
import gzip
import hashlib
import json
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
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
from installed_package import install
from npy_folders import convert, look, rows, take, write_labels
from numpy.typing import NDArray
from volume_folders import looked_at, volumes

from engine.catalog import build_catalog
from engine.declare.check_context import CheckContext
from engine.declare.datasets import Preview, VolumeFiles
from engine.declare.node_type import NodeType
from engine.declare.view import Gallery
from engine.document.path_checks import passed_over, path_problem
from engine.errors import DataError, MissingPackage
from engine.extras import missing
from engine.storage import manifest
from nodes import BUILT_IN
from nodes.conversion.formats import ENTRY_POINTS, VolumeFormat, companions, format_problems, installed
from nodes.conversion.formats.interface import OpenVolume, VolumeHeader
from nodes.loaders import open_source
from nodes.loaders.random_access import RandomAccessSource
from nodes.numpy_to_parquet import numpy_to_parquet
from nodes.prediction.few_files import ask
from nodes.transform_volumes import transform_volumes
from nodes.viewing.volumes import files_view, parquet_view
from nodes.volume_file.parts import read_parts
from nodes.volume_folder import volume_folder


def nifti(path: Path, volume: NDArray[Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    nibabel.save(nibabel.Nifti1Image(volume, np.diag([2.0, 3.0, 4.0, 1.0])), path)


def test_a_folder_of_nifti_files_becomes_parts(tmp_path: Path) -> None:
    root = tmp_path / "in"
    written = volumes(7)
    for number, volume in enumerate(written):
        nifti(root / f"p{number}.nii.gz", volume)
    nifti(root / "other.nii", np.zeros((2, 2, 2), np.int16))
    (root / "broken.nii.gz").write_bytes(gzip.compress(b"not one"))
    (root / "notes.txt").write_text("of no meaning")
    # With the ending, and without.
    write_labels(root / "labels.csv", [("p0", 1), ("p1.nii.gz", 2)])
    made = convert(root, tmp_path / "work", max_bad_files=2, row_group_rows=2)
    assert (made.count, made.quarantined, made.found, made.labelled) == (7, 2, 9, 2)
    found = rows(made)
    assert {name: data for name, (_, data) in found.items()} == {
        f"p{number}.nii.gz": volume.astype("<i2").tobytes() for number, volume in enumerate(written)
    }
    assert [found[f"p{number}.nii.gz"][0] for number in range(3)] == [1.0, 2.0, None]
    parts = [Path(made.uri) / part.path for part in read_parts(made).parts]
    table = pa.concat_tables(pq.read_table(part, partitioning=None) for part in parts)
    assert table.column("spacing_y").to_pylist() == [3.0] * 7
    assert set(table.column("orientation").to_pylist()) == {"RAS"}
    assert set(table.column("affine").to_pylist()) == {"2 0 0 0 0 3 0 0 0 0 4 0 0 0 0 1"}
    assert set(table.column("affine_space").to_pylist()) == {"RAS mm"}
    assert table.column("source_sha256").to_pylist() == [
        hashlib.sha256((root / f"p{number}.nii.gz").read_bytes()).hexdigest() for number in range(7)
    ]
    assert set(table.column("source_dtype").to_pylist()) == {"<i2"}
    assert set(table.column("source_slope").to_pylist()) == {1.0}
    listed = next((tmp_path / "work").rglob("quarantine.csv")).read_text()
    assert "broken.nii.gz,format," in listed
    assert "other.nii,shape," in listed


def test_the_columns_that_a_table_will_have_are_known_before(tmp_path: Path) -> None:
    """Those of the format too: SplitDataset by a DICOM file's patient_id was refused before the run."""
    root = tmp_path / "in"
    for number, volume in enumerate(volumes(2)):
        nifti(root / f"p{number}.nii", volume)
    (root / "labels.csv").write_text("file,label,age\np0,1,30\np1,0,40\n")
    _, files = looked_at(root, tmp_path / "look", format="auto", dataset="")
    assert numpy_to_parquet.scan_hook is not None
    assert numpy_to_parquet.preview_hook is not None
    params = {p.name: p.default for p in numpy_to_parquet.parameters}
    seen = CheckContext(params=params, inputs={"files": files})
    seen.facts = numpy_to_parquet.scan_hook(seen)
    preview = numpy_to_parquet.preview_hook(seen)
    assert isinstance(preview, Preview)
    made = convert(root, tmp_path / "work")
    found = pq.read_schema(Path(made.uri) / read_parts(made).parts[0].path).names
    assert preview.columns is not None
    assert {*preview.columns, "id", "label", "volume"} == set(found)
    assert {"age", "affine", "source_sha256"} <= set(found)


def test_volumes_whose_axes_point_several_ways_are_a_warning_before_the_run(tmp_path: Path) -> None:
    """It was reported only when all of them were converted."""
    root = tmp_path / "in"
    for number, volume in enumerate(volumes(3)):
        nifti(root / f"p{number}.nii", volume)
    nibabel.save(nibabel.Nifti1Image(volumes(1)[0], np.diag([-2.0, 3.0, 4.0, 1.0])), root / "turned.nii")
    _, files = looked_at(root, tmp_path / "look", format="auto", dataset="")
    assert files.orientations == {"RAS": 3, "LAS": 1}
    assert reported(numpy_to_parquet, files) == [
        (
            "VF424",
            "the axes of the sampled volumes point several ways (3 RAS, 1 LAS), so one side of a body is another in"
            " some of them",
        )
    ]
    params = {p.name: p.default for p in transform_volumes.parameters} | {"orientation": "LPS"}
    turned = CheckContext(params=params, inputs={"volumes": files})
    assert transform_volumes.scan_hook is not None
    assert transform_volumes.preview_hook is not None
    turned.facts = transform_volumes.scan_hook(turned)
    alike = transform_volumes.preview_hook(turned)
    assert isinstance(alike, Preview)
    assert alike.orientations == {"LPS": 4}
    assert reported(numpy_to_parquet, alike) == []


def reported(node: NodeType[Any, Any], files: Preview) -> list[tuple[str, str]]:
    look = CheckContext(params={p.name: p.default for p in node.parameters}, inputs={"files": files})
    assert node.scan_hook is not None
    assert node.preview_hook is not None
    look.facts = node.scan_hook(look)
    node.preview_hook(look)
    return [(each.code, each.message) for each in look.problems]


def test_only_new_files_are_converted_and_a_resumed_conversion_finds_its_parts(tmp_path: Path) -> None:
    root, base, messages = tmp_path / "in", tmp_path / "work", list[str]()
    for number, volume in enumerate(volumes(6)):
        nifti(root / f"p{number}.nii", volume)
    first = convert(root, base, target_file_mb=1)
    again = convert(root, base, target_file_mb=1, messages=messages)
    assert "0 files converted now" in messages[-1] or "1 part was there already" in messages[-1]
    assert rows(again) == rows(first)
    nifti(root / "p9.nii", volumes(1, seed=9)[0])
    more = convert(root, base, previous=first, messages=messages)
    assert "1 file converted now" in messages[-1]
    assert rows(more).keys() == {*rows(first), "p9.nii"}


def test_the_preview_of_a_nifti_folder_is_what_the_run_finds(tmp_path: Path) -> None:
    root = tmp_path / "in"
    for number, volume in enumerate(volumes(3)):
        nifti(root / "x" / f"p{number}.NII", volume)
    write_labels(root / "labels.csv", [("p0", 1)])
    seen, preview = looked_at(root, tmp_path / "look", format="auto", dataset="")
    files = take(root, tmp_path / "work")
    assert seen.problems == []
    assert (preview.count, preview.bytes, preview.spec) == (files.count, files.bytes, files.spec)
    assert preview.sample == ("x/p0.NII", "x/p1.NII", "x/p2.NII")
    assert files.format == "nifti"
    for dataset in (files, preview.dataset):
        assert isinstance(dataset, VolumeFiles)
        view = files_view(dataset, {})
        gallery = view.panels["volumes"]
        assert [item.id for item in gallery.pick(0, 5, 0, {"order": "stored"}).items] == list(preview.sample)
        assert np.array_equal(gallery.volume(1), volumes(3)[1])
        assert isinstance(gallery, Gallery)
        assert gallery.spacing(2) == gallery.spacing(1) == (2.0, 3.0, 4.0)
        view.close()
    converted = parquet_view(convert(root, tmp_path / "converted"), {}).panels["volumes"]
    assert isinstance(converted, Gallery)
    assert converted.spacing(1) == (2.0, 3.0, 4.0)


def test_npy_files_come_first_and_format_chooses(tmp_path: Path) -> None:
    root = tmp_path / "in"
    for number, volume in enumerate(volumes(3)):
        nifti(root / f"p{number}.nii", volume)
    np.savez(root / "a.npz", volumes(1)[0])
    assert take(root, tmp_path / "1").format == "nifti", "most files are"
    assert take(root, tmp_path / "2", format="npz").format == "npz"
    assert look(root, tmp_path, format="npy").count == 0, "what was chosen is not there"
    np.save(root / "a.npy", volumes(1)[0])
    found = take(root, tmp_path / "3")
    assert (found.format, found.count) == ("npy", 1)
    assert take(root, tmp_path / "4", format="nifti").count == 3


def test_a_listing_of_npy_files_is_what_it_always_was(tmp_path: Path) -> None:
    root = tmp_path / "in"
    root.mkdir()
    np.save(root / "a.npy", volumes(1)[0])
    (root / "notes.txt").write_text("of no meaning")
    nifti(root / "p.nii", volumes(1)[0])
    (tmp_path / "look").mkdir()
    found = look(root, tmp_path / "look")
    assert (found.count, found.file_kind, found.endings) == (1, "", ())
    old = manifest.list_folder(root, ("**/*.npy", "**/*.NPY", "**/*.Npy", "labels.csv", "labels.parquet"))
    assert found.digest == manifest.digest(old)


def test_volumes_of_another_format_are_named_as_left_out(tmp_path: Path) -> None:
    root = tmp_path / "in"
    root.mkdir()
    for name in ("a.npy", "b.nPy", "p.nii", "q.nii.gz", "r.NII", "s.mhd", "s.raw", "notes.txt", "labels.csv"):
        (root / name).write_text("x")
    (root / "t.zarr").mkdir()
    for params, taken, left_out in (
        ({}, 1, {".nii": 2, ".npy": 1, ".nii.gz": 1, ".mhd": 1, ".zarr": 1}),
        ({"format": "nifti"}, 3, {".npy": 2, ".mhd": 1, ".zarr": 1}),
        ({"format": "zarr"}, 1, {".npy": 2, ".nii": 2, ".nii.gz": 1, ".mhd": 1}),
        ({"format": "metaimage"}, 2, {".npy": 2, ".nii": 2, ".nii.gz": 1, ".zarr": 1}),
    ):
        found = look(root, tmp_path, **params)
        assert (found.count, {each.ending: each.count for each in found.left_out}) == (taken + 1, left_out), params
    wanted = next(p.path_in for p in volume_folder.parameters if p.name == "folder")
    assert wanted is not None
    others, misspelt = passed_over(str(root), wanted, look(root, tmp_path))
    assert (others.code, misspelt.code) == ("VF313", "VF313")
    assert f"in {root} these are left out: 2 .nii, " in others.message
    for kind in ("nifti", "metaimage", "zarr"):
        assert f"format={kind}" in others.hint
        assert look(root, tmp_path, format=kind).count > 1, "and that takes them"
    assert "b.nPy" in misspelt.message
    assert f"`mv {root}/b.nPy {root}/b.npy`" in misspelt.hint
    (root / "b.nPy").rename(root / "b.npy")
    assert len(passed_over(str(root), wanted, look(root, tmp_path))) == 1
    (taken,) = passed_over(str(root), wanted, look(root, tmp_path, format="zarr"))
    assert "the format of .npy" in taken.hint


def test_what_is_in_a_folder_of_no_known_format_is_listed(tmp_path: Path) -> None:
    root = tmp_path / "in"
    root.mkdir()
    for name in ("a.txt", "b.TXT", "c.pdf", "README", "x.tar.gz"):
        (root / name).write_text("x")
    found = look(root, tmp_path)
    wanted = next(p.path_in for p in volume_folder.parameters if p.name == "folder")
    assert wanted is not None
    problem = path_problem(str(root), wanted, found)
    assert problem is not None
    assert problem.code == "VF306"
    assert problem.message.startswith(f"there are no volumes in {root} (found: 2 .txt, 1 ")
    assert problem.hint == "Set format to dicom, which looks into files of any name; or choose another folder."
    assert sorted(found.endings) == [(".gz", 1), (".pdf", 1), (".txt", 2), ("without an ending", 1)]
    seen, _ = looked_at(root, tmp_path, format="auto", dataset="")
    assert seen.problems == [], "one problem for one fact"
    shutil.rmtree(root)
    root.mkdir()
    assert look(root, tmp_path).content == "it is empty"


def test_a_format_without_its_reader_names_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "in"
    for number, volume in enumerate(volumes(6)):
        nifti(root / f"p{number}.nii.gz", volume)
    (root / "a.txt").write_text("")
    (root / "b.txt").write_text("")
    (tmp_path / "look").mkdir()
    monkeypatch.setattr("engine.extras._is_installed", lambda name: name != "nibabel")
    assert missing(["nibabel"]) == ["nibabel"]
    seen, preview = looked_at(root, tmp_path / "look", format="auto", dataset="")
    assert preview.count is None
    (problem,) = seen.problems
    assert problem.code == "VF311"
    assert problem.message == ("reading NIfTI volumes needs NiBabel, which is not installed (found: 6 .nii.gz, 2 .txt)")
    assert problem.hint == "Install it: pip install 'voxelflow[nifti]'"
    with pytest.raises(MissingPackage):
        take(root, tmp_path / "work")


def test_one_array_of_each_archive(tmp_path: Path) -> None:
    root, base = tmp_path / "in", tmp_path / "work"
    root.mkdir()
    images, masks = volumes(3), volumes(3, seed=8)
    for number in range(3):
        np.savez_compressed(root / f"{number}.npz", image=images[number], mask=masks[number])
    with pytest.raises(DataError, match="holds several arrays: image, mask"):
        convert(root, base)
    made = {name: rows(convert(root, base, source={"dataset": name})) for name in ("image", "mask")}
    assert [data for _, data in made["image"].values()] == [volume.tobytes() for volume in images]
    assert [data for _, data in made["mask"].values()] == [volume.tobytes() for volume in masks]


class _Installed:
    """An entry point as importlib gives it."""

    name, value, dist = "mine", "their_package:FORMAT", None

    def __init__(self, loaded: object) -> None:
        self._loaded = loaded

    def load(self) -> object:
        if isinstance(self._loaded, Exception):
            raise self._loaded
        return self._loaded


@contextmanager
def open_text(path: Path, dataset: str) -> Iterator[OpenVolume]:
    """A format of someone else: numbers as text."""
    values = np.loadtxt(path, ndmin=2)
    header = VolumeHeader(values.shape, "float64", {"total": float(values.sum())})
    yield OpenVolume(header, lambda out: np.copyto(out, values))


def test_a_package_adds_a_format(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "text_format", sys.modules[__name__])
    mine = VolumeFormat("text", "text", "text_format:open_text", (".txt3d",), columns=(("total", "float64"),))
    entries = [_Installed(ImportError("broken")), _Installed("no format"), _Installed(mine), _Installed(mine)]
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: entries)
    installed.cache_clear()
    try:
        root = tmp_path / "in"
        root.mkdir()
        for number in range(3):
            (root / f"{number}.txt3d").write_text(f"1 2 3\n4 5 {number}\n")
        (root / "bad.txt3d").write_text("words")
        made = convert(root, tmp_path / "work", max_bad_files=1)
        assert made.count == 3
        assert np.frombuffer(rows(made)["2.txt3d"][1]).tolist() == [1, 2, 3, 4, 5, 2]
        (part,) = read_parts(made).parts
        assert pq.read_table(Path(made.uri) / part.path).column("total").to_pylist() == [15.0, 16.0, 17.0]
        assert [each.message.split("FORMAT) ")[1] for each in format_problems()] == [
            "could not be loaded: ImportError: broken",
            "is no VolumeFormat but a str",
            "is called 'text', as another format is",
        ]
    finally:
        installed.cache_clear()


def test_a_format_that_cannot_be_loaded_is_named_in_the_catalogue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = install(
        tmp_path / "site", "cube = cube_format:FORMAT", ENTRY_POINTS, cube_format="import no_such_reader_of_cubes\n"
    )
    monkeypatch.syspath_prepend(str(site))
    installed.cache_clear()
    try:
        (problem,) = build_catalog(BUILT_IN).problems
    finally:
        installed.cache_clear()
    assert (problem.code, problem.severity) == ("VF151", "warning")
    assert problem.message == (
        "the volume format cube of the package cube_format (cube_format:FORMAT) could not be loaded:"
        " ModuleNotFoundError: No module named 'no_such_reader_of_cubes'"
    )
    assert "Update, correct or remove the package" in problem.hint


@pytest.mark.parametrize(
    ("name", "broken"),
    [
        ("nhdr", "<html>not found</html>"),
        ("nhdr", "NRRD0004\ntype: short\ndimension: 3\nsizes: 4 3 2\nencoding: raw\ndata file: .\n\n"),
        ("mhd", "ObjectType = Image\nNDims = 3\nDimSize = 4 3 2\nElementType = MET_SHORT\nElementDataFile = .\n"),
    ],
)
def test_a_broken_header_beside_good_ones_is_quarantined(tmp_path: Path, name: str, broken: str) -> None:
    root = tmp_path / "in"
    root.mkdir()
    for number, volume in enumerate(volumes(3)):
        if name == "nhdr":
            nrrd.write(str(root / f"{number}.nhdr"), volume, {"encoding": "raw"})
            continue
        (root / f"{number}.mhd").write_text(broken.replace("= .\n", f"= {number}.raw\n"))
        (root / f"{number}.raw").write_bytes(volume.tobytes("F"))
    (root / f"notes.{name}").write_text(broken)
    made = convert(root, tmp_path / "work", max_bad_files=5)
    assert (made.count, made.quarantined) == (3, 1)
    assert f"notes.{name},format," in next((tmp_path / "work").rglob("quarantine.csv")).read_text()


def test_a_process_without_handles_says_nothing_about_a_header(tmp_path: Path) -> None:
    (tmp_path / "a.nhdr").write_text("")

    def data_file(path: Path) -> str:
        raise OSError(errno.EMFILE, "Too many open files")

    with pytest.raises(OSError, match="Too many open files"):
        companions.stamp(tmp_path / "a.nhdr", data_file)


@pytest.mark.parametrize(("name", "said"), [("s{:04d}.tif", True), ("{}b.tif", False), ("s{:04d}.npz", False)])
def test_slices_in_a_file_each_are_remarked_upon(tmp_path: Path, name: str, said: bool) -> None:
    """What CT and FIB-SEM programs export: every file is a volume of depth 1, of which the table would be full."""
    root = tmp_path / "in"
    (root / "scan").mkdir(parents=True)
    for number in range(5):
        plane = np.full((6, 7), number, np.uint16)
        path = root / "scan" / name.format(number)
        tifffile.imwrite(path, plane) if path.suffix == ".tif" else np.savez(path, plane[..., np.newaxis].repeat(2, 2))
    (tmp_path / "look").mkdir()
    seen, preview = looked_at(root, tmp_path / "look", format="auto", dataset="")
    assert preview.count == 5
    assert [problem.code for problem in seen.problems] == (["VF405"] if said else [])
    assert all("scan/s0000.tif and others of its folder, numbered alike" in each.message for each in seen.problems)


def test_training_can_read_the_files_themselves(tmp_path: Path) -> None:
    root = tmp_path / "in"
    for number, volume in enumerate(volumes(3)):
        nifti(root / f"p{number}.nii", volume)
    write_labels(root / "labels.csv", [("p0", 1), ("p2", 0)])
    with closing(open_source("npy", take(root, tmp_path / "work"), cores=1)) as source:
        assert isinstance(source, RandomAccessSource)
        assert np.array_equal(source.rows.labels, [1, np.nan, 0], equal_nan=True)
        out = np.empty((2, 4, 3, 2), np.float32)
        source.fill(np.array([2, 0]), out)
        assert np.array_equal(out, [volumes(3)[2], volumes(3)[0]])
        (root / "p2.nii").write_bytes(b"")
        with pytest.raises(DataError, match=r"p2\.nii is empty"):
            source.fill(np.array([2]), out[:1])


def test_a_model_is_asked_about_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[NDArray[Any]] = []

    class Model:
        def scores(self, batch: NDArray[Any]) -> NDArray[Any]:
            seen.extend(batch)
            return np.tile([0.25, 0.75], (len(batch), 1))

    monkeypatch.setattr("nodes.prediction.few_files._predictor", lambda card, size: Model())
    model, root = tmp_path / "model", tmp_path / "in"
    model.mkdir()
    (model / "model.keras").write_bytes(b"")
    (model / "model.json").write_text(json.dumps({"class_names": ["no", "yes"], "input": {"shape": [4, 3, 2]}}))
    nifti(root / "good.nii.gz", volumes(1)[0])
    nifti(root / "other.nii", np.zeros((2, 2, 2), np.int16))
    nifti(root / "nan.nii", np.full((4, 3, 2), np.nan, np.float32))
    (root / "report.txt").write_text("")
    answers = {answer.file.name: answer for answer in ask(model, [root]).answers}
    assert answers.keys() == {"good.nii.gz", "other.nii", "nan.nii"}
    assert answers["good.nii.gz"].name == "yes"
    assert answers["other.nii"].error == "is 2x2x2, the model takes 4x3x2"
    assert answers["nan.nii"].error == "holds 24 values that are NaN or infinite"
    assert np.array_equal(seen, volumes(1))


def _zarr(path: Path, volume: NDArray[Any]) -> None:
    zarr.create_array(store=f"{path}.zarr", shape=volume.shape, dtype=volume.dtype, overwrite=True)[...] = volume


def _nrrd(path: Path, volume: NDArray[Any]) -> None:
    nrrd.write(f"{path}.nhdr", volume, {"encoding": "raw"})


def _hdf5(path: Path, volume: NDArray[Any]) -> None:
    with h5py.File(f"{path}.h5", "w") as file:
        file["volume"] = volume


@pytest.mark.slow
@pytest.mark.parametrize(
    ("write", "format", "ending"), [(_zarr, "zarr", ".zarr"), (_nrrd, "nrrd", ".nhdr"), (_hdf5, "hdf5", ".h5")]
)
def test_volumes_of_several_files_are_one_each_and_a_change_in_any_counts(
    tmp_path: Path, write: Callable[[Path, NDArray[Any]], None], format: str, ending: str
) -> None:
    root, base, messages = tmp_path / "in", tmp_path / "work", list[str]()
    (root / "deep").mkdir(parents=True)
    written = dict(zip(("a", "deep/b", "c"), volumes(3), strict=True))
    for name, volume in written.items():
        write(root / name, volume)
    write_labels(root / "labels.csv", [("a", 1), ("b", 0)])
    (tmp_path / "look").mkdir()
    seen, preview = looked_at(root, tmp_path / "look", format="auto", dataset="")
    made = convert(root, base)
    assert seen.problems == []
    assert (preview.count, preview.bytes) == (3, take(root, base).bytes)
    assert take(root, base).format == format
    assert {name: data for name, (_, data) in rows(made).items()} == {
        f"{name}{ending}": volume.tobytes() for name, volume in written.items()
    }
    assert made.labelled == 2
    assert convert(root, base, previous=made, messages=messages).count == 3
    assert "; 0 files converted now" in messages[-1]
    # Only what is in it changes, nothing of its name.
    changed = {p: p.read_bytes() for p in root.rglob("*") if p.is_file()}
    write(root / "c", written["c"] + 1)
    assert changed != {p: p.read_bytes() for p in root.rglob("*") if p.is_file()}
    again = rows(convert(root, base, previous=made))
    assert again[f"c{ending}"][1] == (written["c"] + 1).tobytes()
    assert again[f"a{ending}"][1] == written["a"].tobytes()

"""TransformVolumes and what reads its volumes: parts, training from files, the viewer; files and rows of tables."""

from __future__ import annotations

import hashlib
import json
import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

import nibabel
import nilearn
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from nibabel.processing import resample_from_to
from nibabel.testing import data_path as nibabel_data
from npy_folders import context, look, make_volumes, numbered, parts_of, reasons, rows, take, write_labels
from volume_sets import labels_for, make_delta, make_parquet, some_volumes

from engine.declare.check_context import CheckContext
from engine.declare.datasets import Dataset, Preview, Selection, VolumeFiles, VolumeParquet, VolumeSpec
from engine.errors import DataError, UsageError
from engine.workspace import Workspace, trust
from nodes.conversion.formats.geometry import affine_in
from nodes.loaders import open_source
from nodes.loaders.interface import Reading
from nodes.numpy_to_parquet import numpy_to_parquet
from nodes.parquet_to_delta import parquet_to_delta
from nodes.table.snapshot import open_table
from nodes.transform_volumes import transform_volumes
from nodes.viewing import open_view

CROP = {"size": (4, 4, 4), "normalise": "z-score"}


def cropped(volume: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The middle 4x4x4 (of volumes of 4 to 6 voxels a side), by NumPy alone, as `CROP` does."""
    starts = [(n - 4) // 2 for n in volume.shape[:3]]
    part = volume[tuple(slice(s, s + 4) for s in starts)].astype(np.float64)
    return ((part - part.mean()) / part.std()).astype(np.float32)


def transform(volumes: Dataset, base: Path, **params: Any) -> VolumeFiles:
    return transform_volumes(volumes, **params, ctx=context(base, "transform", _fingerprint(volumes, params)))


def _fingerprint(volumes: Dataset, params: dict[str, Any]) -> str:
    return hashlib.md5(f"{volumes.model_dump_json()}{params}".encode(), usedforsecurity=False).hexdigest()


def converted(files: VolumeFiles, base: Path, previous: Dataset | None = None, **params: Any) -> VolumeParquet:
    ctx = context(base, "parquet", _fingerprint(files, params), previous={"out": previous} if previous else {})
    return numpy_to_parquet(files, **params, ctx=ctx)


def arrays(made: VolumeParquet) -> dict[str, np.ndarray[Any, Any]]:
    assert made.spec is not None
    return {
        name: np.frombuffer(data, np.dtype(made.spec.dtype)).reshape(made.spec.shape)
        for name, (_, data) in rows(made).items()
    }


def close_to(found: dict[str, Any], wanted: dict[str, Any]) -> bool:
    return found.keys() == wanted.keys() and all(np.allclose(found[k], wanted[k], atol=1e-5) for k in wanted)


@pytest.fixture
def folder(tmp_path: Path) -> tuple[Path, dict[str, np.ndarray[Any, Any]]]:
    """Volumes of three shapes, with labels."""
    root = tmp_path / "in"
    written = make_volumes(root, numbered(6), (6, 5, 4))
    written |= make_volumes(root, numbered(5, 6), (5, 6, 6), "int16") | make_volumes(root, numbered(1, 11), (4, 4, 4))
    write_labels(root / "labels.csv", [(name, number % 2) for number, name in enumerate(written)])
    return root, written


def test_volumes_of_differing_shapes_become_one_table(
    tmp_path: Path, folder: tuple[Path, dict[str, np.ndarray[Any, Any]]]
) -> None:
    root, written = folder
    files = transform(take(root, tmp_path / "work"), tmp_path / "work", **CROP)
    assert files.spec is not None
    assert (files.count, files.spec.shape, files.spec.dtype) == (12, (4, 4, 4), "float32")
    assert files.details()["transforms"] == "crop 4x4x4, z-score"
    made = converted(files, tmp_path / "work", row_group_rows=2)
    assert close_to(arrays(made), {name: cropped(volume) for name, volume in written.items()})
    assert (made.labelled, made.quarantined) == (12, 0)
    assert made.spec == files.spec
    # Nobody but the reader of a volume knows of the transforms: what is trained on from the files is the same.
    with closing(open_source("npy", files, cores=2)) as source:
        (batch,) = source.loader(source.rows_in(), Reading(12, training=False)).batches()
        names = source.ids(batch.rows)
        assert np.array_equal(batch.volumes, [arrays(made)[name] for name in names])
    view = open_view(files, {})
    assert view is not None
    gallery: Any = view.panels["volumes"]
    assert np.array_equal(gallery.volume(7), arrays(made)["v0007.npy"])


@pytest.mark.slow
def test_other_transforms_make_other_parts_and_the_same_ones_find_theirs(
    tmp_path: Path, folder: tuple[Path, dict[str, np.ndarray[Any, Any]]]
) -> None:
    work, source = tmp_path / "work", take(folder[0], tmp_path / "work")
    first = converted(transform(source, work, **CROP), work)
    other = converted(transform(source, work, **CROP, clip_low=0.5), work, first)
    again = converted(transform(source, work, **CROP), work, other)
    names = [{part.path for part in parts_of(made).parts} for made in (first, other, again)]
    assert not names[0] & names[1]
    assert names[2] == names[0]
    make_volumes(folder[0], ["w.npy"], (9, 4, 4), seed=3)
    grown = converted(transform(take(folder[0], work), work, **CROP), work, first, unlabelled="keep")
    assert {part.path for part in parts_of(grown).parts} > names[0]


def test_two_nodes_are_one_with_both_chains(
    tmp_path: Path, folder: tuple[Path, dict[str, np.ndarray[Any, Any]]]
) -> None:
    work, source = tmp_path / "work", take(folder[0], tmp_path / "work")
    two = transform(transform(source, work, size=(4, 4, 4)), work, normalise="z-score")
    assert (two.transforms, two.spec) == (transform(source, work, **CROP).transforms, two.spec)
    assert close_to(arrays(converted(two, work)), {name: cropped(v) for name, v in folder[1].items()})


def test_what_cannot_be_transformed_is_quarantined(
    tmp_path: Path, folder: tuple[Path, dict[str, np.ndarray[Any, Any]]]
) -> None:
    work, source = tmp_path / "work", take(folder[0], tmp_path / "work")
    make_volumes(folder[0], ["channels.npy"], (4, 4, 4, 2))
    np.save(folder[0] / "flat.npy", np.zeros((4, 4), np.float32))
    made = converted(transform(take(folder[0], work), work, **CROP), work, max_bad_files=2)
    assert reasons(made) == {"channels.npy": "shape", "flat.npy": "transform"}
    with pytest.raises(DataError, match=r"none of 12 sampled .* says no spacing"):
        transform(source, work, spacing=(1.0,))


@pytest.mark.parametrize("statistics", ["volume", "all"])
@pytest.mark.parametrize("kind", ["min-max", "percentiles"])
def test_one_infinity_is_quarantined_after_normalising(
    tmp_path: Path, folder: tuple[Path, dict[str, np.ndarray[Any, Any]]], kind: str, statistics: str
) -> None:
    spoilt = folder[1]["v0002.npy"].copy()
    spoilt[1, 2, 3] = np.inf
    np.save(folder[0] / "v0002.npy", spoilt)
    files = transform(take(folder[0], tmp_path), tmp_path, size=(4, 4, 4), normalise=kind, statistics=statistics)
    made = converted(files, tmp_path, max_bad_files=1)
    assert list(reasons(made)) == ["v0002.npy"]


def scans(root: Path) -> dict[str, np.ndarray[Any, Any]]:
    root.mkdir()
    random, out = np.random.default_rng(1), {}
    for number, (shape, mm) in enumerate([((8, 8, 4), (1, 1, 2)), ((4, 6, 8), (2, 1.5, 1)), ((10, 6, 6), (1, 2, 1))]):
        volume = out[f"s{number}.nii.gz"] = random.random(shape).astype(np.float32)
        affine = np.diag([*map(float, mm), 1.0])
        affine[:3, 3] = [-30, 5, 7]
        nibabel.save(nibabel.Nifti1Image(volume, affine), root / f"s{number}.nii.gz")
    return out


def test_scans_of_differing_spacing_become_one_table_and_say_their_new_place(tmp_path: Path) -> None:
    scans(tmp_path / "in")
    work = tmp_path / "work"
    files = transform(take(tmp_path / "in", work), work, spacing=(2.0,), size=(4, 4, 4))
    made = converted(files, work)
    table = pa.concat_tables(pq.read_table(Path(made.uri) / part.path) for part in parts_of(made).parts)
    assert table["spacing_x"].to_pylist() == table["spacing_z"].to_pylist() == [2.0] * 3
    assert set(table["orientation"].to_pylist()) == {"RAS"}
    # 8 voxels of 1 mm become 4 of 2 mm: the first new one lies between the first two old ones.
    affine = np.array([float(x) for x in table["affine"][0].as_py().split()]).reshape(4, 4)
    assert affine[0].tolist() == pytest.approx([2, 0, 0, -29.5])


def test_real_scans_are_where_nibabel_puts_them(tmp_path: Path) -> None:
    """Heads that packages bring along, of three voxel sizes, left or right first: each against nibabel's resampling."""
    files = [nibabel_data / "anatomical.nii", nibabel_data / "reoriented_anat_moved.nii"]
    files.append(Path(nilearn.__file__).parent / "datasets" / "data" / "image_10426.nii.gz")
    (tmp_path / "in").mkdir()
    for file in files:
        shutil.copy(file, tmp_path / "in")
    work = tmp_path / "work"
    changed = transform(take(tmp_path / "in", work), work, spacing=(3.5, 3.0, 2.5), size=(18, 30, 24), dtype="float32")
    made = converted(changed, work)
    assert (made.count, made.quarantined) == (3, 0)
    found = arrays(made)
    tables = [pq.read_table(Path(made.uri) / part.path, columns=["id", "affine"]) for part in parts_of(made).parts]
    affines = {row["id"]: row["affine"] for table in tables for row in table.to_pylist()}
    for file in files:
        image: Any = nibabel.load(file)
        target = (18, 30, 24), affine_in(affines[file.name])
        wanted = resample_from_to(image, target, order=1, cval=np.nan).get_fdata()
        inside = np.isfinite(wanted)
        # Of whole numbers both make whole ones, each in its own way.
        rounded = 1 if image.get_data_dtype().kind == "i" else 1e-3 * float(np.nanmax(wanted))
        assert inside.mean() > 0.5
        assert np.abs(found[file.name] - wanted)[inside].max() <= rounded, file.name


MAKE = {"delta": make_delta, "parquet": make_parquet}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "options"), [("delta", {"own": True}), ("delta", {"compression": "ZSTD"}), ("parquet", {})]
)
def test_a_table_is_transformed_into_a_new_one(tmp_path: Path, kind: str, options: dict[str, Any]) -> None:
    volumes = some_volumes(30, shape=(6, 5, 4))
    labels = labels_for(volumes)
    table = MAKE[kind](tmp_path, volumes, labels, **options)
    files = transform(table, tmp_path / "work", **CROP)
    assert (files.format, files.pinned_version()) == ("rows", getattr(table, "version", None))
    made = converted(files, tmp_path / "work", target_file_mb=1, row_group_rows=3)
    assert close_to(arrays(made), {name: cropped(volume) for name, volume in volumes.items()})
    assert {name: label for name, (label, _) in rows(made).items()} == dict(labels)
    with closing(open_source("npy", files, cores=2)) as source:
        batches = list(source.loader(source.rows_in(), Reading(5)).batches())
        for batch in batches:
            for name, volume in zip(source.ids(batch.rows), batch.volumes, strict=True):
                assert np.allclose(volume, cropped(volumes[name]), atol=1e-5)
    gallery: Any = open_view(files, {}).panels["volumes"]  # type: ignore[union-attr]
    shown = gallery.pick(0, 3, 1, {}).items[2]
    assert np.allclose(gallery.volume(shown.row), cropped(volumes[shown.id]), atol=1e-5)


@pytest.mark.slow
def test_of_a_split_only_its_rows_come_with_their_columns(tmp_path: Path) -> None:
    root = tmp_path / "in"
    written = make_volumes(root, numbered(40), (5, 5, 5))
    lines = [f"{name},{n % 2},p{n % 7}" for n, name in enumerate(written)]
    (root / "labels.csv").write_text("\n".join(["file,label,patient", *lines]))
    first = converted(take(root, tmp_path / "a"), tmp_path / "a")
    table = parquet_to_delta(first, ctx=context(tmp_path / "a", "table"))
    selected = table.select(Selection(salt="s", low=0.0, high=0.4))
    files = transform(selected, tmp_path / "b", **CROP)
    made = converted(files, tmp_path / "b")
    wanted = {name for name in written if selected.selections[0].holds(name)}
    assert (files.count, set(rows(made))) == (len(wanted), wanted)
    (part,) = parts_of(made).parts
    found = pq.read_table(Path(made.uri) / part.path)
    assert dict(zip(found["id"].to_pylist(), found["patient"].to_pylist(), strict=True)) == {
        name: f"p{int(name[1:5]) % 7}" for name in wanted
    }
    # Spark, a loader or a program elsewhere finds in the table's properties what was done to it.
    again = parquet_to_delta(made, ctx=context(tmp_path / "b", "table"))
    properties = DeltaTable(again.uri).metadata().configuration
    assert [each["words"] for each in json.loads(properties["voxelflow.transforms"])] == ["crop 4x4x4", "z-score"]
    assert open_table(again.uri).reference(again.uri).spec == made.spec == files.spec
    # A chain behind that table goes on from what was done; only the new steps are applied.
    behind = transform(again, tmp_path / "c", clip_low=0.0)
    assert [each.name for each in behind.transforms] == ["clip"]
    assert behind.spec is not None
    assert [each.name for each in behind.spec.transforms] == ["crop-pad", "normalise", "clip"]


@pytest.fixture
def own(workspace: Workspace) -> Path:
    workspace.my_transforms.mkdir()
    path = workspace.my_transforms / "half.py"
    path.write_text("def transform(volume, row):\n    return volume[::2] * len(row['id'])\n")
    return path


def test_a_function_of_ones_own_runs_when_it_is_trusted(tmp_path: Path, workspace: Workspace, own: Path) -> None:
    written = make_volumes(tmp_path / "in", numbered(3), (6, 4, 4))
    source = take(tmp_path / "in", tmp_path / "work")
    with pytest.raises(UsageError, match="is not trusted"):
        transform(source, tmp_path / "work", function=str(own))
    trust(workspace)
    files = transform(source, tmp_path / "work", function=str(own))
    assert files.spec is not None
    assert files.spec.shape == (3, 4, 4)
    first = converted(files, tmp_path / "work")
    assert close_to(arrays(first), {name: volume[::2] * 9 for name, volume in written.items()})
    # What ran is what was read: a file that changes meanwhile is another chain, and other parts.
    own.write_text("def transform(volume, row):\n    return volume[::2]\n")
    assert arrays(converted(files, tmp_path / "work"))["v0000.npy"].max() == arrays(first)["v0000.npy"].max()
    other = converted(transform(source, tmp_path / "work", function=str(own)), tmp_path / "work", first)
    assert close_to(arrays(other), {name: volume[::2] for name, volume in written.items()})
    foreign = files.transforms[0].model_copy(update={"parameters": {"file": "half.py", "source": "import os"}})
    with pytest.raises(UsageError, match="not trusted here"):
        converted(files.model_copy(update={"transforms": (foreign,)}), tmp_path / "work")


# --- before a run ---------------------------------------------------------------------------------


def planned(given: Preview | None, **params: Any) -> tuple[Preview, dict[str, str]]:
    """The preview behind a scan, and what was reported, by code."""
    defaults = {p.name: p.default for p in transform_volumes.parameters}
    out = CheckContext(params={**defaults, **params}, inputs={"volumes": given} if given else {})
    assert transform_volumes.scan_hook is not None
    assert transform_volumes.preview_hook is not None
    out.facts = transform_volumes.scan_hook(out)
    made = transform_volumes.preview_hook(out)
    assert isinstance(made, Preview)
    return made, {d.code: d.message for d in out.problems}


def there(root: Path, base: Path) -> Preview:
    """What VolumeFolder's preview knows."""
    base.mkdir(parents=True, exist_ok=True)
    found, files = look(root, base), take(root, base)
    return Preview(
        kind="VolumeFiles", uri=str(root), count=files.count, spec=files.spec, refused=5,
        sample=tuple(name for name in found.sample if name.endswith(".npy")),
        dataset=files.model_copy(update={"manifest": found.manifest}),
    )  # fmt: skip


def test_the_plan_knows_shape_and_dtype_of_sampled_files(
    tmp_path: Path, folder: tuple[Path, dict[str, np.ndarray[Any, Any]]]
) -> None:
    given = there(folder[0], tmp_path / "work")
    made, said = planned(given, **CROP)
    assert not said
    assert made.spec is not None
    assert (made.spec.describe(), made.refused, made.count) == ("4x4x4 float32", 0, 12)
    assert made.does == "crop 4x4x4, z-score"
    gallery: Any = open_view(made.dataset, {}).panels["volumes"]  # type: ignore[arg-type, union-attr]
    assert np.allclose(gallery.volume(0), cropped(folder[1]["v0000.npy"]), atol=1e-5)
    made, said = planned(given, normalise="z-score")
    assert made.refused == 6
    assert "of 12 sampled volumes 6 end with another shape" in said["VF475"]
    assert set(planned(given, spacing=(1.0,))[1]) == {"VF473"}
    assert set(planned(given)[1]) == {"VF472", "VF475"}
    assert set(planned(given, axes="XX")[1]) == {"VF471"}
    assert set(planned(given, function=str(tmp_path / "no.py"))[1]) == {"VF476"}


def test_of_a_table_the_shape_follows_from_the_steps() -> None:
    table = Preview(kind="VolumeDelta", spec=VolumeSpec(shape=(8, 8, 8, 2), dtype="int16"), count=3)
    made, said = planned(table, channels=(1,), spacing=(2.0,), size=(4, 4, 4))
    assert not said
    assert made.spec is not None
    assert made.spec.describe() == "4x4x4x1 int16"
    assert planned(table, spacing=(2.0,))[0].spec is None
    none, said = planned(table.model_copy(update={"columns": ()}), spacing=(2.0,))
    assert (none.spec, set(said)) == (None, {"VF473"})
    assert set(planned(table, channels=(2,))[1]) == {"VF473"}


def test_references_of_the_time_before_read_and_write_as_they_were() -> None:
    old = {
        "kind": "VolumeFiles", "uri": "/in", "count": 2, "bytes": 96, "manifest": "/m", "format": "npy", "dataset": "",
        "spec": {"shape": [2, 2, 2], "dtype": "float32", "classes": []},
    }  # fmt: skip
    assert VolumeFiles.model_validate(old).model_dump(mode="json") == old


def test_a_source_without_a_value_costs_its_own_volumes_only(tmp_path: Path) -> None:
    root = tmp_path / "in"
    written = make_volumes(root, numbered(6))
    (root / "v0003.npy").write_bytes((root / "v0003.npy").read_bytes()[:200])
    np.save(root / "v0004.npy", np.full((4, 3, 2, 2), np.nan, np.float32))
    files = transform(take(root, tmp_path / "look"), tmp_path, normalise="min-max", statistics="source")
    made = converted(files, tmp_path, max_bad_files=5)
    assert arrays(made).keys() == written.keys() - {"v0003.npy", "v0004.npy"}
    assert reasons(made) == {"v0003.npy": "truncated", "v0004.npy": "transform"}

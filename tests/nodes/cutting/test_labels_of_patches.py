"""CutVolumes on real files: the label of each patch, from label maps, horizons and polygons."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pyarrow as pa
import pytest
import segyio
from cuts import add_up, cut, rows_of, sliced, volume_of
from numpy.typing import NDArray

from engine.declare.datasets import VolumeParquet
from engine.errors import DataError
from nodes.conversion.formats.geometry import text_of
from nodes.conversion.formats.interface import VolumeHeader
from nodes.cutting.cubes import find_cubes
from nodes.cutting.cut_parameters import CutParameters
from nodes.cutting.patch_labels import LabelRule
from nodes.cutting.surfaces import read_points, to_voxels


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "in"
    folder.mkdir()
    return folder


def _label_map() -> NDArray[np.uint8]:
    labels = np.zeros((16, 16, 16), np.uint8)
    labels[:8, :8] = 2
    labels[8:, :, 12:] = 1
    return labels


def _labels(out: VolumeParquet) -> dict[tuple[int, int, int], float | None]:
    return {(row["x"], row["y"], row["z"]): row["label"] for row in rows_of(out).values()}


@pytest.mark.parametrize(
    ("volume", "labels", "pattern"),
    [
        ("a.nii", "a_seg.nii.gz", "{cube}_seg.nii.gz"),
        ("sub/a.nii", "sub/a_seg.nii.gz", "{cube}_seg.nii.gz"),
        ("images/a.nii", "labels/a.nii.gz", "labels/{cube}.nii.gz"),
        ("p/1.2.840", "p/1.2.840_seg.nii.gz", "{cube}_seg.nii.gz"),
        ("images/1.2.840", "labels/1.2.840.nii.gz", "labels/{cube}.nii.gz"),
    ],
)
def test_labels_of_another_ending_are_found_in_any_folder(volume: str, labels: str, pattern: str) -> None:
    """A folder of slices has no ending."""
    listing = pa.table({"path": [volume, labels], "size": [1, 1], "mtime_ns": [1, 1]})
    (cube,) = find_cubes(listing, CutParameters(size=(4, 4, 4), labels="volume", label_volume=pattern))
    assert cube.labels is not None
    assert (cube.name, cube.labels.path) == (volume, labels)


@pytest.mark.parametrize(
    ("volume", "labels", "pattern"),
    [
        ("p/brain.pre.nii.gz", "p/brain_seg.mha", "{cube}_seg.mha"),
        ("p/run.1", "p/run_seg.nii", "{cube}_seg.nii"),
    ],
)
def test_a_volume_takes_no_labels_of_its_neighbour(volume: str, labels: str, pattern: str) -> None:
    listing = pa.table({"path": [volume, labels], "size": [1, 1], "mtime_ns": [1, 1]})
    (cube,) = find_cubes(listing, CutParameters(size=(4, 4, 4), labels="volume", label_volume=pattern))
    assert cube.labels is None


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["centre", "majority", "share"])
@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_labels_from_a_label_map(rule: str, dtype: str, root: Path, tmp_path: Path) -> None:
    volume, labels = volume_of((16, 16, 16)), _label_map()
    for name, data in (("head.nii.gz", volume), ("head_seg.nii.gz", labels.astype(dtype))):
        nibabel.save(nibabel.Nifti1Image(data, np.eye(4)), root / name)
    out = cut(
        root, tmp_path / "work", size=(6, 6, 6), stride=(5, 5, 5), labels="volume", label_volume="{cube}_seg.nii.gz",
        label_rule=rule, label_share=0.3, class_names="none, top, corner",
    )  # fmt: skip
    assert out.spec is not None
    assert out.spec.classes == ("none", "top", "corner")
    wanted = {}
    for (x, y, z), patch in sliced(labels, (6, 6, 6), (5, 5, 5)):
        counts = np.bincount(patch.reshape(-1), minlength=3)
        if rule == "centre":
            wanted[x, y, z] = float(labels[x + 3, y + 3, z + 3])
        elif rule == "majority":
            wanted[x, y, z] = float(counts.argmax())
        else:
            best = 1 + int(counts[1:].argmax())
            wanted[x, y, z] = float(best if counts[best] >= 0.3 * 216 else 0)
    assert _labels(out) == wanted
    assert len(set(wanted.values())) == 3
    assert out.labelled == out.count == len(wanted)


@pytest.mark.slow
def test_labels_in_a_folder_of_their_own_have_the_names_of_the_volumes(root: Path, tmp_path: Path) -> None:
    """As in the Medical Segmentation Decathlon; a name that two volumes have says nothing."""
    for folder, names in (("imagesTr", "ab"), ("imagesTs", "c"), ("labelsTr", "ab")):
        (root / folder).mkdir()
        for seed, name in enumerate(names):
            data = np.roll(_label_map(), seed, 2) if folder == "labelsTr" else volume_of((16, 16, 16), seed=seed)
            nibabel.save(nibabel.Nifti1Image(data, np.eye(4)), root / folder / f"{name}.nii.gz")
    given: dict[str, Any] = {"size": (8, 8, 8), "labels": "volume", "label_volume": "labelsTr/{cube}.nii.gz"}
    messages: list[str] = []
    out = cut(root, tmp_path / "one", messages=messages, label_rule="majority", **given)
    assert (out.count, out.labelled) == (24, 16)
    assert "1 of 3 volumes without labels, for example imagesTs/c.nii.gz" in messages
    for seed, name in enumerate("ab"):
        labels = np.roll(_label_map(), seed, 2)
        own = [row for row in rows_of(out).values() if row["source"] == f"imagesTr/{name}.nii.gz"]
        assert len(own) == 8
        for row in own:
            patch = labels[tuple(slice(row[axis], row[axis] + 8) for axis in "xyz")]
            assert row["label"] == np.bincount(patch.reshape(-1)).argmax()
    (root / "imagesTs" / "c.nii.gz").rename(root / "imagesTs" / "a.nii.gz")
    assert cut(root, tmp_path / "two", **given).labelled == 8


def test_one_label_map_for_all_and_volumes_without_one(root: Path, tmp_path: Path) -> None:
    np.save(root / "a.npy", volume_of((16, 16, 16)))
    np.save(root / "b.npy", volume_of((16, 16, 16), seed=1))
    np.save(root / "labels.npy", _label_map())
    given: dict[str, Any] = {"size": (8, 8, 8), "labels": "volume"}
    out = cut(root, tmp_path / "one", label_volume="labels.npy", **given)
    assert out.count == out.labelled == 16
    messages: list[str] = []
    (root / "labels.npy").rename(root / "a_labels.npy")
    out = cut(root, tmp_path / "own", label_volume="{cube}_labels.npy", messages=messages, **given)
    assert (out.count, out.labelled) == (16, 8)
    assert "1 of 2 volumes without labels, for example b.npy" in messages
    out = cut(root, tmp_path / "none", label_volume="{cube}_labels.npy", keep="unlabelled=0", **given)
    assert (out.count, out.labelled, out.left_out) == (8, 8, 8)
    add_up(out)


def test_a_label_map_of_another_shape_or_with_odd_values(root: Path, tmp_path: Path) -> None:
    np.save(root / "a.npy", volume_of((16, 16, 16)))
    given: dict[str, Any] = {"size": (8, 8, 8), "labels": "volume", "label_volume": "labels.npy"}
    np.save(root / "labels.npy", np.zeros((16, 16, 15), np.uint8))
    with pytest.raises(DataError, match=r"a.npy is 16x16x16 voxels, its labels labels.npy are 16x16x15"):
        cut(root, tmp_path / "work", **given)
    np.save(root / "labels.npy", np.full((16, 16, 16), 0.5))
    with pytest.raises(DataError, match=r"has the value 0.5, and a class is a whole number"):
        cut(root, tmp_path / "work", **given)
    np.save(root / "labels.npy", np.full((16, 16, 16), 3))
    with pytest.raises(DataError, match=r"has the value 3, and there are 2 names"):
        cut(root, tmp_path / "work", **given, class_names="a, b")


def test_labels_from_a_horizon(root: Path, tmp_path: Path) -> None:
    segyio.tools.from_array3D(str(root / "a.sgy"), volume_of((16, 16, 20)), format=5)
    # In inlines, crosslines and milliseconds; the lines between are interpolated.
    picks = [f"{inline} {crossline} {4 * (5 + 0.5 * (inline - 1)):g}" for inline in (1, 16) for crossline in (1, 9)]
    (tmp_path / "top.txt").write_text("inline crossline time\n" + "\n".join(picks) + "\n")
    given: dict[str, Any] = {"labels": "horizon", "label_file": str(tmp_path / "top.txt"), "positions": "lines"}
    out = cut(root, tmp_path / "work", size=(4, 4, 4), **given)
    assert out.spec is not None
    assert out.spec.classes == ("above", "below")
    for (x, y, z), label in _labels(out).items():
        below = z + 2 - (5 + 0.5 * (x + 2))
        assert label == (None if y + 2 > 8 else float(below >= 0))
    out = cut(root, tmp_path / "within", size=(4, 4, 4), within=2, keep="above=0, below=0, unlabelled=0", **given)
    for x, _, z in _labels(out):
        assert abs(z + 2 - (5 + 0.5 * (x + 2))) <= 2
    add_up(out)


def test_labels_from_polygons(root: Path, tmp_path: Path) -> None:
    np.save(root / "a.npy", volume_of((20, 20, 10)))
    triangle = [(0, 0), (19, 0), (0, 19)]
    (tmp_path / "p.txt").write_text("# a triangle\n" + "\n".join(f"{x}, {y}" for x, y in triangle) + "\n")
    given: dict[str, Any] = {"labels": "polygon", "label_file": str(tmp_path / "p.txt")}
    out = cut(root, tmp_path / "work", size=(3, 3, 3), **given)
    assert out.spec is not None
    assert out.spec.classes == ("inside", "outside")
    for (x, y, _), label in _labels(out).items():
        assert label == float(x + 1 + y + 1 >= 19), (x, y)
    (tmp_path / "p.txt").write_text("\n".join(f"{x} {y} 4" for x, y in triangle) + "\n\n10 10 1\n12 10 1\n12 12 1\n")
    flat = cut(root, tmp_path / "flat", size=(3, 3, 3), within=1, **given)
    inside = {place for place, label in _labels(flat).items() if label == 0}
    assert {z for _, _, z in inside} == {0, 3}
    assert all(x + 1 + y + 1 < 19 for x, y, z in inside if z == 3)


@pytest.mark.slow
def test_a_horizon_in_coordinates_of_the_survey(root: Path, tmp_path: Path) -> None:
    """CDP X, CDP Y and milliseconds, on lines that run to the north-east and north-west."""
    segyio.tools.from_array3D(str(root / "a.sgy"), volume_of((16, 12, 20)), format=5)
    places = [(i, j, 1_000 + 6 * i - 8 * j, 2_000 + 8 * i + 6 * j) for i in range(16) for j in range(12)]
    with segyio.open(str(root / "a.sgy"), "r+") as file:
        for number, (_, _, x, y) in enumerate(places):
            header = {segyio.TraceField.CDP_X: x, segyio.TraceField.CDP_Y: y, segyio.TraceField.SourceGroupScalar: 1}
            file.header[number].update(header)
    (tmp_path / "top.txt").write_text("".join(f"{x} {y} {4 * (5 + 0.5 * i):g}\n" for i, j, x, y in places if j < 9))
    given: dict[str, Any] = {"labels": "horizon", "label_file": str(tmp_path / "top.txt"), "positions": "world"}
    found = _labels(cut(root, tmp_path / "work", size=(4, 4, 4), **given))
    assert found == {(x, y, z): None if y + 2 > 8 else float(z + 2 - (5 + 0.5 * (x + 2)) >= 0) for x, y, z in found}
    assert set(found.values()) == {None, 0.0, 1.0}


@pytest.mark.parametrize(
    ("text", "points"),
    [
        ("x;y;z\n1,5;2;3,25\n4;5,5;6\n", [[1.5, 2, 3.25], [4, 5.5, 6]]),
        ("1,5;2\n4;5,5\n", [[1.5, 2], [4, 5.5]]),
        ("1;2;3\n", [[1, 2, 3]]),
        (",5 ; -1,5e1 ; 3\n", [[0.5, -15, 3]]),
        ("1,2,3\n4, 5, 6\n", [[1, 2, 3], [4, 5, 6]]),
        ("1,2,3;\n4,5,6;\n", [[1, 2, 3], [4, 5, 6]]),
        ("1,2;\n4,5;\n", [[1, 2], [4, 5]]),
        ("1.5, 2.5; 3\n", [[1.5, 2.5, 3]]),
        ("1.5\t2\t3\n", [[1.5, 2, 3]]),
    ],
)
def test_points_as_spreadsheets_write_them(tmp_path: Path, text: str, points: list[list[float]]) -> None:
    (tmp_path / "h.csv").write_text(text)
    (block,) = read_points(tmp_path / "h.csv")
    assert block.tolist() == points


@pytest.mark.parametrize("size", [1e-6, 1e-3, 1.0, 25.0])
def test_positions_in_the_world_of_voxels_of_any_size(size: float) -> None:
    affine = np.array([[0, -size, 0, 5], [size, 0, 0, 6], [0, 0, 4 * size, 7], [0, 0, 0, 1]])
    header = VolumeHeader((9, 9, 9), "uint8", {"affine": text_of(affine)})
    points = np.array([[1.0, 2, 3], [8, 0, 4]])
    there = np.array([(affine @ [*point, 1])[:3] for point in points])
    assert np.allclose(to_voxels(there, "world", header, "a.nii"), points, rtol=0, atol=1e-6)
    for broken in ("0 0 0 0 0 1 0 0 0 0 1 0 0 0 0 1", "nan 0 0 0 0 1 0 0 0 0 1 0 0 0 0 1"):
        with pytest.raises(DataError, match="does not say where it lies in the world"):
            to_voxels(there, "world", VolumeHeader((9, 9, 9), "uint8", {"affine": broken}), "a.nii")


def test_polygons_in_millimetres_of_a_scan(root: Path, tmp_path: Path) -> None:
    """Of a scan whose X points to the front and whose Y to the left."""
    affine = np.array([[0, -3, 0, 50], [2, 0, 0, -20], [0, 0, 4, 7], [0, 0, 0, 1]], float)
    nibabel.save(nibabel.Nifti1Image(volume_of((20, 20, 10)), affine), root / "a.nii")
    corners = [affine @ [x, y, 0, 1] for x, y in ((0, 0), (19, 0), (0, 10))]
    (tmp_path / "p.txt").write_text("".join(f"{x:g} {y:g}\n" for x, y, _, _ in corners))
    given: dict[str, Any] = {"labels": "polygon", "label_file": str(tmp_path / "p.txt"), "positions": "world"}
    found = _labels(cut(root, tmp_path / "work", size=(3, 3, 3), **given))
    assert found == {(x, y, z): float((x + 1) / 19 + (y + 1) / 10 >= 1) for x, y, z in found}
    assert set(found.values()) == {0.0, 1.0}


@pytest.mark.slow
def test_labels_are_read_once(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Again for labels that changed, and where the stored ones are damaged; not for volumes that were there before."""
    read: list[int] = []
    by_volume = LabelRule.label_by_volume

    def counted(rule: LabelRule, labels: Any, grid: Any, positions: Any, step: Any) -> Any:
        read.append(len(positions))
        return by_volume(rule, labels, grid, positions, step)

    monkeypatch.setattr(LabelRule, "label_by_volume", counted)

    def write(number: int, seed: int) -> None:
        np.save(root / f"{number}_map.npy", np.random.default_rng(seed).integers(0, 3, (16, 16, 16)))

    def labelled(**more: Any) -> dict[str, float]:
        given: dict[str, Any] = {"label_volume": "{cube}_map.npy", "labels": "volume", "label_rule": "majority"}
        made = cut(root, tmp_path / "work", size=(8, 8, 8), channels_from="{cube}_{channel}.npy", **given | more)
        return {name: row["label"] for name, row in rows_of(made).items()}

    for number in range(3):
        np.save(root / f"{number}_a.npy", volume_of((16, 16, 16), seed=number))
        write(number, number)
    first = labelled()
    assert read == [8, 8, 8]
    np.save(root / "3_a.npy", volume_of((16, 16, 16), seed=3))
    write(3, 3)
    grown = labelled()
    assert read == [8, 8, 8, 8]
    assert first.items() < grown.items()
    write(0, 10)
    changed = labelled()
    assert len(read) == 5
    assert changed != grown
    stored = sorted(tmp_path.rglob(".labels/*"))
    assert len(stored) == 4
    stored[0].write_bytes(stored[0].read_bytes()[:-1] + b"x")
    stored[1].write_bytes(b"")
    assert labelled() == changed
    assert len(read) == 7
    # Another rule has labels of its own.
    assert labelled(label_rule="centre") != changed
    assert len(read) == 11

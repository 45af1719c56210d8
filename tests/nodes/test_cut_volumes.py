"""What CutVolumes reports before a run, and its parts on Spark."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cuts import cut
from npy_folders import _into as into
from npy_folders import context, look, take

from engine.declare.check_context import CheckContext
from engine.declare.datasets import Preview
from engine.errors import DataError
from nodes.cut_volumes import cut_volumes
from nodes.cutting.cut_parameters import NamePattern, keep_rates, name_pattern
from nodes.transform_volumes import transform_volumes
from nodes.volume_folder import volume_folder


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "in"
    folder.mkdir()
    return folder


def preview(
    root: Path, base: Path, *, behind: bool = False, **params: Any
) -> tuple[Preview, list[tuple[str, str, str]]]:
    """What is known before a run: the preview, and code, parameter and sentence of each problem.

    `behind`: the volumes come from a TransformVolumes.
    """
    base.mkdir(exist_ok=True)
    found = look(root, base)
    assert volume_folder.scan_hook is not None
    assert volume_folder.preview_hook is not None
    assert cut_volumes.scan_hook is not None
    assert cut_volumes.preview_hook is not None
    folder = {"folder": str(root), "format": "auto", "dataset": ""}
    before = CheckContext(params=folder, paths={"folder": found})
    before = dataclasses.replace(before, facts=volume_folder.scan_hook(before))
    files = volume_folder.preview_hook(before)
    if behind:
        steps = {p.name: p.default for p in transform_volumes.parameters} | {"normalise": "z-score"}
        assert transform_volumes.scan_hook is not None
        assert transform_volumes.preview_hook is not None
        between = CheckContext(params=steps, inputs={"volumes": files})
        between = dataclasses.replace(between, facts=transform_volumes.scan_hook(between))
        files = transform_volumes.preview_hook(between)
    given = {p.name: p.default for p in cut_volumes.parameters} | params
    looked = CheckContext(params=given, inputs={"files": files})
    looked = dataclasses.replace(looked, facts=cut_volumes.scan_hook(looked))
    shown = cut_volumes.preview_hook(looked)
    return shown, [(d.code, d.parameter or "", d.message) for d in looked.problems]


def codes(root: Path, base: Path, **params: Any) -> list[tuple[str, str]]:
    return [(code, parameter) for code, parameter, _ in preview(root, base, **params)[1]]


def volumes(root: Path, *shapes: tuple[int, ...], dtype: str = "float32") -> None:
    for number, shape in enumerate(shapes):
        np.save(root / f"v{number}.npy", np.zeros(shape, dtype))


def test_patches_bytes_and_columns_are_known_before(root: Path, tmp_path: Path) -> None:
    volumes(root, (40, 40, 20, 3), (30, 40, 20, 3))
    shown, problems = preview(root, tmp_path / "look", size=(10, 10, 10), stride=(10, 5, 10))
    assert problems == []
    assert shown.spec is not None
    assert shown.spec.shape == (10, 10, 10, 3)
    assert shown.count == 4 * 7 * 2 + 3 * 7 * 2
    assert shown.bytes is not None
    assert 0 <= shown.bytes - shown.count * 12_000 < shown.count * 200
    assert shown.columns == ("source", "x", "y", "z")
    assert shown.sources == 2
    out = cut(root, tmp_path / "work", size=(10, 10, 10), stride=(10, 5, 10))
    assert (out.count, out.spec) == (shown.count, shown.spec)


def test_classes_are_sampled_and_what_keep_leaves(root: Path, tmp_path: Path) -> None:
    volumes(root, (40, 40, 40))
    labels = np.zeros((40, 40, 40), np.uint8)
    labels[:10] = 1
    np.save(root / "labels.npy", labels)
    given: dict[str, Any] = {"size": (10, 10, 10), "labels": "volume", "label_volume": "labels.npy"}
    shown, problems = preview(root, tmp_path / "look", **given, class_names="rock, salt", keep="rock=0")
    assert problems == []
    assert shown.count is None
    assert shown.figures == {"patches, about": 16, "rock, share": 0.75, "salt, share": 0.25}
    assert shown.spec is not None
    assert shown.spec.classes == ("rock", "salt")
    assert codes(root, tmp_path / "none", **given, keep="0=0, 1=0") == [("VF488", "keep")]


def test_volumes_that_are_transformed_are_refused_before_a_run(root: Path, tmp_path: Path) -> None:
    volumes(root, (40, 40, 20, 3))
    shown, problems = preview(root, tmp_path / "look", behind=True, size=(10, 10, 10))
    assert [code for code, *_ in problems] == ["VF490"]
    assert "(z-score)" in problems[0][2]
    assert shown == Preview(kind="VolumeParquet")


@pytest.mark.parametrize(
    ("params", "problem"),
    [
        ({"size": (8, 8)}, ("VF481", "size", "size has 2 numbers, not three")),
        ({"stride": (8, 8, 8, 8)}, ("VF481", "stride", "stride has 4 numbers, not three")),
        ({"channels_from": "{cube}.npy"}, ("VF481", "channels_from", "'{cube}.npy' does not say how files are named")),
        ({"label_volume": "{name}.npy"}, ("VF481", "label_volume", "it needs {cube}, once, or nothing in braces")),
        ({"keep": "salt"}, ("VF481", "keep", "'salt' does not say what share of a class to keep")),
        ({"keep": "1=2"}, ("VF481", "keep", "'1=2' does not say what share")),
        ({"labels": "horizon"}, ("VF481", "label_file", "nothing says which file has them")),
        ({"labels": "volume"}, ("VF481", "label_volume", "nothing says which file has them")),
        ({"channels_from": "{cube}-{channel}.npy"}, ("VF482", "channels_from", "no file is named like")),
        ({"channels": "a, b"}, ("VF482", "channels", "every file is a volume of its own")),
        ({"labels": "volume", "label_volume": "{cube}_x.npy"}, ("VF482", "label_volume", "no file is named like")),
        ({"size": (8, 64, 8)}, ("VF483", "size", "a patch of 8x64x8 voxels does not fit into any volume")),
        ({"within": 3.0}, ("VF489", "within", "is not used: labels come from nothing")),
    ],
)
def test_what_cannot_be_is_reported(
    params: dict[str, Any], problem: tuple[str, str, str], root: Path, tmp_path: Path
) -> None:
    volumes(root, (16, 16, 16), (16, 16, 16))
    _, found = preview(root, tmp_path / "look", **{"size": (8, 8, 8)} | params)
    ((code, parameter, sentence),) = found
    assert (code, parameter) == problem[:2]
    assert problem[2] in sentence


def test_all_that_is_wrong_with_the_parameters_is_reported_together(root: Path, tmp_path: Path) -> None:
    volumes(root, (16, 16, 16))
    wrong: dict[str, Any] = {"size": (8, 8), "channels_from": "x", "label_volume": "{name}", "keep": "1=2"}
    found = codes(root, tmp_path / "look", **wrong, labels="horizon")
    assert found == [("VF481", name) for name in ("size", "channels_from", "label_volume", "keep", "label_file")]


def test_volumes_that_give_nothing_are_reported(root: Path, tmp_path: Path) -> None:
    volumes(root, (16, 16, 16), (16, 16, 4), (16, 16, 16, 2))
    assert codes(root, tmp_path / "a", size=(8, 8, 8)) == [("VF484", "bad_volumes"), ("VF486", "size")]
    assert codes(root, tmp_path / "b", size=(8, 8, 8), bad_volumes="leave out") == [
        ("VF485", "bad_volumes"),
        ("VF486", "size"),
    ]
    (root / "v2.npy").unlink()
    np.save(root / "v0_labels.npy", np.zeros((16, 16, 15), np.uint8))
    given: dict[str, Any] = {"labels": "volume", "label_volume": "{cube}_labels.npy", "edges": "zeros"}
    _, problems = preview(root, tmp_path / "c", size=(8, 8, 8), **given)
    assert [code for code, _, _ in problems] == ["VF484", "VF487"]
    assert "v0.npy is 16x16x16 voxels, its labels v0_labels.npy are 16x16x15" in problems[0][2]


@pytest.mark.parametrize(
    ("text", "lines", "problem"),
    [
        ("horizon", "1 2\n3 4\n", "has no depths"),
        ("horizon", "1 2 3\n1 2\n", "line 2 of points.txt has 2 numbers"),
        ("horizon", "1 2 3\n1 two 3\n", "line 2 of points.txt is no point: '1 two 3'"),
        ("horizon", "x y z\n", "points.txt has no points"),
        ("horizon", "nan 1 2\n", "a place that is no number"),
        ("polygon", "1 2\n3 4\n", "polygon 1 of points.txt has 2 points; it takes three"),
        ("polygon", "1 2 1\n3 4 1\n9 9 2\n", "polygon 1 of points.txt has depths from 1 to 2"),
    ],
)
def test_label_files_that_cannot_be_used(text: str, lines: str, problem: str, root: Path, tmp_path: Path) -> None:
    volumes(root, (16, 16, 16))
    (tmp_path / "points.txt").write_text(lines)
    given: dict[str, Any] = {"size": (8, 8, 8), "labels": text, "label_file": str(tmp_path / "points.txt")}
    _, ((code, parameter, sentence),) = preview(root, tmp_path / "look", **given)
    assert (code, parameter) == ("VF482", "label_file")
    assert problem in sentence
    with pytest.raises(DataError) as raised:
        cut(root, tmp_path / "work", **given)
    assert raised.value.message == sentence


def test_places_that_a_volume_does_not_know(root: Path, tmp_path: Path) -> None:
    volumes(root, (16, 16, 16))
    (tmp_path / "points.txt").write_text("1 2 3\n")
    given: dict[str, Any] = {"size": (8, 8, 8), "labels": "horizon", "label_file": str(tmp_path / "points.txt")}
    for positions, problem in (("lines", "has no inline and crossline numbers"), ("world", "does not say where it")):
        _, ((code, parameter, sentence),) = preview(root, tmp_path / positions, **given, positions=positions)
        assert (code, parameter) == ("VF482", "positions")
        assert problem in sentence


def test_names_are_read_as_people_mean_them() -> None:
    two = name_pattern("{cube}_{channel}.sgy", "channels_from")
    found = two.fullmatch("north/survey_a_amp.sgy")
    assert found is not None
    assert (found["cube"], found["channel"]) == ("north/survey_a", "amp")
    named = name_pattern("{cube}_{channel}.sgy", "channels_from", ("freq", "inst_freq"))
    found = named.fullmatch("survey_inst_freq.sgy")
    assert found is not None
    assert (found["cube"], found["channel"]) == ("survey", "inst_freq")
    folders = name_pattern("{cube}/{channel}-*.nii", "channels_from").fullmatch("p1/t1-2024.nii")
    assert folders is not None
    assert (folders["cube"], folders["channel"]) == ("p1", "t1")
    assert keep_rates("a=0.5, unlabelled = 0,x=1=1") == {"a": 0.5, "unlabelled": 0, "x=1": 1}


@pytest.mark.timeout(60)
def test_a_name_with_many_stars_is_not_tried_for_years() -> None:
    pattern = name_pattern("{cube}" + "*a" * 12 + "_{channel}.sgy", "channels_from")
    assert pattern.fullmatch("a" * 14 + "_x.sgy") is not None
    assert pattern.fullmatch("a" * 150 + "_.sgy") is None

    class TooLong:
        def fullmatch(self, path: str, *, timeout: float) -> None:
            raise TimeoutError

    slow: Any = TooLong()
    with pytest.raises(DataError, match=r"'\*\*' takes too long on names such as 'aaaa'") as caught:
        NamePattern("**", "channels_from", slow).fullmatch("aaaa")
    assert caught.value.parameter == "channels_from"


def test_files_of_no_volume_are_named(root: Path, tmp_path: Path) -> None:
    for name in ("s_amp", "s_phase", "s_amp.bak", "notes", "s", "lost_labels", "s_labels"):
        np.save(root / f"{name}.npy", np.zeros((8, 8, 8), np.float32))
    given: dict[str, Any] = {"size": (4, 4, 4), "label_volume": "{cube}_labels.npy"}
    for more, said in (
        (
            {"channels_from": "{cube}_{channel}.npy", "channels": "amp, phase"},
            "3 files .*: lost_labels.npy, notes.npy, s",
        ),
        ({"channels_from": "{cube}_{channel}.npy", "channels": "amp"}, "3 files"),
        ({}, "1 file of no volume, by their names: lost_labels.npy$"),
    ):
        _, problems = preview(root, tmp_path / "look", **given, **more)
        found = [sentence for code, _, sentence in problems if code == "VF491"]
        assert len(found) == 1, (more, problems)
        assert re.match(said, found[0]), found
        messages: list[str] = []
        heard = context(tmp_path / "work", f"cut{len(more)}", emit=into(messages))
        cut_volumes(take(root, tmp_path / "work"), **given, **more, ctx=heard)
        assert found[0] in messages
    (root / "lost_labels.npy").unlink()
    assert "VF491" not in dict(codes(root, tmp_path / "look", **given))


def test_a_cancelled_cut_stops(root: Path, tmp_path: Path) -> None:
    from npy_folders import Listener

    from engine.declare.progress import current_reporter
    from engine.errors import Cancelled

    volumes(root, (64, 64, 64))
    files = take(root, tmp_path / "work")
    token = current_reporter.set(Listener(cancel_after=0))
    try:
        with pytest.raises(Cancelled):
            cut_volumes(files, size=(8, 8, 8), ctx=context(tmp_path / "work", "cut"))
    finally:
        current_reporter.reset(token)


def test_volumes_in_object_storage_are_refused_before_the_run(root: Path, tmp_path: Path) -> None:
    volumes(root, (20, 20, 20))
    files = take(root, tmp_path / "list").model_copy(update={"uri": "az://box/scans"})
    given = {p.name: p.default for p in cut_volumes.parameters}
    looked = CheckContext(params=given, inputs={"files": Preview.of(files).model_copy(update={"dataset": files})})
    assert cut_volumes.scan_hook is not None
    assert cut_volumes.preview_hook is not None
    cut_volumes.preview_hook(dataclasses.replace(looked, facts=cut_volumes.scan_hook(looked)))
    (problem,) = looked.problems
    assert (problem.code, problem.severity) == ("VF482", "error")
    assert "from files on a disk, and the volumes are in az://box/scans" in problem.message
    with pytest.raises(DataError, match="from files on a disk"):
        cut_volumes(files, ctx=context(tmp_path, "cut"))


def test_what_a_table_says_of_the_volumes_is_known_before(root: Path, tmp_path: Path) -> None:
    volumes(root, (8, 4, 4), (8, 4, 4))
    given: dict[str, Any] = {"size": (4, 4, 4), "columns_file": str(tmp_path / "scans.csv")}
    (tmp_path / "scans.csv").write_text("file,patient,age\nv0,anna,41\nv1,ben,8\n")
    shown, problems = preview(root, tmp_path / "look", **given)
    assert problems == []
    assert shown.columns == ("source", "x", "y", "z", "patient", "age")
    (tmp_path / "scans.csv").write_text('file,x,age\nv0,anna,"4,1"\nv7,ben,"8,5"\n')
    shown, problems = preview(root, tmp_path / "look", **given)
    assert shown.columns == ("source", "x", "y", "z", "x_", "age")
    assert problems == [
        (
            "VF492",
            "columns_file",
            "scans.csv says nothing of 1 of 2 volumes: v1.npy; 1 row of scans.csv names no volume",
        ),
        ("VF420", "columns_file", "scans.csv: the column 'x' is kept as x_"),
        (
            "VF426",
            "columns_file",
            "the values of the column age are numbers with commas, such as 4,1: they stay text",
        ),
    ]
    (tmp_path / "scans.csv").write_text("scan,patient\nv0,anna\n")
    assert codes(root, tmp_path / "look", **given) == [("VF482", "columns_file")]


def test_a_table_beside_the_volumes_is_offered(root: Path, tmp_path: Path) -> None:
    volumes(root, (8, 4, 4))
    (root / "labels.csv").write_text("file,label,patient\nv0,1,anna\n")
    given: dict[str, Any] = {"size": (4, 4, 4)}
    assert codes(root, tmp_path / "look", **given) == [("VF493", "columns_file")]
    assert codes(root, tmp_path / "look", columns_file=str(root / "labels.csv"), **given) == [("VF420", "columns_file")]


def test_the_labels_of_the_patches_are_known_before_where_all_are_looked_at(root: Path, tmp_path: Path) -> None:
    facies = np.zeros((8, 4, 4), "int16")
    facies[4:] = 2
    for number in range(2):
        np.save(root / f"v{number}.npy", np.zeros((8, 4, 4), "float32"))
        np.save(root / f"v{number}_labels.npy", facies)
    given: dict[str, Any] = {"size": (4, 4, 4), "labels": "volume", "label_volume": "{cube}_labels.npy"}
    shown, _ = preview(root, tmp_path / "look", **given)
    assert (shown.labels, shown.labels_complete) == ((0.0, 2.0), True)
    shown, _ = preview(root, tmp_path / "look", keep="0=0", **given)
    assert (shown.labels, shown.labels_complete) == ((2.0,), True)
    for number in range(2, 6):
        np.save(root / f"v{number}.npy", np.zeros((8, 4, 4), "float32"))
    shown, _ = preview(root, tmp_path / "look", **given)
    assert not shown.labels_complete

"""What NumpyToParquet reports before a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from npy_folders import (
    convert,
    make_volumes,
    write_labels,
)

from engine.declare.check_context import CheckContext
from engine.declare.datasets import Preview, VolumeFiles, VolumeSpec
from engine.errors import TooManyBadFiles
from nodes.numpy_to_parquet import numpy_to_parquet


def look_at(
    root: Path | None,
    scan: bool = True,
    refused: int = 0,
    messages: list[str] | None = None,
    of_files: tuple[str, ...] = (),
    **params: Any,
) -> tuple[Preview, list[tuple[str, str | None]]]:
    defaults = {p.name: p.default for p in numpy_to_parquet.parameters}
    files = Preview(kind="VolumeFiles", count=9, spec=VolumeSpec(shape=(30, 30, 10, 10), dtype="float32"))
    if root is not None:
        names = tuple(sorted(p.relative_to(root).as_posix() for p in root.rglob("*.npy")))
        files = files.model_copy(update={"uri": str(root), "sample": names, "count": len(names), "refused": refused})
    files = files.model_copy(update={"columns": of_files})
    look = CheckContext(params=defaults | params, inputs={"files": files})
    assert numpy_to_parquet.scan_hook is not None
    assert numpy_to_parquet.preview_hook is not None
    if scan:
        look.facts = numpy_to_parquet.scan_hook(look)
    out = numpy_to_parquet.preview_hook(look)
    assert isinstance(out, Preview)
    if messages is not None:
        messages += [d.message for d in look.problems]
    return out, [(d.code, d.parameter) for d in look.problems]


def test_the_preview_passes_on_what_is_known(tmp_path: Path) -> None:
    make_volumes(tmp_path, ["salt/a.npy", "fault/b.npy"])
    out, problems = look_at(tmp_path)
    assert problems == []
    assert out.spec is not None
    assert (out.kind, out.count, out.labelled, out.spec.classes) == ("VolumeParquet", 2, 2, ("fault", "salt"))
    assert out.bytes is not None
    assert 2 * 360_000 < out.bytes < 2 * 361_000
    assert look_at(None, labels="none")[0].labelled == 0
    assert look_at(None)[0].labelled is None


def test_the_preview_knows_nothing_without_an_input() -> None:
    assert numpy_to_parquet.preview_hook is not None
    look = CheckContext(params={p.name: p.default for p in numpy_to_parquet.parameters})
    assert numpy_to_parquet.preview_hook(look) == Preview(kind="VolumeParquet")


@pytest.mark.parametrize(
    ("params", "problem"),
    [
        ({"labels": "pattern", "label_pattern": "("}, ("VF411", "label_pattern")),
        ({"labels": "pattern", "label_pattern": r"\d"}, ("VF411", "label_pattern")),
        ({"label_pattern": r"\d"}, ("VF411", "label_pattern")),
        ({"labels": "folders", "label_pattern": r"(?P<label>\d)"}, ("VF415", "label_pattern")),
        ({"labels": "none", "label_file": "x.csv"}, ("VF415", "label_file")),
        ({"labels": "none", "unlabelled": "quarantine"}, ("VF416", "unlabelled")),
    ],
)
def test_parameters_that_cannot_work_are_reported_without_a_scan(
    tmp_path: Path, params: dict[str, Any], problem: tuple[str, str]
) -> None:
    assert look_at(None, scan=False, **params)[1] == [problem]
    make_volumes(tmp_path, ["x/a.npy"])
    assert look_at(tmp_path, **params)[1] == [problem]


def test_a_table_given_with_a_pattern_overrules_it(tmp_path: Path) -> None:
    make_volumes(tmp_path, ["a.npy"])
    write_labels(tmp_path / "t.csv", [("a", 1)])
    params = {"label_file": str(tmp_path / "t.csv"), "label_pattern": "(?P<label>a)"}
    out, problems = look_at(tmp_path, **params)
    assert problems == [("VF415", "label_pattern")]
    assert out.labelled == 1


def test_label_tables_are_looked_into_before_the_run(tmp_path: Path) -> None:
    make_volumes(tmp_path, ["a.npy", "b.npy", "c.npy"])
    assert look_at(tmp_path, labels="manifest")[1] == [("VF412", "label_file")]
    (tmp_path / "labels.csv").write_text("file,value\na,1\n")
    assert look_at(tmp_path)[1] == [("VF413", "labels")]
    write_labels(tmp_path / "labels.csv", [("a", 1), ("b", 1), ("b", 2)])
    out, problems = look_at(tmp_path)
    assert problems == [("VF414", "labels"), ("VF417", "max_bad_files")]
    assert out.labelled is None
    write_labels(tmp_path / "labels.csv", [("a", 1), ("b", 1), ("c", 2)])
    out, problems = look_at(tmp_path)
    assert (problems, out.labelled) == ([], 3)


def test_which_of_several_columns_are_the_labels_is_said(tmp_path: Path) -> None:
    make_volumes(tmp_path, ["a.npy", "b.npy"])
    (tmp_path / "labels.csv").write_text("file,class,label\na.npy,salt,0\nb.npy,fault,1\n")
    messages: list[str] = []
    assert look_at(tmp_path, messages=messages)[1] == [("VF428", "label_column")]
    assert messages == ["labels.csv: the labels are those of the column label, not of class"]
    assert "VF428" not in dict(look_at(tmp_path, label_column="class")[1])


def test_rows_that_name_no_file_and_several_labels_in_one_are_named(tmp_path: Path) -> None:
    make_volumes(tmp_path, ["a.npy", "b.npy"])
    write_labels(tmp_path / "labels.csv", [("a", "grey;left"), ("b", "white")])
    assert look_at(tmp_path)[1] == [("VF413", "labels")]
    (tmp_path / "labels.csv").write_text('file,label\na,"left, grey"\nb,white\nc,white\nd,black\n')
    out, problems = look_at(tmp_path)
    assert problems == [("VF418", "labels"), ("VF419", "labels")]
    assert out.labels_complete
    assert out.labels == (1.0, 2.0)
    (tmp_path / "labels.csv").write_text("file,label,id,patient\na,1,7,P1\nb,2,8,P2\n")
    out, problems = look_at(tmp_path)
    assert (problems, out.columns) == ([("VF420", "columns")], ("id_", "patient"))


def test_files_and_rows_that_do_not_match_are_named(tmp_path: Path) -> None:
    """A spreadsheet made 7 of 0007: both spellings are in the messages."""
    make_volumes(tmp_path, ["0007.npy", "0008.npy", "0009.npy"])
    (tmp_path / "labels.csv").write_text("file,label\n7,a\n8,b\n0008,a\n0008,b\n0009,b\n")
    said: list[str] = []
    _, problems = look_at(tmp_path, messages=said)
    assert problems == [("VF418", "labels"), ("VF414", "labels"), ("VF417", "max_bad_files")]
    assert said[:2] == [
        "labels.csv has 2 rows for which the folder has no file, such as 7",
        "of 3 files 1 has no label (such as 0007.npy) and 1 has several different labels (such as 0008.npy) in"
        " labels.csv",
    ]


def test_rows_that_name_files_which_cannot_be_read_have_a_file(tmp_path: Path) -> None:
    """Then the format is not known: a.h5, of two arrays, is the file of the row a."""
    names = ("a.h5", "b.nii.gz", "c.npy")
    files = Preview(kind="VolumeFiles", uri=str(tmp_path), sample=names, count=3, refused=3)
    write_labels(tmp_path / "labels.csv", [("a", 1), ("b", 2), ("c", 1)])
    defaults = {p.name: p.default for p in numpy_to_parquet.parameters}
    assert numpy_to_parquet.scan_hook is not None
    facts = numpy_to_parquet.scan_hook(CheckContext(params=defaults, inputs={"files": files}))
    assert facts["labelled"] == 3


@pytest.mark.parametrize(
    ("files", "other", "said"),
    [
        (("a.npy",), ("labels.CSV",), "labels.CSV in the folder is not read: no labels are looked for"),
        (
            ("sub-01/a.npy", "sub-02/a.npy"),
            ("participants.tsv", "Labels.xlsx", "notes.txt", ".hidden.csv"),
            "Labels.xlsx and participants.tsv in the folder are not read: labels are the names of sub-folders",
        ),
        (("a.npy",), ("notes.txt", "a.json", "part.parquet"), ""),
    ],
)
def test_a_table_that_is_not_taken_is_named(
    tmp_path: Path, files: tuple[str, ...], other: tuple[str, ...], said: str
) -> None:
    make_volumes(tmp_path, [*files])
    for name in other:
        (tmp_path / name).write_text("file,label\na,1\n")
    messages: list[str] = []
    look_at(tmp_path, messages=messages)
    assert messages == ([said] if said else [])
    for chosen in ("folders", "none"):
        assert look_at(tmp_path, labels=chosen)[1] == (
            [("VF414", "labels")] if chosen == "folders" and "/" not in files[0] else []
        )
    write_labels(tmp_path / "labels.csv", [(name.removesuffix(".npy"), 1) for name in files])
    assert look_at(tmp_path)[1] == []


def test_columns_make_way_for_those_of_the_files_as_in_the_run(tmp_path: Path) -> None:
    """A split that goes by patient_id_ is possible, since that is how the run calls the column of the table."""
    make_volumes(tmp_path, ["a.npy", "b.npy"])
    (tmp_path / "labels.csv").write_text("file,label,Patient_ID,age\na,1,P1,30\nb,2,P2,40\n")
    messages: list[str] = []
    out, problems = look_at(tmp_path, of_files=("patient_id", "modality"), messages=messages)
    assert out.columns == ("Patient_ID_", "age", "patient_id", "modality")
    assert problems == [("VF420", "columns")]
    assert messages == ["labels.csv: the column 'Patient_ID' is kept as Patient_ID_"]


def test_numbers_with_commas_are_named_since_they_stay_text(tmp_path: Path) -> None:
    make_volumes(tmp_path, ["a.npy", "b.npy", "c.npy"])
    said: list[str] = []
    table = "file;label;age;site;note\na;0,5;61,5;3;1,2,3\nb;1;;4;x\nc;1.250,75;7;5;\n"
    (tmp_path / "labels.csv").write_text(table)
    out, problems = look_at(tmp_path, messages=said)
    assert problems == [("VF426", "labels"), ("VF426", "columns")]
    assert said == [
        "the labels are numbers with commas, such as 0,5: each is the name of a class",
        "the values of the column age are numbers with commas, such as 61,5: they stay text",
    ]
    assert out.spec is not None
    assert out.spec.classes == ("0,5", "1", "1.250,75")
    (tmp_path / "labels.csv").write_text(table.replace(",", "."))
    assert look_at(tmp_path)[1] == []
    # Two labels in one cell are no number.
    (tmp_path / "labels.csv").write_text("file;label\na;0,5,2\nb;1\nc;cat\n")
    assert look_at(tmp_path)[1] == [("VF419", "labels")]
    said = []
    (tmp_path / "labels.csv").write_text("file;label;age\na;1;0,5\nb;2;1,5\nc;1;2\n")
    convert(tmp_path, tmp_path / "work", messages=said)
    assert "labels.csv: the column age stays text, because its numbers have commas, such as 0,5" in said


@pytest.mark.parametrize(
    ("refused", "rows", "params", "codes"),
    [
        (3, [("a", 1), ("b", 2)], {}, ["VF417"]),
        (3, [("a", 1), ("b", 2)], {"max_bad_files": 3}, []),
        (0, [("a", 1), ("a", 2), ("b", 2)], {}, ["VF414", "VF417"]),
        (0, [("a", 1)], {}, ["VF414"]),
        (0, [("a", 1)], {"unlabelled": "quarantine"}, ["VF414", "VF417"]),
        (0, [("a", 1)], {"unlabelled": "quarantine", "max_bad_files": 1}, ["VF414"]),
    ],
)
def test_a_run_that_is_sure_to_fail_is_an_error_before(
    tmp_path: Path, refused: int, rows: list[tuple[str, float]], params: dict[str, Any], codes: list[str]
) -> None:
    make_volumes(tmp_path, ["a.npy", "b.npy"])
    write_labels(tmp_path / "labels.csv", rows)
    assert [code for code, _ in look_at(tmp_path, refused=refused, **params)[1]] == codes
    if "VF417" in codes:
        root = tmp_path / "in"
        make_volumes(root, ["a.npy", "b.npy"])
        write_labels(root / "labels.csv", rows)
        for number in range(refused):
            (root / f"c{number}.npy").write_bytes(b"")
        with pytest.raises(TooManyBadFiles):
            convert(root, tmp_path / "work", **params)


@pytest.mark.slow
def test_the_declaration_is_light(tmp_path: Path) -> None:
    """The palette imports every node type; numpy and Arrow must wait until one runs."""
    import subprocess
    import sys

    code = (
        "import nodes.volume_folder, nodes.synthetic_volumes, nodes.numpy_to_parquet as n, sys;"
        "from engine.declare.check_context import CheckContext;"
        "values = {p.name: p.default for p in n.numpy_to_parquet.parameters};"
        "n.numpy_to_parquet.preview_hook(CheckContext(params=values));"
        "sys.exit(', '.join({'numpy', 'pyarrow', 'psutil'} & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_files_is_the_only_input() -> None:
    assert [p.kinds for p in numpy_to_parquet.inputs] == [("VolumeFiles",)]
    assert {p.name for p in numpy_to_parquet.parameters if p.policy} == {"max_bad_files", "threads"}
    assert VolumeFiles.__name__ in numpy_to_parquet.inputs[0].kinds


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        (["1", "1.0", "unknown"], "the labels '1' and '1.0' may be one: each is a class of its own"),
        (["Grey", "grey", "white"], "the labels 'Grey' and 'grey' may be one"),
        (["-1", "1", "one"], ""),
        (["left side", "white", "left_side"], "the labels 'left side' and 'left_side' may be one"),
        (["1", "2", "unknown"], ""),
    ],
)
def test_labels_that_differ_in_their_spelling_alone(tmp_path: Path, labels: list[str], said: str) -> None:
    make_volumes(tmp_path, ["a.npy", "b.npy", "c.npy"])
    write_labels(tmp_path / "labels.csv", list(zip("abc", labels, strict=True)))
    messages: list[str] = []
    assert look_at(tmp_path, messages=messages)[1] == ([("VF423", "labels")] if said else [])
    assert [message.partition(":")[0] for message in messages] == ([said.partition(":")[0]] if said else [])

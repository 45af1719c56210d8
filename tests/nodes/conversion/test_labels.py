from __future__ import annotations

import datetime as dt
import errno
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import DataError
from nodes.conversion.label_table import match_files, read_label_table
from nodes.conversion.label_values import encode, nfc, to_float32
from nodes.conversion.labels import LabelRule, Labels, find_labels, label_file_in


def found(labels: Labels) -> list[float | None]:
    return [None if np.isnan(v) else float(v) for v in labels.values]


def from_table(ids: list[str], path: Path, text: str) -> Labels:
    path.write_text(text, encoding="utf-8")
    return find_labels(nfc(pa.array(ids)), LabelRule("manifest", file=path))


@pytest.mark.parametrize("key", ["file", "PATH", " Id ", "name"])
@pytest.mark.parametrize("label", ["label", "Class", "target", "y"])
def test_columns_are_found_by_name(tmp_path: Path, key: str, label: str) -> None:
    text = f"more,{label},{key}\nx,2,a.npy\nx,5.5,b.npy\n"
    assert found(from_table(["a.npy", "b.npy"], tmp_path / "t.csv", text)) == [2.0, 5.5]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("x/a.npy", [1, None, None]),
        ("x/a", [1, None, None]),
        ("./x/a.npy", [1, None, None]),
        ("x\\a.npy", [1, None, None]),
        (" x/a.npy ", [1, None, None]),
        ("b", [None, None, 1]),
        ("b.npy", [None, None, 1]),
        ("a.npy", [None, None, None]),
        ("z/b.npy", [None, None, None]),
        ("A.npy", [None, None, None]),
    ],
)
def test_a_row_names_a_file_by_its_path_or_by_a_name_that_only_one_has(
    tmp_path: Path, name: str, expected: list[float | None]
) -> None:
    labels = from_table(["x/a.npy", "y/a.npy", "y/b.npy"], tmp_path / "t.csv", f'file,label\n"{name}",1\n')
    assert found(labels) == expected
    assert labels.rows_without_file == (expected == [None] * 3)


def test_a_table_that_cannot_be_opened_is_not_called_badly_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = Path.open

    def without_handles(path: Path, *args: Any, **options: Any) -> Any:
        if path.name == "t.csv" and "w" not in args:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), str(path))
        return opened(path, *args, **options)

    (tmp_path / "t.csv").write_text("file,label\na.npy,1\n")
    monkeypatch.setattr(Path, "open", without_handles)
    with pytest.raises(DataError) as caught:
        find_labels(nfc(pa.array(["a.npy"])), LabelRule("manifest", file=tmp_path / "t.csv"))
    assert caught.value.message == "t.csv cannot be read: Too many open files"
    assert "ulimit -n" in caught.value.hint


@pytest.mark.parametrize("folder", ["", "x/"])
def test_of_files_that_differ_in_their_endings_a_row_names_the_one_with_its_own(folder: str) -> None:
    ids = nfc(pa.array([f"{folder}{name}" for name in ("a.nii", "a.nii.gz", "b.nii.gz")]))
    named = ["a.nii", "a.nii.gz", "a.NII.GZ", "b", "b.nii", "b.nii.gz"]
    endings = (".nii", ".nii.gz")
    # In a folder, a name whose ending no file has could be that of two.
    other = -1 if folder else 0
    assert match_files(ids, nfc(pa.array(named)), endings).tolist() == [0, 1, other, 2, 2, 2]
    whole = nfc(pa.array([f"{folder}{name}" for name in named]))
    assert match_files(ids, whole, endings).tolist() == [0, 1, 0, 2, 2, 2]


@pytest.mark.parametrize(
    ("ids", "text", "expected"),
    [
        pytest.param(["a.npy", "x/a.npy"], "file,label\na.npy,1\n", [1, None], id="a path before a bare name"),
        pytest.param(["cafe\u0301.npy"], "file,label\ncaf\u00e9.npy,1\n", [1], id="any Unicode form"),
        (["a.npy"], "file;label\na;3\n", [3]),
        (["a.npy"], "file\tlabel\na\t3\n", [3]),
        (["a.npy"], "\ufefffile,label\r\na,3\r\n", [3]),
    ],
)
def test_names_and_how_spreadsheets_write(tmp_path: Path, ids: list[str], text: str, expected: list[float]) -> None:
    assert found(from_table(ids, tmp_path / "t.csv", text)) == expected


@pytest.mark.parametrize(
    "text",
    [
        pytest.param('file,label,"Age\n(years)"\na,1,30\nb,2,40\n', id="a name in two lines"),
        pytest.param('file;"Age, in\r\nyears";label\r\na;30;1\r\nb;40;2\r\n', id="and with a comma"),
        pytest.param("file;label;remarks, notes, and more\na;1;x\nb;2;y, z\n", id="more commas than semicolons"),
        pytest.param("remarks, notes, more;file;label\nx;a;1\ny, z;b;2\n", id="commas first"),
        pytest.param("sep=;\r\nfile;label\r\na;1\r\nb;2\r\n", id="a line for Excel"),
        pytest.param('\ufeff"sep=\t"\nfile\tlabel\na\t1\nb\t2\n', id="the same of tabs"),
        pytest.param("sep=,,\nfile,label\na,1\nb,2\n", id="the same, saved by Excel"),
        pytest.param('file,label,note\na,1,"x\ny"\nb,2,z\n', id="a cell in two lines"),
        pytest.param("file,label\ra,1\rb,2\r", id="as old Macs end lines"),
        pytest.param('file,label,"note\na,1,x\nb,2,y\n', id="a quote that is not closed"),
        pytest.param('\ufefffile,label,"5"" core\na,1,x\nb,2,"y"\n', id="inches"),
        pytest.param("file,label," + ",".join(f"{'n' * 140}{i}" for i in range(1_000)) + "\n"
                     + "\n".join(f"{row}{',0' * 1_000}" for row in ("a,1", "b,2")), id="long names"),
    ],
)  # fmt: skip
def test_headers_and_cells_of_spreadsheets(tmp_path: Path, text: str) -> None:
    (tmp_path / "t.csv").write_bytes(text.encode())
    table = read_label_table(tmp_path / "t.csv", carry=True)
    assert (table.keys.to_pylist(), table.values.tolist()) == (["a", "b"], [1, 2])


def test_cells_of_several_lines_in_a_large_table(tmp_path: Path) -> None:
    rows = (f'v{i},{i},"the first line of a note\nand its second line"\n' for i in range(40_000))
    (tmp_path / "t.csv").write_text("file,label,note\n" + "".join(rows))
    table = read_label_table(tmp_path / "t.csv", carry=True)
    assert np.array_equal(table.values, np.arange(40_000))
    assert table.others["note"].unique().to_pylist() == ["the first line of a note\nand its second line"]


@pytest.mark.parametrize("carry", [True, False])
@pytest.mark.parametrize("count", [1, 60_000, 120_000])
def test_a_quote_that_is_never_closed_takes_no_rows(tmp_path: Path, count: int, carry: bool) -> None:
    """Arrow alone makes the rows below a part of the cell, up to 2 MB."""
    rows = "".join(f"v{i},{i},some words of a note\n" for i in range(count))
    (tmp_path / "t.csv").write_text(f'file,label,note\nw,0,x\nx,0,"open\n{rows}')
    with pytest.raises(DataError, match=r"^t\.csv cannot be read: .*a quotation mark .*is never closed$"):
        read_label_table(tmp_path / "t.csv", carry=carry)


@pytest.mark.parametrize("end", ["", "\n", "\r\n", "\n\n", " \n"])
def test_a_note_of_several_lines_may_be_the_last(tmp_path: Path, end: str) -> None:
    (tmp_path / "t.csv").write_bytes(f'file,label,note\na,1,"of\ntwo lines"{end}'.encode())
    assert len(read_label_table(tmp_path / "t.csv").keys) == 1


def test_notes_that_are_not_carried_may_be_no_utf_8(tmp_path: Path) -> None:
    rows = "".join(f"{i},1,grey\n" for i in range(2_000))
    (tmp_path / "t.csv").write_bytes(f"file,label,note\n{rows}a,1,grün\n".encode("latin-1"))
    assert read_label_table(tmp_path / "t.csv").keys[2_000].as_py() == "a"
    with pytest.raises(DataError, match="cannot be read"):
        read_label_table(tmp_path / "t.csv", carry=True)


@pytest.mark.parametrize("cell", [" NA", "NaN ", "#N/A", "n/a", "<NA>", " #N/A ", " None"])
def test_what_spreadsheets_write_for_a_missing_value_is_no_class(tmp_path: Path, cell: str) -> None:
    labels = from_table(["a.npy", "b.npy"], tmp_path / "t.csv", f"file,label\na, 1\nb,{cell}\n")
    assert (found(labels), labels.classes) == ([1, None], ())
    if "None" not in cell:
        labels = from_table(["a.npy", "b.npy"], tmp_path / "t.csv", f"file,label\na, salt\nb,{cell}\n")
        assert (found(labels), labels.classes) == ([0, None], ("salt",))


def test_ids_and_class_names_are_composed(tmp_path: Path) -> None:
    assert nfc(pa.array(["cafe\u0301", None, "b"])).to_pylist() == ["caf\u00e9", None, "b"]
    labels = from_table(["a.npy"], tmp_path / "t.csv", "file,label\na,re\u0301servoir\n")
    assert labels.classes == ("r\u00e9servoir",)


def test_equal_rows_are_fine_and_different_ones_a_conflict(tmp_path: Path) -> None:
    text = "file,label\nx/a.npy,1\na,1\nb.npy,1\nx/b,2\nc,1\nc,\nd,\n,4\nmissing,1\n"
    labels = from_table(["x/a.npy", "x/b.npy", "x/c.npy", "x/d.npy"], tmp_path / "t.csv", text)
    assert found(labels) == [1, None, 1, None]
    assert labels.conflicts.tolist() == [False, True, False, False]
    assert labels.rows_without_file == 2


def test_texts_become_classes_in_sorted_order(tmp_path: Path) -> None:
    text = "file,label\na, salt \nb,fault\nc,NA\nd,salt\nelsewhere,channel\n"
    labels = from_table(["a.npy", "b.npy", "c.npy", "d.npy"], tmp_path / "t.csv", text)
    assert labels.classes == ("channel", "fault", "salt")
    assert found(labels) == [2, 1, None, 2]


def test_none_is_a_class_among_texts_and_missing_among_numbers(tmp_path: Path) -> None:
    ids = ["a.npy", "b.npy", "NA.npy"]
    texts = from_table(ids, tmp_path / "t.csv", "file,label\na,None\nb,Mild\nNA,NA\n")
    assert (found(texts), texts.classes) == ([1, 0, None], ("Mild", "None"))
    numbers = from_table(ids, tmp_path / "t.csv", "file,label\na,None\nb,2\nNA,1\n")
    assert (found(numbers), numbers.classes) == ([None, 2, 1], ())
    nothing = from_table(ids, tmp_path / "t.csv", "file,label\na,None\nb,None\n")
    assert (found(nothing), nothing.classes) == ([None, None, None], ())
    (tmp_path / "t.csv").write_text("file,label,grade,score,seen\na,1,None,None,None\nb,1,x,2,2024-01-31\n")
    others = read_label_table(tmp_path / "t.csv", carry=True).others.to_pydict()
    assert others == {"grade": ["None", "x"], "score": [None, 2], "seen": [None, dt.date(2024, 1, 31)]}


@pytest.mark.parametrize(
    ("rows", "expected", "classes"),
    [
        ("a,None\nb, 1\nc,2 \n", [None, 1, 2], ()),
        ("a,None\nb,01\nc,02\n", [None, 1, 2], ()),
        ("a;None\nb;1,5\nc;2,5\n", [None, 0, 1], ("1,5", "2,5")),
    ],
)
def test_none_is_missing_among_numbers_however_they_are_written(
    tmp_path: Path, rows: str, expected: list[float | None], classes: tuple[str, ...]
) -> None:
    header = f"file{rows[1]}label\n"
    labels = from_table(["a.npy", "b.npy", "c.npy"], tmp_path / "t.csv", header + rows)
    assert (found(labels), labels.classes) == (expected, classes)


def test_a_name_with_its_ending_is_first_that_file_s_in_any_folder() -> None:
    ids = pa.array(["a.nii", "sub/a.nii.gz"])
    keys = pa.array(["a.nii.gz", "a.nii", "a"])
    assert match_files(ids, keys, (".nii", ".nii.gz")).tolist() == [1, 0, 0]


def test_numbers_stay_numbers_and_a_single_text_makes_classes(tmp_path: Path) -> None:
    numbers = from_table(["a.npy", "b.npy"], tmp_path / "t.csv", "file,label\na,1e3\nb,-0.5\n")
    assert (found(numbers), numbers.classes) == ([1000, -0.5], ())
    mixed = from_table(["a.npy", "b.npy"], tmp_path / "t.csv", "file,label\na,1\nb,cat\n")
    assert (found(mixed), mixed.classes) == ([0, 1], ("1", "cat"))


@given(numbers=st.lists(st.integers(-999, 999), min_size=1, max_size=9), at=st.integers(0, 9), data=st.data())
def test_an_infinite_number_among_numbers_is_refused_with_its_row(
    tmp_path_factory: pytest.TempPathFactory, numbers: list[int], at: int, data: st.DataObject
) -> None:
    cells = [str(n) for n in numbers]
    at = min(at, len(cells))
    cells.insert(at, data.draw(st.sampled_from(["inf", "-Inf", "Infinity", "1e400", "-1e999"])))
    text = "file,label\n" + "".join(f"v{i},{cell}\n" for i, cell in enumerate(cells))
    with pytest.raises(DataError, match=rf"t\.csv: the label of v{at} \(row {at + 1} below the header\) is infinite"):
        from_table(["v0.npy"], tmp_path_factory.mktemp("t") / "t.csv", text)


@pytest.mark.parametrize("cell", ["nan", "NAN", "-nan", ""])
def test_nan_among_numbers_is_no_label(tmp_path: Path, cell: str) -> None:
    labels = from_table(["a.npy", "b.npy"], tmp_path / "t.csv", f"file,label\na,1\nb,{cell}\n")
    assert (found(labels), labels.classes) == ([1, None], ())


def test_an_infinite_number_in_a_file_name_is_refused_and_a_word_is_a_class() -> None:
    rule = LabelRule("pattern", pattern=r"^(?P<label>.*)\.npy$")
    with pytest.raises(DataError, match=r"inf\.npy is infinite"):
        find_labels(pa.array(["1.npy", "inf.npy"]), rule)
    assert find_labels(pa.array(["inf.npy", "sup.npy"]), rule).classes == ("inf", "sup")


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _dangling(path: Path) -> None:
    path.symlink_to("nothing")


def _device(path: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize(
    ("make", "reason"),
    [(_pipe, "a named pipe"), (_device, "a device"), (Path.mkdir, "a folder"), (_dangling, "target is missing")],
)
@pytest.mark.parametrize("name", ["labels.csv", "labels.parquet"])
@pytest.mark.timeout(20)
def test_a_label_table_that_is_no_file_is_reported(tmp_path: Path, make: Any, reason: str, name: str) -> None:
    make(tmp_path / name)
    table = label_file_in(tmp_path)
    assert table is not None
    with pytest.raises(DataError, match=rf"{name} cannot be read: .*{reason}"):
        find_labels(pa.array(["a.npy"]), LabelRule(found=table))


@pytest.mark.parametrize("carry", [True, False])
@pytest.mark.parametrize(
    ("encoding", "said"), [("utf-16", "in UTF-16"), ("latin-1", "perhaps in Latin-1 or Windows-1252")]
)
@pytest.mark.parametrize("header", ["file,label,größe", "file,label,size"])
def test_a_table_in_another_encoding_says_how_to_save_it(
    tmp_path: Path, encoding: str, said: str, header: str, carry: bool
) -> None:
    """Of its header and of its cells; not the words of a codec."""
    (tmp_path / "t.csv").write_text(f"{header}\na.npy,grün,1\nb.npy,blau,2\n", encoding=encoding)
    with pytest.raises(DataError) as refused:
        read_label_table(tmp_path / "t.csv", carry=carry)
    assert refused.value.message == f"t.csv cannot be read: it is not text in UTF-8, but {said}"
    assert refused.value.hint.startswith('Save it as UTF-8: in Excel as "CSV UTF-8"')


@pytest.mark.parametrize(
    ("header", "said"),
    [
        ("file,class,label", "t.csv: the labels are those of the column label, not of class"),
        ("file,Y,Class", "t.csv: the labels are those of the column Class, not of Y"),
        ("file,target,y,label", "t.csv: the labels are those of the column label, not of target or y"),
        ("file,x,y,z,label", ""),
        ("file,label,label", ""),
        ("file,grade,label", ""),
    ],
)
def test_which_of_several_columns_the_labels_are_is_said(tmp_path: Path, header: str, said: str) -> None:
    names = header.split(",")
    text = f"{header}\n{','.join(['a.npy', *map(str, range(1, len(names)))])}\n"
    found = from_table(["a.npy"], tmp_path / "t.csv", text)
    assert found.chosen == said
    if said:
        assert names[int(found.values[0])] == said.split("column ")[1].split(",")[0]
    named = LabelRule("manifest", file=tmp_path / "t.csv", column=names[1])
    assert find_labels(pa.array(["a.npy"]), named).chosen == ""


def test_a_flipped_bit_in_a_parquet_table_is_named(tmp_path: Path) -> None:
    path = tmp_path / "labels.parquet"
    rows = pa.table({"file": ["a.npy", "b.npy"], "label": [4660, 22136]})
    how = {"use_dictionary": False, "compression": "none", "write_statistics": False}
    pq.write_table(rows, path, write_page_checksum=True, **how)
    data = path.read_bytes()
    path.write_bytes(data.replace((4660).to_bytes(8, "little"), (4661).to_bytes(8, "little"), 1))
    with pytest.raises(DataError, match=r"labels\.parquet cannot be read: .*CRC"):
        read_label_table(path)


def test_a_header_without_an_end_names_the_table(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"t\.csv cannot be read: field larger than field limit"):
        from_table(["a.npy"], tmp_path / "t.csv", f"{'a' * 200_000},label\na.npy,1\n")


@pytest.mark.parametrize(
    ("column", "expected", "classes"),
    [
        (pa.array([3, None], pa.int64()), [3, None], ()),
        (pa.array([0.5, float("nan")], pa.float64()), [0.5, None], ()),
        (pa.array([True, False]), [1, 0], ()),
        (pa.array(["b", "a"]).dictionary_encode(), [1, 0], ("a", "b")),
        (pa.array(["b", None], pa.large_string()), [0, None], ("b",)),
    ],
)
def test_a_parquet_table_of_labels(tmp_path: Path, column: Any, expected: list[float | None], classes: Any) -> None:
    path = tmp_path / "labels.parquet"
    pq.write_table(pa.table({"id": ["a", "b"], "class": column, "other": [1, 2]}), path)
    labels = find_labels(pa.array(["a.npy", "b.npy"]), LabelRule("manifest", found=path))
    assert (found(labels), labels.classes) == (expected, classes)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"a,1\n", "no column file"),
        (b"file,value\na,1\n", "no column label"),
        (b"", "no column"),
        (b"file,label\na,1,2\n", "cannot be read"),
        (b"file,label\n\xe9,1\n", "cannot be read"),
        (b"file,label\na,20000001\nb,20000002\n", "20000001 is not exact"),
        (b"file,label\na,1e39\n", "not exact"),
        (b"file,label\na,grey;left\nb,white\n", "the label 'grey;left' is several in one"),
        (b"file\tlabel\na\t1|2\nb\t1\n", r"the label '1\|2' is several in one"),
        (b'file,label\na,"left, grey"\nb,grey\n', "the label 'left, grey' is several in one"),
    ],
)
def test_a_table_that_cannot_be_used(tmp_path: Path, text: bytes, message: str) -> None:
    path = tmp_path / "labels.csv"
    path.write_bytes(text)
    with pytest.raises(DataError, match=message):
        find_labels(pa.array(["a.npy", "b.npy"]), LabelRule("manifest", file=path))


@pytest.mark.parametrize("labels", [["left, grey", "white"], ["0,5", "5"]])
def test_a_comma_may_be_a_part_of_a_label(tmp_path: Path, labels: list[str]) -> None:
    path = tmp_path / "labels.parquet"
    pq.write_table(pa.table({"id": ["a", "b"], "class": labels}), path)
    assert find_labels(pa.array(["a.npy", "b.npy"]), LabelRule("manifest", found=path)).classes == tuple(labels)


def test_a_parquet_table_is_known_by_its_content(tmp_path: Path) -> None:
    pq.write_table(pa.table({"file": ["a"], "label": [3]}), tmp_path / "labels.pq")
    assert found(find_labels(pa.array(["a.npy"]), LabelRule("manifest", file=tmp_path / "labels.pq"))) == [3]
    assert found(from_table(["a.npy"], tmp_path / "t.csv", "PAR1,file,label\nx,a,1\n")) == [1]


def test_parquet_labels_that_cannot_be_used(tmp_path: Path) -> None:
    path = tmp_path / "labels.parquet"
    ids = pa.array(["a.npy"])
    for column in (pa.array([[1]]), pa.array([2**53 + 1]), pa.array([float("inf")])):
        pq.write_table(pa.table({"file": ["a"], "label": column}), path)
        with pytest.raises(DataError, match=r"labels\.parquet"):
            find_labels(ids, LabelRule("manifest", file=path))
    path.write_bytes(b"PAR1 not really PAR1")
    with pytest.raises(DataError, match="cannot be read"):
        find_labels(ids, LabelRule("manifest", file=path))


def test_a_whole_wrong_column_is_noticed(tmp_path: Path) -> None:
    text = "file,label\n" + "".join(f"{i},text {i}\n" for i in range(10_001))
    with pytest.raises(DataError, match="10001 different labels"):
        from_table(["0.npy"], tmp_path / "t.csv", text)


@pytest.mark.parametrize(
    ("ids", "expected", "classes"),
    [
        (["salt/a.npy", "fault/deep/b.npy", "c.npy"], [1, 0, None], ("fault", "salt")),
        (["10/a.npy", "2/b.npy"], [1, 0], ("2", "10")),
    ],
)
def test_sub_folders_are_classes_and_numbers_sort_by_value(ids: list[str], expected: Any, classes: Any) -> None:
    labels = find_labels(pa.array(ids), LabelRule("folders"))
    assert (found(labels), labels.classes) == (expected, classes)


@pytest.mark.parametrize(
    ("rule", "ids", "source"),
    [
        (LabelRule(), ["x/a.npy", "y/b.npy"], "folders"),
        (LabelRule(), ["x/a.npy", "b.npy"], "none"),
        (LabelRule(), [], "none"),
        (LabelRule(found=Path("f")), ["x/a.npy"], "manifest"),
        (LabelRule(file=Path("f"), pattern="p"), ["x/a.npy"], "manifest"),
        (LabelRule(pattern="p", found=Path("f")), ["x/a.npy"], "pattern"),
        (LabelRule("none", file=Path("f")), ["x/a.npy"], "none"),
    ],
)
def test_what_auto_comes_to(rule: LabelRule, ids: list[str], source: str) -> None:
    assert rule.settle(pa.array(ids, pa.string())) == source


def test_a_table_is_needed_and_there_is_none() -> None:
    with pytest.raises(DataError, match=r"no labels.csv or labels.parquet"):
        find_labels(pa.array(["a.npy"]), LabelRule("manifest"))


@given(st.lists(st.one_of(st.none(), st.text(max_size=5)), max_size=30))
def test_codes_name_the_texts(texts: list[str | None]) -> None:
    values, classes = encode(pa.array(texts, pa.string()), numbers=False)
    assert len(set(classes)) == len(classes)
    named = [None if np.isnan(v) else classes[int(v)] for v in values]
    again, classes_again = encode(pa.array(named, pa.string()), numbers=False)
    assert classes_again == classes
    assert np.array_equal(again, values, equal_nan=True)
    assert [n is None for n in named] == [t is None or not pa.compute.utf8_trim_whitespace(t).as_py() for t in texts]


@given(st.lists(st.floats(allow_infinity=False, width=32)))
def test_what_fits_a_float32_stays_as_it_is(values: list[float]) -> None:
    array = np.array(values, np.float64)
    assert np.array_equal(to_float32(array).astype(np.float64), array, equal_nan=True)

"""Logs: followed by byte, sifted by level, searched."""

from __future__ import annotations

from pathlib import Path

import pytest

from ui.runs import logs
from ui.runs.logs import Line, LogBook, as_text, log_block, matching, newest, parse


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("info: 64 volumes", Line("n", "info", "64 volumes")),
        ("warning: odd", Line("n", "warning", "odd")),
        ("error: bad", Line("n", "error", "bad")),
        ("information: no level", Line("n", "output", "information: no level")),
        ("10%\r20%\rdone\r\n", Line("n", "output", "done")),
        ("\x1b[31mred\u202e", Line("n", "output", "\\x1b[31mred\\u202e")),
    ],
)
def test_a_line_has_the_level_it_begins_with(text: str, line: Line) -> None:
    assert parse("n", text) == line


def test_a_line_without_end_does_not_fill_the_page() -> None:
    assert len(parse("n", "x" * 100_000).text) <= 2_000


def test_a_growing_log_is_read_once(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    book = LogBook()
    files = [("a", path)]
    assert not book.read(files)  # not there yet
    path.write_text("info: one\ntw")
    assert book.read(files)
    with path.open("a") as log:
        log.write("o\nthree")
    assert book.read(files)
    assert not book.read(files)
    assert [line.text for line in book.kept] == ["one", "two"]
    book.finish()
    book.finish()
    assert [line.text for line in book.kept] == ["one", "two", "three"]
    assert book.counts == {"a": 3}
    assert not book.cut


def test_of_a_huge_log_the_end_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "_MOST_AT_ONCE", 1_000)
    path = tmp_path / "a.log"
    path.write_text("".join(f"line {i:05d}\n" for i in range(1_000)))
    book = LogBook()
    book.read([("a", path)])
    assert book.cut
    assert [line.text for line in book.kept][-1] == "line 00999"
    assert all(line.text.startswith("line ") and len(line.text) == 10 for line in book.kept)


def test_bytes_that_are_no_text_do_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"\xff\xfe\x00 caf\xc3\xa9\n")
    book = LogBook()
    book.read([("a", path)])
    assert "café" in book.kept[0].text


def test_lines_are_sifted_by_node_level_and_text() -> None:
    lines = [
        Line("a", "output", "Epoch"),
        Line("a", "info", "epoch 1"),
        Line("b", "warning", "odd"),
        Line("b", "error", "bad"),
    ]
    assert [x.text for x in matching(lines, search="EPOCH")] == ["Epoch", "epoch 1"]
    assert [x.text for x in matching(lines, node="b")] == ["odd", "bad"]
    assert [x.text for x in matching(lines, least="info")] == ["epoch 1", "odd", "bad"]
    assert [x.text for x in matching(lines, least="error", node="a")] == []


def test_the_newest_lines_come_with_the_count_of_all() -> None:
    lines = [Line("a", "output", str(i)) for i in range(10)]
    assert newest(lines, 3) == (lines[-3:], 10)


def test_a_log_can_be_kept_as_text() -> None:
    assert as_text([Line("a", "output", "x"), Line("", "error", "y")]) == "a | x\nrun | error: y\n"


def test_the_longest_name_of_a_node_says_how_wide_the_names_are() -> None:
    lines = [Line("t", "info", "one"), Line("", "info", "two")]
    block = log_block(lines, {"t": "Train a network on patches"})
    assert 'style="--vf-log-names: 26ch"' in block
    assert ">run</span>" in block
    assert "vf-log-node" not in log_block(lines)
    assert "style" not in log_block(lines)

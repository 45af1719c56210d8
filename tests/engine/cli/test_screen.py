"""How wide the command prints."""

from __future__ import annotations

import os

import pytest

from engine.cli.screen import console, table

LONG = "a" * 300


@pytest.mark.parametrize("columns", ["", "0", "-5", "wide", "1.5"])
def test_columns_that_are_no_width_are_as_not_set(
    columns: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    table(("name", "figure"), [(LONG, "1")])
    assert capsys.readouterr().out.splitlines()[1] == f"{LONG}  1"


def test_columns_that_are_a_width_are_kept_to(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    table(("name", "figure"), [(LONG, "1")])
    assert max(len(line) for line in capsys.readouterr().out.splitlines()) == 40


@pytest.mark.parametrize(("columns", "width"), [("0", 80), ("wide", 80), ("40", 40)])
def test_a_terminal_is_as_wide_as_it_says(columns: str, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setattr("os.get_terminal_size", lambda *_: os.terminal_size((80, 24)))
    assert console().width == width

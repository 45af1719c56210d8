"""What the commands of a torture leave behind."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from engine.spark import class_data
from tests.torture.scene import Scene


def test_no_session_begins_an_archive_of_java_s_classes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[Any] = []
    monkeypatch.setattr(class_data.subprocess, "Popen", lambda command, **options: begun.append(command))
    monkeypatch.setattr(class_data, "_there", lambda own: False)
    monkeypatch.delenv(class_data.SWITCH, raising=False)
    class_data.make_later({})
    assert len(begun) == 1
    for name, value in Scene(tmp_path, {}, forks=None).environment({}).items():  # type: ignore[arg-type]
        monkeypatch.setitem(os.environ, name, value)
    class_data.make_later({})
    assert len(begun) == 1

"""A library is imported without what it can do without."""

from __future__ import annotations

import sys
import threading

import pytest

from engine.processes.lean_import import without


def test_a_package_is_absent_within_the_block_and_there_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "wave", raising=False)  # a module of Python's own that nothing here uses
    with without(["wave"]):
        with pytest.raises(ModuleNotFoundError, match="No module named 'wave'"):
            import wave
        elsewhere: list[str] = []
        other = threading.Thread(target=lambda: elsewhere.append(__import__("wave").__name__))
        other.start()
        other.join()
        assert elsewhere == ["wave"]
        import wave  # loaded by now
    monkeypatch.delitem(sys.modules, "wave")
    import wave

    assert wave.__name__ == "wave"


def test_nothing_is_left_when_the_block_fails() -> None:
    before = list(sys.meta_path)
    with pytest.raises(ZeroDivisionError), without([]):
        raise ZeroDivisionError
    assert sys.meta_path == before

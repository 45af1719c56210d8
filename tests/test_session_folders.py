from __future__ import annotations

import multiprocessing
import multiprocessing.util
import os
from pathlib import Path

import forked_programs
import pytest
import training_scenarios
from session_folders import clear_ended, files_folder, runtime_folder

_NOBODY = 2**22 + 1
"""A process that there never is: the kernel counts up to one less."""


def test_folders_of_sessions_that_have_ended_go_and_those_of_others_stay(tmp_path: Path) -> None:
    ended = [tmp_path / f"voxelflow-tests-{_NOBODY}", tmp_path / f"voxelflow-rt-{_NOBODY}-ab_1"]
    alive = [
        tmp_path / f"voxelflow-{name}" for name in (f"tests-{os.getppid()}", f"rt-{os.getppid()}-ab", "0", "rt-ab12")
    ]
    for folder in (*ended, *alive):
        (folder / "tmp").mkdir(parents=True)
    clear_ended([tmp_path, tmp_path / "none"])
    assert sorted(tmp_path.iterdir()) == sorted(alive)


def test_the_fork_server_s_folder_goes_with_the_session_s(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python would remove its own at exit, when the session's has gone with it, and print a traceback."""
    asked: list[str] = []
    registry = multiprocessing.util._finalizer_registry  # type: ignore[attr-defined]
    monkeypatch.setitem(multiprocessing.current_process()._config, "tempdir", None)  # type: ignore[attr-defined]
    monkeypatch.setattr(forked_programs, "shared", lambda: {"import_training": None})
    monkeypatch.setattr(training_scenarios._SERVER, "_forkserver_pid", None)
    monkeypatch.setattr(training_scenarios, "_start_server", lambda: asked.append(multiprocessing.util.get_temp_dir()))
    before = set(registry)
    training_scenarios._fork_server()
    assert set(registry) == before
    assert [Path(folder).is_dir() for folder in asked] == [True]
    Path(asked[0]).rmdir()


def test_a_living_session_s_own_stay() -> None:
    runtime = Path(runtime_folder())
    try:
        clear_ended([runtime.parent])
        assert runtime.is_dir()
    finally:
        runtime.rmdir()
    assert files_folder(Path("/x")).name.endswith(f"-{os.getpid()}")

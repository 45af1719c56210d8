from __future__ import annotations

import os
from pathlib import Path

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


def test_a_living_session_s_own_stay() -> None:
    runtime = Path(runtime_folder())
    try:
        clear_ended([runtime.parent])
        assert runtime.is_dir()
    finally:
        runtime.rmdir()
    assert files_folder(Path("/x")).name.endswith(f"-{os.getpid()}")

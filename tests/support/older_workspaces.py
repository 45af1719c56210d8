"""A workspace that an earlier version of Voxelflow wrote: three runs of 20 tiny volumes, one failed, one killed.

`older_workspace/` was written by the code of commit fbc8283, whose run store had no version, in the folder `ROOT`. Left
out are the volumes, which are made here with the times that they had, the locks and the logs. The run store is kept as
SQL, without the samples of the machine.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
from pathlib import Path

import numpy as np

ROOT = "/srv/older"
COUNT = 20
DONE, FAILED, KILLED = "20261122-145543-69d14a", "20261122-145555-1f06a8", "20261122-145602-b9d78b"
_TIME = 1_700_000_000


def restore_older(folder: Path) -> Path:
    """Put the workspace into `folder`, as if it had been moved there without ever being opened since."""
    shutil.copytree(Path(__file__).parent / "older_workspace", folder)
    script = folder / "runs.sql"
    with contextlib.closing(sqlite3.connect(folder / "runs.db")) as db:
        db.executescript(script.read_text(encoding="utf-8"))
    script.unlink()
    _volumes(folder / "incoming", COUNT)
    _volumes(folder / "damaged", 3)
    bad = folder / "damaged" / "01.npy"
    bad.write_bytes(b"not a volume")
    os.utime(bad, (_TIME + 1, _TIME + 1))
    return folder


def _volumes(folder: Path, count: int) -> None:
    folder.mkdir()
    for number in range(count):
        path = folder / f"{number:02d}.npy"
        np.save(path, np.full((4, 4, 2, 1), number, np.float32))
        os.utime(path, (_TIME + number, _TIME + number))
    labels = folder / "labels.csv"
    labels.write_text("file,label\n" + "".join(f"{n:02d}.npy,{n % 2}\n" for n in range(count)))
    os.utime(labels, (_TIME, _TIME))

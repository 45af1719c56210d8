"""A disk with faults, for the processes of a run: `io_faults.c` preloaded, and the file that controls it."""

from __future__ import annotations

import errno
import mmap
import os
import struct
import subprocess
from enum import IntEnum
from pathlib import Path

_SOURCE = Path(__file__).with_name("io_faults.c")
_HEAD = struct.Struct("<qqqq")
_STRIKE = struct.Struct("<qqqqqq")
_ROLES = 64
_CALLS = struct.Struct(f"<{_ROLES}q")
_TEXT = 4096
_STRIKE_AT = _HEAD.size
_CALLS_AT = _STRIKE_AT + _STRIKE.size
_FOLDER_AT = _CALLS_AT + _CALLS.size
_LOG_AT = _FOLDER_AT + _TEXT
_STRUCK_AT = _LOG_AT + _TEXT
_ROOMY = 1 << 50


class Action(IntEnum):
    """What becomes of a call that is struck."""

    NOTHING = 0
    FAIL = 1
    """It fails with the given error."""
    CUT_SHORT = 2
    """A write writes half and says so; any other call fails."""
    KILL = 3
    """Its process is killed before it."""
    KILL_AFTER = 4
    """Its process is killed after it, before the program knows that it worked."""
    KILL_HALFWAY = 5
    """A write writes half, then its process is killed."""
    KILL_ALL = 6
    """All processes are killed, each before its next call."""
    FILL_UP = 7
    """From then on the disk is full."""


class FaultyDisk:
    """The disk that `folder` lies on, as the processes started with `environment` see it; roomy and whole at first."""

    def __init__(self, library: Path, folder: Path, control: Path) -> None:
        self.folder = folder
        control.write_bytes(bytes(_STRUCK_AT + _TEXT))
        with control.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), 0)
        # What the environment preloads already (a profiler, a sanitizer) stays.
        before = os.environ.get("LD_PRELOAD", "")
        self.environment = {
            "LD_PRELOAD": f"{library} {before}".strip(),
            "IO_FAULTS": str(control),
        }
        self._put_text(_FOLDER_AT, os.fsencode(folder.resolve()))
        self.leave(_ROOMY)

    def leave(self, free_bytes: int, *, error: int = errno.ENOSPC, removing_frees: bool = True) -> None:
        """So many bytes are free from now on; what does not fit ends with `error`."""
        self._memory[: _HEAD.size] = _HEAD.pack(free_bytes, error, removing_frees, self.refused)

    def free(self) -> None:
        """Room for all again."""
        self.leave(_ROOMY)

    def strike(self, role: int, call: int, action: Action, error: int = errno.EIO) -> None:
        """Let the call number `call` (from 1) of the processes with this role end so; counting begins now.

        Roles are given by the processes themselves: they call `io_faults_role(number)` of the library.
        """
        self._put(_STRIKE_AT, _STRIKE.pack(role, call, action, error, 0, 0))
        self._put(_CALLS_AT, bytes(_CALLS.size))
        self._put_text(_STRUCK_AT, b"")

    def heal(self) -> None:
        """No strike any more, space for all, and processes may live."""
        self.strike(-1, 0, Action.NOTHING)
        self.free()

    @property
    def struck(self) -> str:
        """The call that was struck, with its path; "" when none was."""
        text = bytes(self._memory[_STRUCK_AT : _STRUCK_AT + _TEXT])
        count: int = _STRIKE.unpack_from(self._memory, _STRIKE_AT)[4]
        return os.fsdecode(text.split(b"\0")[0]) if count else ""

    @property
    def calls(self) -> dict[int, int]:
        """How many calls each role has made since the last `strike` or `heal`."""
        return {role: n for role, n in enumerate(_CALLS.unpack_from(self._memory, _CALLS_AT)) if n}

    def log_to(self, path: Path | None) -> None:
        """Append what changes the folder and what is flushed to this file, which must be there; None ends that."""
        self._put_text(_LOG_AT, os.fsencode(path) if path else b"")

    @property
    def refused(self) -> int:
        """How many calls did not fit until now."""
        count: int = _HEAD.unpack_from(self._memory)[3]
        return count

    @property
    def used(self) -> int:
        """Bytes written since there was space for all."""
        free: int = _HEAD.unpack_from(self._memory)[0]
        return _ROOMY - free

    def _put(self, at: int, data: bytes) -> None:
        self._memory[at : at + len(data)] = data

    def _put_text(self, at: int, text: bytes) -> None:
        self._put(at, text.ljust(_TEXT, b"\0"))


def build_library(folder: Path) -> Path:
    """Compile the library; needs a C compiler."""
    library = folder / "libio_faults.so"  # not a name that Python imports
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", library, _SOURCE, "-ldl"], check=True)
    return library

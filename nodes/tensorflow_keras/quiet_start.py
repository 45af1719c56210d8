"""Keeps what TensorFlow prints while it is imported out of the log, and no error.

TF_CPP_MIN_LOG_LEVEL does not do it: TensorFlow logs before it has set up its logging, and such lines are all written to
standard error (abseil's LOG(INFO) before `absl::InitializeLog`). So standard error is a pipe meanwhile, and a process
at its other end writes on what is no noise. A process and no thread: what a crash wrote last must reach the log, and
TensorFlow's libraries hold the interpreter's lock while they are loaded.

Left out are, of the levels below the wanted one (`TF_CPP_MIN_LOG_LEVEL`: 1 leaves out information, 2 warnings too):

    I0000 00:00:1795402494.594350   15613 port.cc:153] oneDNN custom operations are on. ...
    2026-11-23 02:50:00.123456: I tensorflow/core/platform/cpu_feature_guard.cc:210] This TensorFlow binary ...
    To enable the following instructions: AVX2 FMA, in other operations, rebuild TensorFlow ...

and, where there is no NVIDIA driver, that CUDA did not start. Everything else is written on as it is.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

_DRIVER = ("/dev/nvidiactl", "/proc/driver/nvidia/version", "/dev/dxg")
_LINE = re.compile(rb"(?:([IWEF])\d{4} \d\d:\d\d:|\d{4}-\d\d-\d\d [\d:.]+: ([IWEF]) )")
_ANNOUNCED = b"WARNING: All log messages before absl::InitializeLog() is called are written to STDERR"
_CONTINUED = b"To enable the following instructions:"
_NO_CUDA = re.compile(rb"failed call to cuInit|Unable to register cu\w+ factory")
_PATIENCE_S = 5.0


def is_noise(line: bytes, level: int, *, has_gpu: bool) -> bool:
    """Whether a line says nothing to a person. `level` is that of `TF_CPP_MIN_LOG_LEVEL`."""
    if level < 1:
        return False
    if line.startswith((_ANNOUNCED, _CONTINUED)):
        return True
    found = _LINE.match(line)
    if found is None:
        return False
    if (found[1] or found[2]) in (b"I", b"W")[: min(level, 2)]:
        return True
    return not has_gpu and bool(_NO_CUDA.search(line))


def write_on(lines: Iterable[bytes], sink: BinaryIO, level: int, *, has_gpu: bool) -> None:
    """Write the lines that are no noise."""
    for line in lines:
        if not is_noise(line, level, has_gpu=has_gpu):
            sink.write(line)
            sink.flush()


@contextlib.contextmanager
def quiet_start() -> Iterator[None]:
    """Filter this process's standard error while the block lasts. Where that is not possible nothing is left out."""
    level = os.environ.get("TF_CPP_MIN_LOG_LEVEL", "2")
    before: int | None = None
    filtering: subprocess.Popen[bytes] | None = None
    try:
        if not Path(__file__).is_file():  # in a zip, on a Spark executor
            raise OSError("no file to run")
        sys.stderr.flush()
        before = os.dup(2)
        filtering = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__, level],
            stdin=subprocess.PIPE,
            stdout=before,
            # Of its own session: it ends when it has read all, not with this process.
            start_new_session=True,
        )
        assert filtering.stdin is not None
        os.dup2(filtering.stdin.fileno(), 2)
        filtering.stdin.close()
    except (OSError, ValueError, AttributeError):
        filtering = None
    try:
        yield
    finally:
        if before is not None:
            with contextlib.suppress(OSError, ValueError, AttributeError):
                sys.stderr.flush()
            os.dup2(before, 2)
            os.close(before)
        if filtering is not None:
            # What this process writes next must come after it in the log. A program that was started meanwhile
            # may hold the pipe open.
            with contextlib.suppress(subprocess.TimeoutExpired):
                filtering.wait(_PATIENCE_S)


def _has_gpu() -> bool:
    return any(Path(place).exists() for place in _DRIVER)


if __name__ == "__main__":
    wanted = sys.argv[1]
    write_on(sys.stdin.buffer, sys.stdout.buffer, int(wanted) if wanted.isdigit() else 2, has_gpu=_has_gpu())

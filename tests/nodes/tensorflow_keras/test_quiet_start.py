"""TensorFlow's start-up noise stays out of the log, and no error does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from waiting import WAIT_S, wait_until

from nodes.tensorflow_keras.quiet_start import is_noise

INFO = b"I0000 00:00:1795402494.594350   15613 port.cc:153] oneDNN custom operations are on.\n"
WARNING = b"W0000 00:00:1795402494.594350   15613 computation_placer.cc:177] computation placer already registered.\n"
ERROR = b"E0000 00:00:1795392092.939859   25493 gpu.cc:52] out of memory\n"
CUDA = b"E0000 00:00:1795392092.939859   25493 cuda_platform.cc:52] failed call to cuInit: INTERNAL: CUDA error\n"


@pytest.mark.parametrize(
    ("line", "noise"),
    [
        (INFO, True),
        (WARNING, True),
        (b"2026-11-23 02:50:00.123456: I tensorflow/core/cpu_feature_guard.cc:210] This binary is optimized\n", True),
        (b"WARNING: All log messages before absl::InitializeLog() is called are written to STDERR\n", True),
        (b"To enable the following instructions: AVX2 FMA, in other operations, rebuild TensorFlow\n", True),
        (ERROR, False),
        (b"F0000 00:00:1795392092.939859   25493 x.cc:1] Check failed: the CPU has no AVX\n", False),
        (b"2026-11-23 02:50:00.123456: E tensorflow/x.cc:1] bad\n", False),
        (b"Traceback (most recent call last):\n", False),
        (b"ImportError: libcudart.so.12: cannot open shared object file\n", False),
        (b"WARNING: the disk is almost full\n", False),
        (b"\n", False),
    ],
)
def test_only_what_says_nothing_is_noise(line: bytes, noise: bool) -> None:
    assert is_noise(line, 2, has_gpu=True) is noise
    assert not is_noise(line, 0, has_gpu=False)


def test_that_cuda_does_not_start_is_an_error_where_there_is_a_gpu() -> None:
    assert is_noise(CUDA, 2, has_gpu=False)
    assert not is_noise(CUDA, 2, has_gpu=True)


def test_warnings_are_kept_by_who_asks_for_them() -> None:
    assert is_noise(INFO, 1, has_gpu=True)
    assert not is_noise(WARNING, 1, has_gpu=True)


@pytest.mark.slow
@pytest.mark.parametrize("end", ["", "os.kill(os.getpid(), 9)", "raise SystemExit(3)"])
def test_what_is_printed_last_reaches_the_log_however_the_process_ends(tmp_path: Path, end: str) -> None:
    program = f"""
import os, sys
from nodes.tensorflow_keras.quiet_start import quiet_start
with quiet_start():
    os.write(2, {INFO!r})
    os.write(2, {ERROR!r})
    {end or "pass"}
print("after", file=sys.stderr)
"""
    log = tmp_path / "log"
    with log.open("ab") as sink:
        subprocess.run([sys.executable, "-c", program], stderr=sink, check=False, timeout=WAIT_S)
    wanted = ERROR + (b"" if end else b"after\n")
    # After a kill, the process that filters has still to write.
    wait_until(lambda: log.read_bytes() == wanted, details=lambda: f"the log is {log.read_bytes()!r}")

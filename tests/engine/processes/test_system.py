"""A process that ends quickly has done what others do at their end."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from engine.processes.system import widen_pipe

PROGRAM = """
import sys
from engine.processes.system import QuickExit
leave = QuickExit()
{body}
sys.exit(leave.with_status({status}))
"""


def ended(body: str, status: int = 0, output: Path | None = None) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-c", PROGRAM.format(body=body, status=status)]
    if output is None:
        return subprocess.run(program, capture_output=True, text=True)
    with output.open("w") as sink:
        return subprocess.run(program, stdout=sink, stderr=subprocess.PIPE, text=True)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can")
def test_a_wide_pipe_takes_a_part_of_a_volume_at_once() -> None:
    receive, send = os.pipe()
    try:
        os.set_blocking(send, False)
        widen_pipe(receive, 1 << 20)
        assert os.write(send, bytes(1 << 20)) == 1 << 20
    finally:
        os.close(receive)
        os.close(send)
    widen_pipe(receive, 1 << 20)  # closed: it is left as it is


def test_nothing_is_taken_apart() -> None:
    body = "class Library:\n    def __del__(self): print('taken apart')\nlibrary = Library()"
    assert ended(body + "\nprint('done')").stdout == "done\n"
    # As it is without: else this would show nothing.
    plain = subprocess.run([sys.executable, "-c", body], capture_output=True, text=True)
    assert plain.stdout == "taken apart\n"


@pytest.mark.slow
@pytest.mark.parametrize("status", [0, 1, 7])
def test_the_exit_status_is_passed_on(status: int) -> None:
    assert ended("", status).returncode == status


@pytest.mark.slow
def test_threads_exit_handlers_and_buffers_come_first(tmp_path: Path) -> None:
    out, kept = tmp_path / "out", tmp_path / "kept"
    done = ended(
        f"""
import atexit, ctypes, logging, logging.handlers, tempfile, threading, time
def slow():
    time.sleep(0.3)
    print("thread")
threading.Thread(target=slow).start()
atexit.register(print, "handler")
logging.getLogger().addHandler(logging.handlers.MemoryHandler(100, target=logging.StreamHandler(sys.stdout)))
logging.getLogger().warning("logged")
folder = tempfile.TemporaryDirectory()
open({str(kept)!r}, "w").write(folder.name)
print("print")
ctypes.CDLL(None).printf(b"in C\\n")
""",
        output=out,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(out.read_text().split("\n")) == ["", "handler", "in C", "logged", "print", "thread"]
    assert not Path(kept.read_text()).exists()


def test_who_came_first_is_not_left_out() -> None:
    program = "import atexit\natexit.register(print, 'first')\n" + PROGRAM.format(body="", status=4)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (4, "first\n")


def test_the_command_comes_first() -> None:
    """Else every task would wait again for its libraries to be taken apart."""
    program = "import atexit\nbefore = atexit._ncallbacks()\nimport voxelflow, engine.processes.system\n"
    subprocess.run([sys.executable, "-P", "-c", program + "assert atexit._ncallbacks() == before"], check=True)


def test_an_exception_ends_as_ever() -> None:
    done = ended("raise ValueError('told')")
    assert done.returncode == 1
    assert done.stderr.endswith("ValueError: told\n")
    assert ended("sys.exit(3)").returncode == 3


def test_output_that_cannot_be_written_is_a_failure() -> None:
    done = ended("print('x')", output=Path("/dev/full"))
    assert done.returncode != 0
    assert "No space left" in done.stderr

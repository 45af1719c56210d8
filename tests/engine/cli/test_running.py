"""Runs for real, by the command as a process: followed, piped, detached, cancelled, killed, resumed."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from building import box, pipeline
from command_line import Command, Save
from running import end_active
from waiting import WAIT_S, wait_until

from engine.document.pipeline import Node
from engine.run.worker_process import PROGRAM
from engine.store.runs import Run, RunStore
from engine.workspace import Workspace

pytestmark = pytest.mark.slow
Wait = Callable[[Callable[[Run], bool]], Run]


def _slow(node: str) -> Node:
    """Five minutes of work: never finished in these tests, however busy the machine is."""
    return box(node, "Make", steps=1000, step_s=0.3)


@pytest.fixture
def wait(store: RunStore) -> Iterator[Callable[[Callable[[Run], bool]], Run]]:
    """Wait until the newest run is as asked for. What still runs when the test ends is killed."""

    def until(condition: Callable[[Run], bool]) -> Run:
        return wait_until(lambda: [run for run in store.runs(1) if condition(run)], "the run")[0]

    yield until
    end_active(store)


def _at_work(store: RunStore) -> Callable[[Run], bool]:
    return lambda run: any(t.state == "running" and t.progress for t in store.tasks(run.run_id))


def test_a_run_in_a_pipe_and_again(process: Command, save: Save) -> None:
    name = save(pipeline(box("a", "Make", text="${text}"), box("b", "Join"), wires="a.out>b.first", text="x"))
    first = process("run", name, "--set", "text=hello")
    assert (first.status, first.err) == (0, "")
    lines = [re.sub(r"^\d\d:\d\d:\d\d |[\d.]+ s", "", line) for line in first.out.splitlines()]
    assert re.fullmatch(r"run [\d-]+[0-9a-f]+ of test", lines[0])
    assert lines[1:] == [
        "expected time and cost: unknown, without an earlier run of a, b or a price an hour",
        "a: running (never ran before)",
        "a: done in : steps 1",
        "b: running (never ran before)",
        "b: done in ",
        "done in : 2 ran",
    ]
    again = process("run", name, "--set", "text=hello").done()
    assert "a: up to date: steps 1" in again.out
    assert again.out.splitlines()[-1].endswith("2 up to date")


def test_json_lines_end_with_the_outputs(process: Command, save: Save) -> None:
    said = process("run", save(pipeline(box("a", "Make", steps=3))), "--json")
    assert (said.status, said.err) == (0, "")
    events = said.events
    assert (events[0]["event"], events[-1]["event"]) == ("run-started", "run-ended")
    assert [e["state"] for e in events if e["event"] == "task-state"] == ["running", "done"]
    assert [e["done"] for e in events if e["event"] == "progress"][-1] == 3
    last = events[-1]
    assert (last["state"], last["run_id"], last["tasks"]) == ("done", events[0]["run_id"], {"a": "done"})
    assert Path(last["outputs"]["a"]["out"]["uri"]).read_text() == "made"


def test_a_failure_is_reported_with_its_hint_and_status_1(process: Command, command: Command, save: Save) -> None:
    name = save(pipeline(box("bad", "Fail", how="told"), box("after", "Join"), wires="bad.out>after.first"))
    said = process("run", name)
    assert said.status == 1
    assert said.err == "error: bad.how: the probe was told to fail. Tell it otherwise.\n"
    assert "1 failed, 1 skipped" in said.out
    assert "`voxelflow runs resume " in said.out
    shown = command("runs", "show").done()
    assert "error: bad.how: the probe was told to fail. Tell it otherwise." in shown.out
    assert "bad did not finish" in shown.out
    output = command("runs", "show", "last", "--json").json
    assert [t["state"] for t in output["tasks"]] == ["failed", "skipped"]
    assert output["tasks"][0]["failure"]["code"] == "error"
    logs = command("runs", "logs", "last", "bad")
    assert logs.out == "error: the probe was told to fail. Tell it otherwise.\n"
    assert process("run", name, "--json").events[-1]["state"] == "failed"
    listed = command("runs", "list", "--json").json
    assert [r["state"] for r in listed] == ["failed", "failed"]


def test_logs_name_their_node_and_hold_the_tasks_output(process: Command, command: Command, save: Save) -> None:
    process("run", save(pipeline(box("first", "Make", text="one\x9b2J"), box("b", "Make", text="two"))))
    logs = command("runs", "logs")
    assert sorted(logs.out.splitlines()) == ["b     | info: wrote two", "first | info: wrote one\\x9b2J"]
    alone = command("runs", "logs", "last", "b", "--follow")
    assert alone.out == "info: wrote two\n"
    command("runs", "logs", "last", "c").fails("It has: first, b.")


def test_detached_shown_followed_and_cancelled(
    process: Command, command: Command, save: Save, store: RunStore, wait: Wait
) -> None:
    said = process("run", save(pipeline(_slow("a"), box("b", "Join"), wires="a.out>b.first")), "--detach").done()
    run_id = said.out.split()[1]
    assert f"voxelflow runs show {run_id}" in said.out
    wait(_at_work(store))
    assert "not finished" in command("runs", "show", run_id[-6:]).out
    command("runs", "resume", run_id).fails("is still running")
    with subprocess.Popen(
        [*PROGRAM, "runs", "logs", run_id, "--follow"], stdout=subprocess.PIPE, text=True
    ) as following:
        assert f"asked a of run {run_id} to save" in command("runs", "checkpoint", run_id).out
        command("runs", "cancel", run_id).done()
        assert following.wait(WAIT_S) == 0
    assert wait(lambda run: not run.active).state == "cancelled"
    command("runs", "cancel", run_id).fails()
    command("runs", "checkpoint", run_id).fails()


def test_a_lost_run_is_reported_and_resumed(
    process: Command, command: Command, save: Save, store: RunStore, home: Path, wait: Wait
) -> None:
    marker = home / "marker"
    name = save(
        pipeline(box("a", "Make"), box("b", "Fail", how="hang", marker=str(marker), times=1), wires="a.out>b.first")
    )
    with subprocess.Popen([*PROGRAM, "run", name, "--json"], stdout=subprocess.PIPE, text=True) as following:
        run = wait(lambda _: marker.exists())
        assert run.pid is not None
        os.kill(run.pid, signal.SIGKILL)
        out, _ = following.communicate(timeout=WAIT_S)
    assert following.returncode == 3
    assert json.loads(out.splitlines()[-1])["state"] == "lost"
    assert command("runs", "list", "--json").json[0]["state"] == "lost"
    assert "died without reporting a result" in command("runs", "show").out
    resumed = process("runs", "resume", "last", "--json").done()
    events = resumed.events
    assert [e["node"] for e in events if e["event"] == "task-started"] == ["b"]
    assert events[-1]["tasks"] == {"a": "done", "b": "done"}
    assert store.runs(1)[0].attempt == 2
    command("runs", "resume").fails("is done")


def test_a_run_whose_process_does_not_start_says_why(
    home: Path, save: Save, workspace: Workspace, store: RunStore, command: Command
) -> None:
    name = save(pipeline(box("a", "Make")))
    # A supervisor whose installation is broken: it dies before it can say anything in the run store.
    program = (
        "import sys, engine.run.launch, voxelflow\n"
        "engine.run.launch.PROGRAM = (sys.executable, '-c', 'import a_module_that_is_not_there')\n"
        "from engine.cli import main\n"
        f"sys.exit(main(voxelflow.catalog, None, None, ['run', {name!r}]))\n"
    )
    done = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, timeout=WAIT_S)
    assert done.returncode == 1
    assert "did not start: ModuleNotFoundError: No module named 'a_module_that_is_not_there'" in done.stderr
    assert done.stderr.count("\n") == 1
    (run,) = store.runs()
    assert (run.state, run.error) == ("failed", "the run's process died before it began")
    # At once, not when a minute without a process has passed.
    command("runs", "resume").done()
    assert store.run(run.run_id).state == "done"


@pytest.mark.usefixtures("forked_trainings")
def test_the_command_ends_when_mlflow_has_the_run(
    process: Command, command: Command, save: Save, workspace: Workspace, empty_database: Path
) -> None:
    name = save(pipeline(box("a", "Make")))
    shutil.copy(empty_database, workspace.mlflow_database)
    said = process("run", name, "--json", env={"VOXELFLOW_TRACKING": ""}).done()
    link = said.events[-1]["mlflow"]
    assert link["sent"] is True
    assert link["location"].startswith("sqlite:///")
    assert f"MLflow: run {link['run_id']} in {link['location']}" in command("runs", "show").out
    again = process("run", name, env={"VOXELFLOW_TRACKING": ""})
    assert "1 up to date" in again.out
    assert "sending to MLflow" not in again.out


class Terminal:
    """The command on a terminal of its own, 24 lines of 80."""

    def __init__(self, *arguments: str) -> None:
        self.drawn = b""
        self._handle, inner = pty.openpty()
        environment = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "COLUMNS", "LINES")}
        self.process = subprocess.Popen(
            [*PROGRAM, *arguments], stdin=inner, stdout=inner, stderr=inner, start_new_session=True,
            env={**environment, "TERM": "xterm-256color", "COLUMNS": "80", "LINES": "24"},
            # As a shell starts it, even when these tests run under nohup.
            preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),
        )  # fmt: skip
        os.close(inner)

    def until(self, text: bytes) -> None:
        def drawn() -> bool:
            assert text in self.drawn or self._read(), self.drawn
            return text in self.drawn

        wait_until(drawn, details=lambda: repr(self.drawn), pause_s=0.0)  # it waits while it reads

    def end(self) -> int:
        """Read to the end; gives the exit status."""
        while self._read():
            pass
        os.close(self._handle)
        return self.process.wait(WAIT_S)

    def _read(self) -> bool:
        ready, _, _ = select.select([self._handle], [], [], WAIT_S)
        try:
            data = os.read(self._handle, 65536) if ready else b""
        except OSError:  # the other end is closed
            return False
        self.drawn += data
        return bool(data)

    @property
    def text(self) -> str:
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.drawn.decode())


def test_on_a_terminal_progress_is_drawn_and_the_screen_left_in_order(save: Save, probe_gate: Path) -> None:
    slow = box("a", "Make", text="slow", steps=20, step_s=0.05)
    terminal = Terminal("run", save(pipeline(slow, box("b", "Make", text="b"))))
    terminal.until(b" s left")
    probe_gate.touch()
    assert terminal.end() == 0
    assert re.search(r"\d+/20 steps, [\d.]+ steps/s, [\d.]+ s left", terminal.text)
    last = terminal.text.rsplit("\x1b", 1)[-1].splitlines()
    assert re.fullmatch(r"done in [\d.]+ s: 2 ran", last[-1])
    assert re.match(r"✓ a +steps 20 +[\d.]+ s", last[-3])
    assert terminal.drawn.count(b"\x1b[?25h") >= terminal.drawn.count(b"\x1b[?25l") > 0, "the cursor is shown again"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_and_a_scheduler_s_sigterm_cancel_and_wait(number: int, save: Save, store: RunStore) -> None:
    terminal = Terminal("run", save(pipeline(_slow("a"))))
    terminal.until(b"/1,000 steps")
    os.kill(terminal.process.pid, number)
    assert terminal.end() == 130
    assert "cancelling; Ctrl-C again leaves the run to itself" in terminal.text
    assert "1 cancelled" in terminal.text
    assert store.runs(1)[0].state == "cancelled"


def test_ctrl_c_twice_leaves_the_run_to_itself(save: Save, store: RunStore, wait: Wait) -> None:
    terminal = Terminal("run", save(pipeline(box("a", "Fail", how="hang", marker="hung"))))
    wait(lambda _: Path("hung").exists())
    os.kill(terminal.process.pid, signal.SIGINT)
    terminal.until(b"cancelling")
    assert store.runs(1)[0].active
    os.kill(terminal.process.pid, signal.SIGINT)
    assert terminal.end() == 130
    assert "left the run to itself" in terminal.text
    left = store.runs(1)[0]
    assert (left.active, left.cancel) == (True, True)


def test_a_closed_terminal_leaves_the_run_running(save: Save, store: RunStore, wait: Wait) -> None:
    terminal = Terminal("run", save(pipeline(_slow("a"))))
    terminal.until(b"/1,000 steps")
    os.kill(terminal.process.pid, signal.SIGHUP)
    assert terminal.end() == -signal.SIGHUP
    left = store.runs(1)[0]
    before = store.tasks(left.run_id)[0].progress
    after = wait(lambda run: (now := store.tasks(run.run_id)[0].progress) is not None and now.done > before.done)
    assert after.active
    assert not after.cancel

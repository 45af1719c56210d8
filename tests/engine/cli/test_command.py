"""The command itself: help, what errors become, exit statuses, and what it does not import."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from building import box, pipeline
from command_line import NO_WORK, Command, Save
from waiting import WAIT_S

from engine.catalog import Catalog, build_catalog
from engine.cgroups import memory
from engine.cli import main
from engine.cli.command import VERBS
from engine.run.worker_process import PROGRAM
from engine.workspace import Workspace, open_workspace

HEAVY = (
    "numpy", "pyarrow", "pandas", "tensorflow", "keras", "pyspark", "mlflow", "optuna", "deltalake", "scipy",
    "matplotlib", "streamlit", "uvicorn", "ui",
)  # fmt: skip


def test_the_help_names_all_there_is(command: Command) -> None:
    said = command("--help").done()
    for word in (*VERBS, "130  cancelled", "VOXELFLOW_TRACKING"):
        assert word in said.out


class _Studio:
    """Notes with what it was started."""

    def __init__(self) -> None:
        self.started: list[tuple[Path, dict[str, object]]] = []

    def __call__(self, workspace: Workspace, **options: object) -> int:
        self.started.append((workspace.root, options))
        return 7


_USUAL = {"address": "127.0.0.1", "port": None, "open_browser": True, "traceback": False}


@pytest.mark.parametrize("arguments", [[], ["studio"]])
def test_without_a_verb_the_command_opens_the_app(arguments: list[str], home: Path) -> None:
    studio = _Studio()
    assert main(_broken, studio, NO_WORK, arguments) == 7
    assert studio.started == [(home / "workspace", _USUAL)]


def test_the_app_is_started_with_the_given_options(home: Path) -> None:
    studio = _Studio()
    given = ["--traceback", "studio", "--workspace", "w", "--port", "0", "--address", "::1", "--no-browser"]
    assert main(_broken, studio, NO_WORK, given) == 7
    options = {"address": "::1", "port": 0, "open_browser": False, "traceback": True}
    assert studio.started == [(home / "w", options)]


def test_an_unusable_workspace_is_reported_before_the_app_starts(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "file").touch()
    assert main(_broken, _Studio(), NO_WORK, ["studio", "--workspace", "file/w"]) == 2
    assert capsys.readouterr().err.startswith(f"error: the workspace {home}/file/w cannot be used: Not a directory")


@pytest.mark.parametrize("verb", [*VERBS, "runs show", "runs resume"])
def test_every_verb_has_help(verb: str, command: Command) -> None:
    said = command(*verb.split(), "--help").done()
    assert said.out.startswith(f"Usage: voxelflow {verb} ")


def test_the_version(command: Command) -> None:
    assert command("--version").out.startswith("voxelflow 0.")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["frob"], "No such command 'frob'"),
        (["rnu"], "No such command 'rnu'. Did you mean run? `voxelflow --help` shows how."),
        (["Probes"], "No such command 'Probes'. Did you mean probe?"),
        (["run", "quikstart"], "there is no pipeline quikstart. Did you mean quickstart? Give a file, or one of:"),
        (["run", "frobnicate"], "there is no pipeline frobnicate. Give a file, or one of:"),
        (["new", "a", "--template", "quikstart"], "no template quikstart. Did you mean quickstart? Choose one of:"),
        (["run", "quickstart", "--profile", "lokal"], "no compute profile lokal. Did you mean local? Choose one of:"),
        (["run"], "Missing argument"),
        (["run", "x", "--what"], "No such option"),
        (["runs", "frob"], "No such command 'frob'"),
        (["clean", "--keep", "much"], "is not a size"),
        (["runs", "list"], "there is no workspace at"),
        (["run", "missing.json"], "missing.json cannot be read"),
        (["nodes", "Frob"], "there is no node type Frob"),
        (["new", "a/b"], "cannot be a pipeline's name"),
    ],
)
def test_an_error_is_one_line_and_status_2(arguments: list[str], text: str, command: Command) -> None:
    said = command(*arguments).fails()
    assert said.out == ""
    assert said.err.startswith("error: ")
    assert said.err.count("\n") == 1
    assert text in said.err


def test_with_json_errors_are_json_too(command: Command) -> None:
    said = command("run", "missing.json", "--json").fails()
    assert said.err.startswith("error: ")
    event = said.json
    assert (event["event"], event["code"]) == ("error", "pipeline")
    assert event["hint"]
    assert command("run", "--json").json["code"] == "usage"


def test_failed_checks_are_reported_one_a_line(command: Command, save: Save) -> None:
    name = save(pipeline(box("a", "Join"), box("b", "Make", steps=-1), box("c", "Maek"), wires="a.out>b.nowhere"))
    said = command("run", name)
    lines = said.err.splitlines()
    assert said.status == 2
    assert [line.split()[1] for line in lines[:-2]] == ["VF106", "VF103", "VF203", "VF101"]
    assert lines[-2] == "error: 4 problems to fix before this pipeline can run"
    assert lines[-1] == "`voxelflow explain VF106` says more."
    output = command("plan", name, "--json").json
    assert output["code"] == "checks"
    assert [d["code"] for d in output["diagnostics"]] == ["VF106", "VF103", "VF203", "VF101"]


def test_what_people_typed_cannot_drive_the_terminal(command: Command) -> None:
    said = command("run", "\x1b]0;gotcha\x07.json")
    assert "\x1b" not in said.err + said.out
    assert "\\x1b]0;gotcha" in said.err
    assert "[bold]x[/bold]" in command("run", "[bold]x[/bold]").err


def _broken(_: object) -> Catalog:
    raise RuntimeError("out of\ncoffee")


def test_the_unexpected_is_one_line_that_says_where_to_look(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(_broken, _Studio(), NO_WORK, ["nodes"]) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert said.startswith("error: RuntimeError: out of coffee (VOXELFLOW_TRACEBACK=1")
    assert main(_broken, _Studio(), NO_WORK, ["--traceback", "nodes"]) == 1
    assert "in _broken" in capsys.readouterr().err
    monkeypatch.setenv("VOXELFLOW_TRACEBACK", "1")
    assert main(_broken, _Studio(), NO_WORK, ["nodes"]) == 1
    assert "in _broken" in capsys.readouterr().err


def test_ctrl_c_before_a_run_has_begun_is_quiet(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(_: object) -> Catalog:
        raise KeyboardInterrupt

    assert main(interrupted, _Studio(), NO_WORK, ["nodes"]) == 130
    assert capsys.readouterr().err == "\ninterrupted\n"


@pytest.mark.slow
def test_a_reader_that_closes_the_pipe_is_no_error(home: Path) -> None:
    with subprocess.Popen([*PROGRAM, "nodes", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(WAIT_S) == 141


@pytest.mark.slow
def test_hidden_verbs_give_the_reason_in_their_last_line(home: Path, workspace: Workspace) -> None:
    done = subprocess.run(
        [*PROGRAM, "_supervise", str(workspace.root), "no-such-run"], capture_output=True, text=True, timeout=WAIT_S
    )
    assert done.returncode != 0
    assert done.stderr.strip().splitlines()[-1]
    assert subprocess.run([*PROGRAM, "_worker"], capture_output=True, timeout=WAIT_S).returncode == 2


@pytest.mark.slow
def test_nothing_heavy_is_imported(save: Save, home: Path) -> None:
    """By any of these commands, one after the other in one process."""
    (home / "files").mkdir()
    save(pipeline(box("n", "Count", folder="${data}"), box("m", "Make"), data=None))
    program = (
        "import contextlib, io, json, sys\n"
        "import voxelflow\n"
        "for arguments in json.loads(sys.argv[1]):\n"
        "    sys.argv = ['voxelflow', *arguments]\n"
        "    with contextlib.redirect_stdout(io.StringIO()):\n"
        "        try:\n"
        "            status = voxelflow.main()\n"
        "        except SystemExit as end:\n"
        "            status = end.code\n"
        "    print(json.dumps([status or 0, sorted(m for m in sys.modules if '.' not in m)]))\n"
    )
    commands = [
        ["--help"],
        ["validate", "test.json", "--set", "data=files"],
        ["nodes"],
        ["explain"],
        ["explain", "VF503"],
    ]
    done = subprocess.run(
        [sys.executable, "-P", "-c", program, json.dumps(commands)], capture_output=True, text=True, timeout=WAIT_S
    )
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [status for status, _ in found] == [0] * len(commands), done.stderr
    for command, (_, imported) in zip(commands, found, strict=True):
        assert "engine" in imported
        assert set(imported).isdisjoint(HEAVY), command


@pytest.mark.slow
def test_node_types_are_loaded_without_what_other_processes_need() -> None:
    """Every process of a run loads them: 0.15 s of processor time more in each made a run a sixth slower."""
    program = "import sys, voxelflow; voxelflow.catalog(); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, timeout=WAIT_S)
    others = {
        "psutil",
        "sqlite3",
        "engine.document.plan",
        "engine.environment",
        "engine.storage.objects",
        "engine.store",
    }
    assert others.isdisjoint(done.stdout.split()), done.stderr


@pytest.mark.slow
def test_workers_do_not_import_the_command(home: Path, workspace: Workspace) -> None:
    program = (
        "import sys, os, voxelflow\n"
        "read, write = os.pipe()\n"
        "sys.stdin = open(os.devnull)\n"
        "from engine.run import worker\n"
        "worker.work = lambda fd, catalog: print(sorted(m for m in sys.modules if '.' not in m)) or 0\n"
        f"sys.argv[1:] = ['_worker', {str(workspace.root)!r}, str(write)]\n"
        "voxelflow.main()\n"
    )
    done = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, timeout=WAIT_S)
    imported = json.loads(done.stdout.replace("'", '"'))
    assert "pydantic" in imported
    assert {"click", "rich"}.isdisjoint(imported)


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["runs", "profiles", "prices"])
def test_a_list_is_meant_where_no_command_is_named(
    command: Command, home: Path, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With its options: `voxelflow runs --workspace X` was refused, `voxelflow runs list --workspace X` was not."""
    # The profile `local` has a share of what is free, which differs between two commands.
    free = memory()
    monkeypatch.setattr("engine.profiles.find.memory", lambda: free)
    for name in ("workspace", "other"):
        open_workspace(home / name)
    for options in ([], ["--json"], ["--workspace", "other"], ["--workspace", "other", "--json"]):
        assert command(verb, *options) == command(verb, "list", *options)
    assert command(verb, "--workspace", "other").done()
    assert "Commands:" in command(verb, "--help").done().out
    command(verb, "--nonsense").fails("No such option")


@pytest.mark.parametrize("value", ["nan", "inf"])
@pytest.mark.parametrize(
    "asked",
    [
        ["advise", "quickstart", "--within"],
        ["advise", "quickstart", "--latency-ms"],
        ["bench", "--price"],
        ["probe", "--file-kb"],
        ["run", "quickstart", "--stop-at-cost"],
    ],
    ids=" ".join,
)
def test_what_is_no_finite_number_is_refused(command: Command, asked: list[str], value: str) -> None:
    command(*asked, value).fails(asked[-1], f"'{value}' is no finite number")


def test_an_empty_folder_is_no_workspace(command: Command, home: Path) -> None:
    command("profiles", "new", "mine", "--workspace", "").fails("Invalid value for '--workspace': it is empty")
    assert list(home.iterdir()) == []


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="the system has no /dev/full")
def test_output_that_cannot_be_written_is_one_error(
    home: Path, workspace: Workspace, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with Path("/dev/full").open("w", buffering=1) as full, monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", full)
        status = main(lambda _: build_catalog(()), _Studio(), NO_WORK, ["runs", "list", "--json"])
        with suppress(OSError):
            full.close()
    assert status == 1
    said = capsys.readouterr().err
    assert said.startswith("error: no space left on a disk that was written to. ")
    assert said.count("\n") == 1

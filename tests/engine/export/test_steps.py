"""The steps of an exported file follow the rules of a run in a workspace: what is gone on from, used again, refused."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any

import pytest
from waiting import WAIT_S

from engine.catalog import build_catalog, user_module
from engine.declare.context import TaskContext
from engine.declare.datasets import Report
from engine.declare.node import node
from engine.declare.parameters import Extendable, PathIn, Secret
from engine.errors import DataError, DiskFull, ExecutionError, FileError, UsageError
from engine.export.steps import Steps, load_node, start
from engine.storage.process_lock import ProcessLock
from engine.workspace import Workspace, trust

SEEN: list[TaskContext] = []
CHANGED: list[str] = []
"""Reports whose node says that they cannot be changed further."""


@node("Listed", version=1, category="Tests")
def listed(
    *, folder: Annotated[str, PathIn("folder", "*.txt")], table: Annotated[str, PathIn("file")] = "", ctx: TaskContext
) -> Report:
    """Count the files of a folder."""
    SEEN.append(ctx)
    path = ctx.out / "names.txt"
    path.write_text(str(sorted(p.name for p in Path(folder).iterdir())))
    (ctx.shared / "grown").touch()
    return Report(uri=str(path))


@node("Longer", version=1, category="Tests")
def longer(*, epochs: Annotated[int, Extendable()] = 1, ctx: TaskContext) -> Report:
    """Go on from a shorter one."""
    SEEN.append(ctx)
    path = ctx.out / "epochs.txt"
    path.write_text(str(epochs))
    return Report(uri=str(path))


@longer.verify
def _verify(outputs: Any, for_change: bool) -> str:
    return "somebody wrote to it" if for_change and outputs["out"].uri in CHANGED else ""


@node("Fails", version=1, category="Tests")
def fails(*, kind: str, ctx: TaskContext) -> Report:
    """Fail as the system does."""
    if kind == "full":
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(ctx.out / "big.bin"))
    raise ValueError(kind)


@node("Joined", version=1, category="Tests")
def joined(one: Report, other: Report | None = None, *, ctx: TaskContext) -> Report:
    """Join reports."""
    SEEN.append(ctx)
    path = ctx.out / "joined.txt"
    path.write_text("".join(Path(r.uri).read_text() + "\n" for r in (one, other) if r))
    return Report(uri=str(path))


@node("Keyed", version=1, category="Tests")
def keyed(*, token: Annotated[str, Secret()] = "", ctx: TaskContext) -> Report:
    """Needs a key."""
    path = ctx.out / "key.txt"
    path.write_text(os.environ.get(token, "none"))
    return Report(uri=str(path))


@node("Loses", version=1, category="Probes", anywhere="a probe")
def loses(*, ctx: TaskContext) -> Report:
    """Loses Spark."""
    raise AssertionError("not in these tests")


@loses.on("spark")
def _(*, ctx: TaskContext) -> Report:
    assert ctx.spark is not None
    raise ExecutionError("Spark lost the process that did the work", hint="Try again.")


class Folder:
    """An exported file's folder. Each call of `run` is one run of the file with a single step."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.said: list[str] = []

    def file(self, only: str | None, texts: Path, **params: Any) -> None:
        """A file of three steps, run for all of them or for one."""
        steps = Steps(self.root, only=only, say=self.said.append)
        try:
            count = steps.embedded("count", listed)(folder=str(texts))
            train = steps.embedded("train", longer)(**params)
            both = steps.embedded("both", joined)(one=count, other=train)
            steps.embedded("last", joined)(one=both)
            steps.check_done()
        finally:
            steps.close()

    def run(self, name: str, node_type: Any, **params: Any) -> Any:
        steps = Steps(self.root, say=self.said.append)
        try:
            return steps.embedded(name, node_type)(**params)
        finally:
            steps.close()


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    SEEN.clear()
    CHANGED.clear()
    return Folder(tmp_path / "out")


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    made = tmp_path / "texts"
    made.mkdir()
    (made / "a.txt").write_text("a")
    return made


def test_a_step_with_another_name_goes_on_where_it_was(folder: Folder, texts: Path) -> None:
    folder.run("count", listed, folder=str(texts))
    (texts / "b.txt").write_text("b")
    again = folder.run("renamed", listed, folder=str(texts))
    before, now = SEEN
    assert now.previous["out"].uri == str(before.out / "names.txt")
    assert now.shared == before.shared
    assert Path(again.uri).is_relative_to(before.shared)
    assert folder.run("renamed", listed, folder=str(texts)) == again
    assert len(SEEN) == 2


def test_a_secret_that_is_not_set_is_refused(
    folder: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the step that needs it, as before a run in a workspace; by an exported file before its first step."""

    def main(steps: Steps) -> None:
        steps.embedded("a", keyed)()

    with pytest.raises(UsageError, match="the environment variable MY_TOKEN is not set") as caught:
        folder.run("a", keyed, token="MY_TOKEN")
    assert (caught.value.node, caught.value.parameter) == ("a", "token")
    monkeypatch.setattr("sys.argv", ["file.py", "--out", str(tmp_path / "file")])
    for value in (None, ""):
        if value is not None:
            monkeypatch.setenv("MY_TOKEN", value)
        with pytest.raises(SystemExit) as ended:
            start(main, tmp_path, variables=[None, "MY_TOKEN"])
        assert ended.value.code == 2
        assert capsys.readouterr() == (
            "",
            "error: the environment variable MY_TOKEN is not set. Set it, then run again.\n",
        )
    monkeypatch.setenv("MY_TOKEN", "hidden")
    assert Path(folder.run("a", keyed, token="MY_TOKEN").uri).read_text() == "hidden"
    start(main, tmp_path, variables=[None, "MY_TOKEN"])


@pytest.mark.parametrize("address", ["sqlite:////data/mlflow.db", "postgresql://me:secret@host/mlflow"])
def test_a_database_in_the_place_of_a_server_is_refused_before_the_first_step(
    address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[Steps] = []
    monkeypatch.setattr("sys.argv", ["file.py"])
    monkeypatch.setenv("MLFLOW_TRACKING_URI", address)
    with pytest.raises(SystemExit) as ended:
        start(ran.append, tmp_path, variables=["MLFLOW_TRACKING_URI"])
    assert (ended.value.code, ran) == (2, [])
    said = capsys.readouterr().err
    assert "is no MLflow server" in said
    assert "secret" not in said
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://localhost:1")
    start(ran.append, tmp_path, variables=["MLFLOW_TRACKING_URI"])
    assert len(ran) == 1


def test_damage_is_noticed_under_whatever_name_the_step_has(folder: Folder, texts: Path) -> None:
    made = folder.run("count", listed, folder=str(texts))
    Path(made.uri).write_text("other")
    folder.run("renamed", listed, folder=str(texts))
    assert len(SEEN) == 2, "the result has another size than it had"
    assert any("made again: " in line and "names.txt" in line for line in folder.said)


def test_nothing_is_gone_on_from_that_is_gone(folder: Folder, texts: Path) -> None:
    folder.run("count", listed, folder=str(texts))
    shutil.rmtree(SEEN[0].shared)
    (texts / "b.txt").write_text("b")
    folder.run("count", listed, folder=str(texts))
    assert SEEN[1].previous == {}


def test_a_result_whose_table_moved_on_can_still_be_extended(folder: Folder) -> None:
    """As in a run: the longer training only reads the shorter one's."""
    first = folder.run("train", longer, epochs=1)
    second = folder.run("train", longer, epochs=2)
    assert SEEN[1].extends["out"].uri == first.uri
    CHANGED.append(second.uri)
    folder.run("train", longer, epochs=3)
    assert SEEN[2].extends["out"].uri == second.uri
    Path(second.uri).unlink()
    folder.run("train", longer, epochs=4)
    assert SEEN[3].extends["out"].uri == str(SEEN[2].out / "epochs.txt")
    (SEEN[2].out / "epochs.txt").write_text("")
    (SEEN[3].out / "epochs.txt").write_text("")
    folder.run("train", longer, epochs=5)
    assert SEEN[4].extends["out"].uri == first.uri


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"folder": "gone"}, "gone does not exist"),
        ({"folder": "texts/a.txt"}, "texts/a.txt is a file, not a folder"),
        ({"folder": "texts", "table": "texts"}, "texts is a folder, not a file"),
        ({"folder": "texts", "table": "s3://bucket/labels.csv"}, "must lie on a local disk"),
        ({"folder": "empty"}, "nothing in .*empty matches \\*.txt"),
    ],
)
def test_paths_are_refused_as_before_a_run(
    folder: Folder, texts: Path, monkeypatch: pytest.MonkeyPatch, params: dict[str, str], message: str
) -> None:
    monkeypatch.chdir(texts.parent)
    (texts.parent / "empty").mkdir()
    with pytest.raises(DataError, match=message) as caught:
        folder.run("count", listed, **params)
    assert caught.value.node == "count"
    assert caught.value.parameter in params
    assert "top of the file" in caught.value.hint
    assert SEEN == []


def test_errors_of_the_system_are_sentences(folder: Folder) -> None:
    with pytest.raises(DiskFull) as full:
        folder.run("make", fails, kind="full")
    assert full.value.node == "make"
    with pytest.raises(ValueError, match="a bug"):  # with its traceback: nobody else writes it down
        folder.run("make", fails, kind="a bug")


def test_a_folder_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "out" / "done.json").mkdir(parents=True)
    for place, named in (("file", "file"), ("file/out", "file/out"), ("out", "out/done.json")):
        with pytest.raises(FileError, match=f"{tmp_path}/{named}: "):
            Steps(tmp_path / place)


def test_a_session_whose_java_has_gone_does_not_hide_the_step_s_own_error(tmp_path: Path) -> None:
    def stop() -> None:
        raise ConnectionRefusedError("no Java answers")

    session: Any = SimpleNamespace(stop=stop)
    steps = Steps(tmp_path / "out", open_spark=lambda _: session, say=lambda _: None)
    with pytest.raises(ExecutionError, match="Spark lost the process"), contextlib.closing(steps):
        steps.spark("lose", loses)()
    Steps(tmp_path / "out").close()  # its lock is free


def test_a_list_of_what_was_made_by_an_earlier_version_is_read(folder: Folder, texts: Path) -> None:
    """It names no folders: they follow from the step and its lineage."""
    made = folder.run("count", listed, folder=str(texts))
    path = folder.root / "done.json"
    entries = json.loads(path.read_text())
    keys = {"step", "fingerprint", "base", "lineage", "params", "outputs"}
    path.write_text(json.dumps([{k: v for k, v in entry.items() if k in keys} for entry in entries]))
    assert folder.run("count", listed, folder=str(texts)) == made
    path.write_text("[{}]")
    with pytest.raises(UsageError, match="is damaged"):
        folder.run("count", listed, folder=str(texts))


OWN = """
from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from voxelflow import Range, Report, TaskContext, node


@dataclass(frozen=True)
class Greeting:
    \"\"\"How to greet.

    Attributes:
        words: what to say.
    \"\"\"

    words: str = "hello"
    times: Annotated[int, Range(1, 9)] = 2
    names: tuple[str, ...] = ()


@node("Greet", version=1, category="Mine")
def greet(*, greeting: Greeting, ctx: TaskContext) -> Report:
    \"\"\"Greet.\"\"\"
    path = ctx.out / "greeting.txt"
    path.write_text(repr(greeting))
    return Report(uri=str(path))
"""


def test_a_persons_own_node_may_have_its_parameters_in_a_class(folder: Folder, workspace: Workspace) -> None:
    file = workspace.my_nodes / "greet.py"
    file.write_text(OWN)
    trust(workspace)
    catalog = build_catalog((), workspace)
    assert catalog.problems == []
    greet = catalog.find("Greet")
    assert [(p.name, p.help) for p in greet.parameters] == [("words", "what to say."), ("times", ""), ("names", "")]
    made = folder.run("greet", load_node(file, "Greet"), times=3, names=["a", "b"])
    assert Path(made.uri).read_text() == "Greeting(words='hello', times=3, names=('a', 'b'))"
    with pytest.raises(UsageError, match="times must be at least 1, not 0"):
        folder.run("greet", load_node(file, "Greet"), times=0)


def test_an_own_node_runs_as_its_file_is_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when two versions of equal length were saved within one second: each time a program loads it anew."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    file = tmp_path / "greet.py"
    shown = []
    for help_text in ("Greet.", "Howdy."):
        file.write_text(OWN.replace("Greet.", help_text))
        os.utime(file, (1_700_000_000, 1_700_000_000))
        monkeypatch.delitem(sys.modules, user_module(file), raising=False)
        shown.append(load_node(file, "Greet").summary)
    assert shown == ["Greet.", "Howdy."]


def test_only_versions_of_tables_are_protected(folder: Folder) -> None:
    folder.run("train", longer, epochs=1)
    folder.run("train", longer, epochs=2)
    assert SEEN[1].protected == {}


def test_one_step_at_a_time_makes_what_all_together_make(folder: Folder, texts: Path, tmp_path: Path) -> None:
    """What a scheduler's tasks do. Files that come meanwhile are for the next time: each step sees the same ones."""
    for step in ("count", "train", "both", "last"):
        folder.file(step, texts)
        (texts / f"after-{step}.txt").touch()
    assert [c.node_id for c in SEEN] == ["count", "train", "both", "last"]
    assert (SEEN[-1].out / "joined.txt").read_text() == "['a.txt']\n1\n\n"
    folder.file("both", texts)
    assert len(SEEN) == 4
    assert folder.said[-1].startswith("both: there already: ")
    # All together on the same files: every step but the one that reads them stands.
    for name in ("count", "train", "both", "last"):
        (texts / f"after-{name}.txt").unlink()
    folder.file(None, texts)
    assert len(SEEN) == 4


def test_a_step_takes_what_fits_and_nothing_older(folder: Folder, texts: Path) -> None:
    folder.file(None, texts)
    (texts / "b.txt").touch()
    folder.file("count", texts)
    # What `both` made belongs to the earlier count.
    with pytest.raises(UsageError, match="the input one has not been made") as caught:
        folder.file("last", texts)
    assert caught.value.node == "last"
    assert caught.value.hint == "Run the step both first: --step both."
    with pytest.raises(UsageError, match="the input other has not been made"):
        folder.file("both", texts, epochs=2)
    folder.file("both", texts)
    folder.file("last", texts)
    assert "b.txt" in (SEEN[-1].out / "joined.txt").read_text()


def test_a_step_refuses_what_is_damaged_or_missing(folder: Folder, texts: Path) -> None:
    with pytest.raises(UsageError, match="the input one has not been made"):
        folder.file("both", texts)
    with pytest.raises(UsageError, match="there is no step bth") as caught:
        folder.file("bth", texts)
    assert caught.value.hint == "There are: count, train, both, last."
    folder.file(None, texts)
    (SEEN[0].out / "names.txt").unlink()
    with pytest.raises(UsageError, match=r"the input one must be made again: .*names.txt is gone"):
        folder.file("both", texts)


@pytest.mark.slow
def test_a_step_waits_for_another_process_in_the_folder(folder: Folder, texts: Path) -> None:
    lock = ProcessLock(folder.root / ".lock")
    assert lock.acquire()
    waits = threading.Event()
    folder.said = _Heard(waits)
    task = threading.Thread(target=folder.file, args=("count", texts))
    task.start()
    assert waits.wait(WAIT_S)
    assert SEEN == []
    lock.release()
    task.join(WAIT_S)
    assert len(SEEN) == 1


class _Heard(list[str]):
    """What is said; sets an event when a step says that it waits."""

    def __init__(self, waits: threading.Event) -> None:
        super().__init__()
        self._waits = waits

    def append(self, text: str) -> None:
        super().append(text)
        if "waiting for another process" in text:
            self._waits.set()

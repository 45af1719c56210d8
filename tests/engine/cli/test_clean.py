"""`voxelflow clean`: what it chooses, what it shows, and that only --apply frees."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import Command

from engine.cli.clean import AGE, SIZE, choose
from engine.run.clean import Place
from engine.store.runs import RunStore
from engine.workspace import Workspace

NOW = 1_000_000.0
DAY = 86_400.0


def _place(name: str, *, days: float, size: int, in_use: bool = False, pipeline: str = "p", node: str = "n") -> Place:
    return Place(
        path=Path("/data/T") / name, node_type="T", node=node, pipeline=pipeline, bytes=size, created=0,
        used=NOW - days * DAY, results=1, in_use=in_use,
    )  # fmt: skip


PLACES = [
    _place("new", days=1, size=100),
    _place("held", days=90, size=100, in_use=True),
    _place("old", days=40, size=100, node="m"),
    _place("older", days=50, size=100, pipeline="q"),
]


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({}, ["older", "old", "new"]),
        ({"older_than": 30 * DAY}, ["older", "old"]),
        ({"older_than": 30 * DAY, "pipeline": "p"}, ["old"]),
        ({"node": "m"}, ["old"]),
        ({"pipeline": "none"}, []),
        ({"keep": 400}, []),
        ({"keep": 399}, ["older"]),
        ({"keep": 200}, ["older", "old"]),
        ({"keep": 0}, ["older", "old", "new"]),
        ({"keep": 0, "older_than": 45 * DAY}, ["older"]),
    ],
)
def test_what_is_chosen(options: dict[str, float | str], names: list[str]) -> None:
    assert [p.path.name for p in choose(PLACES, now=NOW, **options)] == names  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "seconds"), [("30d", 30 * DAY), ("12h", 43_200), ("1.5 h", 5400), ("2w", 14 * DAY), ("0s", 0)]
)
def test_ages(text: str, seconds: float) -> None:
    assert AGE.convert(text, None, None) == seconds


@pytest.mark.parametrize(
    ("text", "count"), [("10GB", 10**10), ("10 gb", 10**10), ("1GiB", 2**30), ("0", 0), ("1.5TB", 1.5e12)]
)
def test_sizes(text: str, count: float) -> None:
    assert SIZE.convert(text, None, None) == count


@pytest.fixture
def data(home: Path, workspace: Workspace, store: RunStore) -> list[Path]:
    out = []
    for name in ("one", "two"):
        folder = workspace.data / "Make" / name
        folder.mkdir(parents=True)
        (folder / "file").write_bytes(bytes(100_000))
        out.append(folder)
    return out


def test_without_apply_nothing_is_freed(command: Command, data: list[Path]) -> None:
    shown = command("clean").done()
    assert "would be freed" not in shown.out
    assert "data/Make/one" in shown.out
    chosen = command("clean", "--all")
    assert chosen.out.count("would be freed") == 3
    assert all(p.exists() for p in data)


def test_apply_frees_what_was_chosen(command: Command, data: list[Path]) -> None:
    command("clean", "--apply").fails()
    assert all(p.exists() for p in data)
    output = command("clean", "--keep", "150kB", "--apply", "--json").done()
    assert output.json["freed"] == [p["path"] for p in output.json["places"] if p["chosen"]]
    assert output.json["freed_bytes"] >= 100_000
    assert sum(p.exists() for p in data) == 1
    assert command("clean", "--all", "--apply").out.startswith("freed ")
    assert command("clean").out == "there is no data yet\n"


def test_what_a_run_holds_stays(command: Command, data: list[Path], workspace: Workspace) -> None:
    from engine.storage.process_lock import ProcessLock
    from engine.workspace import place_lock

    lock = ProcessLock(place_lock(workspace, data[0]))
    assert lock.acquire(shared=True)
    try:
        shown = command("clean", "--all")
        assert shown.out.count("in use") == 1
        command("clean", "--all", "--apply").done()
    finally:
        lock.release()
    assert [p.exists() for p in data] == [True, False]

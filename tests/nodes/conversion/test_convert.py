"""Growing, changing and killed conversions: what stands is kept, and no row is lost or doubled."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import forked_programs
import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from laws import examples
from npy_folders import (
    bytes_of,
    contents,
    convert,
    make_volumes,
    numbered,
    parts_of,
    reasons,
    rows,
    sources_of,
    take,
    write_labels,
)

from engine.declare.datasets import VolumeParquet

SHAPE = (25, 25, 10, 4)
PARAMS: dict[str, Any] = {"target_file_mb": 1, "row_group_rows": 4}
"""1 MB hold 10 volumes of 100 kB, so that small sets make several parts."""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The folder of the volumes, still empty."""
    folder = tmp_path / "in"
    folder.mkdir()
    return folder


def files_of(dataset: VolumeParquet) -> dict[str, tuple[int, int]]:
    """Inode and modification time of each part."""
    stats = {p.path: (Path(dataset.uri) / p.path).stat() for p in parts_of(dataset).parts}
    return {path: (stat.st_ino, stat.st_mtime_ns) for path, stat in stats.items()}


@pytest.mark.slow
def test_a_folder_that_gained_20_files_costs_20_files(root: Path, tmp_path: Path) -> None:
    messages: list[str] = []
    volumes = make_volumes(root, numbered(55), SHAPE)
    first = convert(root, tmp_path / "work", **PARAMS)
    # Among the old names, before them and behind them.
    volumes |= make_volumes(root, ["a.npy", "v0010b.npy", *numbered(18, start=100)], SHAPE, seed=1)
    second = convert(root, tmp_path / "work", previous=first, messages=messages, **PARAMS)
    assert "; 20 files converted now" in messages[-1]
    assert contents(second) == bytes_of(volumes)
    before, after = files_of(first), files_of(second)
    assert before.items() < after.items()
    assert len(after) - len(before) == 2
    assert contents(first).keys() == set(numbered(55)), "the older result can still be read"


def test_a_removed_and_a_changed_file_redo_only_their_parts(root: Path, tmp_path: Path) -> None:
    messages: list[str] = []
    volumes = make_volumes(root, numbered(50), SHAPE)
    first = convert(root, tmp_path / "work", **PARAMS)
    del volumes["v0003.npy"]
    (root / "v0003.npy").unlink()
    volumes |= make_volumes(root, ["v0025.npy"], SHAPE, seed=1)
    second = convert(root, tmp_path / "work", previous=first, messages=messages, **PARAMS)
    assert "; 19 files converted now" in messages[-1]
    assert contents(second) == bytes_of(volumes)
    assert len(files_of(first).items() & files_of(second).items()) == 3


@pytest.mark.slow
def test_a_changed_label_redoes_its_part_and_a_new_class_all_parts(root: Path, tmp_path: Path) -> None:
    messages: list[str] = []
    make_volumes(root, numbered(30), SHAPE)
    labels = [(name, "salt" if i % 2 else "fault") for i, name in enumerate(numbered(30))]
    write_labels(root / "labels.csv", labels)
    first = convert(root, tmp_path / "work", **PARAMS)
    labels[15] = (labels[15][0], "fault")
    write_labels(root / "labels.csv", labels)
    second = convert(root, tmp_path / "work", previous=first, messages=messages, **PARAMS)
    assert "; 10 files converted now" in messages[-1]
    assert rows(second)["v0015.npy"][0] == 0
    labels[16] = (labels[16][0], "channel")
    write_labels(root / "labels.csv", labels)
    third = convert(root, tmp_path / "work", previous=second, messages=messages, **PARAMS)
    assert "; 30 files converted now" in messages[-1]
    assert {rows(third)[n][0] for n in ("v0016.npy", "v0000.npy", "v0001.npy")} == {0, 1, 2}


def test_a_known_bad_file_is_not_opened_again(root: Path, tmp_path: Path) -> None:
    volumes = make_volumes(root, numbered(12), SHAPE)
    stat = (root / "v0004.npy").stat()
    whole = (root / "v0004.npy").read_bytes()
    (root / "v0004.npy").write_bytes(bytes(len(whole)))
    os.utime(root / "v0004.npy", ns=(stat.st_mtime_ns, stat.st_mtime_ns))
    first = convert(root, tmp_path / "work", max_bad_files=1, **PARAMS)
    assert reasons(first) == {"v0004.npy": "not-npy"}
    # Size and time stay, so it is the very same file as far as a listing can tell.
    (root / "v0004.npy").write_bytes(whole)
    os.utime(root / "v0004.npy", ns=(stat.st_mtime_ns, stat.st_mtime_ns))
    make_volumes(root, ["w.npy"], SHAPE, seed=1)
    second = convert(root, tmp_path / "work", previous=first, max_bad_files=1, **PARAMS)
    assert reasons(second) == reasons(first)
    assert [s["problem"] for s in sources_of(second) if s["reason"]] == [
        s["problem"] for s in sources_of(first) if s["reason"]
    ]
    os.utime(root / "v0004.npy")
    third = convert(root, tmp_path / "work", previous=second, **PARAMS)
    assert contents(third).keys() == volumes.keys() | {"w.npy"}


def test_sources_record_which_file_is_in_which_part(root: Path, tmp_path: Path) -> None:
    make_volumes(root, numbered(25), SHAPE)
    (root / "v0007.npy").write_bytes(b"")
    write_labels(root / "labels.csv", [("v0001", 4)])
    out = convert(root, tmp_path / "work", max_bad_files=1, **PARAMS)
    inside: dict[str, set[str]] = {p.path: set() for p in parts_of(out).parts}
    for source in sources_of(out):
        stat = (root / source["path"]).stat()
        assert (source["size"], source["mtime_ns"]) == (stat.st_size, stat.st_mtime_ns)
        assert (source["part"] is None) == (source["path"] == "v0007.npy")
        assert source["label"] == (4 if source["path"] == "v0001.npy" else None)
        if source["part"] is not None:
            inside[source["part"]].add(source["path"])
    import pyarrow.parquet as pq

    for path, names in inside.items():
        assert set(pq.read_table(Path(out.uri) / path, columns=["id"])["id"].to_pylist()) == names


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["gone", "cut"])
@pytest.mark.parametrize("with_previous", [True, False])
def test_a_damaged_part_is_made_again(root: Path, tmp_path: Path, damage: str, with_previous: bool) -> None:
    messages: list[str] = []
    volumes = make_volumes(root, numbered(30), SHAPE)
    first = convert(root, tmp_path / "work", **PARAMS)
    victim = Path(first.uri) / parts_of(first).parts[1].path
    if damage == "gone":
        victim.unlink()
    else:
        os.truncate(victim, 1000)
    again = convert(root, tmp_path / "work", previous=first if with_previous else None, messages=messages, **PARAMS)
    assert contents(again) == bytes_of(volumes)
    assert "; 10 files converted now" in messages[-1]


def test_a_result_whose_parts_were_damaged_is_no_longer_used(root: Path, tmp_path: Path) -> None:
    make_volumes(root, numbered(30), SHAPE)
    out = convert(root, tmp_path / "work", **PARAMS)
    assert out.check() == ""
    victim = Path(out.uri) / parts_of(out).parts[2].path
    os.truncate(victim, 1000)
    assert "has 1,000 bytes, not " in out.check()
    victim.unlink()
    assert victim.name in out.check()


def test_a_previous_result_of_another_kind_is_not_used(root: Path, tmp_path: Path) -> None:
    volumes = make_volumes(root, numbered(12), SHAPE)
    first = convert(root, tmp_path / "work", **PARAMS)
    other_spec = first.model_copy(update={"spec": None})
    cleaned = first.model_copy(update={"manifest": str(tmp_path / "gone.json")})
    elsewhere = first.model_copy(update={"uri": str(tmp_path / "gone")})
    for previous in (other_spec, cleaned, elsewhere):
        assert contents(convert(root, tmp_path / "work", previous=previous, **PARAMS)) == bytes_of(volumes)


def test_what_a_dead_process_left_half_made_is_removed(root: Path, tmp_path: Path) -> None:
    make_volumes(root, numbered(3), SHAPE)
    convert(root, tmp_path / "work", **PARAMS)
    shared = tmp_path / "work" / "parquet"
    from nodes.conversion.part_store import _host

    dead = shared / f".making-{_host()}-{2**22 + 1}"
    other_machine, old = shared / ".making-0000-1", shared / ".making-0001-1"
    for folder in (dead, other_machine, old):
        folder.mkdir()
        (folder / "half.parquet").write_bytes(b"PAR1")
    os.utime(old, (0, 0))
    convert(root, tmp_path / "work", **PARAMS)
    assert not dead.exists()
    assert not old.exists()
    assert other_machine.exists(), "a writer on another machine may be alive"


# --- kills ------------------------------------------------------------------------------------------

SCRIPT = """
import sys
from pathlib import Path
import npy_folders
files = npy_folders.VolumeFiles.model_validate_json({files!r})
previous = {previous!r}
previous = {{"out": npy_folders.VolumeParquet.model_validate_json(previous)}} if previous else {{}}
ctx = npy_folders.context(Path({base!r}), "parquet", {fingerprint!r}, previous=previous)
sys.stdin.read()
print(npy_folders.numpy_to_parquet(files, **{params!r}, ctx=ctx).model_dump_json())
"""


def start(
    root: Path, base: Path, fingerprint: str, previous: VolumeParquet | None = None, **environment: str
) -> subprocess.Popen[str]:
    """A process that converts `root` once its standard input is closed."""

    script = SCRIPT.format(
        files=take(root, base).model_dump_json(),
        base=str(base),
        fingerprint=fingerprint,
        previous=previous.model_dump_json() if previous else "",
        params=PARAMS,
    )
    return forked_programs.start(script, environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def fingerprint_of(root: Path, base: Path) -> str:

    return Path(take(root, base).manifest).parent.name.ljust(32, "0")


@pytest.mark.slow
@pytest.mark.parametrize(
    "point",
    [
        "parquet:part-written",
        "parquet:part-written#4",
        "parquet:part-renamed",
        "parquet:part-renamed#3",
        "parquet:before-manifest",
        "parquet:after-manifest",
    ],
)
@pytest.mark.parametrize("grown", [False, True])
def test_a_kill_loses_and_doubles_nothing(root: Path, tmp_path: Path, point: str, grown: bool) -> None:
    base = tmp_path / "work"
    volumes = make_volumes(root, numbered(55), SHAPE)
    first = convert(root, base, **PARAMS) if grown else None
    if grown:
        volumes |= make_volumes(root, numbered(45, start=100), SHAPE, seed=1)
    process = start(root, base, fingerprint_of(root, base), first, VOXELFLOW_KILL_AT=point)
    process.communicate("")
    assert process.returncode == -9
    parts = base / "parquet" / "parts"
    there = {p.name: (p.stat().st_ino, p.stat().st_mtime_ns) for p in parts.iterdir()}
    assert bool(there) or point == "parquet:part-written"

    out = convert(root, base, previous=first, **PARAMS)
    assert contents(out) == bytes_of(volumes)
    assert out.count == out.found == len(volumes)
    undisturbed = convert(root, tmp_path / "undisturbed", **PARAMS)
    assert contents(undisturbed) == contents(out)
    # What was finished is not made again, and nothing is to be seen that no manifest lists.
    assert there.items() <= {p.name: (p.stat().st_ino, p.stat().st_mtime_ns) for p in parts.iterdir()}.items()
    assert {p.path for p in parts_of(out).parts} == {p.name for p in parts.iterdir()}
    if not grown:
        assert _names(out) == _names(undisturbed)
    assert not list((base / "parquet").glob(".making-*"))
    assert sorted(p.name for p in Path(out.manifest).parent.iterdir()) == [
        "parts.json",
        "quarantine.csv",
        "sources.arrow",
    ]


def _names(dataset: VolumeParquet) -> dict[str, int]:
    return {p.path: p.bytes for p in parts_of(dataset).parts}


@pytest.mark.slow
def test_two_runs_that_contend_agree(root: Path, tmp_path: Path) -> None:
    base = tmp_path / "work"
    volumes = make_volumes(root, numbered(80), SHAPE)
    processes = [start(root, base, fingerprint) for fingerprint in ("a" * 32, "b" * 32)]
    for process in processes:
        assert process.stdin is not None
        process.stdin.close()
    results: list[VolumeParquet] = []
    for process in processes:
        assert process.stdout is not None
        results.append(VolumeParquet.model_validate_json(process.stdout.read()))
        process.stdout.close()
        assert process.wait() == 0
    assert parts_of(results[0]).parts == parts_of(results[1]).parts
    for result in results:
        assert contents(result) == bytes_of(volumes)
        stats: Mapping[str, tuple[int, int]] = files_of(result)
        assert {p.path: p.mtime_ns for p in parts_of(result).parts} == {k: v[1] for k, v in stats.items()}


# --- any sequence of changes ------------------------------------------------------------------------


class Folder(RuleBasedStateMachine):
    """A folder that changes in any way between conversions, each going on from the one before."""

    def __init__(self) -> None:
        super().__init__()
        import tempfile

        self._temporary = tempfile.TemporaryDirectory()
        self.base = Path(self._temporary.name)
        self.root = self.base / "in"
        self.root.mkdir()
        self.good: dict[str, bytes] = {}
        self.bad: set[str] = set()
        self.labels: dict[str, float] = {}
        self.previous: VolumeParquet | None = None
        self.clock = 10**18

    @initialize()
    def begin(self) -> None:
        self.write(0, good=True)

    @rule(number=st.integers(0, 30), good=st.booleans())
    def write(self, number: int, good: bool) -> None:
        name = f"{number}.npy"
        self.clock += 1
        values = np.full((40, 300), self.clock % 1000, np.float64)
        np.save(self.root / name, values if good else values[:3])
        os.utime(self.root / name, ns=(self.clock, self.clock))
        self.good.pop(name, None)
        self.bad.discard(name)
        if good:
            self.good[name] = values.tobytes()
        else:
            self.bad.add(name)

    @rule(number=st.integers(1, 30))
    def remove(self, number: int) -> None:
        name = f"{number}.npy"
        (self.root / name).unlink(missing_ok=True)
        self.good.pop(name, None)
        self.bad.discard(name)

    @rule(number=st.integers(0, 30), label=st.integers(0, 2))
    def label(self, number: int, label: int) -> None:
        self.labels[f"{number}.npy"] = label
        write_labels(self.root / "labels.csv", list(self.labels.items()))

    @rule(forget=st.booleans())
    def convert(self, forget: bool) -> None:
        if len(self.good) <= len(self.bad):
            return
        previous = None if forget else self.previous
        self.previous = convert(self.root, self.base, previous=previous, max_bad_files=100, target_file_mb=1)
        expected = {name: (self.labels.get(name), data) for name, data in self.good.items()}
        assert rows(self.previous) == expected
        assert reasons(self.previous) == dict.fromkeys(self.bad, "shape")

    @invariant()
    def the_last_result_can_be_read(self) -> None:
        if self.previous is not None:
            assert len(rows(self.previous)) == self.previous.count

    def teardown(self) -> None:
        self._temporary.cleanup()


TestFolder = Folder.TestCase
TestFolder.settings = settings(
    max_examples=examples(15), stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)

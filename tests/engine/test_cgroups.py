"""Control groups as containers and older machines have them, in folders of our own."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import psutil
import pytest

from engine import cgroups
from engine.profiles.find import find_profile
from engine.workspace import Workspace

GB = 10**9
NO_END = 9223372036854771712
"""As version 1 says that there is no limit."""


class Groups:
    """What the kernel would show of this process' groups, on a machine of 8 processors and 64 GB."""

    def __init__(self, folder: Path) -> None:
        self.own, self.mounted = folder / "cgroup", folder / "mounted"

    def show(self, own: str, files: Mapping[str, str]) -> None:
        self.own.write_text(own)
        for name, text in files.items():
            path = self.mounted / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{text}\n")


@pytest.fixture
def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Groups:
    found = Groups(tmp_path)
    monkeypatch.setattr(cgroups, "_OWN", found.own)
    monkeypatch.setattr(cgroups, "_MOUNTED", found.mounted)
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    machine = psutil.virtual_memory()._replace(total=64 * GB, available=50 * GB, used=10 * GB)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: machine)
    return found


WHOLE = cgroups.Memory(64 * GB, 50 * GB, 10 * GB)
IN_A_CONTAINER = {
    "cpu.max": "250000 100000",
    "cpu.stat": "usage_usec 5500000\nuser_usec 1",
    "memory.max": str(4 * GB),
    "memory.current": str(3 * GB),
    "memory.stat": f"anon 1\ninactive_file {GB}",
}
OLDER = {
    "cpu,cpuacct/docker/a/cpu.cfs_quota_us": "50000",
    "cpu,cpuacct/docker/a/cpu.cfs_period_us": "100000",
    "cpu,cpuacct/docker/a/cpuacct.usage": "5500000000",
    "memory/docker/a/memory.limit_in_bytes": str(4 * GB),
    "memory/docker/a/memory.usage_in_bytes": str(3 * GB),
    "memory/docker/a/memory.stat": f"cache 1\ntotal_inactive_file {GB}",
    "memory/memory.limit_in_bytes": str(NO_END),
}


def test_a_container_s_limits_count_rather_than_the_machine_s(groups: Groups) -> None:
    groups.show("0::/\n", IN_A_CONTAINER)
    assert cgroups.processors() == cgroups.Processors(2.5, 5.5)
    assert cgroups.usable_cores() == 3
    assert cgroups.memory() == cgroups.Memory(4 * GB, 2 * GB, 2 * GB)


def test_of_a_group_and_those_around_it_the_tightest_limit_counts(groups: Groups) -> None:
    inner = {f"user.slice/job/{name}": text for name, text in IN_A_CONTAINER.items()}
    outer = {
        "user.slice/cpu.max": "150000 100000", "user.slice/cpu.stat": "usage_usec 7000000",
        "user.slice/memory.max": "max", "cpu.max": "max 100000",
    }  # fmt: skip
    groups.show("0::/user.slice/job\n", inner | outer)
    assert cgroups.processors() == cgroups.Processors(1.5, 7.0)
    assert cgroups.usable_cores() == 2
    assert cgroups.memory().total == 4 * GB


@pytest.mark.parametrize("own", ["7:memory:/docker/a\n3:cpu,cpuacct:/docker/a\n1:name=systemd:/docker/a\n0::/\n"])
@pytest.mark.parametrize("separate", [False, True])
def test_version_1(groups: Groups, own: str, separate: bool) -> None:
    files = dict(OLDER)
    if separate:
        usage = files.pop("cpu,cpuacct/docker/a/cpuacct.usage")
        files = {name.replace("cpu,cpuacct/", "cpu/"): text for name, text in files.items()}
        files["cpuacct/docker/a/cpuacct.usage"] = usage
        own = own.replace("3:cpu,cpuacct:/docker/a", "3:cpu:/docker/a\n4:cpuacct:/docker/a")
    groups.show(own, files)
    assert cgroups.processors() == cgroups.Processors(0.5, 5.5)
    assert cgroups.usable_cores() == 1
    assert cgroups.memory() == cgroups.Memory(4 * GB, 2 * GB, 2 * GB)


def test_a_container_that_sees_its_own_group_at_the_top_alone(groups: Groups) -> None:
    """As Docker with version 1: the path is that outside."""
    groups.show(
        "3:cpu,cpuacct:/docker/a\n7:memory:/docker/a\n", {n.replace("docker/a/", ""): t for n, t in OLDER.items()}
    )
    assert cgroups.usable_cores() == 1
    groups.show("", {"memory/memory.limit_in_bytes": str(4 * GB)})
    assert cgroups.usable_cores() == 8


@pytest.mark.parametrize(
    ("own", "files"),
    [
        ("0::/\n", {"cpu.max": "max 100000", "memory.max": "max"}),
        ("0::/\n", {"cpu.max": "1600000 100000", "memory.max": str(65 * GB)}),
        ("3:cpu:/\n4:memory:/\n", {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}),
        ("4:memory:/\n", {"memory/memory.limit_in_bytes": str(NO_END)}),
        ("0::/\n", {"cpu.max": "", "memory.max": "no number"}),
        ("0::/../../outside\nnonsense\n", {"x": ""}),
        ("", {}),
    ],
)
def test_without_a_limit_the_machine_counts(groups: Groups, own: str, files: dict[str, str]) -> None:
    groups.show(own, files)
    assert cgroups.processors() is None
    assert cgroups.usable_cores() == 8
    assert cgroups.memory() == WHOLE
    groups.own.unlink()
    assert cgroups.memory() == WHOLE


def test_the_profile_local_takes_what_the_container_has(groups: Groups, workspace: Workspace) -> None:
    groups.show("0::/\n", IN_A_CONTAINER)
    found = find_profile(None, workspace)
    assert (found.cores, found.memory_bytes) == (3, int(1.5 * GB))

"""The pictures of a run's monitor."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from engine.store.monitor import FILE, Attempt, Moment, MonitorLog, MonitorRecord
from ui.runs.monitor import measured, picture, process_labels

ABOUT: dict[str, Any] = {"host": "box", "cores": 2, "gpu": "no NVIDIA driver was found", "unknown": [], "elsewhere": ""}
BEGIN = 1_700_000_000.0


def values(second: int, **more: float) -> dict[str, float]:
    return {
        "cpu": 50.0, "memory": 4000.0, "network_receive": 0.0, "network_transmit": 0.0,
        "t.cpu": 90.0, "t.cpu:worker": 90.0, "t.memory": 1500.0,
        "t.read": 312.0 if second == 7 else 1.0, "t.write": 0.0,
    } | more  # fmt: skip


def record(folder: Path, moments: list[Moment], most: int = 3600, **about: Any) -> MonitorRecord:
    log = MonitorLog(folder / FILE, most)
    log.begin(Attempt(BEGIN, ABOUT | about))
    for moment in moments:
        log.add(moment)
    log.flush()
    out = MonitorRecord(folder / FILE)
    out.read()
    return out


def seconds(count: int, begin: float = BEGIN, **more: float) -> list[Moment]:
    return [Moment(begin + i + 1, 1.0, values(i, **more)) for i in range(count)]


def drawn_points(svg: str) -> int:
    return sum(path.count(",") for path in re.findall(r'points="([^"]*)"', svg))


def test_a_picture_names_its_peaks_and_what_was_not_measured(tmp_path: Path) -> None:
    found = record(tmp_path, seconds(20, **{"t.rate:volumes": 64.0, "t.waiting": 4.0}))
    assert measured(found) == ["t"]
    shown = picture(found, "t", "Train")
    assert shown is not None
    ElementTree.fromstring(shown.svg)
    moment = time.strftime("%H:%M:%S", time.localtime(BEGIN + 8))
    assert f"Disk of the node, MB/s: peak: read 312 at {moment}" in shown.words
    assert "Network of the machine, MB/s: none" in shown.words
    assert "Volumes a second: 64 on average" in shown.words
    assert "Waiting for data, %: 4% of the time on average" in shown.words
    assert "A value a second on box, 2 cores. Not measured: GPU (no NVIDIA driver was found)." in shown.words
    assert "GPU, %" not in shown.svg
    assert re.search(r">\s*node\s*<", shown.svg), "the line of the node's memory has the word of its note"
    assert "task" not in shown.svg


def test_each_gpu_is_a_line(tmp_path: Path) -> None:
    gpus = {"gpu_0": 80.0, "gpu_1": 20.0, "gpu_0_memory": 9000.0, "gpu_1_memory": 100.0}
    shown = picture(record(tmp_path, seconds(3, **gpus), gpu=""), "t")
    assert shown is not None
    assert shown.svg.count("GPU 1") == 2
    assert "GPU (" not in shown.words


def test_on_a_cluster_the_page_says_that_only_the_driver_is_seen(tmp_path: Path) -> None:
    shown = picture(record(tmp_path, seconds(3), elsewhere="yarn"), "t")
    assert shown is not None
    assert "The work is done on yarn; these figures are of the driver's machine alone." in shown.words
    assert "pace (this node reports none)" in shown.words


@pytest.mark.parametrize("count", [0, 1])
def test_too_little_is_no_picture(tmp_path: Path, count: int) -> None:
    found = record(tmp_path, seconds(count))
    assert picture(found, "t") is None
    assert picture(found, "other") is None
    assert measured(found) == []


@pytest.mark.slow
def test_a_picture_grows_and_stays_small(tmp_path: Path) -> None:
    short, long = record(tmp_path, seconds(10)), None
    first = picture(short, "t")
    (tmp_path / FILE).unlink()
    long = picture(record(tmp_path, seconds(40)), "t")
    (tmp_path / FILE).unlink()
    day = picture(record(tmp_path, seconds(9_000), most=3600), "t")
    assert first
    assert long
    assert day
    assert drawn_points(first.svg) < drawn_points(long.svg) < drawn_points(day.svg) < 3_000
    assert "A value every 4 s" in day.words
    assert len(day.svg) < 60_000


def test_a_pause_between_attempts_is_cut_out(tmp_path: Path) -> None:
    found = record(tmp_path, [*seconds(5), *seconds(5, BEGIN + 50_000)])
    shown = picture(found, "t")
    assert shown is not None
    assert "over 10 s" in shown.words
    assert "stroke-dasharray" in shown.svg


def test_lesser_processes_are_one_line(tmp_path: Path) -> None:
    more = {f"t.cpu:py {i}": 1.0 for i in range(5)}
    shown = picture(record(tmp_path, seconds(4, **more)), "t")
    assert shown is not None
    assert "3 others" in shown.svg


def test_processes_are_called_by_what_they_are(tmp_path: Path) -> None:
    assert process_labels(["worker", "python3.12 21058", "java 4711", "python3.12 9", "tee 7", "others"]) == {
        "worker": "main",
        "python3.12 9": "Python 1",
        "python3.12 21058": "Python 2",
        "java 4711": "Spark (Java)",
        "tee 7": "tee",
        "others": "others",
    }
    shown = picture(record(tmp_path, seconds(4, **{"t.cpu:java 4711": 1.0})), "t")
    assert shown is not None
    assert [word in shown.svg for word in (">main<", ">Spark (Java)<", "worker", "4711")] == [True, True, False, False]


def test_names_of_lines_that_have_no_room_beside_the_title_stand_below(tmp_path: Path) -> None:
    def heights(*more: str) -> set[float]:
        shown = picture(record(tmp_path, seconds(4, **{f"t.cpu:{name}": 1.0 for name in more})), "t")
        (tmp_path / FILE).unlink()
        assert shown is not None
        panel = shown.svg.partition(">CPU, % of a core<")[2].partition(">Memory, GB<")[0]
        names = ["main", *more] if len(more) < 3 else ["main", "others"]
        return {
            float(y) for name in names for y in re.findall(rf'y="([0-9.]+)"[^>]*>[0-9]* ?{re.escape(name)}<', panel)
        }

    (beside,), (below,) = heights("tee", "cat"), heights("some-program-1", "some-program-2", "some-program-3")
    assert below > beside + 100


def test_a_single_value_is_a_dot_that_can_be_seen(tmp_path: Path) -> None:
    one = seconds(1, BEGIN + 3, **{"t.rate:volumes": 85.0})
    shown = picture(record(tmp_path, [*seconds(3), *one, *seconds(2, BEGIN + 4)]), "t")
    assert shown is not None
    panel = shown.svg.partition(">Volumes a second<")[2]
    assert re.search(r'<circle [^>]*r="2.5" fill="#', panel)

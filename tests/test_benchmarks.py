"""Benchmarks run from end to end with tiny data, and a race refuses who delivers something else.

Those whose contenders load TensorFlow or Spark take minutes whatever the data: they are only asked for their options.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bench_results import result, runs
from training_scenarios import tiny_program, tiny_workers
from volume_sets import Labels, Volumes, labels_for, make_files

from benchmarks import gpu, tfrecord
from benchmarks.__main__ import NAMES, main
from benchmarks.data import Digest
from benchmarks.race import Entry, Race, Result, race
from benchmarks.reports import Aim, aim_of
from engine.bench.result import read_result
from engine.declare.datasets import Dataset
from nodes.loaders.interface import Source
from nodes.testing.loader import UNLABELLED, LoaderConformance
from tests.support.fake_contender import Fake

__all__ = ["tiny_workers"]
TINY = ("--volumes", "32", "--shape", "6,6,4,2")
OPTIONS = {
    "chain": (*TINY, "--resampled", "7,6,5", "--batch", "16", "--steps", "0"),
    "cut": ("--survey", "40,36,24", "--attributes", "3", "--size", "12,12,8", "--stride", "10,12,8", "--no-cold"),
    "compact": (*TINY, "--no-cold"),
    "look": ("--tables", "40/4/6,6,4,2", "70/70/6,6,4,2"),
    "scale": ("--counts", "20"),
    "storage": (*TINY, "--batch", "16", "--delay-ms", "1"),
}


@pytest.mark.slow
@pytest.mark.usefixtures("forked_runs")
@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=pytest.mark.needs(part="azurite")) if n == "storage" else n for n in OPTIONS],
)
def test_a_benchmark_runs(name: str, tmp_path: Path) -> None:
    arguments = [name, *OPTIONS[name], "--rounds", "1", "--folder", str(tmp_path), "--out", str(tmp_path / "out")]
    assert main(arguments) == 0
    found = json.loads((tmp_path / "out" / f"{name}.json").read_text())
    assert found["races"] or found["tables"]
    for contest in found["races"]:
        contenders = {contender["name"]: contender for contender in contest["contenders"]}
        assert contest["limit"] in contenders
        for title, contender in contenders.items():
            assert len(contender["rates"]) == 1, title
            assert contender["rates"][0] > 0, title
        assert any(c["kind"] == "ours" and c["peak_bytes"] > 0 for c in contenders.values())
        assert (tmp_path / "out" / f"{name}.png").stat().st_size > 0
    for table in found["tables"]:
        assert {len(row) for row in table["rows"]} <= {len(table["columns"])}
    assert bool(found["aims"]) == (name not in ("chain", "look", "scale"))
    # All data went with the benchmark.
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_the_gpu_benchmark_leaves_empty_what_was_not_measured() -> None:
    rows = [*runs(100, 90, 50), *runs(100, 90, 10, "npy")]
    found = result("m", *[row for row in rows if row.configuration.input != "cached"])
    assert gpu.device_of(found) == ("CPU", gpu.NO_GPU)
    with_gpu = found.model_copy(update={"machine": found.machine.model_copy(update={"gpus": ("T4",)})})
    assert gpu.device_of(with_gpu) == ("CPU", gpu.NOT_USED)
    used = [row.model_copy(update={"device_bytes": 3 * 10**9}) for row in with_gpu.rows]
    assert gpu.device_of(with_gpu.model_copy(update={"rows": tuple(used)})) == ("GPU", "")
    table = gpu.rates_table(found, "rates")
    assert table.rows == [[32, "off", "off", 50, 10, 100, "50%", "90%", "2.0"]]
    cells = gpu.cells_table({("CPU", name): gpu.row_of(found, name, 32) for name in (".npy", "table")})
    assert [row[:4] for row in cells.rows] == [
        ["CPU", ".npy", "10.0", "90.28 h"],
        ["CPU", "table", "50.0", "18.06 h"],
        ["GPU", ".npy", "", ""],
        ["GPU", "table", "", ""],
    ]


@pytest.mark.slow
@pytest.mark.usefixtures("tiny_workers")
def test_the_gpu_benchmark_runs_without_a_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("nodes.profiling.measurements.PROGRAM", (*tiny_program(), "profile"))
    assert main(["gpu", "--small", "--plain", "--folder", str(tmp_path), "--out", str(tmp_path / "out")]) == 0
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["gpu-result.json", "gpu.json"]
    found = json.loads((tmp_path / "out" / "gpu.json").read_text())
    rates, cells = found["tables"]
    assert rates["columns"][3:6] == ["table", ".npy", "synthetic"]
    assert all(rate > 0 for rate in rates["rows"][0][3:6])
    if not read_result(tmp_path / "out" / "gpu-result.json").machine.gpus:
        assert found["notes"][-1] == gpu.NO_GPU
        assert [bool(row[3]) for row in cells["rows"]] == [True, True, False, False]
    printed = capsys.readouterr().out
    assert "| batch | bfloat16 | XLA |" in printed


@pytest.mark.parametrize("name", NAMES)
def test_a_benchmark_lists_its_options(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([name, "--help"])
    assert stopped.value.code == 0
    assert "--rounds" in capsys.readouterr().out


class TestTFRecord(LoaderConformance):
    """The peer of the benchmark `experiment` delivers what our loaders do."""

    pytestmark = pytest.mark.slow

    def make(self, folder: Path, volumes: Volumes, labels: Labels) -> Dataset:
        files = make_files(folder, volumes, labels)
        return tfrecord.write(files, str(folder / "records"), folder, per_file=9)

    def rewrite(self, dataset: Dataset, volumes: Volumes) -> Dataset:
        again = Path(dataset.uri).parent / "again"
        files = make_files(again, volumes, labels_for(volumes, unlabelled=UNLABELLED))
        return tfrecord.write(files, str(again / "records"), again, per_file=7)

    def open(self, dataset: Dataset, cores: int) -> Source:
        assert isinstance(dataset, tfrecord.VolumeRecords)
        return tfrecord.RecordSource(dataset)


def entry(name: str, **arguments: Any) -> Entry:
    return Entry(name, "ours" if name == "ours" else "peer", Fake, arguments)


def run(folder: Path, *entries: Entry) -> Race:
    return race("fakes", entries, unit="x", limit="other", rounds=2, seed=0, folder=folder)


def test_a_race_has_every_contender_once_a_round(tmp_path: Path) -> None:
    found = run(tmp_path, entry("ours", says="a"), entry("other", says="a"))
    assert {s.name: dict(s.rates) for s in found.results} == {
        "ours": {1: 0.5, 2: 1.0},
        "other": {1: 0.5, 2: 1.0},
    }


def test_a_race_refuses_who_delivers_something_else(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="not everybody delivered the same"):
        run(tmp_path, entry("ours", says="a"), entry("other", says="b"))


def test_a_contender_that_fails_is_named_with_its_error(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"other failed:(.|\n)*the disk is full"):
        run(tmp_path, entry("ours", says="a"), entry("other", says="a", fails=True))


def test_ratios_are_taken_within_rounds() -> None:
    rates = {"ours": {1: 10.0, 2: 40.0, 3: 90.0}, "other": {1: 10.0, 2: 20.0}}
    results = tuple(Result(name, "ours", found, ()) for name, found in rates.items())
    found = Race("speed", "x", "other", results)
    ratio = found.ratio("ours", "other")
    assert (ratio.median, ratio.least, ratio.most) == (1.5, 1.0, 2.0)
    assert aim_of(found, "ours", "other", 1.5).met
    assert not aim_of(found, "ours", "other", 1.6).met
    assert not Aim("memory", 501, 500, at_most=True).met


def test_a_digest_distinguishes_sets_of_volumes_whatever_their_order() -> None:
    rng = np.random.default_rng(0)
    rows = [(number, rng.random(8, np.float32)) for number in range(9)]

    def text(pairs: list[tuple[Any, Any]]) -> str:
        found = Digest()
        found.add_all(*zip(*pairs, strict=True))
        return found.text

    mixed = random.Random(0).sample(rows, len(rows))
    assert text(mixed) == text(rows)
    assert text([(f"{number:07d}.npy", volume.tobytes()) for number, volume in rows]) == text(rows)
    swapped = [(rows[1][0], rows[0][1]), (rows[0][0], rows[1][1]), *rows[2:]]
    assert text(swapped) != text(rows)
    assert text(rows[:-1]) != text(rows)
    assert text([*rows, rows[0]]) != text(rows)

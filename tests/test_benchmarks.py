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

from tests.benchmarks.__main__ import NAMES, main
from tests.benchmarks.digests import Digest
from tests.benchmarks.race import Entry, Race, Standing, race
from tests.benchmarks.reports import Aim, aim_of

TINY = ("--volumes", "32", "--shape", "6,6,4,2")
OPTIONS = {
    "compact": (*TINY, "--no-cold"),
    "scale": ("--counts", "20"),
    "storage": (*TINY, "--batch", "16", "--delay-ms", "1"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", OPTIONS)
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
    assert bool(found["aims"]) == (name != "scale")
    # All data went with the benchmark.
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("name", NAMES)
def test_a_benchmark_tells_its_options(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([name, "--help"])
    assert stopped.value.code == 0
    assert "--rounds" in capsys.readouterr().out


def entry(name: str, **arguments: Any) -> Entry:
    return Entry(name, "ours" if name == "ours" else "peer", "tests.support.fake_contender:Fake", arguments)


def run(folder: Path, *entries: Entry) -> Race:
    return race("fakes", entries, unit="x", limit="other", rounds=2, seed=0, folder=folder)


def test_a_race_has_every_contender_once_a_round(tmp_path: Path) -> None:
    found = run(tmp_path, entry("ours", says="a"), entry("other", says="a"))
    assert {s.name: dict(s.rates) for s in found.standings} == {
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
    standings = tuple(Standing(name, "ours", found, ()) for name, found in rates.items())
    found = Race("speed", "x", "other", standings)
    ratio = found.ratio("ours", "other")
    assert (ratio.median, ratio.least, ratio.most) == (1.5, 1.0, 2.0)
    assert aim_of(found, "ours", "other", 1.5).met
    assert not aim_of(found, "ours", "other", 1.6).met
    assert not Aim("memory", 501, 500, at_most=True).met


def test_a_digest_tells_sets_of_volumes_apart_whatever_their_order() -> None:
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

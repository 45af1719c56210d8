"""The format of a benchmark's result: what is written is read, and what is no result is named."""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path
from typing import Any

import pytest
from bench_results import RESULTS, result, row
from hypothesis import given
from hypothesis import strategies as st

from engine.bench.result import (
    BenchResult,
    Curves,
    bench_folder,
    bench_results,
    keep_result,
    newest_by_machine,
    read_result,
    to_json,
    write_result,
)
from engine.environment import Machine
from engine.errors import UsageError
from engine.workspace import Workspace


@given(RESULTS)
def test_what_is_written_is_read(found: BenchResult) -> None:
    assert BenchResult.model_validate(json.loads(to_json(found))) == found
    # Other programs read it too.
    assert "NaN" not in to_json(found)
    assert "Infinity" not in to_json(found)


@given(RESULTS)
def test_a_typical_row_is_one_that_was_measured(found: BenchResult) -> None:
    typical = found.typical
    assert {r.configuration for r in typical} == {r.configuration for r in found.measured}
    assert len(typical) == len({r.configuration for r in typical})
    for one in typical:
        rates = sorted(r.samples_per_s for r in found.measured if r.configuration == one.configuration)
        assert one.samples_per_s == rates[(len(rates) - 1) // 2]
    assert not {r.configuration for r in typical} & {r.configuration for r in found.without_figures}


def test_figures_of_a_row() -> None:
    one = row(64.0, waiting=0.25, steps=10, batch_size=16)
    assert (one.volumes, one.total_s, one.samples_per_s) == (160, 2.5, 64.0)
    assert one.processor_s_per_volume == 2 * 2.5 / 160
    assert one.configuration.volume_bytes == 360_000
    assert result("m", one, price=3.6).cost(1000) == 1.0
    assert result("m", one).cost(1000) is None
    curves = Curves(seconds=(1, 2, 3), values={"x": (9.0, None, 4.0)}, measured_from_s=2)
    assert (curves.of("x"), curves.peak("x"), curves.mean("x")) == ([4.0], 4.0, 4.0)
    assert (curves.of("y"), curves.peak("y"), curves.mean("y")) == ([], None, None)


def test_fields_that_are_not_known_are_left_alone(tmp_path: Path) -> None:
    found = result("m", row(10.0))
    value = json.loads(to_json(found))
    value["rows"][0]["colour"] = value["humidity"] = 1
    (tmp_path / "r.json").write_text(json.dumps(value))
    assert read_result(tmp_path / "r.json") == found


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, r"there is no file .*r\.json\. `voxelflow bench` writes one"),
        ("", r"r\.json is damaged: Expecting value"),
        ('{"format": 1, "rows": [', r"r\.json is damaged"),
        (b"\xff\xfe\x00", r"r\.json is damaged"),
        ("[" * 100_000, r"r\.json is damaged"),
        ("[]", r"r\.json is no result of `voxelflow bench`"),
        (
            '{"format": 2, "rows": []}',
            r"r\.json was written by a newer Voxelflow \(format 2; this one reads 1\). Update",
        ),
        ('{"format": 2}', r"no result of `voxelflow bench`: format"),
        ('{"format": 1}', r"no result of `voxelflow bench`: name: Field required"),
    ],
)
def test_what_is_no_result_is_named(tmp_path: Path, content: str | bytes | None, message: str) -> None:
    path = tmp_path / "r.json"
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(UsageError) as caught:
        read_result(path)
    assert re.search(message, caught.value.line()), caught.value.line()


@pytest.mark.slow
@given(
    st.recursive(st.none() | st.integers() | st.text(), lambda inner: st.dictionaries(st.text(), inner), max_leaves=8)
)
def test_any_other_document_is_refused(value: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.json"
        path.write_text(json.dumps(value))
        with pytest.raises(UsageError):
            read_result(path)


def test_a_figure_that_is_no_number_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.write_text(to_json(result("m", row(10.0))).replace('"waiting_s": 0.0', '"waiting_s": NaN'))
    with pytest.raises(UsageError, match="waiting_s"):
        read_result(path)


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("price_per_hour", -1),
        ("price_per_hour", "1e999"),
        ("name", '"a\\nb"'),
        ("machine_type", '"a\\nb"'),
        ("measured_at", 1e20),
        ("measured_at", -1e20),
        ("rows.0.configuration.batch_size", 0),
        ("rows.0.configuration.batch_size", "1" + 400 * "0"),
        ("rows.0.configuration.workers", 0),
        ("rows.0.configuration.width", "1" + 400 * "0"),
        ("cores", -1),
        ("cores", "1" + 400 * "0"),
        ("rows.0.configuration.dtype", '"bool"'),
        ("rows.0.steps", -1),
        ("rows.0.steps", "1" + 400 * "0"),
        ("rows.0.computing_s", -5),
        ("rows.0.processor_s", -5),
        ("machine", '{"gpus": ["a\\nb"]}'),
        ("machine", '{"memory_bytes": -1}'),
        ("machine", '{"memory_bytes": 1000000000000000000000}'),
    ],
)
def test_what_no_table_and_no_comparison_could_take_is_refused(tmp_path: Path, field: str, wrong: object) -> None:
    path, key = tmp_path / "r.json", field.rpartition(".")[2]
    value = json.loads(to_json(result("m", row(10.0), price=1.0)))
    first = value["rows"][0]
    (first["configuration"] if "configuration" in field else first if "." in field else value)[key] = "?"
    path.write_text(json.dumps(value).replace('"?"', str(wrong)))
    with pytest.raises(UsageError, match=rf"r\.json is no result of `voxelflow bench`: {re.escape(field)}: (?!Value)"):
        read_result(path)


def test_a_currency_has_one_spelling_and_earlier_ones_are_read() -> None:
    assert [result("m", price=1.0, currency=text).currency for text in (" usd", "EUR", "", "$")] == [
        "USD",
        "EUR",
        "",
        "$",
    ]


def test_a_row_that_took_no_steps_is_not_compared() -> None:
    assert not result("m", row(10.0).model_copy(update={"steps": 0})).measured


def test_a_workspace_keeps_every_result_once(workspace: Workspace) -> None:
    one, two = result("a/b: c", row(10.0)), result("a/b: c", row(20.0))
    first = keep_result(workspace, one)
    assert first.name == "20010909-014640-a-b-c.json"
    assert keep_result(workspace, one) == first
    # Another one of the same second and machine does not take its place.
    assert keep_result(workspace, two).name == "20010909-014640-a-b-c-2.json"
    newer = result("d", row(1.0), measured_at=2e9)
    keep_result(workspace, newer)
    (bench_folder(workspace) / "half.json").write_text('{"format": 1')
    found = bench_results(workspace)
    assert found[0] == newer
    assert sorted(r.rows[0].samples_per_s for r in found[1:]) == [10.0, 20.0]
    assert [r.name for r in newest_by_machine(found)] == ["d", "a/b: c"]


def test_the_newest_result_with_figures_is_that_of_its_machine() -> None:
    failed = row(1.0).model_copy(update={"outcome": "not possible", "steps": 0, "computing_s": 0.0})
    real, newer = result("m", row(10.0), measured_at=1.0), result("m", row(11.0), measured_at=2.0)
    quick = result("m", row(500.0), measured_at=3.0, quick=True)
    nothing = result("m", failed, measured_at=4.0)
    other = result("other", row(1.0), measured_at=2.5)
    assert newest_by_machine([real, quick, nothing, other, newer]) == [other, newer]
    assert newest_by_machine([nothing, quick]) == [quick]
    assert newest_by_machine([nothing, nothing.model_copy(update={"measured_at": 5.0})])[0].measured_at == 5.0


def _on(
    name: str, cores: int = 8, gib: float = 64, gpus: int = 0, given: int | None = None, **more: Any
) -> BenchResult:
    machine = Machine(cores=cores, memory_bytes=int(gib * 2**30), gpus=("NVIDIA H100",) * gpus)
    return result(name, row(1.0), machine=machine, cores=given or cores, **more)


@pytest.mark.parametrize(
    ("results", "names"),
    [
        ([_on("AMD", 4), _on("AMD", 16)], ["AMD, 4 cores", "AMD, 16 cores"]),
        ([_on("NVIDIA H100", gpus=1), _on("NVIDIA H100", gpus=8)], ["1 x NVIDIA H100", "8 x NVIDIA H100"]),
        ([_on("lab", gpus=1), _on("lab")], ["lab, 1 x NVIDIA H100", "lab, no GPU"]),
        ([_on("AMD", gib=32), _on("AMD", gib=64)], ["AMD, 32 GiB", "AMD, 64 GiB"]),
        ([_on("AMD", machine_type="a"), _on("AMD", machine_type="b")], ["AMD, a", "AMD, b"]),
        (
            [_on("AMD", 4, 32), _on("AMD", 8, 32), _on("AMD", 8, 64), _on("AMD, 8 cores, 64 GiB")],
            ["AMD, 4 cores, 32 GiB", "AMD, 8 cores, 32 GiB", "AMD, 8 cores, 64 GiB (2)", "AMD, 8 cores, 64 GiB"],
        ),
        # The whole machine is in the table of prices by its name.
        ([_on("AMD", given=2), _on("AMD")], ["AMD, 2 of 8 cores", "AMD"]),
        # One machine, updated; first without its type, which is called the same.
        ([_on("m5", measured_at=2e9), _on("m5", gib=63.99, machine_type="m5")], ["m5"]),
        ([_on("one", machine_type="m5"), _on("two", machine_type="m5")], ["one", "two"]),
    ],
)
def test_machines_of_one_name_are_told_apart(results: list[BenchResult], names: list[str]) -> None:
    assert [found.name for found in newest_by_machine(results)] == names


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=r"file/r\.json cannot be written"):
        write_result(tmp_path / "file" / "r.json", result("m", row(1.0)))

"""SEG-Y files written by segyio: sorted either way, without order, with traces missing, pre-stack."""

from __future__ import annotations

import os
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import segyio
from numpy.typing import NDArray

from nodes.conversion.formats import Reading
from nodes.conversion.formats.reader import header_of, read_volume
from nodes.conversion.formats.segy_traces import Traces
from nodes.conversion.quarantine import Refused
from nodes.testing.format import FormatConformance

SEGY = Reading("segy")


class TestSegy(FormatConformance):
    format_name = "segy"
    dtypes = ("int16", "float32")

    def write(self, path: Path, volume: NDArray[Any]) -> None:
        segyio.tools.from_array3D(str(path), volume, format={"int16": 3, "float32": 5}[volume.dtype.name])


def write_traces(
    path: Path, volume: NDArray[np.float32], places: list[tuple[int, int]], lines_at: tuple[int, int] = (189, 193)
) -> None:
    """One trace for each place, in this order; inlines count from 100 in steps of 2, crosslines down from 900."""
    spec = segyio.spec()
    spec.samples, spec.format, spec.tracecount = np.arange(volume.shape[2]) * 4.0 + 1000, 5, len(places)
    with segyio.create(str(path), spec) as file:
        file.bin.update(hdt=4000)
        for number, (x, y) in enumerate(places):
            file.trace[number] = np.ascontiguousarray(volume[x, y])
            file.header[number] = {
                lines_at[0]: 100 + 2 * x,
                lines_at[1]: 900 - y,
                181: 5_000_000 + 250 * x,
                185: 6_000_000 + 125 * y,
                71: -10,
                109: 1000,
                115: volume.shape[2],
                117: 4000,
            }


@pytest.fixture
def volume() -> NDArray[np.float32]:
    return np.arange(1, 6 * 5 * 4 + 1, dtype=np.float32).reshape(6, 5, 4)


def _everywhere(volume: NDArray[Any]) -> list[tuple[int, int]]:
    return [(x, y) for x in range(volume.shape[0]) for y in range(volume.shape[1])]


@pytest.mark.parametrize("order", ["inline", "crossline", "none"])
def test_lines_grow_whatever_the_order_of_the_traces(tmp_path: Path, volume: NDArray[np.float32], order: str) -> None:
    places = _everywhere(volume)
    if order == "crossline":
        places.sort(key=lambda place: place[::-1])
    elif order == "none":
        np.random.default_rng(1).shuffle(places)
        places = [(int(x), int(y)) for x, y in places]
    write_traces(tmp_path / "a.sgy", volume, places)
    header = header_of(str(tmp_path), "a.sgy", SEGY)
    assert header.shape == volume.shape
    assert dict(header.columns) | {"affine": ""} == {
        "affine_space": "CDP X, CDP Y, ms",
        "source_dtype": ">f4",
        "source_decoder": f"segyio {version('segyio')}",
        "inline": 100,
        "crossline": 896,
        "time": 1000.0,
        "inline_step": 2,
        "crossline_step": 1,
        "time_step": 4.0,
        "affine": "",
    }
    affine = np.array(str(header.columns["affine"]).split(), float).reshape(4, 4)
    assert np.allclose(affine @ (1, 1, 2, 1), (500_025, 600_000 + 3 * 12.5, 1008, 1))
    assert np.array_equal(read_volume(str(tmp_path), "a.sgy", SEGY), volume[:, ::-1])


def test_missing_traces_are_nan(tmp_path: Path, volume: NDArray[np.float32]) -> None:
    places = _everywhere(volume)
    gone = [places.pop(7), places.pop(20)]
    write_traces(tmp_path / "a.sgy", volume, places)
    read = read_volume(str(tmp_path), "a.sgy", SEGY)[:, ::-1]
    for x, y in _everywhere(volume):
        assert np.array_equal(read[x, y], np.full(4, np.nan) if (x, y) in gone else volume[x, y], equal_nan=True)


def test_line_numbers_elsewhere_in_the_headers(tmp_path: Path, volume: NDArray[np.float32]) -> None:
    write_traces(tmp_path / "a.sgy", volume, _everywhere(volume), lines_at=(9, 21))
    assert np.array_equal(read_volume(str(tmp_path), "a.sgy", SEGY), volume[:, ::-1])
    write_traces(tmp_path / "b.sgy", volume, _everywhere(volume), lines_at=(73, 77))
    for reading in (Reading("segy", "73,77"), Reading("segy", " 73, 77")):
        assert np.array_equal(read_volume(str(tmp_path), "b.sgy", reading), volume[:, ::-1])
    for dataset in ("73", "a,b", "0,193", "189,9999"):
        with pytest.raises(Refused, match="name the bytes of inline and crossline"):
            header_of(str(tmp_path), "b.sgy", Reading("segy", dataset))


def _with_counters(path: Path, places: list[tuple[int, int]], counters: list[int]) -> None:
    """Four samples of 100 * crossline + inline for each place, whose numbers are at 189, 193; at 9 the inline again,
    and at 21 the counter."""
    spec = segyio.spec()
    spec.samples, spec.format, spec.tracecount = np.arange(4) * 4.0, 5, len(places)
    with segyio.create(str(path), spec) as file:
        for number, ((inline, crossline), counter) in enumerate(zip(places, counters, strict=True)):
            file.header[number] = {189: inline, 193: crossline, 9: inline, 21: counter}
            file.trace[number] = np.full(4, 100 * crossline + inline, np.float32)


@pytest.mark.parametrize("kind", ["traces missing", "skewed"])
def test_a_counter_within_each_line_is_no_crossline(tmp_path: Path, kind: str) -> None:
    if kind == "skewed":
        places = [(10 + i, 200 + i + j) for i in range(6) for j in range(8)]
        shape, lacking = (6, 13, 4), "lacks 30 of 78 traces"
    else:
        places = [(10 + i, 200 + j) for i, hole in enumerate((0, 5, 2, 3)) for j in range(6) if j != hole]
        shape, lacking = (4, 6, 4), "lacks 4 of 24 traces"
    each = 8 if kind == "skewed" else 5
    _with_counters(tmp_path / "a.sgy", places, [n % each + 1 for n in range(len(places))])
    header = header_of(str(tmp_path), "a.sgy", SEGY)
    assert (header.shape, header.columns["inline"], header.columns["crossline"]) == (shape, 10, 200)
    assert header.remarks == (f"{lacking} in its lines: their samples are NaN",)
    wanted = np.full(shape[:2], np.nan)
    for inline, crossline in places:
        wanted[inline - 10, crossline - 200] = 100 * crossline + inline
    assert np.array_equal(read_volume(str(tmp_path), "a.sgy", SEGY)[..., 0], wanted, equal_nan=True)
    other = header_of(str(tmp_path), "a.sgy", Reading("segy", "9,21"))
    assert (other.shape, other.remarks) == ((len(places) // each, each, 4), ()), "where it is asked for"


@pytest.mark.parametrize("numbers", ["of the trace", "of the CDP"])
def test_a_number_that_makes_one_line_with_gaps_is_no_line_number(tmp_path: Path, numbers: str) -> None:
    """As in files of before revision 1, whose bytes 189 and 193 hold something else."""
    places = [(10 + i, 200 + j) for i in range(20) for j in range(9)]
    spec = segyio.spec()
    spec.samples, spec.format, spec.tracecount = np.arange(4) * 4.0, 5, len(places)
    with segyio.create(str(tmp_path / "a.sgy"), spec) as file:
        for number, (inline, crossline) in enumerate(places):
            other = number + (number > 90) if numbers == "of the trace" else inline * 100 + crossline
            file.header[number] = {189: 0, 193: other, 9: inline, 21: crossline}
            file.trace[number] = np.full(4, 100 * crossline + inline, np.float32)
    header = header_of(str(tmp_path), "a.sgy", SEGY)
    assert (header.shape, header.columns["inline"], header.columns["crossline"]) == ((20, 9, 4), 10, 200)
    assert header.remarks == ()
    if numbers == "of the trace":  # where it is asked for
        assert header_of(str(tmp_path), "a.sgy", Reading("segy", "189,193")).shape == (1, 181, 4)


@pytest.mark.parametrize("refused", ["constant", "no grid", "several traces a cell"])
def test_a_place_that_makes_no_grid_is_passed_over(tmp_path: Path, refused: str) -> None:
    """Also for numbers elsewhere that are in no order."""
    numbers = np.random.default_rng(3).permutation(400)
    spec = segyio.spec()
    spec.samples, spec.format, spec.tracecount = np.arange(2), 5, 400
    with segyio.create(str(tmp_path / "a.sgy"), spec) as file:
        for number, place in enumerate(numbers.tolist()):
            first = {
                "constant": {189: 7, 193: 7},
                "no grid": {189: number * 7919 % 10_007, 193: number * 104_729 % 10_009},
                "several traces a cell": {189: 1 + number // 2, 193: 1},
            }[refused]
            file.header[number] = first | {9: 1 + place // 20, 21: 1 + place % 20}
            file.trace[number] = np.full(2, place, np.float32)
    read = read_volume(str(tmp_path), "a.sgy", SEGY)
    assert np.array_equal(read[..., 0], np.arange(400).reshape(20, 20))


def test_pre_stack_data_is_refused(tmp_path: Path, volume: NDArray[np.float32]) -> None:
    write_traces(tmp_path / "a.sgy", volume, _everywhere(volume) * 2)
    with pytest.raises(Refused, match="several traces for one inline and crossline"):
        header_of(str(tmp_path), "a.sgy", SEGY)


def test_line_numbers_that_are_no_grid_are_refused(tmp_path: Path) -> None:
    volume = np.ones((400, 1, 2), np.float32)
    spec = segyio.spec()
    spec.samples, spec.format, spec.tracecount = np.arange(2), 5, 400
    with segyio.create(str(tmp_path / "a.sgy"), spec) as file:
        for number in range(400):
            file.trace[number] = volume[number, 0]
            file.header[number] = {189: number * 7919 % 10_007, 193: number * 104_729 % 10_009}
    with pytest.raises(Refused, match="make no grid"):
        header_of(str(tmp_path), "a.sgy", SEGY)


def test_floats_of_ibm(tmp_path: Path) -> None:
    volume = np.array([[[1.0, -118.625, 0.0, 0.5]]] * 2, np.float32).repeat(3, axis=1)
    segyio.tools.from_array3D(str(tmp_path / "a.sgy"), volume, format=1)
    assert np.array_equal(read_volume(str(tmp_path), "a.sgy", SEGY), volume)


def _drawn(kind: str) -> NDArray[np.float32]:
    draw = np.random.default_rng(2)
    shape = (12, 11, 60)
    drawn = {
        "amplitudes": draw.normal(size=shape),
        "small": draw.laplace(size=shape) * 1e-5,
        "velocities": draw.uniform(1_500, 5_500, shape),
        "integers": draw.integers(-32_768, 32_767, shape),
        "bytes": draw.integers(0, 256, shape),
        "impedance": np.exp(draw.normal(15, 0.2, shape)),
        "zeros": np.zeros(shape),
        "one size": draw.uniform(2.3, 2.4, shape),
    }
    return drawn[kind].astype(np.float32)


@pytest.mark.parametrize("code", [1, 5])
@pytest.mark.parametrize(
    "kind", ["amplitudes", "small", "velocities", "integers", "bytes", "impedance", "zeros", "one size"]
)
def test_floats_are_what_the_header_says(tmp_path: Path, code: int, kind: str) -> None:
    volume = _drawn(kind)
    path = tmp_path / "a.sgy"
    segyio.tools.from_array3D(str(path), volume.copy(), format=code)
    assert np.allclose(read_volume(str(tmp_path), "a.sgy", SEGY), volume, rtol=1e-5, atol=0)
    if kind not in ("amplitudes", "small"):
        return  # of one size, or too few
    with path.open("r+b") as file:
        file.seek(3224)
        file.write((6 - code).to_bytes(2, "big"))
    names = {1: "IBM", 5: "IEEE"}
    with pytest.raises(Refused, match=f"samples that are {names[code]} floats, its header says {names[6 - code]}"):
        header_of(str(tmp_path), "a.sgy", SEGY)


def test_a_file_with_fewer_traces_than_its_header_says(tmp_path: Path, volume: NDArray[np.float32]) -> None:
    path = tmp_path / "a.sgy"
    write_traces(path, volume, _everywhere(volume))
    whole = bytearray(path.read_bytes())
    cut = len(whole) - 5 * (240 + 16)  # the last inline

    def written(revision: int, traces: int, end: int) -> str:
        whole[3500], whole[3512:3520] = revision, traces.to_bytes(8, "big")
        path.write_bytes(whole[:end])
        try:
            header_of(str(tmp_path), "a.sgy", SEGY)
        except Refused as refused:
            return f"{refused.reason}: {refused.message}"
        return ""

    assert written(2, 30, len(whole)) == written(2, 0, cut) == written(1, 30, cut) == ""
    assert written(2, 30, cut) == "truncated: has 25 traces, its header promises 30"
    assert written(2, 25, len(whole)) == "too-long: has 30 traces, its header promises 25"


@pytest.mark.parametrize(("code", "dtype"), [(1, "float32"), (3, "int16"), (5, "float32"), (2, "int32")])
def test_little_endian_files(tmp_path: Path, code: int, dtype: str) -> None:
    volume = np.arange(1, 6 * 5 * 4 + 1).reshape(6, 5, 4).astype(dtype)
    spec = segyio.spec()
    spec.iline, spec.xline, spec.format, spec.sorting, spec.endian = 189, 193, code, 2, "little"
    spec.ilines, spec.xlines, spec.samples = np.arange(6) + 10, np.arange(5) + 20, np.arange(4) * 2.0 + 500
    with segyio.create(str(tmp_path / "a.sgy"), spec) as file:
        file.bin.update(hdt=2000)
        for number in range(30):
            header = {189: 10 + number // 5, 193: 20 + number % 5, 109: 500, 115: 4, 117: 2000}
            file.header[number] = header
            file.trace[number] = np.ascontiguousarray(volume[number // 5, number % 5])
    found = header_of(str(tmp_path), "a.sgy", SEGY)
    assert (found.shape, found.dtype) == ((6, 5, 4), dtype)
    assert (found.columns["inline"], found.columns["crossline"], found.columns["time"]) == (10, 20, 500.0)
    assert np.array_equal(read_volume(str(tmp_path), "a.sgy", SEGY), volume)


def test_what_a_file_has_and_lacks_is_reported(tmp_path: Path, volume: NDArray[np.float32]) -> None:
    def said(places: list[tuple[int, int]]) -> tuple[str, ...]:
        write_traces(tmp_path / "a.sgy", volume, places)
        header = header_of(str(tmp_path), "a.sgy", SEGY)
        return (header.summary, *header.remarks)

    places = _everywhere(volume)
    lines = "has 6 inlines (100 to 110 in steps of 2), 5 crosslines (896 to 900) and 4 samples of 4 ms from 1000 ms"
    assert said(places) == (f"{lines}; 30 traces",)
    # A cut at the end of a line, and every second inline: nothing is missing between, and the numbers show it.
    assert said(places[:-5]) == (f"{lines.replace('6 inlines', '5 inlines').replace('110', '108')}; 25 traces",)
    every = [(x, y) for x, y in places if x % 2 == 0]
    assert said(every)[0].startswith("has 3 inlines (100 to 108 in steps of 4), 5 crosslines")
    assert said([place for place in places if place not in ((1, 1), (4, 2))]) == (
        f"{lines}; 28 traces",
        "lacks 2 of 30 traces in its lines: their samples are NaN",
    )
    assert said([(x, y) for x, y in places if x not in (1, 3) and y != 2 and (x, y) != (2, 3)]) == (
        f"{lines}; 15 traces",
        "lacks 2 inlines (102, 106) and 1 crossline (898) and 1 of 16 traces elsewhere: their samples are NaN",
    )


def test_a_file_that_ends_within_a_trace_is_refused(tmp_path: Path, volume: NDArray[np.float32]) -> None:
    path = tmp_path / "a.sgy"
    segyio.tools.from_array3D(str(path), volume.copy(), format=5)
    samples = volume.shape[2]
    with path.open("rb") as file:
        traces = Traces(file.fileno(), ">f4", samples, volume.shape[0] * volume.shape[1])
        os.truncate(path, path.stat().st_size - 1)
        assert np.array_equal(traces.read(0, 2), volume.reshape(-1, samples)[:2])
        with pytest.raises(Refused, match="ends within a trace"):
            traces.read(0, volume.shape[0] * volume.shape[1])

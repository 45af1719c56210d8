from __future__ import annotations

import ast
import os
import resource
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from laws import examples
from npy_folders import MakesFile
from numpy.typing import NDArray

from engine.declare.datasets import DTYPES, VolumeSpec
from nodes.conversion.npy_files import VolumeReader, header_of, sample_local_headers, spread
from nodes.conversion.quarantine import REASONS, Refused
from nodes.loaders.npy_loader import load_npy

SHAPE = (4, 3, 2)
SPEC = VolumeSpec(shape=SHAPE, dtype="float32")


def read(path: Path, spec: VolumeSpec = SPEC, *, finite: bool = True) -> NDArray[Any]:
    found = path.stat()
    row = np.empty(spec.volume_bytes, np.uint8)
    VolumeReader(str(path.parent), spec, finite=finite).read(path.name, found.st_size, found.st_mtime_ns, row)
    return row.view(np.dtype(spec.dtype).newbyteorder("<")).reshape(spec.shape)


def refusal(path: Path, **options: Any) -> str:
    with pytest.raises(Refused) as caught:
        read(path, **options)
    assert caught.value.reason in REASONS
    return caught.value.reason


@pytest.mark.parametrize("dtype", sorted(DTYPES))
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("endian", ["<", ">"])
def test_every_dtype_order_and_endianness_reads_like_numpy(tmp_path: Path, dtype: str, order: str, endian: str) -> None:
    values = np.arange(24).reshape(SHAPE).astype(np.dtype(dtype).newbyteorder(endian), order=order)  # type: ignore[call-overload]
    path = tmp_path / "a.npy"
    np.save(path, values)
    out = read(path, VolumeSpec(shape=SHAPE, dtype=dtype))
    assert np.array_equal(out, np.load(path, allow_pickle=False))


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_every_format_version(tmp_path: Path, version: tuple[int, int]) -> None:
    values = np.random.default_rng(0).random(SHAPE, np.float32)
    path = tmp_path / "a.npy"
    with path.open("wb") as sink:
        np.lib.format.write_array(sink, values, version=version)
    assert np.array_equal(read(path), values)


def test_a_header_that_python_2_wrote(tmp_path: Path) -> None:
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (4L, 3L, 2L), }\n"
    values = np.random.default_rng(0).random(SHAPE, np.float32)
    path = tmp_path / "a.npy"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + values.tobytes())
    assert np.array_equal(read(path), values)


def test_one_reader_takes_files_with_different_headers_in_any_order(tmp_path: Path) -> None:
    values = np.random.default_rng(0).random((12, *SHAPE)).astype(np.float32)
    reader = VolumeReader(str(tmp_path), SPEC, finite=True)
    for i, value in enumerate(values):
        with (tmp_path / f"{i}.npy").open("wb") as sink:
            if i % 3 == 0:
                value = np.asfortranarray(value)
            np.lib.format.write_array(sink, value.astype(">f4") if i % 4 == 0 else value, version=(1 + i % 2, 0))
        found = (tmp_path / f"{i}.npy").stat()
        row = np.empty(SPEC.volume_bytes, np.uint8)
        reader.read(f"{i}.npy", found.st_size, found.st_mtime_ns, row)
        assert row.tobytes() == values[i].tobytes()


def test_a_parser_that_another_thread_has_disturbed_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CPython 3.11: 'AST constructor recursion depth mismatch', about once in 470,000 literals of four busy threads."""
    np.save(tmp_path / "a.npy", np.ones(SHAPE, np.float32))
    parse, failures = ast.literal_eval, iter([True, True])

    def disturbed(text: str) -> Any:
        if next(failures, False):
            raise SystemError("AST constructor recursion depth mismatch (before=21, after=15)")
        return parse(text)

    monkeypatch.setattr(ast, "literal_eval", disturbed)
    assert read(tmp_path / "a.npy").sum() == 24
    failures = iter([True, True])
    assert load_npy(tmp_path / "a.npy").sum() == 24
    monkeypatch.setattr(ast, "literal_eval", lambda text: disturbed("("))
    assert refusal(tmp_path / "a.npy") == "not-npy"


def test_raw_numbers_of_the_right_length_are_no_volume(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    path.write_bytes(bytes(SPEC.volume_bytes))
    assert refusal(path) == "not-npy"


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        (np.zeros((4, 3, 3), np.float32), "shape"),
        (np.zeros((4, 0, 2), np.float32), "shape"),
        (np.float32(1), "shape"),
        (np.zeros(SHAPE, np.float64), "dtype-differs"),
        (np.zeros(SHAPE, bool), "dtype"),
        (np.zeros(SHAPE, np.complex64), "dtype"),
        (np.zeros(SHAPE, "S4"), "dtype"),
        (np.zeros(SHAPE, "M8[s]"), "dtype"),
        (np.zeros(SHAPE, [("a", "<f4")]), "dtype"),
        (np.full(SHAPE, np.inf, np.float32), "not-finite"),
    ],
)
def test_arrays_that_are_refused(tmp_path: Path, values: Any, reason: str) -> None:
    np.save(tmp_path / "a.npy", values)
    assert refusal(tmp_path / "a.npy") == reason


def test_not_finite_values_pass_when_they_may(tmp_path: Path) -> None:
    values = np.full(SHAPE, np.nan, np.float32)
    np.save(tmp_path / "a.npy", values)
    assert read(tmp_path / "a.npy", finite=False).tobytes() == values.tobytes()


@pytest.mark.parametrize("dtype", [object, [("a", "<f4"), ("b", object)]])
def test_a_pickle_is_never_executed(tmp_path: Path, dtype: Any) -> None:
    proof = tmp_path / "executed"
    values = np.zeros(1, dtype)
    values[0] = MakesFile(str(proof)) if dtype is object else (1, MakesFile(str(proof)))
    np.save(tmp_path / "a.npy", values, allow_pickle=True)
    assert refusal(tmp_path / "a.npy") == "pickle"
    assert not proof.exists()
    np.load(tmp_path / "a.npy", allow_pickle=True)
    assert proof.exists(), "the file would have done harm"


@pytest.mark.parametrize("size", range(12))
def test_a_file_cut_within_its_first_bytes(tmp_path: Path, size: int) -> None:
    np.save(tmp_path / "a.npy", np.zeros(SHAPE, np.float32))
    whole = (tmp_path / "a.npy").read_bytes()
    (tmp_path / "a.npy").write_bytes(whole[:size])
    assert refusal(tmp_path / "a.npy") == ("truncated" if size else "empty")


def test_a_header_never_decides_how_much_memory_is_taken(tmp_path: Path) -> None:
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1000000, 1000000, 1000000)}\n"
    path = tmp_path / "a.npy"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + bytes(96))
    with pytest.raises(Refused) as caught:
        header_of(str(tmp_path), "a.npy")
    assert caught.value.reason == "truncated"
    assert refusal(path) == "truncated"


_HUGE = st.one_of(
    st.integers(1, 4_299).map(lambda digits: "9" * digits),
    st.integers(1, 9_000).map(lambda digits: "0x" + "f" * digits),
    st.integers(-(2**70), 2**70).map(str),
    st.sampled_from(["9" * 4_301, "1e999", "2**99", "True", str(2**63), str(2**63 - 1)]),
)


@given(
    lengths=st.lists(_HUGE, max_size=6),
    descr=st.sampled_from(["'<f4'", "'<f8'", "'V' + '9' * 30", "'<V" + "9" * 18 + "'"]),
)
@example(lengths=["9" * 2_000] * 3, descr="'<f4'")
@example(lengths=["0x" + "f" * 4_000], descr="'<f4'")
@example(lengths=["0", "0x" + "f" * 4_000], descr="'<f4'")
@example(lengths=["1"] * 70, descr="'<f4'")
def test_a_header_with_huge_numbers_is_refused_with_a_reason(
    tmp_path_factory: pytest.TempPathFactory, lengths: list[str], descr: str
) -> None:
    literal = f"{{'descr': {descr}, 'fortran_order': True, 'shape': ({''.join(n + ', ' for n in lengths)})}}".encode()
    path = tmp_path_factory.mktemp("huge") / "a.npy"
    path.write_bytes(b"\x93NUMPY\x02\x00" + struct.pack("<I", len(literal)) + literal + bytes(4))
    with pytest.raises(Refused) as caught:
        read(path)
    assert caught.value.reason in REASONS
    assert len(caught.value.message) < 3_000


@pytest.mark.parametrize(
    "literal",
    [
        b"{'descr': '<f4', 'fortran_order': False}",
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (4, 3, 2), 'more': 1}",
        b"{'descr': '<f4', 'fortran_order': 0, 'shape': (4, 3, 2)}",
        b"{'descr': '<f4', 'fortran_order': False, 'shape': [4, 3, 2]}",
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (4, -3, -2)}",
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (4, True, 6)}",
        b"{'descr': 'nonsense', 'fortran_order': False, 'shape': (4, 3, 2)}",
        b"__import__('os').abort()",
        b"(" * 5000,
        b"\xff\xfe",
        b"[1, 2]",
        b"",
    ],
)
def test_broken_headers(tmp_path: Path, literal: bytes) -> None:
    path = tmp_path / "a.npy"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(literal)) + literal + bytes(96))
    assert refusal(path) == "not-npy"


def test_an_unknown_version_and_a_header_too_long(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    path.write_bytes(b"\x93NUMPY\x04\x00" + bytes(200))
    assert refusal(path) == "not-npy"
    path.write_bytes(b"\x93NUMPY\x02\x00" + struct.pack("<I", 20_000) + b" " * 20_000 + bytes(96))
    assert refusal(path) == "not-npy"


@settings(max_examples=examples(150), deadline=None)
@given(data=st.data())
def test_any_bytes_give_a_volume_or_a_known_reason(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("fuzz")
    np.save(folder / "a.npy", np.zeros(SHAPE, np.float32))
    whole = bytearray((folder / "a.npy").read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, 90))
        whole[place : place + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    (folder / "a.npy").write_bytes(whole)
    refused = None
    try:
        assert read(folder / "a.npy").shape == SHAPE
    except Refused as exc:
        refused = exc
    assert refused is None or (refused.reason in REASONS and refused.message)


def test_a_file_that_is_not_the_one_listed(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros(SHAPE, np.float32))
    found = (tmp_path / "a.npy").stat()
    reader, row = VolumeReader(str(tmp_path), SPEC, finite=True), np.empty(SPEC.volume_bytes, np.uint8)
    for size, time in ((found.st_size + 1, found.st_mtime_ns), (found.st_size, found.st_mtime_ns + 1)):
        with pytest.raises(Refused) as caught:
            reader.read("a.npy", size, time, row)
        assert caught.value.reason == "changed-during-run"
    with pytest.raises(Refused) as caught:
        reader.read("gone.npy", found.st_size, found.st_mtime_ns, row)
    assert caught.value.reason == "changed-during-run"


def test_what_the_system_does_not_give(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.npy")
    (tmp_path / "folder.npy").mkdir()
    (tmp_path / "loop.npy").symlink_to("loop.npy")
    for name in ("pipe.npy", "folder.npy", "loop.npy", "latin-\\xe9.npy"):
        with pytest.raises(Refused) as caught:
            header_of(str(tmp_path), name)
        assert caught.value.reason == "unreadable", name


def test_the_commonest_shape_wins_and_of_equals_the_first(tmp_path: Path) -> None:
    for i, shape in enumerate([(2, 2), (3, 3), (3, 3), (2, 2), (4, 4)]):
        np.save(tmp_path / f"{i}.npy", np.zeros(shape, np.int16))
    (tmp_path / "5.npy").write_bytes(b"")
    sample = sample_local_headers(str(tmp_path), [f"{i}.npy" for i in range(6)])
    assert sample.majority == VolumeSpec(shape=(2, 2), dtype="int16")
    assert [(name, refused.reason) for name, refused in sample.refused] == [("5.npy", "empty")]
    assert sample.looked == 6


@given(count=st.integers(0, 10_000), places=st.integers(1, 300))
def test_a_spread_sample_is_sorted_distinct_and_within(count: int, places: int) -> None:
    rows = spread(count, places)
    assert len(rows) == len(set(rows)) == min(count, places)
    assert rows == sorted(rows)
    assert all(0 <= row < count for row in rows)


def test_a_process_without_file_handles_calls_no_file_bad(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros(3))
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    with (tmp_path / "a.npy").open() as newest:
        resource.setrlimit(resource.RLIMIT_NOFILE, (newest.fileno(), before[1]))
        try:
            with pytest.raises(OSError, match="Too many open files"):
                header_of(str(tmp_path), "a.npy")
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)

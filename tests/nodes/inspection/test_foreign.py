"""`verify` of tables of other programs: damage that can be seen is found, and what cannot be seen is reported."""

from __future__ import annotations

import io
import json
import shutil
import struct
import tarfile
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from foreign_tables import by_petastorm, some, table_of

from engine.errors import DataError, UnsupportedTable
from nodes.foreign_tables.tables import find_table
from nodes.inspection.damage import Checked
from nodes.inspection.verify import check_data
from nodes.volume_file.fatal_footer import refuse_fatal
from tests.golden_rows import GOLDEN_ROWS

UNKNOWN = "so a flipped bit in a value is not noticed"
UNLISTED = "no list says which files belong to the folder"


def check(place: Path) -> Checked:
    return check_data(str(place), threads=2, progress=lambda done, total: None, aside=[])


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def in_a_value(path: Path) -> int:
    """Where the 7th volume's bytes lie in an uncompressed file."""
    at = path.read_bytes().find(np.float32(7.25).tobytes() * 4)
    assert at > 0
    return at + 3


def rows(count: int = 12) -> pa.Table:
    return pa.table({"id": range(count), "image": [np.full(8, n + 0.25, np.float32).tobytes() for n in range(count)]})


def petastorm(folder: Path, *, checksums: bool = False) -> Path:
    """A dataset as `petastorm.etl.dataset_metadata.materialize_dataset` leaves it: two files and the list of them."""
    folder.mkdir()
    for number in range(2):
        pq.write_table(
            rows(), folder / f"part-{number}.parquet", row_group_size=6, compression="none", use_dictionary=False,
            write_page_checksum=checksums, write_statistics=False,
        )  # fmt: skip
    listed = {"part-0.parquet": 2, "part-1.parquet": 2}
    key = "dataset-toolkit.num_row_groups_per_file.v1"
    pq.write_metadata(rows().schema.with_metadata({key: json.dumps(listed)}), folder / "_common_metadata")
    return folder


def compressed(folder: Path, cells: list[bytes | None] | None = None, *, checksums: bool = False) -> Path:
    """One file with arrays as CompressedNdarrayCodec stores them: rows 0 to 5 are its row group 0, 6 to 11 group 1."""
    encode = by_petastorm("CompressedNdarrayCodec")
    table = pa.table({"id": range(12), "image": cells or [encode(v) for v in some(12, shape=(6, 5, 4)).values()]})
    folder.mkdir(exist_ok=True)
    pq.write_table(
        table, folder / "a.parquet", row_group_size=6, compression="none", use_dictionary=False, write_statistics=False,
        write_page_checksum=checksums,
    )  # fmt: skip
    return folder


def cells_of(folder: Path) -> list[bytes]:
    return [bytes(cell) for cell in pq.read_table(folder / "a.parquet")["image"].to_pylist()]


def sums_beside(path: Path, each: int = 512) -> Path:
    """As Hadoop's ChecksumFileSystem writes it."""
    data = path.read_bytes()
    sums = [zlib.crc32(data[at : at + each]) for at in range(0, len(data), each)]
    out = path.with_name(f".{path.name}.crc")
    out.write_bytes(struct.pack(f">4si{len(sums)}I", b"crc\0", each, *sums))
    return out


def test_without_checksums_the_report_says_that_values_are_not_checked(tmp_path: Path) -> None:
    folder = petastorm(tmp_path / "t")
    found = check(folder)
    assert (found.damages, found.files, found.volumes, found.unchecked) == ([], 2, 0, 24)
    (remark,) = found.remarks
    assert remark.startswith("24 rows could be decoded")
    assert UNKNOWN in remark
    # And that is the truth.
    flip(folder / "part-0.parquet", in_a_value(folder / "part-0.parquet"))
    assert (check(folder).damages, check(folder).unchecked) == ([], 24)


def test_page_checksums_are_compared(tmp_path: Path) -> None:
    folder = petastorm(tmp_path / "t", checksums=True)
    found = check(folder)
    assert (found.damages, found.volumes, found.unchecked, found.remarks) == ([], 24, 0, [])
    flip(folder / "part-1.parquet", in_a_value(folder / "part-1.parquet"))
    found = check(folder)
    (damage,) = found.damages
    assert damage.file == str(folder / "part-1.parquet")
    assert damage.problem == "the page does not match its checksum (column image)"
    assert (damage.lost, found.volumes) == ("up to 12 rows in it", 12)
    assert (folder / "part-1.parquet").exists(), "nothing of another program is renamed"


def test_checksums_that_hadoop_wrote_beside_a_file_are_compared(tmp_path: Path) -> None:
    folder = petastorm(tmp_path / "t")
    first, second = (folder / f"part-{number}.parquet" for number in range(2))
    sums_beside(first)
    found = check(folder)
    assert (found.damages, found.volumes, found.unchecked) == ([], 12, 12)
    assert found.remarks[0].startswith("12 rows could be decoded")
    at = in_a_value(first)
    flip(first, at)
    (damage,) = check(folder).damages
    said = f"its bytes from {at // 512 * 512:,} on do not match their checksum in .part-0.parquet.crc"
    assert (damage.file, damage.problem) == (str(first), said)
    sums_beside(second).write_bytes(sums_beside(second).read_bytes()[:-4])
    assert any("is of a file of another size" in each.problem for each in check(folder).damages)


def test_intact_compressed_arrays_count_as_checked(tmp_path: Path) -> None:
    found = check(compressed(tmp_path / "t"))
    assert (found.damages, found.files, found.volumes, found.unchecked) == ([], 1, 12, 0)
    assert found.remarks[0] == (
        "12 compressed arrays match the checksums of their archives; the other values of their rows could be decoded,"
        " and that is all that is known of them"
    )


def test_a_flipped_byte_in_a_compressed_array_is_found_where_pages_have_no_checksums(tmp_path: Path) -> None:
    folder = compressed(tmp_path / "t")
    path, cell = folder / "a.parquet", cells_of(folder)[7]
    flip(path, path.read_bytes().find(cell) + len(cell) // 2)
    assert cells_of(folder)[7] != cell, "the file can still be read as Parquet"
    found = check(folder)
    (damage,) = found.damages
    assert damage.file == str(path)
    assert damage.problem.startswith("the archive in row 7 (column image, row group 1): ")
    assert (damage.lost, damage.rows) == ("1 of 12 rows (row 7)", 1)
    assert (found.volumes, found.unchecked) == (11, 0), "the other rows are counted as before"


@pytest.mark.slow
@pytest.mark.parametrize("checksums", [False, True])
def test_every_flipped_byte_of_a_compressed_array_is_found_or_harmless(tmp_path: Path, checksums: bool) -> None:
    """The array was damaged before it was written: the page's own checksum is right, or there is none."""
    cells = cells_of(compressed(tmp_path / "t"))
    with np.load(io.BytesIO(cells[4])) as archive:
        wanted = archive["arr"]
    found = 0
    for at in range(0, len(cells[4]), 7):
        flipped = bytearray(cells[4])
        flipped[at] ^= 1
        checked = check(compressed(tmp_path / "t", [*cells[:4], bytes(flipped), *cells[5:]], checksums=checksums))
        if checked.damages:
            assert "in row 4 (column image, row group 0): " in checked.damages[0].problem
            assert checked.volumes == 11
            found += 1
        else:
            # A time stamp or the program's name: of the array nothing is lost.
            with np.load(io.BytesIO(bytes(flipped))) as archive:
                np.testing.assert_array_equal(archive["arr"], wanted)
    assert found > len(cells[4]) // 7 * 3 // 4


def test_arrays_beside_compressed_ones_are_not_called_checked(tmp_path: Path) -> None:
    cells: list[bytes | None] = [*cells_of(compressed(tmp_path / "t"))]
    cells[2], cells[3] = by_petastorm("NdarrayCodec")(np.zeros((6, 5, 4), np.float32)), None
    found = check(compressed(tmp_path / "t", cells))
    assert (found.damages, found.volumes, found.unchecked) == ([], 10, 2)
    assert found.remarks[0].startswith("10 compressed arrays match")
    assert found.remarks[1].startswith("2 rows could be decoded, and that is all that is known: not all arrays in them")
    assert UNKNOWN in found.remarks[1]


def encrypted(archive: bytes) -> bytes:
    """The archive with the flag for it, in its member's own header and in the directory."""
    out = bytearray(archive)
    for at in (6, archive.find(b"PK\x01\x02") + 8):
        out[at] |= 1
    return bytes(out)


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA, None])
def test_archives_that_cannot_be_unpacked_here_are_not_called_damaged(tmp_path: Path, method: int | None) -> None:
    """Bytes in a table need not be arrays; bzip2 and LZMA unpack to more than memory holds, others need a password."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED if method is None else method) as archive:
        archive.writestr("a.txt", "text " * 100)
    cell = encrypted(data.getvalue()) if method is None else data.getvalue()
    found = check(compressed(tmp_path / "t", [cell] * 12))
    assert (found.damages, found.volumes, found.unchecked) == ([], 0, 12)


def test_rows_that_are_damaged_together_are_listed_as_ranges(tmp_path: Path) -> None:
    cells: list[bytes | None] = [*cells_of(compressed(tmp_path / "t"))]
    for row in (0, 1, 2, 9):
        cells[row] = (cells[row] or b"")[:-30]
    (damage,) = check(compressed(tmp_path / "t", cells)).damages
    assert damage.lost == "4 of 12 rows (rows 0-2, 9)"
    assert damage.problem.count("the archive in row") == 3


def test_what_petastorm_lists_and_is_gone_or_shorter_is_damage(tmp_path: Path) -> None:
    folder = petastorm(tmp_path / "t")
    (folder / "part-1.parquet").unlink()
    pq.write_table(rows(6), folder / "part-0.parquet")
    assert {(d.file, d.problem) for d in check(folder).damages} == {
        (str(folder / "part-1.parquet"), "it is gone"),
        (str(folder / "part-0.parquet"), "it has 1 row group, not 2"),
    }
    (folder / "_common_metadata").unlink()
    found = check(folder)
    assert found.damages == []
    assert any(remark.startswith(UNLISTED) for remark in found.remarks)


@pytest.mark.parametrize("is_cut", [False, True])
def test_a_file_that_is_no_parquet_any_more_is_damage(tmp_path: Path, is_cut: bool) -> None:
    folder = petastorm(tmp_path / "t")
    path = folder / "part-0.parquet"
    if is_cut:
        path.write_bytes(path.read_bytes()[:300])
    else:
        flip(path, path.stat().st_size - 6)  # the length of the footer
    (damage,) = check(folder).damages
    assert damage.problem.startswith("it cannot be read as Parquet")
    assert damage.lost == "all rows in it"


@pytest.mark.slow
def test_a_delta_table_of_another_program_is_not_called_damaged(tmp_path: Path) -> None:
    table = tmp_path / "t"
    write_deltalake(table, table_of(some(9)))
    found = check(table)
    assert (found.damages, found.files, found.unchecked) == ([], 1, 9)
    assert [UNKNOWN in remark for remark in found.remarks] == [True]
    (path,) = DeltaTable(table).file_uris()
    Path(path).write_bytes(Path(path).read_bytes()[:-100])
    (damage,) = check(table).damages
    assert damage.problem.startswith("it has ")
    Path(path).unlink()
    assert [d.problem for d in check(table).damages] == ["it is gone"]
    log = table / "_delta_log" / "00000000000000000000.json"
    log.write_bytes(log.read_bytes()[:50])
    assert {d.kind for d in check(table).damages} == {"log"}


def test_a_table_that_cannot_be_read_here_is_refused_and_not_called_damaged(tmp_path: Path) -> None:
    table = tmp_path / "t"
    write_deltalake(table, table_of(some(3)))
    log = table / "_delta_log" / "00000000000000000000.json"
    lines = log.read_text().splitlines()
    needs = {"minReaderVersion": 3, "minWriterVersion": 7}
    features = {"readerFeatures": ["typeWidening"], "writerFeatures": ["typeWidening"]}
    protocol = json.dumps({"protocol": needs | features})
    log.write_text("\n".join(protocol if '"protocol"' in line else line for line in lines))
    with pytest.raises(UnsupportedTable, match="typeWidening"):
        check(table)


def test_a_table_without_rows_has_nothing_that_could_be_damaged(tmp_path: Path) -> None:
    write_deltalake(tmp_path / "t", table_of(some(3)).slice(0, 0))
    found = check(tmp_path / "t")
    assert (found.damages, found.files, found.remarks) == ([], 0, [])


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("golden")
    with tarfile.open(GOLDEN_ROWS) as archive:
        archive.extractall(out, filter="data")
    return out / "delta"


@pytest.mark.slow
def test_a_table_that_a_catalog_manages_is_not_called_damaged(golden: Path) -> None:
    with pytest.raises(UnsupportedTable, match="a catalog says which versions the table"):
        check(golden / "catalog-owned-preview")


@pytest.mark.slow
@pytest.mark.parametrize("is_gone", [False, True])
def test_a_damaged_deletion_vector_is_damage_and_no_feature(golden: Path, tmp_path: Path, is_gone: bool) -> None:
    table = tmp_path / "t"
    shutil.copytree(golden / "partitioned-table-with-dv-large", table)
    assert check(table).damages == []
    vectors = sorted(table.glob("deletion_vector_*.bin"))
    if is_gone:
        vectors[0].unlink()
    else:
        flip(vectors[0], 12)
    (damage,) = check(table).damages
    assert damage.problem.startswith(f"a deletion vector of the table {table} cannot be read: ")
    assert vectors[0].name in damage.problem
    assert damage.lost == "which files and rows the table has"
    with pytest.raises(DataError, match="cannot be read") as raised:
        find_table(str(table))
    assert "PURGE" not in raised.value.hint, "which would need it"
    assert "rows that it deletes would come back" in raised.value.hint


@pytest.mark.parametrize("options", [{}, {"data_page_version": "2.0"}, {"write_page_checksum": True}])
def test_row_groups_without_rows_are_not_called_damaged(tmp_path: Path, options: dict[str, Any]) -> None:
    """As Arrow and pandas write a table without rows, and a writer that is given one among others."""
    folder = tmp_path / "t"
    folder.mkdir()
    pq.write_table(rows().slice(0, 0), folder / "none.parquet", **options)
    with pq.ParquetWriter(folder / "some.parquet", rows().schema, **options) as writer:
        for count in (12, 0, 5):
            writer.write_table(rows().slice(0, count))
    assert pq.read_metadata(folder / "some.parquet").num_row_groups == 3
    found = check(folder)
    assert (found.damages, found.files, found.volumes + found.unchecked) == ([], 2, 17)


def test_a_file_with_the_longest_name_is_not_called_damaged(tmp_path: Path) -> None:
    """The name of Hadoop's checksums, which is longer, is none that could be asked for."""
    folder = tmp_path / "t"
    folder.mkdir()
    pq.write_table(rows(), folder / f"{'a' * 247}.parquet")
    found = check(folder)
    assert (found.damages, found.unchecked) == ([], 12)


def test_a_damaged_list_of_petastorm_is_damage(tmp_path: Path) -> None:
    folder = petastorm(tmp_path / "t")
    listed = folder / "_common_metadata"
    intact = listed.read_bytes()
    circle = tmp_path / "circle"
    circle.symlink_to(listed)
    key = "dataset-toolkit.num_row_groups_per_file.v1"
    null = rows().schema.with_metadata({key: json.dumps({"part-0.parquet": None})})
    for damage in (
        lambda: listed.write_bytes(intact[:-20]),
        lambda: listed.write_bytes(b""),
        lambda: pq.write_metadata(null, listed),
        lambda: circle.rename(listed),
    ):
        damage()
        found = check(folder)
        (one,) = found.damages
        assert (one.file, one.kind, one.rows) == (str(listed), "file", 0)
        assert one.problem.startswith("it cannot be read (")
        assert one.lost == "what it says of the folder's files, not their rows"
        assert (found.files, found.unchecked) == (2, 24), "the files themselves are read"
        assert found.remarks[-1].startswith(UNLISTED)


def test_a_link_that_leads_in_a_circle_is_damage_and_the_rest_is_read(tmp_path: Path) -> None:
    folder = tmp_path / "t"
    folder.mkdir()
    pq.write_table(rows(), folder / "a.parquet")
    (folder / "b.parquet").symlink_to(folder / "b.parquet")
    found = check(folder)
    (damage,) = found.damages
    assert (damage.file, damage.problem) == (
        str(folder / "b.parquet"),
        "it cannot be read (Too many levels of symbolic links)",
    )
    assert found.unchecked == 12


@pytest.mark.slow
def test_a_footer_that_would_end_another_program_is_damage(tmp_path: Path) -> None:
    """All rows can be decoded, and yet no program may ask pyarrow for a column's description."""
    path = tmp_path / "t" / "rows.parquet"
    path.parent.mkdir()
    pq.write_table(pa.table({"id": pa.array(range(12), pa.int32()), "image": rows()["image"]}), path)
    whole = path.read_bytes()
    footer, found = int.from_bytes(whole[-8:-4], "little"), 0
    for bit in range(8 * (len(whole) - 8 - footer), 8 * (len(whole) - 8)):
        data = bytearray(whole)
        data[bit // 8] ^= 1 << bit % 8
        try:
            metadata = pq.read_metadata(io.BytesIO(data))
            refuse_fatal(metadata)
            continue
        except (OSError, UnicodeDecodeError):
            continue
        except pa.ArrowException:
            pass
        path.write_bytes(data)
        try:
            damages = check(path.parent).damages
        except DataError:  # what the node reads first of it does not fit
            continue
        assert [Path(damage.file).name for damage in damages] == ["rows.parquet"], bit
        found += 1
    assert found > 3

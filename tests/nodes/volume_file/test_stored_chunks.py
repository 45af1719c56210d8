"""Where pyarrow and the format's own footers agree, and footers for which pyarrow ends the process."""

from __future__ import annotations

import base64
import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe
import pytest

from nodes.inspection.damage import Checked
from nodes.inspection.verify import check_data
from nodes.volume_file.stored_chunks import stored_chunks
from nodes.volume_file.thrift import Malformed

EACH_BIT = """
import os, sys
from pathlib import Path
from nodes.inspection.verify import check_data

folder, first, end = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
path = folder / "a.parquet"
whole = path.read_bytes()
for bit in range(first, end):
    data = bytearray(whole)
    data[bit // 8] ^= 1 << bit % 8
    path.write_bytes(data)
    (folder / "bit").write_text(str(bit))
    try:
        check_data(str(folder), threads=1, progress=lambda done, total: None, aside=[])
    except Exception as exc:
        if type(exc).__module__ != "engine.errors":
            raise
"""


def written(**options: Any) -> bytes:
    table = pa.table(
        {
            "id": [f"volume {n}" for n in range(20)],
            "place": [{"x": n, "of": [n] * 3} for n in range(20)],
            "y": np.arange(20.0),
        }
    )
    out = io.BytesIO()
    pq.write_table(table, out, row_group_size=8, **options)
    return out.getvalue()


@pytest.mark.parametrize("compression", ["none", "snappy", "zstd"])
@pytest.mark.parametrize("use_dictionary", [True, False])
def test_columns_lie_where_pyarrow_says(compression: str, use_dictionary: bool) -> None:
    file = pa.BufferReader(written(compression=compression, use_dictionary=use_dictionary))
    metadata = pq.ParquetFile(file).metadata
    found = stored_chunks(file)
    assert [len(chunks) for chunks in found] == [metadata.num_columns] * metadata.num_row_groups
    for group, chunks in enumerate(found):
        for column, chunk in enumerate(chunks):
            theirs = metadata.row_group(group).column(column)
            start = theirs.dictionary_page_offset or theirs.data_page_offset
            assert (chunk.path, chunk.values) == (theirs.path_in_schema, theirs.num_values)
            assert (chunk.start, chunk.length) == (start, theirs.total_compressed_size)
            assert chunk.compressed == (theirs.compression != "UNCOMPRESSED")
            assert sum(map(len, chunk.bytes_of(file))) == chunk.length


@pytest.mark.parametrize("cut", [0, 5, 11, 40])
def test_what_is_no_parquet_file_is_refused(cut: int) -> None:
    with pytest.raises(Malformed):
        stored_chunks(pa.BufferReader(written()[:cut]))


@pytest.mark.slow
def test_no_flipped_bit_of_a_footer_ends_the_process(tmp_path: Path) -> None:
    """A histogram of levels of the wrong length does, in `RowGroupMetaData.column`."""
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": pa.array([[1, 2]] * 9)}), path, compression="none", store_schema=False)
    data = path.read_bytes()
    footer = int.from_bytes(data[-8:-4], "little")
    bits = [str((len(data) - 8 - footer) * 8), str((len(data) - 8) * 8)]
    done = subprocess.run(
        [sys.executable, "-c", EACH_BIT, str(tmp_path), *bits], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, f"bit {(tmp_path / 'bit').read_text()} of {bits}: {done.stderr}"


class Kms(pe.KmsClient):  # type: ignore[misc]
    def __init__(self, _: object) -> None:
        super().__init__()

    def wrap_key(self, key: bytes, name: str) -> bytes:
        return base64.b64encode(key)

    def unwrap_key(self, wrapped: bytes, name: str) -> bytes:
        return base64.b64decode(wrapped)


def test_encrypted_columns_are_named_and_end_no_process(tmp_path: Path) -> None:
    config = pe.EncryptionConfiguration("footer", column_keys={"column": ["x"]}, plaintext_footer=True)
    given = pe.CryptoFactory(Kms).file_encryption_properties(pe.KmsConnectionConfig(), config)
    table = pa.table({"x": [1, 2]})
    with pq.ParquetWriter(tmp_path / "a.parquet", table.schema, encryption_properties=given) as writer:
        writer.write_table(table)
    found: Checked = check_data(str(tmp_path), threads=1, progress=lambda done, total: None, aside=[])
    assert [damage.problem for damage in found.damages] == ["it cannot be read as Parquet (its columns are encrypted)"]

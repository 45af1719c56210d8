"""A footer for which pyarrow ends the process ends it nowhere that a table is read: the file is named."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from delta_tables import context, shards

from nodes.optimize_delta import optimize_delta
from nodes.parquet_to_delta import parquet_to_delta
from nodes.table.snapshot import open_table

EACH_WAY = """
import os
import random
import re
import sys
from collections import defaultdict
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from delta_tables import context

import voxelflow
from engine.errors import VoxelflowError
from nodes.inspection.verify import check_data
from nodes.loaders import open_source
from nodes.loaders.data_files import LocalFiles, read_files
from nodes.optimize_delta import optimize_delta
from nodes.table.snapshot import open_table
from nodes.volume_file.fatal_footer import refuse_fatal
from nodes.volume_file.plain_footer import is_plain
from nodes.volume_file.rewrite import read_metadata

uri, name, place = sys.argv[1], sys.argv[2], Path(sys.argv[3])
path = Path(uri, name)
table = open_table(uri).reference(uri)
whole = path.read_bytes()
footer = int.from_bytes(whole[-8:-4], "little")


class Elsewhere(LocalFiles):
    mapped = False


def load():
    with voxelflow.load(uri, batch_size=2) as volumes:
        list(volumes)


def compact():
    optimize_delta(table, ctx=context(place, "again"))


def train():
    open_source("arrow", table, cores=1)


def load_from_elsewhere():
    list(read_files((str(path),), index_bytes=table.spec.volume_bytes, threads=1, access=Elsewhere()))


def rewrite():
    read_metadata.cache_clear()
    read_metadata(path, len(whole))


def ask(metadata):
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        for column in range(group.num_columns):
            try:
                group.column(column).statistics
            except Exception:
                pass


def those_that_end_it(asked):
    # A process is asked for the columns of each in turn. When it has ended, the next one goes on behind that footer.
    found, done = set(), 0
    while done < len(asked):
        answers, said = os.pipe()
        if (child := os.fork()) == 0:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            for _, metadata in asked[done:]:
                ask(metadata)
                os.write(said, b".")
            os._exit(0)
        os.close(said)
        with open(answers, "rb") as file:
            done += len(file.read())
        os.waitpid(child, 0)
        if done < len(asked):
            found.add(asked[done][0])
            done += 1
    return found


asked, others = [], defaultdict(list)
for bit in range(8 * (len(whole) - 8 - footer), 8 * (len(whole) - 8)):
    data = bytearray(whole)
    data[bit // 8] ^= 1 << bit % 8
    metadata = None
    try:
        metadata = pq.ParquetFile(pa.BufferReader(bytes(data))).metadata
        if is_plain(bytes(data[-8 - footer : -8]), metadata.schema):
            continue  # for these there is a test of its own
        refuse_fatal(metadata)
        continue
    except (OSError, UnicodeDecodeError):
        continue
    except pa.ArrowException as exc:
        said = re.sub(r"\\b0x\\w+|\\d+|column \\S+|is \\S+ in", "", str(exc))
    others[said].append(bit)
    if metadata is not None:
        asked.append((bit, metadata))
fatal = those_that_end_it(asked)

# Of those that end no process thousands are refused with the same words: most, since a text in them is no base64.
drawn, chosen = random.Random(0), sorted(fatal)
for alike in others.values():
    harmless = [bit for bit in alike if bit not in fatal]
    chosen += drawn.sample(harmless, min(8, len(harmless)))
ways = [load, train, load_from_elsewhere, rewrite]
if len(open_table(uri).files) > 1:
    ways.append(compact)
for bit in chosen:
    data = bytearray(whole)
    data[bit // 8] ^= 1 << bit % 8
    path.write_bytes(data)
    for way in ways:
        (place / "now").write_text(f"{way.__name__}, bit {bit}")
        try:
            way()
        except VoxelflowError as exc:
            assert name in exc.message, exc.message
            assert exc.hint, exc.message
        else:
            raise AssertionError(f"{way.__name__} took bit {bit}")
    found = check_data(uri, threads=1, progress=lambda done, total: None)
    assert [name in damage.file for damage in found.damages] == [True], found.damages
print(len(fatal), len(chosen) - len(fatal))
"""


@pytest.mark.slow
@pytest.mark.parametrize("joined", [False, True], ids=["of pyarrow", "of OptimizeDelta"])
def test_no_flipped_bit_ends_a_process_that_reads_the_table(tmp_path: Path, joined: bool) -> None:
    table = parquet_to_delta(shards(tmp_path / "p", 3, 4), mode="copy", ctx=context(tmp_path))
    if joined:
        table = optimize_delta(table, ctx=context(tmp_path, "o"))
    name = open_table(table.uri).files[0].path
    support = str(Path(__file__).parents[2] / "support")
    done = subprocess.run(
        [sys.executable, "-c", EACH_WAY, table.uri, name, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=600,
        env=os.environ | {"PYTHONPATH": support},
    )
    assert done.returncode == 0, f"{(tmp_path / 'now').read_text()}: {done.stderr[-2000:]}"
    fatal, others = map(int, done.stdout.split())
    assert fatal > 5
    assert others > 50

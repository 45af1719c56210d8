"""How soon a table is seen: what the process beside the app answers, for tables of few and of very many files.

Each round opens the table anew, in a process that has imported what it needs. A page asks for what there is to see, for
24 volumes, and for their thumbnails, six at a time; `choices` are the labels, which a page asks for last.
Files are in the page cache. A table of one file per row shows a sample; its files are links to a few.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.data import shape_of
from benchmarks.race import peak_bytes
from benchmarks.reports import Report, Table

if TYPE_CHECKING:
    from engine.declare.datasets import VolumeDelta
    from engine.workspace import Workspace

_THUMBNAILS, _AT_ONCE = 24, 6
_ROW_GROUP = 64
_DIFFERENT = 64
_STEPS = ("open", "to the first thumbnail", "to all 24", "another channel", "choices")


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--tables", nargs="+", default=["2000/12/30,30,10,10", "651000/3000/8,8,4,2", "50000/50000/8,8,4,2"],
        metavar="ROWS/FILES/SHAPE", help="tables of float32 volumes (default: %(default)s)",
    )  # fmt: skip


def run(options: argparse.Namespace, folder: Path) -> Report:
    """One table after the other."""
    from engine.workspace import open_workspace

    workspace = open_workspace(folder / "workspace")
    rows: list[list[Any]] = []
    for number, text in enumerate(options.tables):
        count, files, shape = text.split("/")
        table = make_table(folder / f"table-{number}", int(count), int(files), shape_of(shape))
        rounds = [_look(workspace, table) for _ in range(options.rounds + 1)][1:]
        for step in (*_STEPS, "peak MB"):
            found = sorted(each[step] for each in rounds)
            values = (round(value, 1) for value in (statistics.median(found), found[0], found[-1]))
            rows.append([f"{table.count:,} rows, {table.files:,} files", step, *values])
    columns = ["table", "step", "median ms", "least", "most"]
    return Report("look", tables=[Table("from a question to its answer", columns, rows)])


def _look(workspace: Workspace, table: VolumeDelta) -> dict[str, float]:
    """Milliseconds of each step, and the most memory that the process had."""
    from engine.declare.datasets import Report as Page
    from engine.viewing.process import ViewProcess

    process = ViewProcess(workspace)

    def ask(what: str, panel: str = "volumes", **query: object) -> bytes:
        texts = {name: str(value) for name, value in query.items()}
        answer = process.ask(table, {}, panel, what, texts).result()
        if answer.status != 200:
            raise RuntimeError(answer.body.decode())
        return answer.body

    def thumbnail(row: int, channel: int = 0) -> bytes:
        return ask("thumbnail", row=row, size=160, channel=channel)

    out: dict[str, float] = {}
    try:
        # It answers once it has imported what most datasets need.
        process.ask(Page(uri="/none.html"), {}, "document", "file", {}).result()
        begin = time.perf_counter()

        def note(step: str, since: float) -> None:
            out[step] = 1000 * (time.perf_counter() - since)

        ask("info", panel="")
        note("open", begin)
        shown = [item["row"] for item in json.loads(ask("content", count=_THUMBNAILS))["items"]]
        thumbnail(shown[0])
        note("to the first thumbnail", begin)
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(thumbnail, shown[1:]))
        note("to all 24", begin)
        begin = time.perf_counter()
        thumbnail(shown[0], channel=1)
        note("another channel", begin)
        begin = time.perf_counter()
        ask("choices")
        note("choices", begin)
        if process.pid is not None:
            out["peak MB"] = peak_bytes(process.pid) / 1e6
    finally:
        process.close()
    return out


def make_table(root: Path, count: int, files: int, shape: tuple[int, ...]) -> VolumeDelta:
    """A table of `count` rows, as evenly in `files` files as can be."""
    from deltalake import DeltaTable, convert_to_deltalake

    from engine.declare.datasets import VolumeSpec
    from nodes.table.snapshot import open_table
    from nodes.volume_file.join import template
    from nodes.volume_file.layout import properties, schema, writer_options
    from nodes.volume_file.write import PlainFile

    spec = VolumeSpec(shape=shape, dtype="float32", classes=("a", "b"))
    empty = template(schema(spec), writer_options())
    rng = np.random.default_rng(0)
    volumes = [rng.standard_normal(shape, np.float32).reshape(-1).view(np.uint8) for _ in range(_DIFFERENT)]
    root.mkdir(parents=True)
    number = 0
    for file in range(files):
        path, rows = root / f"part-{file:07d}.parquet", count // files + (file < count % files)
        if rows == 1 and file >= _DIFFERENT:
            os.link(root / f"part-{file % _DIFFERENT:07d}.parquet", path)
            continue
        out = PlainFile(path, empty, spec.volume_bytes, _ROW_GROUP)
        for _ in range(rows):
            out.buffer()[:] = volumes[number % _DIFFERENT]
            out.keep(f"{number:07d}.npy", float(number % 2))
            number += 1
        out.finish()
    convert_to_deltalake(str(root))
    DeltaTable(str(root)).alter.set_table_properties(properties(spec), raise_if_not_exists=False)
    return open_table(root).reference(str(root))

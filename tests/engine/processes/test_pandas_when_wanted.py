"""pyarrow imports pandas, 0.2 s of processor time in every process, only where somebody wants it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from building import box, pipeline
from delta_tables import context, shards
from waiting import WAIT_S

from engine.document.pipeline import write_pipeline
from nodes.parquet_to_delta import parquet_to_delta

pytestmark = pytest.mark.slow

_WATCH = """
import os, sys, traceback
class Watch:
    def find_spec(self, name, path, target=None):
        if name == "pandas":
            with open(os.environ["SEEN"], "a") as seen:
                print(*sys.argv[1:2], file=seen)
                traceback.print_stack(file=seen)
sys.meta_path.insert(0, Watch())
"""


def _said(program: str) -> list[object]:
    """What a program prints that begins as ours do, as JSON."""
    begin = "from engine.processes.pandas_when_wanted import import_pandas_when_wanted\nimport_pandas_when_wanted()\n"
    code = f"import json, sys\n{begin}import pyarrow as pa\n{program}"
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, timeout=WAIT_S)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_whoever_imports_pandas_notices_nothing() -> None:
    assert _said(
        "pa.array([1, 2], pa.int64())\n"
        "print(json.dumps('pandas' in sys.modules))\n"
        "import pandas\n"
        "print(json.dumps(pa.array(pandas.Series([1, None], dtype='Int64')).to_pylist()))\n"
        "print(json.dumps(pa.array(pandas.Series([1, pandas.NA], dtype=object)).to_pylist()))\n"
        "print(json.dumps(pandas.Series([1, 2]).sum().item()))\n"
    ) == [False, [1, None], [1, None], 3]


def test_a_table_becomes_a_data_frame_as_ever() -> None:
    assert _said("print(json.dumps(pa.table({'a': [1, 2]}).to_pandas()['a'].tolist()))\n") == [[1, 2]]


def test_a_process_that_has_pandas_keeps_it() -> None:
    assert _said(
        "import pandas\n"
        "import engine.processes.pyarrow_without_pandas\n"
        "print(json.dumps(pa.array([1, pandas.NA], from_pandas=True).to_pylist()))\n"
    ) == [[1, None]]


def test_types_are_inferred_without_it() -> None:
    assert _said(
        "import engine.processes.pyarrow_without_pandas\n"
        "print(json.dumps([str(pa.array([1, 'a'][:1]).type), 'pandas' in sys.modules]))\n"
    ) == [["int64", False]]


def test_no_process_of_a_conversion_imports_it(tmp_path: Path) -> None:
    (tmp_path / "volumes").mkdir()
    for number in range(4):
        np.save(tmp_path / "volumes" / f"{number}.npy", np.zeros((6, 6, 4, 2), np.float32))
    (tmp_path / "sitecustomize.py").write_text(_WATCH)
    nodes = {
        "files": ("VolumeFolder", {"folder": str(tmp_path / "volumes")}),
        "convert": ("NumpyToParquet", {}),
        "table": ("ParquetToDelta", {}),
        "optimize": ("OptimizeDelta", {}),
    }
    wires = "files.out>convert.files convert.out>table.parquet table.out>optimize.table"
    document = tmp_path / "chain.json"
    write_pipeline(pipeline(*(box(n, t, **p) for n, (t, p) in nodes.items()), wires=wires, name="chain"), document)
    seen = tmp_path / "seen.txt"
    done = subprocess.run(
        [sys.executable, "-m", "voxelflow", "run", str(document), "--workspace", str(tmp_path / "workspace")],
        capture_output=True, text=True, timeout=WAIT_S,
        env={
            **os.environ, "PYTHONPATH": str(tmp_path), "SEEN": str(seen), "VOXELFLOW_TRACKING": "off",
            "VOXELFLOW_DATA_ROOTS": str(tmp_path),
        },
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert not seen.exists(), seen.read_text()


def test_a_gallery_of_a_table_needs_none(tmp_path: Path) -> None:
    """Its first picture waits for what the process imports."""
    table = parquet_to_delta(shards(tmp_path / "p", 4, 3), ctx=context(tmp_path))
    stored = json.dumps({"kind": table.kind, **table.model_dump(mode="json")})
    assert (
        _said(
            "from engine.declare.dataset_type import stored_dataset\n"
            "from engine.viewing.reader import OpenViews, Question\n"
            "from nodes.viewing import open_view, prepare\n"
            "prepare()\n"
            f"table, views = stored_dataset(json.loads({stored!r})), OpenViews(open_view)\n"
            "asked = [('-', 'card', {}), ('volumes', 'content', {'count': '4'}), ('volumes', 'choices', {}),\n"
            "    ('volumes', 'thumbnail', {'row': '1', 'size': '96'})]\n"
            "for n, (panel, what, query) in enumerate(asked):\n"
            "    question = Question(n=n, dataset=table, made_from={}, panel=panel, what=what, query=query)\n"
            "    print(json.dumps([views.answer(question).status, 'pandas' in sys.modules]))\n"
        )
        == [[200, False]] * 4
    )

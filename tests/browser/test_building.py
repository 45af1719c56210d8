"""A whole pipeline with the mouse: from an empty canvas to a trained model, and again."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest
from canvas_page import CanvasPage, box, eventually
from playwright.sync_api import Page, expect
from studio import StudioServer

from engine.document.pipeline import dump, load
from engine.run.worker_process import PROGRAM
from engine.store.runs import RunStore

NODES = ("synthetic_volumes", "numpy_to_parquet", "parquet_to_delta", "optimize_delta", "train_res_net3d")
TYPES = ("SyntheticVolumes", "NumpyToParquet", "ParquetToDelta", "OptimizeDelta", "TrainResNet3D")
WIRES = (
    "synthetic_volumes.out>numpy_to_parquet.files",
    "numpy_to_parquet.out>parquet_to_delta.parquet",
    "parquet_to_delta.out>optimize_delta.table",
    "optimize_delta.out>train_res_net3d.data",
)
SETTINGS: dict[str, dict[str, Any]] = {
    "synthetic_volumes": {"count": 64, "shape": [6, 6, 4, 2]},
    "train_res_net3d": {"epochs": 1, "batch_size": 16, "steps_per_epoch": 2, "width": 16},
}


def build(canvas: CanvasPage) -> None:
    """Draw the five nodes in two rows, so that nothing has to be zoomed."""
    frame = box(canvas.frame)
    for i, (node_type, node) in enumerate(zip(TYPES, NODES, strict=True)):
        column, row = (i % 3, 0) if i < 3 else (i - 2, 1)
        at = (frame["x"] + 124 + 245 * column, frame["y"] + 150 + 220 * row)
        assert canvas.drag_in(node_type, at) == node
    for wire in WIRES:
        canvas.draw(*wire.split(">"))
    canvas.expect_edges(*WIRES)
    for node, settings in SETTINGS.items():
        canvas.select(node)
        for name, value in settings.items():
            field = canvas.field(name.replace("_", " ").capitalize())
            if field.evaluate("field => field.tagName") == "SELECT":
                field.select_option(str(value))
            else:
                field.fill(", ".join(map(str, value)) if isinstance(value, list) else str(value))
    canvas.keys("Enter")
    eventually(lambda: {node: canvas.params(node) for node in SETTINGS} == SETTINGS, "a parameter did not arrive")


@pytest.mark.timeout(400)
def test_from_an_empty_canvas_to_a_trained_model_and_again(page: Page, studio: StudioServer) -> None:
    canvas = CanvasPage(page, studio).open().new()
    build(canvas)

    canvas.button("Save").click()
    dialog = page.get_by_role("dialog", name="Save as")
    dialog.get_by_label("Name").fill("My first model")
    dialog.get_by_role("button", name="Save").click()
    expect(page.get_by_role("button", name="Pipeline My first model")).to_be_visible()
    expect(page.get_by_test_id("unsaved")).to_have_count(0)
    saved = studio.workspace.pipelines / "my-first-model.json"
    eventually(saved.exists)
    canvas.expect_document("my-first-model")
    text = saved.read_text()
    assert dump(load(text)) == text
    assert [n.id for n in load(text).nodes] == list(NODES)
    command = (*PROGRAM, "validate", "my-first-model", "--workspace", str(studio.workspace.root))
    checked = subprocess.run(command, capture_output=True, text=True, check=False, cwd=studio.home)
    assert checked.returncode == 0, checked.stdout + checked.stderr

    page.reload()
    canvas.ready()
    canvas.expect_edges(*WIRES)
    expect(canvas.cards).to_have_count(5)
    canvas.select("synthetic_volumes")
    expect(canvas.field("Count")).to_have_value("64")
    assert saved.read_text() == text

    first, last = canvas.card("synthetic_volumes"), canvas.card("train_res_net3d")
    expect(first).to_have_attribute("data-state", "stale")
    canvas.button("Run").click()
    expect(last).to_have_attribute("data-state", "queued")
    expect(first).to_have_attribute("data-state", "done")
    expect(last).to_have_attribute("data-state", "running")
    expect(page.get_by_test_id("run-tasks")).to_have_text("4/5 nodes")
    expect(last).to_have_attribute("data-state", "done", timeout=150_000)
    expect(canvas.button("Run")).to_be_visible()
    expect(first).to_contain_text("64 volumes")
    for node in NODES:
        expect(canvas.card(node)).to_have_attribute("data-state", "done")
    assert saved.read_text() == text

    canvas.button("Run").click()
    for node in NODES:
        expect(canvas.card(node)).to_have_attribute("data-state", "cached")
    expect(canvas.button("Run")).to_be_visible()
    expect(first).to_contain_text("64 volumes")

    canvas.select("train_res_net3d")
    canvas.field("Epochs").fill("2")
    expect(last).to_have_attribute("data-state", "stale")
    expect(last).to_contain_text("Will run")
    for node in NODES[:-1]:
        expect(canvas.card(node)).not_to_have_attribute("data-state", "stale")
    store = RunStore(studio.workspace)
    assert [run.state for run in store.runs()] == ["done", "done"]
    store.close()

"""Files that a run has kept, also those of one name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from building import box, pipeline
from PIL import Image
from recorded_runs import Did, record
from streamlit.testing.v1 import AppTest

from engine.declare.events import Artifact
from engine.store.runs import RunStore
from ui.runs.artifacts import each_once, titles_of
from ui.shell.blocks import plain


def kept(path: str, name: str = "") -> Artifact:
    return Artifact(node="a", role="file", name=name or Path(path).name, path=path)


def test_files_of_one_name_are_told_apart_by_the_end_of_their_paths() -> None:
    assert titles_of(
        [
            kept("/run/fold1/table.csv"),
            kept("/run/fold2/table.csv"),
            kept("/run/fold1/all/curve.csv"),
            kept("/run/fold2/all/curve.csv"),
            kept("/run/one.csv", "Figures"),
            kept("/run/two.csv", "Figures"),
            kept("/run/fold1/alone.csv"),
        ]
    ) == {
        "/run/fold1/table.csv": "fold1/table.csv",
        "/run/fold2/table.csv": "fold2/table.csv",
        "/run/fold1/all/curve.csv": "fold1/all/curve.csv",
        "/run/fold2/all/curve.csv": "fold2/all/curve.csv",
        "/run/one.csv": "Figures, one.csv",
        "/run/two.csv": "Figures, two.csv",
        "/run/fold1/alone.csv": "alone.csv",
    }
    assert titles_of([]) == {}


def test_a_file_that_was_written_again_is_one() -> None:
    assert [file.path for file in each_once([kept("/run/a.csv"), kept("/run/a.csv")])] == ["/run/a.csv"]


@pytest.mark.slow
def test_the_pages_show_files_of_one_name_of_one_node(
    app: Callable[..., AppTest], store: RunStore, tmp_path: Path
) -> None:
    run_id = "20260101-000000-aaaaaa"
    record(store, run_id, pipeline(box("a", "Make"), name="demo"), "done", {"a": Did("done", 0, 5)}, began=1e9, took=5)
    for fold in ("fold1", "fold2"):
        (tmp_path / fold).mkdir()
        (tmp_path / fold / "confusion.csv").write_text("a,b\n")
        Image.new("L", (2, 2)).save(tmp_path / fold / "curve.png")
        store.add_events(run_id, [kept(str(path)) for path in sorted((tmp_path / fold).iterdir())])
    for view in ("Overview", "Graph"):
        page = app("run", run=run_id, view=view)
        assert not page.exception, [e.message for e in page.exception]
        shown = "\n".join(str(element.proto.body) for element in page.get("html"))
        captions = [image.caption for element in page.get("image") for image in element.proto.imgs]
        for fold in ("fold1", "fold2"):
            assert f"{fold}/confusion.csv" in shown
            assert any(caption.endswith(plain(f"{fold}/curve.png")) for caption in captions)
        assert len(page.get("download_button")) >= 4

"""The pictures on a run's overview: called by what they show, of a training and of its evaluation."""

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
from ui.runs.artifacts import picture_title, titles_of
from ui.shell.blocks import plain


def _kept(path: str, name: str = "", node: str = "a") -> Artifact:
    return Artifact(node=node, role="plot", name=name or Path(path).name, path=path)


@pytest.mark.parametrize(
    ("path", "name", "title"),
    [
        ("/run/curves.png", "", "Curves"),
        ("/run/numbers.png", "", "Predicted and true"),
        ("/run/confusion.png", "", "Confusion matrix"),
        ("/run/pace_by_epoch.png", "", "Pace by epoch"),
        ("/run/numbers.png", "Ages", "Ages"),
        ("/run/_.png", "", "_.png"),
    ],
)
def test_a_picture_is_called_by_what_it_shows(path: str, name: str, title: str) -> None:
    artifact = _kept(path, name)
    assert picture_title(artifact, titles_of([artifact])[path]) == title


def test_pictures_of_one_name_are_told_apart_by_their_paths() -> None:
    both = [_kept("/run/fold1/curves.png"), _kept("/run/fold2/curves.png")]
    titles = titles_of(both)
    assert [picture_title(each, titles[each.path]) for each in both] == ["fold1/curves.png", "fold2/curves.png"]


@pytest.mark.slow
def test_the_overview_of_a_regression_says_what_its_pictures_show(
    app: Callable[..., AppTest], store: RunStore, tmp_path: Path
) -> None:
    run_id = "20260101-000000-aaaaaa"
    document = pipeline(box("a", "Make"), box("b", "Make"), name="ages")
    record(store, run_id, document, "done", {"a": Did("done", 0, 5), "b": Did("done", 5, 6)}, began=1e9, took=6)
    for node, name, size in (("a", "curves.png", (9, 4)), ("b", "numbers.png", (5, 5))):
        Image.new("L", size).save(tmp_path / name)
        store.add_events(run_id, [_kept(str(tmp_path / name), node=node)])
    page = app("run", run=run_id)
    assert not page.exception, [e.message for e in page.exception]
    captions = [image.caption for element in page.get("image") for image in element.proto.imgs]
    assert captions == [plain("Make (a): Curves"), plain("Make (b): Predicted and true")]

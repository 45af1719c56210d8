"""The Start page, and who comes to it."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator

import pytest
from building import box, pipeline
from streamlit.testing.v1 import AppTest

from engine.document.pipeline import write_pipeline
from engine.store.runs import RunStore
from engine.workspace import Workspace
from ui.build.page import documents_of
from ui.studio_context import studio

OpenApp = Callable[..., AppTest]


@pytest.fixture
def start(app: OpenApp) -> Iterator[OpenApp]:
    yield app
    documents_of(studio()).close()


def _text(page: AppTest) -> str:
    return "\n".join(str(block.body) for block in page.get("html"))


@pytest.mark.slow
def test_a_new_workspace_shows_what_to_do_and_the_templates(start: OpenApp) -> None:
    page = start("start")
    assert not page.exception
    text = _text(page)
    assert "From volumes to a trained network" in text
    assert "Press Run" in text
    assert "Your pipelines" not in text
    for name in ("quickstart", "volumes-to-resnet", "volumes-to-predictions", "whitepaper-experiment"):
        assert f">{name}<" in text
    assert page.button(key="start_use_quickstart").label == "Use this"
    assert 'a trained <span class="vf-unbroken">3-D</span> <span class="vf-unbroken">ResNet-18</span>' in text
    assert "ResNet-18" not in text.replace('<span class="vf-unbroken">ResNet-18</span>', "")


@pytest.mark.slow
def test_use_this_opens_a_copy_of_ones_own(start: OpenApp, workspace: Workspace) -> None:
    page = start("start")
    page.button(key="start_use_volumes-to-resnet").click()
    page.run()
    assert documents_of(studio()).drafts.documents() == ["volumes-to-resnet"]
    assert list(workspace.pipelines.glob("*.json")) == []
    # Once more is another copy: the first may hold work.
    documents_of(studio()).new("volumes-to-resnet")
    assert len(documents_of(studio()).drafts.documents()) == 2


@pytest.mark.slow
def test_recent_pipelines_and_runs_come_with_their_states(
    start: OpenApp, workspace: Workspace, store: RunStore
) -> None:
    document = pipeline(box("a", "Make"), name="*mine*")
    write_pipeline(document, workspace.pipelines / "mine.json")
    store.create_run("*mine*", "{}", {}, "local")
    page = start("start")
    assert not page.exception
    text = _text(page)
    assert "Latest runs" in text
    assert "vf-state-" in text
    assert "From volumes" not in text
    assert page.button(key="start_open_mine").label == r"\*mine\*"


@pytest.mark.slow
def test_the_bare_address_leads_here_once_while_there_is_nothing_of_ones_own(
    start: OpenApp, workspace: Workspace
) -> None:
    page = start("")
    assert "From volumes to a trained network" in _text(page)
    documents_of(studio()).new(None)
    assert "start_templates" not in str(start("").main)


@pytest.mark.slow
def test_help_is_on_each_page(start: OpenApp) -> None:
    for path in ("start", "runs", "compute"):
        text = _text(start(path))
        assert "voxelflow explain CODE" in text
        assert "Workspace" in text


@pytest.mark.slow
def test_a_template_that_cannot_be_opened_says_why(
    start: OpenApp, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = start("start")

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("ui.build.drafts.write_whole", full)
    page.button(key="start_use_quickstart").click()
    page.run()
    assert not page.exception
    assert "No space left on device" in _text(page)
    assert page.button(key="start_use_quickstart").label == "Use this"

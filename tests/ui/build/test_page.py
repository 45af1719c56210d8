"""The page in a running Streamlit, without a browser: AppTest draws components but does not run them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from building import box, pipeline
from streamlit.testing.v1 import AppTest
from waiting import WAIT_S

from engine.document.pipeline import dump
from engine.errors import PipelineError
from ui.build.editor import Editor
from ui.build.page import documents_of, import_document
from ui.protocol.notices import Opened
from ui.studio_context import Studio, install


def _page() -> None:
    from ui.build import page

    page.show()


@pytest.fixture
def page(studio: Studio) -> Iterator[AppTest]:
    install(studio)
    yield AppTest.from_function(_page, default_timeout=WAIT_S)
    documents_of(studio).close()


def _editor(page: AppTest) -> Editor:
    return page.session_state["build.editor"]


def _say_hello(page: AppTest) -> list[str]:
    editor = _editor(page)
    inbox = editor.inbox()
    hello = {"n": 1, "command": {"type": "hello", "document": None}}
    editor.handle({"client": "page", "session": inbox.session, "seen": 0, "sent": [hello]})
    return [p.notice.document for p in editor.inbox().posted if isinstance(p.notice, Opened)]


@pytest.mark.slow
def test_a_tab_keeps_its_session_and_says_in_its_address_what_it_shows(page: AppTest) -> None:
    page.run()
    assert not page.exception
    editor = _editor(page)
    assert _say_hello(page) == ["quickstart"]
    page.run()
    assert not page.exception
    assert _editor(page) is editor
    assert "pipeline" not in page.query_params, "the canvas completes it, without a step to go back"
    page.query_params["pipeline"] = "another"
    page.run()
    assert page.query_params["pipeline"] == "quickstart"


@pytest.mark.slow
def test_the_address_names_the_document(page: AppTest, studio: Studio) -> None:
    documents_of(studio).add(pipeline(box("a", "Make"), name="named"))
    documents_of(studio).add(pipeline(name="other"))
    page.query_params["pipeline"] = "named"
    page.run()
    assert _say_hello(page) == ["named"]


def _opening(document: str) -> None:
    from ui.build import page
    from ui.build.page import open_document

    open_document(document)
    page.show()


def _importing(text: str) -> None:
    from ui.build import page
    from ui.build.page import import_document

    import_document(text, "run 1")
    page.show()


@pytest.mark.slow
def test_another_page_has_a_document_shown(page: AppTest, studio: Studio) -> None:
    documents_of(studio).add(pipeline(name="first"))
    documents_of(studio).add(pipeline(name="second"))
    asking = AppTest.from_function(_opening, default_timeout=WAIT_S, args=("first",)).run()
    assert not asking.exception
    assert _say_hello(asking) == ["first"]


@pytest.mark.slow
def test_another_page_makes_a_document_of_text(page: AppTest) -> None:
    asking = AppTest.from_function(_importing, default_timeout=WAIT_S, args=(dump(pipeline(name="from a run")),)).run()
    assert not asking.exception
    assert _say_hello(asking) == ["from-a-run"]


def test_text_that_is_no_pipeline_is_refused(page: AppTest) -> None:
    with pytest.raises(PipelineError, match="run 1 is not valid JSON"):
        import_document("{", "run 1")

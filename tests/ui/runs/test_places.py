"""Pages of runs that a link or a choice changes as a whole: nothing of the runs before stands beside the new ones."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from building import box, pipeline
from drawn_places import path_to
from streamlit.testing.v1 import AppTest

Open = Callable[..., AppTest]
pytestmark = pytest.mark.slow


@pytest.fixture
def three(runs) -> list[str]:
    return [runs.run(pipeline(box("a", "Make", text=text), name="demo"))[0].run_id for text in "xyz"]


def _place(page: AppTest, words: str) -> tuple[int, ...]:
    """Where the one element lies whose HTML has these words, without its own number."""
    assert not page.exception, [e.message for e in page.exception]
    return path_to(page, lambda each: words in str(getattr(getattr(each, "proto", None), "body", "")))[:-1]


def test_another_run_is_drawn_in_another_place(app: Open, three: list[str]) -> None:
    page = app("run", run=three[0])
    first = _place(page, f">{three[0]}<")
    page.run()
    assert _place(page, f">{three[0]}<") == first
    page.query_params["run"] = three[1]
    page.run()
    assert _place(page, f">{three[1]}<") != first


def test_other_runs_are_compared_in_another_place(app: Open, three: list[str]) -> None:
    page = app("compare", runs=",".join(three[:2]))
    first = _place(page, 'aria-label="Durations"')
    page.toggle(key="compare_all").set_value(True).run()
    assert _place(page, 'aria-label="Durations"') == first
    page.multiselect(key="compare_runs").set_value(three).run()
    assert _place(page, 'aria-label="Durations"') != first

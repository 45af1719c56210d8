"""What the app has written into a page as HTML of its own."""

from __future__ import annotations

from streamlit.testing.v1 import AppTest


def html(page: AppTest) -> str:
    """All of it, one part a line. Fails with the messages of what the page's script has raised."""
    assert not page.exception, [e.message for e in page.exception]
    return "\n".join(str(element.proto.body) for element in page.get("html"))

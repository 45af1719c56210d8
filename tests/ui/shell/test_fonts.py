from __future__ import annotations

import asyncio
from pathlib import Path

from starlette.requests import Request

from ui.shell import fonts, theme


def test_the_font_is_served_where_the_style_sheet_asks_for_it() -> None:
    answer = asyncio.run(fonts.respond(Request({"type": "http", "method": "GET", "path": f"/{fonts.FONT_PATH}"})))
    assert (answer.media_type, answer.headers["cache-control"]) == ("font/woff2", "max-age=86400")
    assert Path(answer.path).read_bytes().startswith(b"wOF2")
    assert f'url("{fonts.FONT_PATH}")' in theme.style_sheet(full_bleed=False)
    assert str(theme.OPTIONS["theme.font"]).startswith(f'"{fonts.FAMILY}", ')


def test_the_font_comes_with_its_licence() -> None:
    licence = Path(fonts.__file__ or "").with_name("inter") / "LICENSE.txt"
    assert "SIL OPEN FONT LICENSE" in licence.read_text(encoding="utf-8")

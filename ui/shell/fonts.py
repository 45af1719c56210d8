"""The app's font: Inter (`inter/LICENSE.txt`), served by the app itself, so that it looks the same everywhere and
asks no other server for anything. It has Latin letters; others come from the system's fonts."""

from __future__ import annotations

import base64
from functools import cache
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import FileResponse

FAMILY: Final = "Inter Variable"
FONT_PATH: Final = "voxelflow/fonts/inter.woff2"
"""Its address, relative to the app's."""
_FILE = Path(__file__).with_name("inter") / "inter.woff2"
_LATIN = (
    "U+0000-00FF, U+0131, U+0152-0153, U+02BB-02BC, U+02C6, U+02DA, U+02DC, U+0304, U+0308, U+0329, U+2000-206F,"
    " U+20AC, U+2122, U+2191, U+2193, U+2212, U+2215, U+FEFF, U+FFFD"
)


def font_face() -> str:
    """The rule that declares it. Pages have addresses of one part, so the relative one is right on each."""
    return (
        f'@font-face {{ font-family: "{FAMILY}"; src: url("{FONT_PATH}") format("woff2-variations"),'
        f' url("{FONT_PATH}") format("woff2"); font-weight: 100 900; font-style: normal; font-display: swap;'
        f" unicode-range: {_LATIN}; }}"
    )


@cache
def embedded_style() -> str:
    """The rules by which an SVG that is an image has the font: such a picture may fetch none. 64 kB."""
    font = base64.b64encode(_FILE.read_bytes()).decode()
    return (
        f'@font-face {{ font-family: "{FAMILY}"; src: url("data:font/woff2;base64,{font}") format("woff2");'
        f" font-weight: 100 900; unicode-range: {_LATIN}; }}"
        f' svg {{ font-family: "{FAMILY}", system-ui, sans-serif; }}'
    )


async def respond(request: Request) -> FileResponse:
    """The file, kept by the browser for a day."""
    return FileResponse(_FILE, media_type="font/woff2", headers={"Cache-Control": "max-age=86400"})

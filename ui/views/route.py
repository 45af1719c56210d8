"""The route by which pictures and volumes reach the browser: `GET voxelflow/view/KEY/PANEL/WHAT`.

Nothing in an address is a path or the name of a file: KEY stands for a dataset that was given to a page
(`ui.views.shown`), PANEL and WHAT are names that its view has. So whoever has a key may see that dataset, and there is
nothing else to ask for. The login or token of the app is checked before (`ui.access`); here the host, and that no other
web site asks.

    KEY                          what there is to see
    KEY/-/card                   a few volumes for the card of the node
    KEY/-/zip                    all files of a model, in one ZIP that is made while it is sent
    KEY/PANEL/choices            what the person may choose
    KEY/PANEL/content            thumbnails to show, rows, charts
    KEY/PANEL/thumbnail          PNG of `row`, `channel`, at most `size` pixels wide, in the colours `map`
    KEY/PANEL/voxels             the numbers of `row` as they are stored, at most `limit` bytes; headers say their shape
    KEY/PANEL/volume             NIfTI of `row`, at most `limit` bytes of voxels; both in ranges, if wanted
    KEY/PANEL/file               a document
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from streamlit.web.server.server_util import is_url_from_allowed_origins
from streamlit.web.server.starlette.starlette_websocket import is_host_allowed

from engine.declare.dataset_type import Dataset, stored_dataset
from engine.declare.datasets import TrainedModel
from engine.processes.messages import Answer
from engine.storage import is_url
from engine.viewing.process import ViewProcess
from engine.viewing.reader import BYTES_HEADER, PART_BYTES
from ui.views.archive import files_in, zipped
from ui.views.parts import in_parts
from ui.views.shown import Shown, ShownDatasets

_PATIENCE_S = 120.0
_IN_PARTS = frozenset({"volume", "voxels"})
_WHATS = frozenset({"card", "choices", "content", "thumbnail", "file", "zip"}) | _IN_PARTS
_LONGEST_QUERY = 4096
_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "Vary": "Cookie",
}


class ViewRoute:
    """Answers the requests. Knows which datasets are shown, and asks the process that opens them."""

    def __init__(self, shown: ShownDatasets, process: ViewProcess) -> None:
        self._shown, self._process = shown, process

    async def respond(self, request: Request) -> Response:
        """The endpoint."""
        if not is_ours(request):
            return _refused(403, "This request came from another web site.")
        shown = self._shown.find(request.path_params["key"])
        panel, what = request.path_params.get("panel", ""), request.path_params.get("what", "info")
        if shown is None:
            return _refused(404, "This page is out of date.", "Reload it.")
        unknown = (what not in _WHATS and panel) or (what == "zip" and panel != "-")
        if unknown or len(request.url.query) > _LONGEST_QUERY:
            return _refused(404, "There is nothing at this address.")
        if what == "zip":
            answered = await asyncio.to_thread(_archive, shown.dataset)
            return answered if request.method != "HEAD" else _headers_of(answered)
        query = dict(request.query_params)
        if what in _IN_PARTS:
            query |= {"start": "0", "stop": str(PART_BYTES)}
        try:
            answer = await self._ask(shown, panel, what, query)
        except TimeoutError:
            return _refused(504, "The data takes too long to read.", "Try again in a moment.")
        except OSError as exc:  # it died, or none could be started
            return _refused(503, f"The data cannot be read: {exc}", "Try again.")
        if what in _IN_PARTS and answer.status == 200:
            return self._volume(request, answer, shown, panel, what)
        return self._response(request, answer, what)

    async def _ask(self, shown: Shown, panel: str, what: str, query: Mapping[str, str]) -> Answer:
        # Not by `wrap_future` alone: a browser that goes away must not cancel what others wait for.
        asked = self._process.ask(shown.dataset, shown.made_from, panel, what, query)
        return await asyncio.wait_for(asyncio.wrap_future(asked), _PATIENCE_S)

    def _response(self, request: Request, answer: Answer, what: str) -> Response:
        body, headers = answer.body, {**_HEADERS, **answer.headers}
        if what == "content" and answer.status == 200:
            body = self._with_keys(body)
        # The key stands for one version of the data: what it shows stays the same, but not for a folder's files.
        headers["Cache-Control"] = "private, no-cache"
        tag = headers["ETag"] = _tag(body)
        if answer.status == 200 and request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return Response(body, answer.status, headers)

    def _volume(self, request: Request, first: Answer, shown: Shown, panel: str, what: str) -> Response:
        """A volume, or a range of it; `first` is the answer with its first part."""
        size = int(first.headers[BYTES_HEADER])
        headers = {**_HEADERS, **first.headers, "Accept-Ranges": "bytes"}
        # Else Streamlit's server compresses it: voxels hardly shrink, and 200 MB take seconds.
        headers["Content-Encoding"] = "identity"
        tag: str | None = None
        if size == len(first.body):
            tag = headers["ETag"] = _tag(first.body)
        headers["Cache-Control"] = "private, no-store" if tag is None else "private, no-cache"
        if tag is not None and request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        start, stop, status = 0, size, 200
        # What comes in parts has no tag, so nothing can be joined to what was got before.
        if request.headers.get("if-range", tag) == tag and (found := _range(request.headers.get("range", ""), size)):
            start, stop = found
            if start >= stop:
                return Response(status_code=416, headers={**headers, "Content-Range": f"bytes */{size}"})
            status, headers["Content-Range"] = 206, f"bytes {start}-{stop - 1}/{size}"
        headers["Content-Length"] = str(stop - start)
        if request.method == "HEAD" or stop <= len(first.body):
            return Response(first.body[start:stop], status, headers)

        async def part(begin: int, end: int) -> bytes:
            query = {**request.query_params, "start": str(begin), "stop": str(end)}
            answer = await self._ask(shown, panel, what, query)
            if answer.status != 200 or len(answer.body) != end - begin:
                raise OSError("the volume has changed while it was sent")
            return answer.body

        known = first.body if start == 0 else b""
        return StreamingResponse(in_parts(part, start, stop, PART_BYTES, known), status, headers)

    def _with_keys(self, body: bytes) -> bytes:
        """The content with keys in the place of the datasets that rows open."""
        if b'"opens":{' not in body:
            return body
        content = json.loads(body)
        for row in content["rows"]:
            if row["opens"] is not None:
                row["opens"] = self._shown.key(stored_dataset(row["opens"]))
        return json.dumps(content).encode()


def _headers_of(answer: Response) -> Response:
    """The headers alone: no file is read for them. An archive's size is not known before it is made."""
    out = Response(None, answer.status_code, answer.headers)
    if isinstance(answer, StreamingResponse):
        del out.headers["content-length"]
    return out


def _archive(dataset: Dataset) -> Response:
    """All files of a model. Of other datasets there is none: they are large, and read where they lie."""
    if not isinstance(dataset, TrainedModel) or is_url(dataset.uri):
        return _refused(404, "There is nothing at this address.")
    folder = Path(dataset.uri)
    try:
        files = files_in(folder)
    except OSError as exc:
        return _refused(
            404, f"The model's folder cannot be read: {exc.strerror or exc}", "Train it again: Re-run does."
        )
    headers = {
        **_HEADERS,
        "Content-Type": "application/zip",
        "Content-Disposition": 'attachment; filename="model.zip"',
        "Content-Encoding": "identity",
        "Cache-Control": "private, no-store",
    }
    return StreamingResponse(zipped(folder, files), 200, headers)


def _tag(body: bytes) -> str:
    return f'"{hashlib.blake2b(body, digest_size=12).hexdigest()}"'


def _range(wanted: str, size: int) -> tuple[int, int] | None:
    """From where to where; None for all. Several ranges at once nobody asks for."""
    match = _RANGE.fullmatch(wanted)
    if match is None or wanted == "bytes=-":
        return None
    first, last = match[1], match[2]
    start = int(first) if first else max(0, size - int(last))
    return start, min(int(last) + 1, size) if first and last else size


def is_ours(request: Request) -> bool:
    """Whether a page of this app asks, or a program that is no browser, by a name that this computer has."""
    host, origin = request.headers.get("host"), request.headers.get("origin")
    ours = origin is None or origin.partition("://")[2] == host or is_url_from_allowed_origins(origin)
    # Pictures are asked for without an origin, but with this.
    same_site = request.headers.get("sec-fetch-site", "same-origin") in ("same-origin", "none")
    return ours and same_site and is_host_allowed(host)


def _refused(status: int, message: str, hint: str = "") -> Response:
    return JSONResponse({"message": message, "hint": hint}, status, _HEADERS)

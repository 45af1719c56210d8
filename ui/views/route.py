"""The route by which pictures and volumes reach the browser: `GET voxelflow/view/KEY/PANEL/WHAT`.

Nothing in an address is a path or the name of a file: KEY stands for a dataset that a page has been told of
(`ui.views.shown`), PANEL and WHAT are names that its view has. So whoever has a key may see that dataset, and there is
nothing else to ask for. The login or token of the app is checked before (`ui.access`); here the host, and that no other
web site asks.

    KEY                          what there is to see
    KEY/-/card                   a few volumes for the card of the node
    KEY/PANEL/choices            what the person may choose
    KEY/PANEL/content            thumbnails to show, rows, charts
    KEY/PANEL/thumbnail          PNG of `row`, `channel`, at most `size` pixels wide, in the colours `map`
    KEY/PANEL/volume             NIfTI of `row`, at most `limit` bytes of voxels; in ranges, if wanted
    KEY/PANEL/file               a document
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import threading
from collections import OrderedDict
from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from streamlit.web.server.server_util import is_url_from_allowed_origins
from streamlit.web.server.starlette.starlette_websocket import is_host_allowed

from engine.declare.dataset_type import stored_dataset
from engine.processes.messages import Answer
from engine.viewing.process import ViewProcess
from ui.views.shown import Shown, ShownDatasets

_PATIENCE_S = 120.0
_KEPT_BYTES = 64 << 20
_WHATS = frozenset({"card", "choices", "content", "thumbnail", "volume", "file"})
_LONGEST_QUERY = 4096
_RANGE = re.compile(r"bytes=(\d*)-(\d*)")
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
        self._large = _LatestAnswers()

    async def respond(self, request: Request) -> Response:
        """The endpoint."""
        if not is_ours(request):
            return _refused(403, "This request came from another web site.")
        shown = self._shown.find(request.path_params["key"])
        panel, what = request.path_params.get("panel", ""), request.path_params.get("what", "info")
        if shown is None:
            return _refused(404, "This page is out of date.", "Reload it.")
        if (what not in _WHATS and panel) or len(request.url.query) > _LONGEST_QUERY:
            return _refused(404, "There is nothing at this address.")
        query = dict(request.query_params)
        name = json.dumps([request.path_params["key"], panel, what, sorted(query.items())])
        answer = self._large.get(name)
        if answer is None:
            try:
                answer = await self._ask(shown, panel, what, query)
            except TimeoutError:
                return _refused(504, "The data takes too long to read.", "Try again in a moment.")
            except OSError as exc:  # it died, or none could be started
                return _refused(503, f"The data cannot be read: {exc}", "Try again.")
            if what == "volume" and answer.status == 200:
                self._large.put(name, answer)
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
        tag = f'"{hashlib.blake2b(body, digest_size=12).hexdigest()}"'
        headers["ETag"] = tag
        if answer.status == 200 and request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        if what == "volume" and answer.status == 200:
            headers["Accept-Ranges"] = "bytes"
            # Else Streamlit's server compresses it: voxels hardly shrink, and 200 MB take seconds.
            headers["Content-Encoding"] = "identity"
            wanted = request.headers.get("range")
            if wanted and request.headers.get("if-range", tag) == tag and (match := _RANGE.fullmatch(wanted)):
                return _part(body, match[1], match[2], headers)
        return Response(body, answer.status, headers)

    def _with_keys(self, body: bytes) -> bytes:
        """The content with keys in the place of the datasets that rows open."""
        if b'"opens":{' not in body:
            return body
        content = json.loads(body)
        for row in content["rows"]:
            if row["opens"] is not None:
                row["opens"] = self._shown.key(stored_dataset(row["opens"]))
        return json.dumps(content).encode()


class _LatestAnswers:
    """Volumes that were sent lately: who takes one in ranges makes a request for each."""

    def __init__(self) -> None:
        self._answers: OrderedDict[str, Answer] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def get(self, name: str) -> Answer | None:
        with self._lock:
            if name in self._answers:
                self._answers.move_to_end(name)
            return self._answers.get(name)

    def put(self, name: str, answer: Answer) -> None:
        with self._lock:
            if name in self._answers or len(answer.body) > _KEPT_BYTES:
                return
            self._answers[name] = answer
            self._bytes += len(answer.body)
            while self._bytes > _KEPT_BYTES:
                self._bytes -= len(self._answers.popitem(last=False)[1].body)


def _part(body: bytes, first: str, last: str, headers: dict[str, str]) -> Response:
    """A range of the body; several ranges at once nobody asks for."""
    size = len(body)
    if not first and not last:
        return Response(body, 200, headers)
    start = int(first) if first else max(0, size - int(last))
    end = min(int(last), size - 1) if first and last else size - 1
    if start > end:
        return Response(status_code=416, headers={**headers, "Content-Range": f"bytes */{size}"})
    return Response(body[start : end + 1], 206, {**headers, "Content-Range": f"bytes {start}-{end}/{size}"})


def is_ours(request: Request) -> bool:
    """Whether a page of this app asks, or a program that is no browser, by a name that this computer has."""
    host, origin = request.headers.get("host"), request.headers.get("origin")
    ours = origin is None or origin.partition("://")[2] == host or is_url_from_allowed_origins(origin)
    # Pictures are asked for without an origin, but with this.
    same_site = request.headers.get("sec-fetch-site", "same-origin") in ("same-origin", "none")
    return ours and same_site and is_host_allowed(host)


def _refused(status: int, message: str, hint: str = "") -> Response:
    return JSONResponse({"message": message, "hint": hint}, status, _HEADERS)

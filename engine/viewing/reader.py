"""The process that opens datasets and answers questions about them (`engine.viewing`).

It reads one `Question` a line and sends an `Answer` for each, in any order.
"""

from __future__ import annotations

import json
import mimetypes
import sys
import threading
import traceback
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from typing import NoReturn

from pydantic import BaseModel, SerializeAsAny

from engine.declare.dataset_type import AnyDataset, Dataset, Frozen, known_again
from engine.declare.view import CardPicture, Charts, Choice, DatasetView, Document, Gallery, Panel, Table
from engine.errors import DataError, UsageError, VoxelflowError
from engine.processes.messages import Answer, known_error
from engine.processes.parent import Parent
from engine.processes.system import tolerate_full_disk
from engine.text import headline
from engine.viewing import pictures
from engine.viewing.info import info_of
from engine.viewing.kept_volumes import KeptVolumes, OpenVolume
from engine.viewing.scales import GalleryScales
from engine.viewing.thumbnails import thumbnail

OpenView = Callable[[Dataset, Mapping[str, Dataset]], DatasetView | None]
"""Opens a dataset of a built-in type; None: there is nothing to look at."""

_VIEWS = 8
"""Datasets that stay open, the latest ones."""
_THREADS = 4
_MOST_ITEMS, _MOST_ROWS = 200, 500
_LARGEST_PICTURE = 1024
PART_BYTES = 1 << 20
"""Of a volume in one answer, at most."""
BYTES_HEADER = "X-Voxelflow-Bytes"
"""How many bytes a volume has in all that is sent in parts."""
_DOCUMENT_LIMIT = 64 << 20
_USUAL_SIZE = 160
AUTOMATIC = "auto"
"""The colour map that is chosen by the values."""
_ON_A_CARD = 3


class Question(BaseModel):
    """What the app asks: `what` of a dataset's `panel`. `n` numbers the questions of one process."""

    n: int
    dataset: SerializeAsAny[AnyDataset]
    made_from: dict[str, SerializeAsAny[AnyDataset]]
    panel: str
    what: str
    query: dict[str, str]


class Choices(Frozen):
    """The questions of a panel."""

    choices: tuple[Choice, ...]


class _NotThere(Exception):
    """What was asked for does not exist: the address is wrong."""


def serve(handle: int, open_view: OpenView, prepare: Callable[[], None]) -> NoReturn:
    """Answer questions until the app is gone; `handle` is the number of the message pipe.

    `prepare` imports what most datasets need: the first question mostly comes seconds later.
    """
    tolerate_full_disk()
    parent = Parent(handle)
    views = OpenViews(open_view)
    with suppress(ImportError):  # whoever needs it will say so
        prepare()
    with ThreadPoolExecutor(_THREADS) as pool:
        while True:
            # The process ends with its parent, whatever is waiting here.
            pool.submit(_respond, parent, views, parent.line())


def _respond(parent: Parent, views: OpenViews, line: bytes) -> None:
    question = Question.model_validate_json(line)
    try:
        parent.send(views.answer(question))
    except BaseException:
        print(traceback.format_exc(), file=sys.stderr, flush=True)
        parent.send(_problem(question.n, 500, "The picture could not be made.", "Look at the app's log."))


class OpenViews:
    """The datasets that are open. May be asked by several threads."""

    def __init__(self, open_view: OpenView) -> None:
        self._open_view = open_view
        self._views: OrderedDict[str, _Opened] = OrderedDict()
        self._volumes = KeptVolumes()
        self._lock = threading.Lock()

    def answer(self, question: Question) -> Answer:
        """The answer to a question; what went wrong is an answer, too."""
        try:
            return self._answer(question)
        except _NotThere:
            return _problem(question.n, 404, "There is nothing to see at this address.")
        except Exception as exc:
            known = exc if isinstance(exc, VoxelflowError) else known_error(exc, in_run=False)
            if known is None:
                print(traceback.format_exc(), file=sys.stderr, flush=True)
                known = DataError(f"this cannot be shown: {type(exc).__name__}: {exc}", hint="Look at the app's log.")
            return _problem(question.n, 422, headline(known.message), known.hint)

    def _answer(self, question: Question) -> Answer:
        opened = self._opened(question)
        n, query, what = question.n, question.query, question.what
        if what == "info":
            return _json(n, info_of(opened.dataset, opened.view))
        if what == "card":
            return _json(n, _card(opened))
        panel = opened.view.panels.get(question.panel)
        if panel is None:
            raise _NotThere
        if what == "choices":
            # Not with the panel's lock: it may read all rows, and thumbnails must not wait for that.
            with opened.choosing:
                return _json(n, Choices(choices=tuple(panel.choices())))
        with opened.locks[question.panel]:
            if isinstance(panel, Gallery) and what == "thumbnail":
                return _thumbnail(n, panel, opened.scales[question.panel], query)
            if isinstance(panel, Gallery) and what in ("volume", "voxels"):
                return self._volume_part(question, opened, panel)
            if isinstance(panel, Document) and what == "file":
                return _file(n, panel)
            if what == "content" and (content := _content(panel, query)) is not None:
                return _json(n, content)
        raise _NotThere

    def _volume_part(self, question: Question, opened: _Opened, panel: Gallery) -> Answer:
        """The bytes from `start` to `stop` of a volume of at most `limit` bytes of voxels; the headers say of what."""
        query = question.query
        row = _number(query, "row", 0, 2**62)
        limit = _number(query, "limit", 2**62, 2**62)
        start = _number(query, "start", 0, 2**62)
        stop = min(_number(query, "stop", start + PART_BYTES, 2**63), start + PART_BYTES)
        name = json.dumps([opened.name, question.panel, row])
        volume = self._volumes.get(name, lambda: OpenVolume(panel.volume(row), panel.spacing(row)))
        streamed, headers = volume.form(question.what, max(1, limit))
        stop = min(stop, streamed.size)
        body = streamed.part(start, stop) if start < stop else b""
        if stop == streamed.size > PART_BYTES:
            self._volumes.drop(name)
        headers = {**headers, BYTES_HEADER: str(streamed.size)}
        return Answer(n=question.n, status=200, headers=headers, body=body)

    def _opened(self, question: Question) -> _Opened:
        dataset = known_again(question.dataset)
        made_from = {port: known_again(each) for port, each in question.made_from.items()}
        name = json.dumps([dataset.model_dump(mode="json"), sorted((p, d.uri) for p, d in made_from.items())])
        gone: list[_Opened] = []
        with self._lock:
            opened = self._views.pop(name, None) or _Opened(name, dataset, made_from, self._open_view)
            self._views[name] = opened
            while len(self._views) > _VIEWS:
                gone.append(self._views.popitem(last=False)[1])
        for each in gone:
            each.close()
        try:
            opened.open()
        except BaseException:
            with self._lock:
                self._views.pop(name, None)
            raise
        return opened


class _Opened:
    """A dataset and its view, opened by the first thread that comes; the others wait."""

    def __init__(self, name: str, dataset: Dataset, made_from: Mapping[str, Dataset], open_view: OpenView) -> None:
        self.name, self.dataset = name, dataset
        self.view = DatasetView()
        self.locks: dict[str, threading.Lock] = {}
        self.scales: dict[str, GalleryScales] = {}
        self.choosing = threading.Lock()
        self._made_from, self._open_view = made_from, open_view
        self._opening = threading.Lock()
        self._is_open = False

    def open(self) -> None:
        """Raises `DataError` when the data is not there or there is nothing to look at."""
        with self._opening:
            if self._is_open:
                return
            view = self.dataset.open_view(self._made_from) or self._open_view(self.dataset, self._made_from)
            if view is None:
                raise DataError(
                    f"there is nothing to look at in a {self.dataset.kind}",
                    hint="Choose another dataset.",
                )
            self.view, self.locks = view, {name: threading.Lock() for name in view.panels}
            galleries = {name: panel for name, panel in view.panels.items() if isinstance(panel, Gallery)}
            self.scales = {name: GalleryScales(gallery) for name, gallery in galleries.items()}
            self._is_open = True

    def close(self) -> None:
        """Close it once nobody is at work in it."""
        with ExitStack() as held:
            for lock in (self.choosing, *self.locks.values()):
                held.enter_context(lock)
            self.view.close()


def _card(opened: _Opened) -> CardPicture:
    """Always the same volumes, drawn at random."""
    for name, panel in opened.view.panels.items():
        if isinstance(panel, Gallery):
            with opened.locks[name]:
                return CardPicture(panel=name, items=panel.pick(0, _ON_A_CARD, 0, {}).items)
    raise _NotThere


def _content(panel: Panel, query: Mapping[str, str]) -> BaseModel | None:
    chosen = {name.removeprefix("choose-"): value for name, value in query.items() if name.startswith("choose-")}
    offset = _number(query, "offset", 0, 2**62)
    if isinstance(panel, Gallery):
        count, seed = _number(query, "count", 24, _MOST_ITEMS), _number(query, "seed", 0, 2**62)
        return panel.pick(offset, count, seed, chosen)
    if isinstance(panel, Table):
        return panel.page(offset, _number(query, "count", 50, _MOST_ROWS), chosen)
    charts = getattr(panel, "charts", None)
    return Charts(charts=tuple(charts(chosen))) if charts is not None else None


def _thumbnail(n: int, panel: Gallery, scales: GalleryScales, query: Mapping[str, str]) -> Answer:
    """PNG of a volume in the colours `map`; "auto" are those that suit all volumes of the panel."""
    colours = query.get("map", AUTOMATIC)
    if colours not in (AUTOMATIC, *pictures.COLOUR_MAPS):
        raise _NotThere
    volume = panel.volume(_number(query, "row", 0, 2**62))
    size = max(1, _number(query, "size", _USUAL_SIZE, _LARGEST_PICTURE))
    channel = _number(query, "channel", 0, 2**31)
    scale = scales.of(channel)
    if colours != AUTOMATIC:
        scale = scale.in_colours(colours)  # type: ignore[arg-type]
    picture = thumbnail(volume, channel, size, scale)
    return Answer(n=n, status=200, headers={"Content-Type": "image/png"}, body=picture)


def _file(n: int, panel: Document) -> Answer:
    from engine.storage.files import read_document

    media, _ = mimetypes.guess_type(panel.path.name)
    media = media or "text/plain"
    if media.startswith("text/"):
        media += "; charset=utf-8"
    # A report is a page of somebody's: it runs no script here, and asks for nothing anywhere.
    policy = "sandbox; default-src 'none'; img-src data:; style-src 'unsafe-inline'; font-src data:"
    headers = {"Content-Type": media, "Content-Security-Policy": policy}
    return Answer(n=n, status=200, headers=headers, body=read_document(panel.path, _DOCUMENT_LIMIT))


def _number(query: Mapping[str, str], name: str, usual: int, most: int) -> int:
    """Raises `UsageError` for what is no number from 0 to `most`."""
    text = query.get(name, str(usual))
    if not text.isascii() or not text.isdigit() or len(text) > 20 or int(text) > most:
        raise UsageError(
            f"{name} must be a whole number from 0 to {most}, not {text[:40]!r}",
            hint="Go back to the picture, which asks for what there is.",
        )
    return int(text)


def _json(n: int, value: BaseModel) -> Answer:
    return Answer(n=n, status=200, headers={"Content-Type": "application/json"}, body=value.model_dump_json().encode())


def _problem(n: int, status: int, message: str, hint: str = "") -> Answer:
    body = json.dumps({"message": message, "hint": hint}).encode()
    return Answer(n=n, status=status, headers={"Content-Type": "application/json"}, body=body)

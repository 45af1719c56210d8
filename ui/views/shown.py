"""Which datasets the browser may look at: those given to a page, each under a key that nobody guesses."""

from __future__ import annotations

import base64
import hashlib
import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import NamedTuple

from engine.declare.dataset_type import Dataset
from engine.viewing.info import has_view

_MOST = 20_000
"""Datasets that are remembered: more than tabs show at a time."""


class Shown(NamedTuple):
    """A dataset, and what the node that made it was given, by port."""

    dataset: Dataset
    made_from: Mapping[str, Dataset]


class ShownDatasets:
    """Datasets by key. The same dataset has the same key as long as the app runs. May be used by any thread."""

    def __init__(self) -> None:
        self.on_first: Callable[[], None] = lambda: None
        """Called once, when there is something to look at: what may begin early. An `OSError` of it is passed over."""
        self._secret = secrets.token_bytes(32)
        self._lock = threading.Lock()
        self._shown: OrderedDict[str, Shown] = OrderedDict()

    def key(self, dataset: Dataset, made_from: Mapping[str, Dataset] | None = None) -> str:
        """The key under which the browser may ask for the dataset from now on; "" when there is nothing to see."""
        if not has_view(dataset):
            return ""
        shown = Shown(dataset, made_from or {})
        text = "\0".join(
            [dataset.model_dump_json(), *(f"{p}={d.model_dump_json()}" for p, d in sorted(shown.made_from.items()))]
        )
        digest = hashlib.blake2b(text.encode(), digest_size=24, key=self._secret).digest()
        key = base64.urlsafe_b64encode(digest).decode()
        with self._lock:
            first = not self._shown
            self._shown[key] = shown
            self._shown.move_to_end(key)
            if len(self._shown) > _MOST:
                self._shown.popitem(last=False)
        if first:
            # Too many processes or open files. The page is drawn anyway; the first look tries again and says it.
            with suppress(OSError):
                self.on_first()
        return key

    def find(self, key: str) -> Shown | None:
        """What the key stands for; None for a wrong one."""
        with self._lock:
            return self._shown.get(key)

"""Paths as a workspace stores them: those inside it relative to it, so that it can be moved and copied.

In memory every path is absolute. In the run store, in plans and in `storages.json` a path inside the workspace reads
`workspace:/data/...`; any other stays as it is. A model whose field is a `LocalPath` is stored so when it is dumped,
and absolute again when it is validated, where `context` is a `WorkspacePaths`; without one the text stays as it is.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer, SerializationInfo, SerializerFunctionWrapHandler, ValidationInfo
from pydantic.functional_serializers import WrapSerializer

INSIDE = "workspace:/"
_SCHEME = "workspace:"
_LITERAL = "workspace::"
"""How a text that begins with the scheme itself is stored, as a parameter may that is no path."""
_SQLITE = "sqlite:///"


@dataclass(frozen=True)
class WorkspacePaths:
    """Both directions for the workspace at `root`.

    `former` are roots whose absolute paths also mean this workspace: those of texts that an earlier version stored.
    `identified_at` is the root that fingerprints name, in a workspace whose first ones contained it; "" for `INSIDE`.
    """

    root: Path
    former: tuple[str, ...] = ()
    identified_at: str = ""

    @cached_property
    def _spellings(self) -> tuple[str, ...]:
        """The root as it may stand before a path: as it was given, without "..", without links."""
        given = str(self.root)
        return tuple(dict.fromkeys([given, os.path.abspath(given), os.path.realpath(given)]))

    def stored(self, text: str) -> str:
        """The text to store for a path, URL or any other text."""
        if text.startswith(_SCHEME):
            return _LITERAL + text.removeprefix(_SCHEME)
        if text.startswith(_SQLITE):
            inside = below(text.removeprefix(_SQLITE), self._spellings)
            return text if inside is None else f"{_SQLITE}{INSIDE}{inside}"
        inside = below(text, self._spellings)
        return text if inside is None else INSIDE + inside

    def loaded(self, text: str) -> str:
        """What was stored as `text`, with the path where it lies now."""
        if text.startswith(_LITERAL):
            return _SCHEME + text.removeprefix(_LITERAL)
        prefix = _SQLITE if text.startswith(_SQLITE) else ""
        path = text.removeprefix(prefix)
        if path.startswith(INSIDE):
            return prefix + self._absolute(path.removeprefix(INSIDE))
        inside = below(path, self.former)
        return text if inside is None else prefix + self._absolute(inside)

    def identified(self, text: str) -> str:
        """A path as fingerprints contain it: the same wherever the workspace lies."""
        if not self.identified_at:
            inside = below(text, self._spellings)
            return text if inside is None else INSIDE + inside
        inside = below(text, (str(self.root),))
        return text if inside is None else f"{self.identified_at}/{inside}".rstrip("/")

    def located(self, text: str) -> str:
        """The other way round: where a path that a fingerprint contains lies now."""
        if not self.identified_at:
            return self.loaded(text)
        inside = below(text, (self.identified_at,))
        return text if inside is None else self._absolute(inside)

    def stored_document(self, text: str) -> str:
        """The text of a JSON document with its values stored in the same way; the rest stays byte for byte."""
        out = text.replace(f'"{_SCHEME}', f'"{_LITERAL}')
        for root in self._spellings:
            out = out.replace(f"{_quoted(root)}/", f'"{INSIDE}')
        return out

    def loaded_document(self, text: str) -> str:
        """The other way round."""
        return text.replace(f'"{INSIDE}', f"{_quoted(str(self.root))}/").replace(f'"{_LITERAL}', f'"{_SCHEME}')

    def _absolute(self, inside: str) -> str:
        return str(self.root / inside)


def below(text: str, roots: tuple[str, ...]) -> str | None:
    """The path below the first root that holds it, "" for a root itself; None when none does."""
    for root in roots:
        if text == root:
            return ""
        if text.startswith(root.rstrip("/") + "/"):
            return text[len(root.rstrip("/")) + 1 :]
    return None


def _quoted(text: str) -> str:
    """How a JSON text begins, as `json.dumps` writes documents."""
    return json.dumps(text, ensure_ascii=False)[:-1]


def each_text(value: Any, change: Callable[[str], str]) -> Any:
    """The JSON value with each of its texts changed."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {key: each_text(item, change) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [each_text(item, change) for item in value]
    return value


def _load(value: Any, info: ValidationInfo) -> Any:
    return each_text(value, info.context.loaded) if isinstance(info.context, WorkspacePaths) else value


def _store(value: str, info: SerializationInfo) -> str:
    return info.context.stored(value) if isinstance(info.context, WorkspacePaths) else value


def _store_all(value: Any, handler: SerializerFunctionWrapHandler, info: SerializationInfo) -> Any:
    out = handler(value)
    return each_text(out, info.context.stored) if isinstance(info.context, WorkspacePaths) else out


LocalPath = Annotated[str, BeforeValidator(_load), PlainSerializer(_store, return_type=str)]
"""A path or URL, stored relative where it lies inside the workspace."""
LocalFolder = Annotated[Path | None, BeforeValidator(_load), WrapSerializer(_store_all)]
"""The same as a `Path`."""
LocalValues = Annotated[dict[str, Any], BeforeValidator(_load), WrapSerializer(_store_all)]
"""Parameters, of which some are paths."""

"""Storage URLs as text: which there are, and how paths and URLs live beside each other in a parameter. Pure."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from pathlib import Path

from engine.errors import UsageError

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_CONTAINER = re.compile(r"[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?|\$(?:root|web|logs)")
_HINT = "Write az://container/folder or s3://bucket/folder."


@dataclass(frozen=True, order=True)
class StorageUrl:
    """A place in object storage. `key` has no slash at either end; "" is the container itself."""

    scheme: str
    container: str
    key: str = ""

    def __str__(self) -> str:
        return f"{self.scheme}://{self.container}" + (f"/{self.key}" if self.key else "")

    def __truediv__(self, below: str) -> StorageUrl:
        return replace(self, key=f"{self.key}/{below}".strip("/"))

    def holds(self, other: StorageUrl) -> bool:
        """Whether `other` is this place or lies below it."""
        same = (self.scheme, self.container) == (other.scheme, other.container)
        return same and f"{other.key}/".startswith(f"{self.key}/" if self.key else "")


def is_url(text: object) -> bool:
    """Whether the text is a URL of any kind but `file://`, rather than a path."""
    found = _URL.match(str(text))
    return found is not None and found[0].lower() != "file://"


def parse_url(text: str) -> StorageUrl:
    """Read a storage URL. Raises `UsageError` for other schemes, and for one that carries a secret."""
    scheme, _, rest = text.partition("://")
    scheme = scheme.lower()
    if "@" in rest.partition("/")[0] or "?" in rest or "#" in rest:
        # Never repeated: what stands there may be a password or a signature.
        raise UsageError(
            f"a {scheme}:// address holds a user, a query or a fragment",
            hint="Credentials belong in the environment (AZURE_STORAGE_..., AWS_...), never in an address. " + _HINT,
        )
    if scheme not in ("az", "s3"):
        raise UsageError(f"{text}: Voxelflow does not read {scheme}:// addresses", hint=_HINT)
    container, _, key = rest.partition("/")
    parts = [part for part in key.split("/") if part]
    if not _CONTAINER.fullmatch(container) or any(part in (".", "..") for part in parts):
        raise UsageError(f"{text} is not the address of a place in object storage", hint=_HINT)
    return StorageUrl(scheme, container, "/".join(parts))


def place_from(base: Path, text: str) -> str:
    """A path parameter's value as it is kept: a path made absolute from `base`, or a URL in its usual spelling.

    A URL that cannot be one is left as it is: whoever looks at it tells why.
    """
    if not is_url(text):
        return os.path.normpath(base / Path(text).expanduser())
    try:
        return str(parse_url(text))
    except UsageError:
        return text

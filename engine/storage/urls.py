"""Storage URLs as text: which there are, and how paths and URLs live beside each other in a parameter.

Pure, but that an installed package may have a scheme of its own.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import unquote, urlsplit

from engine.errors import UsageError
from engine.storage.schemes import EXAMPLES, SCHEMES, Scheme, installed_places, scheme

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_CONTAINER = re.compile(r"[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?|\$(?:root|web|logs)")
_ACCOUNT = re.compile(r"[a-z0-9]{3,24}")
_HINT = f"Write {EXAMPLES}."
_WITH_ACCOUNT = "Write az://container/folder, or abfss://container@account.dfs.core.windows.net/folder."


@dataclass(frozen=True, order=True)
class StorageUrl:
    """A place in object storage, or where an installed package keeps files.

    `scheme` is the name of a row in `SCHEMES`, or one of an installed package. `key` has no slash at either end; "" is
    the container itself. `account` is "" where the environment says which it is.
    """

    scheme: str
    container: str
    key: str = ""
    account: str = ""

    @property
    def root(self) -> str:
        """The container's own address."""
        if self.account:
            return SCHEMES[self.scheme].with_account.format(container=self.container, account=self.account)
        return f"{self.scheme}://{self.container}"

    def __str__(self) -> str:
        return f"{self.root}/{self.key}" if self.key else self.root

    def __truediv__(self, below: str) -> StorageUrl:
        return replace(self, key=f"{self.key}/{below}".strip("/"))

    def holds(self, other: StorageUrl) -> bool:
        """Whether `other` is this place or lies below it."""
        return self.root == other.root and f"{other.key}/".startswith(f"{self.key}/" if self.key else "")


def is_url(text: object) -> bool:
    """Whether the text is a URL of any kind but `file://`, rather than a path."""
    found = _URL.match(str(text))
    return found is not None and found[0].lower() != "file://"


def local_path(text: str, schemes: Collection[str] = ("file",)) -> str:
    """The path on this machine that the text names, as a path or as a URI of one of the schemes; else "", as for s3://.

    Spark's settings may have either: /opt/a b.jar and file:///opt/a%20b.jar are the same file.
    """
    parts = urlsplit(text)
    if parts.scheme in schemes:
        return unquote(parts.path)
    return "" if parts.scheme else text


def parse_url(text: str) -> StorageUrl:
    """Read a storage URL, also in another program's spelling. Raises `UsageError` for a scheme that neither `SCHEMES`
    nor an installed package has, and for a URL that carries a secret."""
    spelling, _, rest = text.partition("://")
    row, (authority, _, key) = scheme(spelling), rest.partition("/")
    container, at_sign, host = authority.partition("@")
    account = ""
    if at_sign and row is not None and "?" not in rest and "#" not in rest:
        account = _account(row, container, host)
    if (at_sign and not account) or "?" in rest or "#" in rest:
        # Never repeated: it may contain a password or a signature.
        raise UsageError(
            f"a {spelling.lower()}:// address holds a user, a query or a fragment",
            hint="Credentials belong in the environment, never in an address. "
            + (_WITH_ACCOUNT if row is not None and row.with_account else _HINT),
        )
    if row is None and installed_places(spelling) is None:
        raise UsageError(f"{text}: Voxelflow does not read {spelling.lower()}:// addresses", hint=_HINT)
    parts = [part for part in key.split("/") if part]
    if any(part in (".", "..") for part in parts):
        raise UsageError(f"{text} names no place: a part of it is . or ..", hint="Write the address without that part.")
    # What an installed package takes for a container is its own affair.
    if row is not None and not _CONTAINER.fullmatch(container):
        raise UsageError(f"{text} is not the address of a place in object storage", hint=_HINT)
    return StorageUrl(spelling.lower() if row is None else row.name, container, "/".join(parts), account)


def _account(row: Scheme, container: str, host: str) -> str:
    """The account in `container@account.host`; "" when it is nothing of the kind."""
    account, _, rest = host.lower().partition(".")
    fits = rest in row.hosts and _ACCOUNT.fullmatch(account) and _CONTAINER.fullmatch(container)
    return account if fits else ""


def expanded(text: str) -> Path:
    """The path that `text` means: `~` and `~name` are the folders of these users.

    Where there is no such user, or nothing says where the folder is, they stay: names like any other.
    """
    try:
        return Path(text).expanduser()
    except RuntimeError:
        return Path(text)


def folder_to_write(text: str) -> Path:
    """As `expanded`, for a place where something is written. Raises `UsageError` where there is no such user: a folder
    of that name would be made in the current one."""
    try:
        return Path(text).expanduser()
    except RuntimeError:
        raise UsageError(f"{text} names the folder of a user who is not there", hint="Write the whole path.") from None


def place_from(base: Path, text: str) -> str:
    """A path parameter's value as it is kept: a path made absolute from `base`, or a URL in its usual spelling.

    A URL that cannot be one is left as it is: `parse_url` says why when it is used.
    """
    if not is_url(text):
        return os.path.normpath(base / expanded(text))
    try:
        return str(parse_url(text))
    except UsageError:
        return text

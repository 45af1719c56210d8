"""The table of object stores: one row a scheme. Nothing else in Voxelflow names them, but help that gives
examples. Pure, but for `open_store` and `installed_places`, which looks for the schemes of installed packages."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

ENTRY_POINTS = "voxelflow.places"
"""Of functions that make a `Place` of an address; each is called like the scheme of its addresses."""


@dataclass(frozen=True)
class Scheme:
    """A kind of object store, and how its places are spelled here and elsewhere."""

    name: str
    """What its addresses begin with, in their usual spelling. delta-rs and obstore read this spelling too."""
    title: str
    aliases: tuple[str, ...]
    """Other schemes for the same places."""
    store: Literal["AzureStore", "S3Store", "GCSStore"]
    """The class of `obstore.store`."""
    prefixes: tuple[str, ...]
    """Of all environment variables that obstore and delta-rs read for it."""
    variables: tuple[str, ...]
    """Those that most people need."""
    hint: str
    """What to do when there is no right to use a place."""
    endpoint: tuple[str, ...] = ()
    """Environment variables that may name a server of one's own: its address, a key with it, or the key's file."""
    emulator: str = ""
    """Environment variable that takes an emulator for the store; "" where `endpoint` does."""
    with_account: str = ""
    """A container whose address names its account; "" when addresses never do."""
    hosts: tuple[str, ...] = ()
    """What may follow the account in such an address."""
    container: str = "container"
    """What its users call the first part of an address."""

    @property
    def example(self) -> str:
        """An address to show to people."""
        return f"{self.name}://{self.container}/folder"


SCHEMES: Mapping[str, Scheme] = {
    row.name: row
    for row in (
        Scheme(
            name="az",
            title="Azure Blob Storage",
            aliases=("abfss", "abfs", "wasbs", "wasb", "azure", "adl"),
            store="AzureStore",
            prefixes=("AZURE_", "AZURITE_"),
            variables=("AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_SAS_TOKEN"),
            hint="Set AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY or AZURE_STORAGE_SAS_TOKEN, or sign in.",
            emulator="AZURE_STORAGE_USE_EMULATOR",
            with_account="abfss://{container}@{account}.dfs.core.windows.net",
            hosts=("dfs.core.windows.net", "blob.core.windows.net"),
        ),
        Scheme(
            name="s3",
            title="Amazon S3 and what speaks its protocol",
            aliases=("s3a", "s3n"),
            store="S3Store",
            prefixes=("AWS_",),
            variables=("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION", "AWS_ENDPOINT_URL"),
            hint="Set AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION (AWS_ENDPOINT_URL for your own server).",
            endpoint=("AWS_ENDPOINT_URL",),
            container="bucket",
        ),
        Scheme(
            name="gs",
            title="Google Cloud Storage",
            aliases=("gcs",),
            store="GCSStore",
            prefixes=("GOOGLE_",),
            variables=("GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_SERVICE_ACCOUNT", "GOOGLE_SERVICE_ACCOUNT_KEY"),
            hint="Set GOOGLE_APPLICATION_CREDENTIALS or GOOGLE_SERVICE_ACCOUNT to the path of a key file, or sign in.",
            endpoint=("GOOGLE_BASE_URL", "GOOGLE_SERVICE_ACCOUNT_KEY", "GOOGLE_SERVICE_ACCOUNT"),
            container="bucket",
        ),
    )
}
_BY_SPELLING = {spelling: row for row in SCHEMES.values() for spelling in (row.name, *row.aliases)}

_ADDRESS = re.compile(r'(?:^|"gcs_base_url"\s*:\s*")(https?)://')
"""Of a server, by itself or in a key for one."""
_EXAMPLES = [row.example for row in SCHEMES.values()]
EXAMPLES = f"{', '.join(_EXAMPLES[:-1])} or {_EXAMPLES[-1]}"
PREFIXES = tuple(prefix for row in SCHEMES.values() for prefix in row.prefixes)
"""Of all environment variables that a store may be opened with."""


def scheme(spelling: str) -> Scheme | None:
    """The row of a scheme by its name or an alias, in any case; None when there is none."""
    return _BY_SPELLING.get(spelling.lower())


@cache
def installed_places(spelling: str) -> EntryPoint | None:
    """The entry point by which an installed package makes places at addresses of this scheme, in any case; None where
    there is none, and for a scheme of the table. Its code is not loaded."""
    from importlib.metadata import entry_points

    wanted = spelling.lower()
    found = [] if scheme(wanted) is not None else entry_points(group=ENTRY_POINTS)
    return next((entry for entry in found if entry.name.lower() == wanted), None)


def open_store(
    row: Scheme, container: str, account: str, *, client: Mapping[str, Any], retry: Mapping[str, Any]
) -> Any:
    """obstore's store for a container. Credentials come from the environment alone."""
    from obstore import store

    options = dict(client)
    if any(_is_plain(os.environ.get(name, "")) for name in row.endpoint):
        options["allow_http"] = True
    named = {"account_name": account} if account else {}
    return getattr(store, row.store)(container, client_options=options, retry_config=dict(retry), **named)


def own_server(row: Scheme) -> str:
    """The environment variable that names a server of one's own in the provider's place; "" where none does."""
    if os.environ.get(row.emulator, "").lower() in ("1", "true", "on", "yes", "y"):
        return row.emulator
    return next((name for name in row.endpoint if _ADDRESS.search(_content(os.environ.get(name, "")))), "")


def _is_plain(value: str) -> bool:
    """Whether the address is one without TLS: obstore wants that said once more."""
    found = _ADDRESS.search(_content(value))
    return found is not None and found[1] == "http"


def _content(value: str) -> str:
    """What a variable says, in the file that it names where it names one; "" of a file that cannot be read."""
    if not value or "://" in value or value.startswith("{"):
        return value
    try:
        return Path(value).read_text(encoding="utf-8")
    except (OSError, ValueError):
        return ""

"""Object stores on loopback for tests: Azurite (Azure's own blob server), moto (for S3), a stand-in for Google's.

Each is a process of its own that ends with its standard input, so none outlives the tests. Nothing leaves the
machine, and the credentials are the public ones of the emulators.

    with azurite() as store:
        os.environ |= store.environment
        store.make_container("volumes")
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from outside_parts import AZURITE
from waiting import WAIT_S, end_by_its_input, wait_for_line

MOTO = Path(__file__).parent / "moto_process.py"
GCS = Path(__file__).parent / "gcs_process.py"
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""Azurite's own, printed in its documentation."""


@dataclass(frozen=True)
class ObjectStore:
    """A server that runs. `environment` is all that a program needs to use it."""

    scheme: str
    endpoint: str
    environment: Mapping[str, str]

    @property
    def address(self) -> str:
        """Host and port."""
        return self.endpoint.removeprefix("http://")

    def make_container(self, name: str) -> str:
        """Make a container or bucket; gives its URL."""
        if self.scheme != "az":
            request = urllib.request.Request(f"{self.endpoint}/{name}", method="PUT")
            with urllib.request.urlopen(request, timeout=WAIT_S):
                pass
        else:
            from pyarrow.fs import AzureFileSystem

            files = AzureFileSystem(
                ACCOUNT,
                account_key=KEY,
                blob_storage_authority=self.address,
                blob_storage_scheme="http",
                dfs_storage_authority=self.address,
                dfs_storage_scheme="http",
            )
            files.create_dir(name)
        return f"{self.scheme}://{name}"

    def through(self, endpoint: str) -> ObjectStore:
        """The same store behind another address (a proxy's)."""
        changed = {name: value.replace(self.endpoint, endpoint) for name, value in self.environment.items()}
        return ObjectStore(self.scheme, endpoint, changed)


@contextmanager
def azurite() -> Iterator[ObjectStore]:
    options = ["--blobHost", "127.0.0.1", "--blobPort", "0", "--inMemoryPersistence"]
    options += ["--disableTelemetry", "--skipApiVersionCheck", "--silent"]
    with _server(["node", str(AZURITE / "serve.js"), *options], r"listens on (http://\S+)") as endpoint:
        yield ObjectStore("az", endpoint, {"AZURE_STORAGE_USE_EMULATOR": "true", "AZURITE_BLOB_STORAGE_URL": endpoint})


@contextmanager
def s3_server() -> Iterator[ObjectStore]:
    with _server([sys.executable, str(MOTO)], r"^(http://\S+)") as endpoint:
        environment = {
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": "testing-key-id",
            "AWS_SECRET_ACCESS_KEY": "testing-secret-key",
            "AWS_REGION": "us-east-1",
        }
        yield ObjectStore("s3", endpoint, environment)


@contextmanager
def gcs_server() -> Iterator[ObjectStore]:
    with _server([sys.executable, str(GCS)], r"^(http://\S+)") as endpoint:
        account = {"gcs_base_url": endpoint, "disable_oauth": True, "client_email": "", "private_key": ""}
        key = json.dumps(account | {"private_key_id": "testing-google-key"})
        yield ObjectStore("gs", endpoint, {"GOOGLE_SERVICE_ACCOUNT_KEY": key})


@contextmanager
def _server(command: list[str], ready: str) -> Iterator[str]:
    """Start a server that prints its address once it can be asked, and end it with its standard input."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={"PATH": os.environ["PATH"]},
    )
    try:
        yield wait_for_line(process, ready)[1]
    finally:
        end_by_its_input(process)

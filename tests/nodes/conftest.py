from __future__ import annotations

from pathlib import Path

import pytest
from store_fixtures import container_in

LOCAL_AND_AZURE = ["local", pytest.param("azure_server", marks=pytest.mark.slow)]
OTHER_STORES = [pytest.param(name, marks=pytest.mark.slow) for name in ("s3_stand_in", "gcs_stand_in")]


def _folder(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "local":
        return str(tmp_path / "home")
    return container_in(request.getfixturevalue(request.param), monkeypatch)


home = pytest.fixture(params=LOCAL_AND_AZURE, name="home")(_folder)
"""A folder for tables: a local one, and one in an object store."""
everywhere = pytest.fixture(params=[*LOCAL_AND_AZURE, *OTHER_STORES], name="everywhere")(_folder)
"""The same in each kind of object store."""

"""What a folder's listing tells about a path parameter, wherever the folder lies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine import manifest
from engine.node import PathFound
from engine.workspace import Workspace

if TYPE_CHECKING:
    import pyarrow as pa

SAMPLE = 64
"""Names of a listing that a scan may open: enough to see a wrong shape or a broken export."""


def found_folder(text: str, listing: pa.Table, workspace: Workspace) -> PathFound:
    """The listing's figures; the listing itself is kept among the workspace's observations."""
    digest = manifest.digest(listing)
    kept = workspace.observations / f"{digest}.arrow"
    if not kept.exists():
        manifest.write(listing, kept)
    count = listing.num_rows
    places = sorted({i * (count - 1) // max(1, SAMPLE - 1) for i in range(SAMPLE)}) if count else []
    return PathFound(
        text,
        exists=True,
        kind="folder",
        count=count,
        bytes=manifest.total_bytes(listing),
        digest=digest,
        manifest=str(kept),
        sample=tuple(listing["path"].take(places).to_pylist()) if count else (),
    )

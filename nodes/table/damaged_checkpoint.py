"""Which file of a checkpoint it is that delta-rs cannot read."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from engine.errors import DataError
from engine.storage.io_errors import raise_if_not_damage
from engine.storage.place import Place
from nodes.table.log import ANY_CHECKPOINT, LOG, has_version, torn, without_checkpoint

_SIDECARS = "_sidecars"


def damaged_checkpoint(place: Place, wanted: int | None, text: str) -> DataError | None:
    """The error that names the checkpoint from which a version (the newest by default) is read; None without one.

    `text` is what delta-rs says of the version, whose commits since that checkpoint are sound.
    """
    names = sorted(place.names(LOG))
    versions = {int(name[:20]) for name in names if ANY_CHECKPOINT.match(name)}
    since = max((found for found in versions if wanted is None or found <= wanted), default=None)
    if since is None or (wanted is not None and not has_version(place, wanted)):
        return None
    files = [name for name in names if name.startswith(f"{since:020d}.checkpoint.")]
    parts = [*files, *(f"{_SIDECARS}/{name}" for name in sorted(place.names(f"{LOG}/{_SIDECARS}")))]
    found = next((name for name in parts if not _is_parquet(place, f"{LOG}/{name}")), files[0])
    return torn(place.path(f"{LOG}/{found}"), text, without_checkpoint(place, since))


def _is_parquet(place: Place, path: str) -> bool:
    """Whether a file can be opened as Parquet, or is not meant to be."""
    try:
        if path.endswith(".parquet") and (found := place.stat(path)) is not None:
            with place.open(path, found.size) as file:
                pq.ParquetFile(file).schema_arrow  # noqa: B018
    except (OSError, ValueError, pa.ArrowException) as exc:
        raise_if_not_damage(exc)
        return False
    return True

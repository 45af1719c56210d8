"""Which array of a file that holds several is the volume."""

from __future__ import annotations

from collections.abc import Iterable

from nodes.conversion.quarantine import Refused

_LISTED = 5


def chosen(names: Iterable[str], dataset: str) -> str:
    """The name `dataset`, or the only one when it is "". Raises `Refused`."""
    found = list(names)
    listed = ", ".join(found[:_LISTED]) + (f" and {len(found) - _LISTED} more" if len(found) > _LISTED else "")
    if dataset:
        wanted = dataset.strip("/")
        if wanted in found:
            return wanted
        raise Refused("format", f"has no array {dataset!r}; it has {listed or 'none'}")
    if len(found) == 1:
        return found[0]
    if not found:
        raise Refused("format", "holds no array that could be a volume")
    raise Refused("format", f"holds several arrays: {listed}; name one with the parameter dataset")

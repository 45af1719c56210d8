"""The volumes that were opened lately: one travels in parts, with a question for each, and is read once."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.viewing.pictures import four_axes
from engine.viewing.volume_bytes import NiftiFile, Streamed, Triple, Voxels, nifti_limit, reduced

_KEPT_BYTES = 512 << 20
"""Memory that they may take together; the latest one is kept whatever it takes."""
_KEPT_S = 60.0
"""A volume that nobody has asked for meanwhile is opened again: the file of a folder may be another one."""

Described = tuple[Streamed, Mapping[str, str]]


class OpenVolume:
    """A volume of a gallery, and the forms in which it is sent. `spacing`: millimetres a voxel, where that is known."""

    def __init__(self, volume: NDArray[Any], spacing: Triple | None) -> None:
        self._volume, self._spacing = four_axes(volume), spacing
        self._about = {
            "X-Voxelflow-Shape": ",".join(map(str, volume.shape)),
            "X-Voxelflow-Dtype": volume.dtype.newbyteorder("=").name,
        }
        self._forms: dict[tuple[str, int], Described] = {}

    @property
    def bytes(self) -> int:
        """The memory that it takes: none while it stays on the disk."""
        return 0 if _is_mapped(self._volume) else self._volume.nbytes

    def form(self, what: str, limit: int) -> Described:
        """Its bytes as "voxels" or as a NIfTI "volume", of at most `limit` bytes of voxels, and the headers."""
        if (what, limit) not in self._forms:
            self._forms[what, limit] = self._made(what, limit)
        return self._forms[what, limit]

    def _made(self, what: str, limit: int) -> Described:
        part, steps = reduced(self._volume, limit)
        if what == "volume":
            part, more = nifti_limit(part)
            steps = (steps[0] * more[0], steps[1] * more[1], steps[2] * more[2])
        headers = {**self._about, "X-Voxelflow-Steps": ",".join(map(str, steps))}
        if self._spacing is not None:
            headers["X-Voxelflow-Spacing"] = ",".join(f"{width:g}" for width in self._spacing)
        if what == "volume":
            headers["Content-Type"] = "application/x-nifti"
            headers["Content-Disposition"] = 'attachment; filename="volume.nii"'
            return NiftiFile(part, steps, self._spacing), headers
        voxels = Voxels(part)
        headers["Content-Type"] = "application/octet-stream"
        headers["X-Voxelflow-Size"] = ",".join(map(str, part.shape))
        headers["X-Voxelflow-Type"] = voxels.dtype.newbyteorder("=").name
        headers["X-Voxelflow-Order"] = voxels.order
        return voxels, headers


class KeptVolumes:
    """The latest ones by name. May be used by several threads."""

    def __init__(self, kept_s: float = _KEPT_S) -> None:
        self._kept_s = kept_s
        self._lock = threading.Lock()
        self._volumes: OrderedDict[str, tuple[float, OpenVolume]] = OrderedDict()

    def get(self, name: str, opened: Callable[[], OpenVolume]) -> OpenVolume:
        """The volume of this name; `opened` opens it where it is not kept."""
        now = time.monotonic()
        with self._lock:
            for old in [n for n, (used, _) in self._volumes.items() if now - used > self._kept_s]:
                del self._volumes[old]
            found = self._volumes.get(name)
        volume = opened() if found is None else found[1]
        with self._lock:
            self._volumes[name] = time.monotonic(), volume
            self._volumes.move_to_end(name)
            while len(self._volumes) > 1 and sum(each.bytes for _, each in self._volumes.values()) > _KEPT_BYTES:
                self._volumes.popitem(last=False)
        return volume

    def drop(self, name: str) -> None:
        """Let go of it: it has been sent."""
        with self._lock:
            self._volumes.pop(name, None)


def _is_mapped(volume: NDArray[Any]) -> bool:
    """Whether it is a file that is mapped, or a view of one."""
    base: object = volume
    while isinstance(base, np.ndarray):
        if isinstance(base, np.memmap):
            return True
        base = base.base
    return False

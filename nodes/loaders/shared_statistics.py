"""Statistics of volumes that several nodes need, measured by the first of them: the parts of a split are changed alike.

They lie in a folder of results of their own, one small file for each, as `voxelflow clean` knows them. A run
holds the folder's lock while it measures, as it does for the folders of its own results, so nothing frees it meanwhile.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from engine.declare.context import TaskContext
from engine.declare.datasets import VolumeFiles
from engine.declare.progress import enter_phase
from engine.storage import manifest
from engine.storage.files import write_whole
from engine.storage.process_lock import ProcessLock
from engine.workspace import Workspace, place_lock
from nodes.conversion.volume_sources import reading_of
from nodes.conversion.whole_volumes import TransformedVolumes
from nodes.loaders.volume_statistics import AddVolumes, M, measure, read_here, statistics_key
from nodes.transforms.steps import load_steps

FOLDER = "measured"
"""Beside the folders of the lineages of TransformVolumes, whose names are digests."""
_POLL_S = 0.1


def measured_once(
    step: M, files: VolumeFiles, ctx: TaskContext, adding: Callable[[VolumeFiles], AddVolumes] = lambda _: read_here
) -> M:
    """The step with its numbers, measured over all volumes of `files`, unless another node has measured the same.

    Who needs what is being measured waits for it, and goes on alone if that ends without a result. In an exported
    pipeline, which has no workspace, each node measures. `adding` says who reads the volumes. Raises what `measured`
    raises.
    """
    volumes, listing = TransformedVolumes.at(files.uri, reading_of(files)), manifest.read(files.manifest)
    if ctx.workspace is None:
        return measure(step, volumes, listing, ctx, adding(files))[0]
    place = ctx.shared.parent / FOLDER
    where = json.dumps([files.uri, files.format, files.dataset, statistics_key(step, volumes, listing)])
    key = hashlib.blake2b(where.encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()
    with ExitStack() as held:
        held.enter_context(_held(ProcessLock(place_lock(Workspace(ctx.workspace), place)), ctx, shared=True))
        place.mkdir(parents=True, exist_ok=True)
        held.enter_context(_held(ProcessLock(place / f"{key}.lock"), ctx, waiting="Waiting for a node that measures"))
        if (known := _recall(place / f"{key}.json", step)) is not None:
            # So that `clean --older-than` sees that it is used.
            os.utime(place)
            return known
        found, refused = measure(step, volumes, listing, ctx, adding(files))
        if refused:
            # They may be readable the next time, while the listing stays the same.
            return found
        text = json.dumps(found.as_json())
        # Not flushed: one that a power cut has cut short counts for nothing, and its volumes are measured again.
        write_whole(place / f"{key}.json", json.dumps({"step": text, "digest": _digest(text)}), durable=False)
        ctx.commit_point("statistics shared")
        return found


@contextmanager
def _held(lock: ProcessLock, ctx: TaskContext, *, shared: bool = False, waiting: str = "") -> Iterator[None]:
    while not lock.acquire(shared=shared):
        if waiting:
            enter_phase(waiting)
        ctx.check_cancelled()
        time.sleep(_POLL_S)
    try:
        yield
    finally:
        lock.release()


def _recall(path: Path, step: M) -> M | None:
    """The step with the numbers that are kept; None where there are none, or not whole."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        kept = json.loads(path.read_bytes())
        if kept["digest"] == _digest(kept["step"]):
            (found,) = load_steps([json.loads(kept["step"])])
            return found if isinstance(found, type(step)) else None
    return None


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

"""What all tabs of this process share, made when the first one comes."""

from __future__ import annotations

import atexit
import threading
from pathlib import Path

from ui.build.rooms import Rooms
from ui.studio_context import Studio

_lock = threading.Lock()
_rooms: dict[Path, Rooms] = {}


def rooms_of(studio: Studio) -> Rooms:
    """The rooms of the workspace that this process serves."""
    with _lock:
        found = _rooms.get(studio.workspace.root)
        if found is None or found.studio is not studio:
            found = _rooms[studio.workspace.root] = Rooms(studio)
            # A thread that is amid a listing when the interpreter goes would take it down noisily.
            atexit.register(found.close)
        return found

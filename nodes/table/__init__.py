"""Delta tables of volumes in a place: read, filled, compacted, vacuumed. What a person chooses for filling one."""

from typing import Literal

Mode = Literal["link", "copy", "in_place"]
Existing = Literal["keep", "replace"]
DeletedRows = Literal["leave_out", "restore"]

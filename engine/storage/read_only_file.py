"""What a file for reading at any place has to say and to keep, for those whose bytes do not come from a descriptor."""

from __future__ import annotations

import io


class ReadOnlyFile(io.RawIOBase):
    """A file of `length` bytes, read from `_at` on. A subclass sets `length` and has `read`, which moves `_at`."""

    length: int
    _at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self.length}[whence]
        self._at = max(0, base + offset)
        return self._at

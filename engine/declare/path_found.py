"""What was found at a path that a node reads, before the run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.text import plural

if TYPE_CHECKING:
    from engine.storage.links import Unfollowed

_MOST_ENDINGS = 6
"""Endings of files that a message lists."""


@dataclass(frozen=True)
class FilesLeftOut:
    """Files with one ending that a folder's listing left out. `example` is the path of one below the folder.

    `kind` names the one of the parameter's `kinds` that they are of; "": they are of none of them, but fit its
    patterns. With `is_taken` files with this ending are listed, and these mix small letters and capitals in it.
    """

    ending: str
    count: int
    example: str
    kind: str = ""
    is_taken: bool = False


@dataclass(frozen=True)
class PathFound:
    """What was found at a `PathIn` parameter's path, observed once before the run."""

    path: str
    exists: bool
    kind: str = ""
    count: int = 0
    bytes: int = 0
    digest: str = ""
    """Hash of names, sizes and modification times."""
    manifest: str = ""
    """Arrow file with the listing (folders only)."""
    sample: tuple[str, ...] = ()
    """Evenly spread names from the listing."""
    file_kind: str = ""
    """Which of the parameter's `kinds` was listed; "": files that match its patterns."""
    endings: tuple[tuple[str, int], ...] = ()
    """How many files of which ending the folder has, where none matches the patterns; the commonest first."""
    nameless: str = ""
    """The one of the parameter's `kinds` whose files have any name: so may those here, which are of none by theirs."""
    left_out: tuple[FilesLeftOut, ...] = ()
    """Files of a folder that look like what is wanted, and were not listed; by their endings, the commonest first."""
    links: tuple[tuple[str, Unfollowed], ...] = ()
    """Links in a folder that were not followed, by their paths below it."""
    problem: str = ""
    """Why it could not be read."""

    @property
    def content(self) -> str:
        """What lies in a folder where nothing matches the patterns, in words: `found: 6 .txt, 2 .pdf`."""
        if not self.endings:
            return "it is empty" if not self.count else f"found: {plural(self.count, 'files')}"
        listed = [f"{count:,} {ending}" for ending, count in self.endings[:_MOST_ENDINGS]]
        others = sum(count for _, count in self.endings[_MOST_ENDINGS:])
        return "found: " + ", ".join([*listed, *([f"{others:,} others"] if others else [])])

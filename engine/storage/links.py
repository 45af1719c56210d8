"""Links in a folder that its listing does not follow: why, and what makes what they lead to part of it."""

from __future__ import annotations

import errno
import os
import re
import shlex
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import NamedTuple

from engine.text import plural

_NAMED = 3
"""Links that a sentence names; of more it says how many there are."""
_ANNEX = re.compile(r"(^|/)annex/objects/")
_DVC = re.compile(r"(^|/)\.dvc/cache/|/files/md5/[0-9a-f]{2}/")


class Why(StrEnum):
    """Why a link is not followed."""

    MISSING = "missing"
    ANNEX = "annex"
    """Its content is one of git-annex, and not on this machine."""
    DVC = "dvc"
    """The same of DVC, whose cache holds what its links lead to."""
    AROUND = "around"
    """It leads to a folder that holds the listed one."""
    ITSELF = "itself"
    DENIED = "denied"


class Unfollowed(NamedTuple):
    """`target` is what the link says, which may be relative to the folder that it lies in."""

    why: Why
    target: str

    @property
    def reason(self) -> str:
        """Of one link, in words."""
        return _REASONS[self.why].format(target=self.target)


_REASONS = {
    Why.MISSING: "its target {target} is missing",
    Why.ANNEX: "git-annex has not fetched its content",
    Why.DVC: "DVC has not fetched its content",
    Why.AROUND: "it leads to {target}, a folder around this one",
    Why.ITSELF: "it leads to itself",
    Why.DENIED: "this account may not open its target {target}",
}


class Remark(NamedTuple):
    """What is to be said of a folder: what is left out of it, and what to do about that."""

    message: str
    hint: str


def why_unusable(link: str) -> Unfollowed | None:
    """Why a link at this path leads to nothing; None when something is."""
    try:
        os.stat(link)
    except OSError as exc:
        target = _target(link)
        if exc.errno == errno.ELOOP:
            return Unfollowed(Why.ITSELF, target)
        if exc.errno in (errno.EACCES, errno.EPERM):
            return Unfollowed(Why.DENIED, target)
        if _ANNEX.search(target):
            return Unfollowed(Why.ANNEX, target)
        return Unfollowed(Why.DVC if _DVC.search(target) else Why.MISSING, target)
    return None


def leads_around(link: str) -> Unfollowed:
    """Of a link to a folder that holds the listed one."""
    return Unfollowed(Why.AROUND, _target(link))


def remarks(folder: str, links: Mapping[str, Unfollowed] | Iterable[tuple[str, Unfollowed]]) -> list[Remark]:
    """A remark for each reason why links below a local `folder` are left out; `links` by their paths below it."""
    by_reason: dict[Why, dict[str, Unfollowed]] = {}
    for name, link in sorted(dict(links).items()):
        by_reason.setdefault(link.why, {})[name] = link
    return [_remark(folder, why, found) for why, found in sorted(by_reason.items())]


def _remark(folder: str, why: Why, links: Mapping[str, Unfollowed]) -> Remark:
    shown = list(links)[:_NAMED]
    said = ", ".join(f"{name} ({links[name].reason})" for name in shown)
    more = f" and {len(links) - len(shown):,} more" if len(links) > len(shown) else ""
    message = f"in {folder} {plural(len(links), 'links')} {'is' if len(links) == 1 else 'are'} left out: {said}{more}"
    return Remark(message, _hint(folder, why, list(links)))


def _hint(folder: str, why: Why, names: list[str]) -> str:
    paths = [shlex.quote(os.path.join(folder, name)) for name in names[:_NAMED]]
    remove = f"`rm {' '.join(paths)}`" + (" and so on" if len(names) > _NAMED else "") + " ends this warning"
    place = shlex.quote(folder)
    wanted = " ".join(map(shlex.quote, names)) if len(names) <= _NAMED else "."
    return {
        Why.MISSING: f"What lay there is not read. Put it back, or mount its disk; {remove}.",
        Why.ANNEX: f"Fetch the content: `git -C {place} annex get {wanted}`.",
        Why.DVC: f"Fetch the content: `dvc --cd {place} pull`.",
        Why.AROUND: f"Nothing of this folder is lost. To read what lies around it, choose that folder; {remove}.",
        Why.ITSELF: f"It has no content, so nothing is lost; {remove}.",
        Why.DENIED: f"What lies there is not read. Let this account open it; {remove}.",
    }[why]


def _target(link: str) -> str:
    try:
        return os.readlink(link)
    except OSError:
        return "elsewhere"

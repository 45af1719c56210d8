"""The state of the git checkout that a folder lies in. Its remotes are left out: their URLs may hold a password."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path

from pydantic import BaseModel, ConfigDict

_PATIENCE_S = 10.0
_QUIET = ("--no-optional-locks", "-c", "core.fsmonitor=false", "-c", "core.quotePath=false")
"""Nothing is written into the repository, and no program that its settings name is started."""


class GitState(BaseModel):
    """`changes` is the hash of the difference to the commit, "" where there is none; `changed` its files.

    Files that git does not know are not looked for: data may lie there by the hundred thousand. `problem` says why
    nothing is known: no git, no checkout.
    """

    model_config = ConfigDict(frozen=True)

    commit: str = ""
    branch: str = ""
    changed: tuple[str, ...] = ()
    changes: str = ""
    problem: str = ""

    @property
    def dirty(self) -> bool:
        return bool(self.changes)


def git_state(folder: Path) -> GitState:
    """The checkout that `folder` lies in. Never raises: what git does not say is the `problem`."""
    try:
        commit = _git(folder, "rev-parse", "--verify", "HEAD").decode().strip()
        branch = _git(folder, "rev-parse", "--abbrev-ref", "HEAD").decode().strip()
        plain = ("--no-ext-diff", "--no-textconv")
        names = _git(folder, "diff", "HEAD", *plain, "--name-only", "-z").decode(errors="replace")
        difference = _git(folder, "diff", "HEAD", *plain, "--binary") if names else b""
    except FileNotFoundError:
        return GitState(problem="git is not installed")
    except subprocess.TimeoutExpired:
        return GitState(problem=f"git did not answer within {_PATIENCE_S:g} s")
    except (OSError, subprocess.CalledProcessError) as exc:
        return GitState(problem=_reason(exc))
    return GitState(
        commit=commit,
        branch="" if branch == "HEAD" else branch,
        changed=tuple(name for name in names.split("\0") if name),
        changes=hashlib.blake2b(difference, digest_size=16).hexdigest() if difference else "",
    )


def _git(folder: Path, *arguments: str) -> bytes:
    # Variables such as GIT_DIR, set by whoever called us, mean another checkout.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    done = subprocess.run(
        ["git", *_QUIET, *arguments],
        cwd=folder,
        env=environment | {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
        timeout=_PATIENCE_S,
    )
    return done.stdout


def _reason(exc: OSError | subprocess.CalledProcessError) -> str:
    if isinstance(exc, subprocess.CalledProcessError):
        told: str = next(iter(exc.stderr.decode(errors="replace").splitlines()), "")
        return "not in a git checkout" if "not a git repository" in told else f"git: {told or exc.returncode}"
    return f"git: {exc.strerror or exc}"

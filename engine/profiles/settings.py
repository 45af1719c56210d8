"""Spark settings: their full names, and secrets, which a profile only ever refers to."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

from engine.errors import UsageError
from engine.profiles.profile import Profile

_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
"""`${NAME}`. Spark's own references (`${spark.a}`, `${env:NAME}`) have a point or a colon and are left to Spark."""
# Spark's own pattern for what it blacks out in its UI, with a few that it misses (Azure's account keys, SAS tokens).
_SECRET = re.compile(
    r"secret|passw(or)?d|passphrase|token|credential|access[._-]?key|account[._-]?key|api[._-]?key|private[._-]?key"
    r"|[._](key|sas|sig)(\.|$)",
    re.IGNORECASE,
)
_NO_SECRET = re.compile(
    r"(file|path|provider|providers|class|enabled|interval|ratio|type|name|location|algorithm|size)$", re.IGNORECASE
)
"""Settings that speak of secrets without holding one: `...oauthTokenFile`, `...credentials.provider`."""
_SECRET_IN_TEXT = re.compile(
    r"://[^/@\s]*:[^/@\s]+@"  # https://user:password@host
    r"|-D\S*(secret|passw(or)?d|token|credential|[._](access|account|api|private)?key)\S*=(?!\$\{)\S+",
    re.IGNORECASE,
)
SECRETS_BELONG = (
    'Put it into an environment variable and write "${NAME}" here, or into Spark\'s own files'
    " (conf/spark-defaults.conf, Hadoop's core-site.xml)."
)


def flatten(table: Mapping[str, Any], prefix: str = "spark") -> Iterator[tuple[str, Any]]:
    """Full names and values of a TOML table of Spark settings.

    TOML reads `executor.memory = "4g"` as a table in a table; the leading `spark.` may be left out.
    """
    for key, value in table.items():
        name = key if key == "spark" or key.startswith("spark.") else f"{prefix}.{key}"
        if isinstance(value, Mapping):
            yield from flatten(value, name)
        else:
            yield name, value


def as_text(value: object) -> str | None:
    """A TOML value as spark-submit takes it; None when Spark has no such values (lists, dates)."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return str(value)
    return value if isinstance(value, str) else None


def holds_secret(name: str, value: str) -> bool:
    """Whether this looks like a secret written out, which must not stand in a file that is shown and stored."""
    if _REFERENCE.fullmatch(value) or value.lower() in ("", "true", "false"):
        return False
    return text_holds_secret(value) or bool(_SECRET.search(name) and not _NO_SECRET.search(name))


def text_holds_secret(value: str) -> bool:
    """Whether a password stands within: in an address, or as a Java option."""
    return bool(_SECRET_IN_TEXT.search(value))


def references(profile: Profile) -> dict[str, list[str]]:
    """The environment variables that the profile's settings name, each with the settings that do."""
    out: dict[str, list[str]] = {}
    for name, value in profile.spark.items():
        for variable in _REFERENCE.findall(value):
            out.setdefault(variable, []).append(name)
    return out


def spark_settings(profile: Profile, environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """The profile's Spark settings with `${NAME}` put in from the environment: secrets included.

    Only for the session that is about to start: never print or store what this gives. Raises
    `UsageError` when a variable is not set.
    """
    known = os.environ if environ is None else environ
    for variable, settings in references(profile).items():
        if variable not in known:
            raise UsageError(
                f"the environment variable {variable} is not set; profile {profile.name} uses it for"
                f" {', '.join(settings)}",
                hint=f"Set {variable} where you start Voxelflow.",
            )
    return {name: _REFERENCE.sub(lambda m: known[m[1]], value) for name, value in profile.spark.items()}

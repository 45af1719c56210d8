"""Spark on YARN: where its client finds the cluster, and where it puts what the cluster's machines take from it."""

from __future__ import annotations

import getpass
import os
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree

from engine.errors import UsageError

MASTER = "yarn"
_FOLDERS = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")
_OURS = "file:///"


def check(profile: str, environ: Mapping[str, str] | None = None) -> None:
    """Raise `UsageError` when nothing says where the cluster of that profile is."""
    known = os.environ if environ is None else environ
    folders = [Path(known[name]) for name in _FOLDERS if known.get(name)]
    if not any((folder / "yarn-site.xml").is_file() for folder in folders):
        where = f": there is no yarn-site.xml in {', '.join(map(str, folders))}" if folders else ""
        raise UsageError(
            f"nothing says where the YARN cluster of profile {profile} is{where}",
            hint="Set HADOOP_CONF_DIR to the folder with the cluster's core-site.xml and yarn-site.xml.",
        )


def settings(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """What a session of ours adds for YARN; the profile's own settings win.

    A path without a scheme is one of this machine, as everywhere in Voxelflow; what Spark hands to the cluster's
    machines still goes to the cluster's own file system.
    """
    out = {"spark.hadoop.fs.defaultFS": _OURS}
    theirs = _file_system(os.environ if environ is None else environ)
    if theirs and not theirs.startswith("file:"):
        out["spark.yarn.stagingDir"] = f"{theirs.rstrip('/')}/user/{getpass.getuser()}"
    return out


def _file_system(environ: Mapping[str, str]) -> str:
    """The cluster's own file system, such as `hdfs://host:8020`; "" when its configuration does not say."""
    for name in _FOLDERS:
        path = Path(environ.get(name) or ".", "core-site.xml")
        if not environ.get(name) or not path.is_file():
            continue
        try:
            found = ElementTree.parse(path).iter("property")
        except (OSError, ElementTree.ParseError):
            continue  # Hadoop itself says what is wrong with it
        for item in found:
            if item.findtext("name", "").strip() == "fs.defaultFS":
                return item.findtext("value", "").strip()
    return ""

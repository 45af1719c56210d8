"""Spark on YARN: where its client finds the cluster, where it puts what the cluster's machines take from it, and the
end of applications whose driver was killed.

A session that ends in good order ends its application. One that is killed cannot; and as long as the cluster is full,
its application waits there for a place, and takes it for a driver that is gone. So each application bears a tag, and
beside each driver stands a guard, a process that outlives the run's. It has the applications of the tag killed when it
is asked to, and when the process that would do so is gone:

    python -m engine.spark.yarn TAG
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

from engine.errors import UsageError

MASTER = "yarn"
_FOLDERS = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")
_OURS = "file:///"
TAGS = "spark.yarn.tags"
_CLIENT = "org.apache.hadoop.yarn.client.cli.ApplicationCLI"
_ALIVE = "NEW,NEW_SAVING,SUBMITTED,ACCEPTED,RUNNING"
_ENDED = b"ended\n"
_ANSWER_S = 120.0
"""A cluster's resource manager that does not answer is tried again by Hadoop's client, for a quarter of an hour."""


def check(profile: str, environ: Mapping[str, str] | None = None) -> None:
    """Raise `UsageError` when nothing says where the cluster of that profile is."""
    known = os.environ if environ is None else environ
    folders = [Path(known[name]) for name in _FOLDERS if known.get(name)]
    if not any((folder / "yarn-site.xml").is_file() for folder in folders):
        where = f": there is no yarn-site.xml in {', '.join(map(str, folders))}" if folders else ""
        raise UsageError(
            f"nothing says where the YARN cluster of profile {profile} is{where}",
            hint="Set HADOOP_CONF_DIR to the folder with the cluster's core-site.xml and yarn-site.xml, where you start"
            " Voxelflow: `export HADOOP_CONF_DIR=/etc/hadoop/conf`.",
        )


def settings(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """What a session of ours adds for YARN; the profile's own settings win.

    A path without a scheme is one of this machine, as everywhere in Voxelflow; what Spark hands to the cluster's
    machines still goes to the cluster's own file system.
    """
    out = {"spark.hadoop.fs.defaultFS": _OURS}
    import getpass  # here, as below: every supervisor imports this module for its guard

    theirs = _file_system(os.environ if environ is None else environ)
    if theirs and not theirs.startswith("file:"):
        out["spark.yarn.stagingDir"] = f"{theirs.rstrip('/')}/user/{getpass.getuser()}"
    return out


def _file_system(environ: Mapping[str, str]) -> str:
    """The cluster's own file system, such as `hdfs://host:8020`; "" when its configuration does not say."""
    from xml.etree import ElementTree

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


class Guard:
    """Has the applications of a tag killed unless it hears that they have ended; `log` hears of it.

    It reads a pipe, which the system closes when this process is killed, and is in a session of its own, which a kill
    of the run's processes leaves alone.
    """

    def __init__(self, tag: str, log: Path) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        with contextlib.suppress(OSError), log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", __name__, tag],
                stdin=subprocess.PIPE, stdout=output, stderr=output, start_new_session=True,
            )  # fmt: skip

    def dismiss(self) -> None:
        """The session was stopped in good order: nothing is left to be killed."""
        self._close(_ENDED)

    def end_applications(self) -> None:
        """Have them killed now. This does not wait for it."""
        self._close(b"")

    def _close(self, last: bytes) -> None:
        process, self._process = self._process, None
        if process is None or process.stdin is None:
            return
        with contextlib.suppress(OSError), process.stdin as sink:  # it may have been killed
            sink.write(last)
        threading.Thread(target=process.wait, daemon=True).start()


def end_applications(tag: str) -> list[str]:
    """Kill the applications of that tag, those that wait for a place too; gives their ids.

    Raises `UsageError` without Java, `subprocess.SubprocessError` when the cluster does not do it.
    """
    found = re.findall(r"^\s*(application_\d+_\d+)", _ask("-list", "-appTags", tag, "-appStates", _ALIVE), re.MULTILINE)
    if found:
        _ask("-kill", *found)
    return found


def _ask(*words: str) -> str:
    from engine.spark.jars import spark_jars_folder
    from engine.spark.java import find_java

    folders = [os.environ[name] for name in _FOLDERS if os.environ.get(name)]
    path = os.pathsep.join([*folders, f"{spark_jars_folder()}/*"])
    command = [str(find_java().program), "-Xmx128m", "-XX:TieredStopAtLevel=1", "-cp", path, _CLIENT, "application"]
    done = subprocess.run(
        [*command, *words], check=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, timeout=_ANSWER_S
    )
    return done.stdout


if __name__ == "__main__" and sys.stdin.buffer.read() != _ENDED:
    print("killed on YARN:", *(end_applications(sys.argv[1]) or ["nothing, all of it has ended"]), flush=True)

"""The jars of Delta Lake that Spark does not bring: found, or fetched once from Maven Central.

Spark could resolve them itself at each start (`spark.jars.packages`); that costs seconds every time and fetches 87 MB,
most of which Spark has already. Here Ivy, which comes with Spark, leaves out what Spark has (14 MB remain), and a list
beside Ivy's cache says where they are, so that later sessions start without asking anyone.

PySpark and filelock are imported late: `voxelflow export` writes these settings on machines that lack them.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
import zipfile
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from importlib import metadata
from pathlib import Path
from xml.sax.saxutils import quoteattr

from engine.errors import ExecutionError, UsageError
from engine.spark.java import find_java
from engine.storage import expanded
from engine.storage.files import flush, write_whole
from engine.storage.io_errors import remedy

EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
DELTA = {
    "spark.sql.extensions": EXTENSION,
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "2",
}
"""What every session of ours sets so that Delta works and stays small."""
INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""Settings for Delta's work on its log, a list of files: to generate and compile Java code for each of its queries, on
the driver and on each executor, takes longer than their few rows."""
FOLDER = "VOXELFLOW_SPARK_JARS"
"""Environment variable: a folder that holds the jars, for machines that reach no repository."""
CENTRAL = "https://repo1.maven.org/maven2/"
GROUP = "io.delta"
_SCALA = "2.13"
_TRIES = 3
"""Ivy gives up a file whose download broke off; the next try fetches only what is missing."""
CONNECT_MS, READ_MS = 10_000, 60_000
"""How long Ivy waits for a repository's connection, and then for its next bytes. By itself it would wait for ever."""
_ANSWERLESS = re.compile(
    r"Server access error at url (\S+) \((?:\w+\.)*"
    r"((?:UnknownHost|Connect|SocketTimeout|SSLHandshake|NoRouteToHost)Exception[^()]*)"
    r"|Host \S+ (not found)\. url=(\S+)"
)
"""What Ivy says of a repository that does not answer."""

Say = Callable[[str], None]


def delta_artifact() -> str:
    """The name and version of Delta's jar for the installed packages, such as `delta-spark_4.2_2.13-4.4.0`."""
    spark = metadata.version("pyspark").split(".")
    return f"delta-spark_{spark[0]}.{spark[1]}_{_SCALA}-{metadata.version('delta-spark')}"


def spark_jars_folder() -> Path:
    """Where the installed pyspark keeps Spark's own jars."""
    import pyspark

    return Path(pyspark.__path__[0]) / "jars"


def delta_jars(settings: Mapping[str, str], say: Say | None = None) -> list[Path]:
    """The jars to give to Spark, fetched when they are not there yet; `say` hears of each that is.

    `settings` are the profile's for Spark: `spark.jars.ivy`, `spark.jars.repositories` and `spark.jars.ivySettings`
    count here as they do for Spark, and nothing is added to jars of Delta that `spark.jars` names itself. A repository
    that does not answer is given up (`READ_MS`), unless a file of `spark.jars.ivySettings` has other limits, or none.

    Raises `UsageError` when the person's own folder lacks them, `ExecutionError` when they cannot be fetched.
    """
    own = [*settings.get("spark.jars", "").split(","), *settings.get("spark.jars.packages", "").split(",")]
    if any(re.search(r"(^|[/:])delta-spark_", name) for name in own):
        return []
    if folder := os.environ.get(FOLDER):
        return _from_folder(expanded(folder))
    home = ivy_home(settings)
    kept = home / "voxelflow" / f"{delta_artifact()}.txt"
    if jars := _listed(kept):
        return jars
    from filelock import FileLock

    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        # Ivy writes its cache as if it were alone.
        with FileLock(kept.with_suffix(".lock")):
            return _listed(kept) or _fetch(home, kept, settings, say or (lambda _: None))
    except OSError as exc:
        where = f"{exc.filename}: " if exc.filename else ""
        # Images for containers often have a user without a home.
        raise ExecutionError(
            f"the jars of Delta Lake for Spark could not be put into {home}: {where}{exc.strerror or exc}",
            hint=f"{remedy(exc)} Or let spark.jars.ivy in the profile name another folder, or {FOLDER} one that has"
            " the jars.",
        ) from exc


def with_extension(own: str) -> str:
    """The setting `spark.sql.extensions`: the person's own, then Delta's."""
    return own if EXTENSION in own.split(",") else ",".join(filter(None, (own, EXTENSION)))


def with_jars(own: str, jars: Iterable[object]) -> str:
    """The setting `spark.jars`: the person's own, then ours."""
    return ",".join(part.strip() for part in [*own.split(","), *map(str, jars)] if part.strip())


def ivy_home(settings: Mapping[str, str]) -> Path:
    """Ivy's folder as Spark 4 has it."""
    return expanded(settings.get("spark.jars.ivy") or "~/.ivy2.5.2")


def _from_folder(folder: Path) -> list[Path]:
    wanted = f"{delta_artifact()}.jar"
    jars = sorted(folder.glob("*.jar")) if folder.is_dir() else []
    # Ivy and Spark put the group before the name.
    if not any(jar.name.endswith(wanted) for jar in jars):
        raise UsageError(f"{FOLDER} is {folder}, and {wanted} is not there", hint=_by_hand())
    return jars


def _by_hand() -> str:
    return (
        f"On a machine with access run `voxelflow profiles test spark-local`, then copy the files named in"
        f" ~/.ivy2.5.2/voxelflow/{delta_artifact()}.txt into one folder and set {FOLDER} to it here."
    )


def _listed(kept: Path) -> list[Path]:
    """The jars in the list, or none when one of them is not there any more, or not whole."""
    try:
        jars = [Path(line) for line in kept.read_text(encoding="utf-8").splitlines() if line]
    except (OSError, ValueError):
        return []
    return jars if all(map(_is_whole, jars)) else []


def _is_whole(jar: Path) -> bool:
    """Whether it is a jar to its end, where its contents are listed. A power cut may have taken that."""
    return zipfile.is_zipfile(jar)


def _fetch(home: Path, kept: Path, settings: Mapping[str, str], say: Say) -> list[Path]:
    java = find_java()
    ours = spark_jars_folder()
    resolver = next(ours.glob("ivy-*.jar"), None)
    if resolver is None:
        name, _, version = delta_artifact().rpartition("-")
        raise ExecutionError(
            f"the jars of Delta Lake for Spark are not here, and nothing that could fetch them: {ours} has no Ivy",
            hint=f"Give spark-submit --packages {GROUP}:{name}:{version}, or the jars with --jars.",
        )
    with tempfile.TemporaryDirectory(prefix="voxelflow-ivy-") as scratch:
        wanted, found, log = Path(scratch, "ivy.xml"), Path(scratch, "found.txt"), deque[str](maxlen=200)
        wanted.write_text(_wanted(ours), encoding="utf-8")
        ivy_settings = expanded(settings.get("spark.jars.ivySettings") or str(Path(scratch, "settings.xml")))
        if "spark.jars.ivySettings" not in settings:
            ivy_settings.write_text(_settings(home, settings), encoding="utf-8")
        command = [
            str(java.program), "-cp", str(resolver), "org.apache.ivy.Main",
            "-settings", str(ivy_settings), "-ivy", str(wanted), "-cachepath", str(found),
        ]  # fmt: skip
        say(f"resolving {GROUP}:{delta_artifact()}")
        for _ in range(_TRIES):
            log.clear()
            with subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            ) as ivy:
                assert ivy.stdout is not None
                for line in ivy.stdout:
                    log.append(line)
                    if found_jar := re.match(r"downloading \S+/(\S+\.jar)", line):
                        say(f"downloading {found_jar[1]}")
            if ivy.returncode == 0 and found.is_file():
                jars = [Path(part) for part in found.read_text(encoding="utf-8").strip().split(os.pathsep) if part]
                broken = [jar for jar in jars if not _is_whole(jar)]
                if not broken:
                    break
                log.append(f"{broken[0].name} is no jar")
                for jar in broken:
                    if jar.is_relative_to(home / "cache"):  # else Ivy keeps it; others are not ours to remove
                        jar.unlink(missing_ok=True)
            elif _unreachable("".join(log), settings):
                raise _failed("".join(log), settings)
        else:
            raise _failed("".join(log), settings)
    flush([*jars, *{jar.parent for jar in jars}])
    write_whole(kept, "".join(f"{jar}\n" for jar in jars), durable=True)
    return jars


def _unreachable(log: str, settings: Mapping[str, str]) -> str:
    """The repositories that do not answer, and why, as Java says it; nothing when all do."""
    found: dict[str, str] = {}
    for url, why, missing, of_missing in _ANSWERLESS.findall(log):
        tried = url or of_missing
        root = next((root for root in _repositories(settings) if tried.startswith(root)), "")
        host = re.match(r"\w+://[^/]+/?", tried)
        name = root or (host[0] if host else tried)
        found.setdefault(_without_login(name), (why or f"host {missing}").rstrip(" :"))
    return "; ".join(f"the repository {name} cannot be reached ({why})" for name, why in found.items())


def _without_login(text: str) -> str:
    return re.sub(r"//[^/\s]*@", "//", text)


def _failed(log: str, settings: Mapping[str, str]) -> ExecutionError:
    broken = re.search(r"\[FAILED\s*\] \S+!(\S+): (.+) \(\d+ms\)", log)
    if unreachable := _unreachable(log, settings):
        why = unreachable
    elif broken:
        sources = re.findall(r"downloading (\S+)", log)
        source = f" from {_without_login(sources[-1])}" if sources else ""
        why = f"{broken[1]} could not be downloaded{source}: {broken[2]}"
    elif "UNRESOLVED DEPENDENCIES" in log:
        why = "the repository does not have them"
    else:
        why = "Ivy failed: " + " ".join(_without_login(log).split())[-300:]
    return ExecutionError(
        f"the jars of Delta Lake for Spark ({GROUP}:{delta_artifact()}) could not be fetched: {why}",
        hint=f"Set spark.jars.repositories in the profile to a mirror. Without any access: {_by_hand()}",
    )


def _wanted(ours: Path) -> str:
    """An Ivy module that needs Delta's jar and nothing that Spark has."""
    name, _, version = delta_artifact().rpartition("-")
    there = sorted({re.sub(r"-\d.*$", "", jar.stem) for jar in ours.glob("*.jar")})
    return "\n".join(
        [
            '<ivy-module version="2.0"><info organisation="voxelflow" module="spark-jars"/>',
            '<configurations><conf name="default"/></configurations><dependencies>',
            f'<dependency org="{GROUP}" name={quoteattr(name)} rev={quoteattr(version)} conf="default->default"/>',
            *(f"<exclude module={quoteattr(module)}/>" for module in there),
            "</dependencies></ivy-module>",
        ]
    )


def _settings(home: Path, settings: Mapping[str, str]) -> str:
    places = "".join(
        f'<ibiblio name="r{number}" m2compatible="true" root={quoteattr(url)} timeoutConstraint="answer"/>'
        for number, url in enumerate(_repositories(settings))
    )
    limits = f'name="answer" connectionTimeout="{CONNECT_MS}" readTimeout="{READ_MS}"'
    return (
        f'<ivysettings><settings defaultResolver="all"/><caches defaultCacheDir={quoteattr(str(home / "cache"))}/>'
        f"<timeout-constraints><timeout-constraint {limits}/></timeout-constraints>"
        f'<resolvers><chain name="all" returnFirst="true">{places}</chain></resolvers></ivysettings>'
    )


def _repositories(settings: Mapping[str, str]) -> list[str]:
    """The profile's own, then Maven Central."""
    own = [url.strip() for url in settings.get("spark.jars.repositories", "").split(",")]
    return [*filter(None, own), CENTRAL]

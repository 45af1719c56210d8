"""The classes of Spark and Delta as Java keeps them in memory, in a file that later sessions map: class-data sharing.

Reading and checking some 20,000 classes is most of what the start of a session and its first `CONVERT TO DELTA` cost.
Java can keep the result (an archive, JEP 350). With it a session, a conversion and a small OPTIMIZE took 16 s of
processor time in place of 25 (Java 17, Spark 4.2). The file is some 200 MB and lies beside Ivy's jars.

It is made once for each Java, Spark and Delta, by a process of its own and at the lowest priority, after the first
session has ended. Java itself checks that it fits the class path, and does without where it does not.

`VOXELFLOW_SPARK_CLASS_DATA=off` neither uses nor makes it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from engine.spark.jars import delta_jars, ivy_home, spark_jars_folder
from engine.spark.java import Java, find_java

SWITCH = "VOXELFLOW_SPARK_CLASS_DATA"
CLASS_PATH = "spark.driver.extraClassPath"
_NEEDED_BYTES = 2 << 30
"""Free space without which nothing is made."""
_KEPT = 2
"""Archives that stay when a new one is made: two environments may share Ivy's folder."""
_ALONE_S = 600.0


def settings_with(own: Mapping[str, str], jars: Iterable[Path], java: Java) -> dict[str, str]:
    """What a driver's settings need so that it maps the archive; nothing where there is none.

    `own` are the profile's: a class path of the person's own stays as it is, without the archive.
    """
    jars = list(jars)
    if os.environ.get(SWITCH) == "off" or CLASS_PATH in own or not jars:
        return {}
    archive = archive_path(own, jars, java)
    if not _useful(archive):
        return {}
    # Only classes of Java's own loader are in archives, and what `spark.jars` names has another one.
    return {CLASS_PATH: _joined(jars), "spark.driver.extraJavaOptions": _option("SharedArchiveFile", archive)}


def archive_path(own: Mapping[str, str], jars: Iterable[Path], java: Java) -> Path:
    """Where the archive of this Java, this Spark and these jars lies, or would."""
    key = hashlib.sha256(f"{java.program.resolve()} {java.version}".encode())
    for jar in [*jars, *sorted(spark_jars_folder().glob("*.jar"))]:
        found = jar.stat()
        key.update(f"\n{jar} {found.st_size} {found.st_mtime_ns}".encode())
    return ivy_home(own) / "voxelflow" / f"classes-{key.hexdigest()[:16]}.jsa"


def make_later(own: Mapping[str, str]) -> None:
    """Start a process that makes the archive, where there is none yet. It outlives this one, and disturbs nobody."""
    if os.environ.get(SWITCH) == "off" or CLASS_PATH in own or _there(own):
        return
    subprocess.Popen(
        [sys.executable, "-m", "engine.spark.class_data", own.get("spark.jars.ivy", "")],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        cwd=tempfile.gettempdir(),
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
    )


def make(own: Mapping[str, str]) -> Path | None:
    """Make the archive if it is not there; gives its path, None where it cannot be made.

    Of several processes that try, one does. Where Java makes none (some builds cannot), an empty file says so.
    """
    from filelock import FileLock, Timeout

    jars = delta_jars(own)
    archive = archive_path(own, jars, find_java())
    archive.parent.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(archive.with_suffix(".lock"), timeout=_ALONE_S):
            if archive.exists() or shutil.disk_usage(archive.parent).free < _NEEDED_BYTES:
                return archive if _useful(archive) else None
            temporary = archive.with_suffix(".part")
            _dump(jars, temporary)
            temporary.touch()
            temporary.replace(archive)
            others = sorted(archive.parent.glob("classes-*.jsa"), key=lambda path: path.stat().st_mtime, reverse=True)
            for old in others[_KEPT:]:
                old.unlink(missing_ok=True)
    except Timeout:
        return None
    return archive if _useful(archive) else None


def _useful(archive: Path) -> bool:
    """Whether it is there, and more than the sign that none can be made."""
    return archive.is_file() and archive.stat().st_size > 0


def _there(own: Mapping[str, str]) -> bool:
    jars = delta_jars(own)
    # Beside jars of Delta that the profile names itself, none is used.
    return not jars or archive_path(own, jars, find_java()).exists()


def _dump(jars: list[Path], archive: Path) -> None:
    """Do in a session what most pipelines do first; Java writes what it has loaded when it ends."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    from engine.spark.jars import DELTA, INTERPRETED

    with tempfile.TemporaryDirectory(prefix="voxelflow-classes-") as folder:
        table = Path(folder, "table")
        table.mkdir()
        row = {"id": ["a"], "label": pa.array([0], pa.float32()), "volume": pa.array([b""], pa.binary())}
        for name in "ab":
            pq.write_table(pa.table(row), table / f"{name}.parquet")
        conf = SparkConf(loadDefaults=False)
        for key, value in {
            **DELTA,
            "spark.master": "local[1]",
            "spark.app.name": "class data",
            "spark.driver.memory": "1g",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.sql.warehouse.dir": f"{folder}/warehouse",
            "spark.local.dir": folder,
            "spark.sql.shuffle.partitions": "1",
            "spark.ui.showConsoleProgress": "false",
            CLASS_PATH: _joined(jars),
            "spark.driver.extraJavaOptions": f"-XX:TieredStopAtLevel=1 {_option('ArchiveClassesAtExit', archive)}",
        }.items():
            conf.set(key, value)
        context = SparkContext(conf=conf)
        session = SparkSession(context)
        for key, value in INTERPRETED.items():
            session.conf.set(key, value)
        session.sql(f"CONVERT TO DELTA parquet.`{table}`").collect()
        session.sql(f"ALTER TABLE delta.`{table}` SET TBLPROPERTIES ('a' = 'b')").collect()
        for key in INTERPRETED:
            session.conf.unset(key)
        session.sql(f"OPTIMIZE delta.`{table}`").collect()
        session.read.format("delta").load(str(table)).count()
        context.parallelize([1], 1).map(str).collect()
        gateway = context._gateway
        session.stop()
        java = getattr(gateway, "proc", None)
        if gateway is not None and java is not None:
            gateway.shutdown()
            java.stdin.close()
            java.wait()


def _joined(jars: Iterable[Path]) -> str:
    return os.pathsep.join(map(str, jars))


def _option(name: str, path: Path) -> str:
    """An option of Java's as Spark's launcher splits them."""
    return f'"-XX:{name}={path}"' if " " in str(path) else f"-XX:{name}={path}"


if __name__ == "__main__":
    os.nice(19)
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    for _name in ("SPARK_HOME", "SPARK_CONF_DIR", "PYSPARK_SUBMIT_ARGS"):
        os.environ.pop(_name, None)
    make({"spark.jars.ivy": sys.argv[1]} if len(sys.argv) > 1 and sys.argv[1] else {})

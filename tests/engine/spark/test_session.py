"""The session's settings and what it refuses, without Java."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

import pytest
from pyspark import SparkConf

from engine.errors import ExecutionError, UsageError
from engine.profiles import Profile
from engine.spark import session
from engine.spark.failures import spark_error, why_ended


def _profile(**fields) -> Profile:
    return Profile(**({"name": "p", "backend": "spark", "cores": 2, "memory_bytes": 4 << 30} | fields))


@pytest.mark.parametrize(
    ("master", "url"),
    [
        ("local", "local[1,4]"),
        ("local[2]", "local[2,4]"),
        ("local[*]", "local[*,4]"),
        ("local[2,1]", "local[2,1]"),
        ("local-cluster[2,1,1024]", "local-cluster[2,1,1024]"),
        ("spark://10.0.0.5:7077", "spark://10.0.0.5:7077"),
        ("yarn", "yarn"),
    ],
)
def test_a_local_master_tries_a_failed_task_again(master: str, url: str) -> None:
    assert session.master_url(master) == url


@pytest.mark.parametrize(
    ("fields", "keeps"),
    [
        ({"master": "local[*]"}, True),
        ({"master": "local[2]", "keep_warm_minutes": 0}, False),
        ({"master": "local-cluster[2,1,1024]"}, False),
        ({"master": "spark://10.0.0.5:7077"}, False),
        ({"master": "yarn"}, False),
        # Hive's own database stays locked as long as its Java lives.
        ({"master": "local", "spark": {"spark.sql.catalogImplementation": "hive"}}, False),
    ],
)
def test_java_outlives_a_run_where_it_is_all_of_spark_and_holds_nothing(fields: dict, keeps: bool) -> None:
    assert session.keeps_warm(_profile(**fields)) == keeps


@pytest.mark.parametrize("master", ["local[*]", "spark://127.0.0.1:7077", "spark://localhost:7077"])
def test_on_this_machine_everything_stays_on_the_loopback(master: str, tmp_path: Path) -> None:
    defaults = session._defaults(_profile(master=master), tmp_path)
    assert defaults["spark.driver.host"] == defaults["spark.driver.bindAddress"] == "127.0.0.1"


def test_a_cluster_elsewhere_gets_an_address_that_it_can_reach(tmp_path: Path) -> None:
    defaults = session._defaults(_profile(master="spark://192.0.2.7:7077"), tmp_path)
    assert defaults["spark.driver.host"] not in ("127.0.0.1", "localhost", "0.0.0.0")


def test_spark_gets_a_clean_environment_and_ours_is_put_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", "/opt/another-spark")
    monkeypatch.setenv("PYSPARK_PYTHON", "python2")
    monkeypatch.setenv("SPARK_CONF_DIR", "/etc/spark")
    before = dict(os.environ)
    settings = session._defaults(_profile(), tmp_path)
    with session._environment("local[*]", settings, tmp_path):
        assert "SPARK_HOME" not in os.environ
        assert os.environ["PYSPARK_PYTHON"] == sys.executable
        assert os.environ["SPARK_LOCAL_IP"] == "127.0.0.1"
        assert os.environ["SPARK_CONF_DIR"] == "/etc/spark"  # how a cluster is reached
    assert dict(os.environ) == before


def test_other_threads_have_the_rest_of_the_environment_while_java_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OF_A_LIBRARY", "SPARK_AUTH_SOCKET_TIMEOUT"):
        monkeypatch.delenv(name, raising=False)
    removed, unset = [], os.unsetenv

    def remove(name: bytes) -> None:
        removed.append(os.fsdecode(name))
        unset(name)

    with session._environment("local[*]", session._defaults(_profile(), tmp_path), tmp_path):
        monkeypatch.setenv("OF_A_LIBRARY", "that another thread imports")
        monkeypatch.setenv("SPARK_AUTH_SOCKET_TIMEOUT", "60")  # PySpark sets it by the profile, and reads it later
        monkeypatch.setattr(os, "unsetenv", remove)
    assert "PATH" not in removed
    assert os.environ["OF_A_LIBRARY"] == "that another thread imports"
    assert os.environ["SPARK_AUTH_SOCKET_TIMEOUT"] == "60"


@pytest.mark.parametrize("host", ["a..b", "a" * 70])
def test_a_master_whose_name_cannot_be_one_is_reported(host: str) -> None:
    with pytest.raises(ExecutionError, match=f"no Spark master answers at spark://{host}:7077 .* is no name"):
        session._reach(f"spark://{host}:7077")


@pytest.mark.slow
@pytest.mark.needs(part="java")
def test_a_master_that_does_not_answer_is_reported_at_once() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, but nobody listens
        master = f"spark://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(ExecutionError) as caught:
            session.open_session(_profile(master=master), name="t")
    assert caught.value.message.startswith(f"no Spark master answers at {master}")
    assert f"`nc -vz 127.0.0.1 {master.rpartition(':')[2]}`" in caught.value.hint


@pytest.mark.slow
@pytest.mark.parametrize(
    ("master", "says"),
    [
        ("sc://host:15002", "Spark Connect"),
        ("spark://host", "is no Spark master"),
        ("spark://h:x", "is no Spark master"),
    ],
)
@pytest.mark.needs(part="java")
def test_masters_that_cannot_be_are_refused(master: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        session.open_session(_profile(master=master), name="t")


def test_a_race_of_sparks_web_ui_on_yarn_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    undefined = "java.lang.IllegalStateException: No filter named org.apache.spark.deploy.yarn.AmIpFilter"
    changed = (
        "java.util.ConcurrentModificationException\n"
        "\tat org.sparkproject.jetty.ee10.servlet.ServletHandler.initialize(ServletHandler.java:687)\n"
        "\tat org.apache.spark.ui.SparkUI.attachAllHandlers(SparkUI.scala:79)"
    )
    ends = iter([undefined, changed, "", "No space left on device"])

    def context(**_: object) -> str:
        if why := next(ends):
            raise RuntimeError(why)
        return "a context"

    monkeypatch.setattr(session, "SparkContext", context)
    made: object = session._context(SparkConf(loadDefaults=False), None)
    assert made == "a context"
    with pytest.raises(RuntimeError, match="No space"):
        session._context(SparkConf(loadDefaults=False), None)


def test_a_secret_that_is_not_set_is_reported_before_anything_starts() -> None:
    profile = _profile(spark={"spark.hadoop.fs.azure.account.key": "${NO_SUCH_VARIABLE}"})
    with pytest.raises(UsageError, match="NO_SUCH_VARIABLE is not set"):
        session.open_session(profile, name="t")


STACK = """Job aborted due to stage failure: Task 1 in stage 0.0 failed 4 times, most recent failure: Lost task 1.3 in \
stage 0.0 (TID 5) (10.0.0.1 executor 0): org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "x.py", line 3, in f
ValueError: the file is odd

\tat org.apache.spark.api.python.BasePythonRunner.compute(PythonRunner.scala:1)
"""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (STACK, "Spark: ValueError: the file is odd"),
        ("org.apache.spark.sql.AnalysisException: no such table\n\tat a.b", "Spark: no such table"),
        (
            'Job aborted: java.io.IOException: Cannot run program "/opt/python": error=2, No such file',
            "the executors have no /opt/python to run Python with",
        ),
        (
            "Job aborted: Lost task: ExecutorLostFailure (executor 1 exited caused by one of the running tasks)",
            "Spark lost the process that did the work, each time it tried: Job aborted: Lost task: ExecutorLostFailure"
            " (executor 1 exited caused by one of the running tasks)",
        ),
    ],
)
def test_sparks_errors_come_as_a_sentence(text: str, message: str) -> None:
    assert spark_error(RuntimeError(text)).message == message
    assert spark_error(RuntimeError(text)).hint


@pytest.mark.parametrize(
    ("log", "words"),
    [
        (
            "java.lang.OutOfMemoryError: Java heap space\n",
            "Java ran out of memory (Java heap space); give it more with",
        ),
        ("ERROR Application has been killed. Reason: the admin did it\n", "the cluster ended it: the admin did it"),
        ("ERROR All masters are unresponsive! Giving up.\n", "the master does not answer any more"),
        ("Exception in thread main java.lang.IllegalArgumentException: a bad setting\n\tat x\n", "a bad setting"),
        ("nothing of note\n", "the error itself"),
    ],
)
def test_why_a_session_ended_is_read_from_javas_log(log: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "spark.log"
    path.write_text(f"java.lang.OutOfMemoryError: long ago\n{log}")
    begun = len("java.lang.OutOfMemoryError: long ago\n")
    assert why_ended(RuntimeError("the error itself"), path, begun).startswith(words)

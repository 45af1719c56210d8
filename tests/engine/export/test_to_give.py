"""The settings that an exported file gives to Spark, without Java."""

from __future__ import annotations

from typing import Any

import pyspark
import pytest
from pyspark import SparkContext

from engine.export import session
from engine.export.session import to_give
from engine.spark import jars

DELTA = "/ivy/delta.jar"


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What stands on Java's command line."""
    found: dict[str, str] = {}

    def start(conf: Any = None, **_: Any) -> None:
        found.update(conf.getAll() if conf is not None else ())

    monkeypatch.delenv(session._SUBMITTED, raising=False)
    monkeypatch.delenv(session._DATABRICKS, raising=False)
    monkeypatch.setattr(SparkContext, "_gateway", None)
    monkeypatch.setattr(SparkContext, "_ensure_initialized", start)
    monkeypatch.setattr(jars, "delta_jars", lambda _: [DELTA])
    return found


@pytest.mark.parametrize("own", ["/opt/own.jar", "${OWN_JARS}/own.jar"])
def test_java_starts_with_the_profile_s_jars_and_delta_s(
    own: str, started: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Java loads none that it hears of later."""
    monkeypatch.setenv("OWN_JARS", "/opt")
    monkeypatch.setenv("S3_KEY", "the-secret-itself")
    given = to_give({"spark.master": "local[1]", "spark.jars": own, "spark.hadoop.fs.s3a.secret.key": "${S3_KEY}"})
    assert started["spark.jars"] == given["spark.jars"] == f"/opt/own.jar,{DELTA}"
    assert given["spark.hadoop.fs.s3a.secret.key"] == "the-secret-itself"
    assert "the-secret-itself" not in started.values()


@pytest.mark.parametrize(
    ("own", "given", "loaded", "wanted"),
    [
        ("/opt/own.jar,s3a://box/far.jar", {}, ["/opt/own.jar", DELTA], f"/opt/own.jar,s3a://box/far.jar,{DELTA}"),
        ("/opt/own.jar,s3a://box/far.jar", {"spark.jars": "/opt/other.jar"}, [DELTA], f"/opt/other.jar,{DELTA}"),
        (
            "/opt/a b.jar, file:///opt/own%20one.jar,local:/opt/it.jar,",
            {},
            ["/opt/a b.jar", "/opt/own one.jar", "/opt/it.jar", DELTA],
            f"/opt/a b.jar,file:///opt/own%20one.jar,local:/opt/it.jar,{DELTA}",
        ),
    ],
)
def test_under_spark_submit_the_profile_s_jars_are_loaded_unless_others_are_given(
    own: str,
    given: dict[str, str],
    loaded: list[str],
    wanted: str,
    started: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Conf:
        def contains(self, name: str) -> bool:
            return name in given

        def get(self, name: str, default: str) -> str:
            return given.get(name, default)

    found: list[str] = []
    monkeypatch.setenv(session._SUBMITTED, "1")
    monkeypatch.setattr(pyspark, "SparkConf", Conf)
    monkeypatch.setattr(session, "_has_delta", lambda: False)
    monkeypatch.setattr(session, "_load", lambda jars: found.extend(map(str, jars)))
    out = to_give({"spark.master": "local[1]", "spark.jars": own})
    assert (found, out["spark.jars"]) == (loaded, wanted)

"""Other writers on Spark: Delta's own transactions change a table between our commits and during them."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from outside_parts import missing_part
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from spark_sessions import end_local_session, local_session

from tests.torture.other_writers import Other, OtherWriters
from tests.torture.rounds import NotRun, World


class SparkWriters(OtherWriters):
    name = "spark-writers"
    what = "Spark appends, deletes, overwrites, restores and compacts, and delta-rs vacuums, beside ours"
    short = ()
    usual = 60

    def __init__(self, world: World) -> None:
        if reason := missing_part("java"):
            raise NotRun(reason)
        super().__init__(world)
        self._spark = local_session()

    def close(self) -> None:
        end_local_session()

    def _other(self, uri: str, dice: random.Random, ids: list[str]) -> Other:
        # The table of the round before lay in the same folder, and Delta keeps its log in mind.
        jvm: Any = self._spark._jvm
        jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
        return _SparkOther(self._spark, uri, dice, ids)


class _SparkOther(Other):
    refusals = (*Other.refusals, PySparkException, Py4JError)

    def __init__(self, spark: SparkSession, uri: str, dice: random.Random, ids: list[str]) -> None:
        super().__init__(uri, dice, ids)
        self._spark = spark

    def append(self, row: Mapping[str, Any]) -> None:
        schema = self._spark.read.format("delta").load(self.uri).schema
        rows = self._spark.createDataFrame([tuple(row[name] for name in schema.names)], schema)
        rows.write.format("delta").mode("append").save(self.uri)

    def delete(self, condition: str) -> None:
        self._spark.sql(f"DELETE FROM delta.`{self.uri}` WHERE {condition}")

    def overwrite_without(self, gone: Sequence[str]) -> None:
        rows = self._spark.read.format("delta").load(self.uri)
        rows.filter(~rows["id"].isin(list(gone))).write.format("delta").mode("overwrite").save(self.uri)

    def restore(self, version: int) -> None:
        self._spark.sql(f"RESTORE TABLE delta.`{self.uri}` TO VERSION AS OF {version}")

    def compact(self) -> None:
        self._spark.sql(f"OPTIMIZE delta.`{self.uri}`")

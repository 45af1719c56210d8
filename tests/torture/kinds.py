"""All kinds of faults, in the order of the table."""

from __future__ import annotations

from tests.torture.bit_rot import BitRot
from tests.torture.contending import ContendingRuns
from tests.torture.executors import KilledExecutors
from tests.torture.failed_calls import FailedCalls, FailedCallsOfTracking
from tests.torture.full_disk import FullDisk
from tests.torture.kills import Kills, KillsOfTracking
from tests.torture.object_store import ObjectStoreFaults
from tests.torture.other_writers import OtherWriters
from tests.torture.power_cuts import PowerCuts
from tests.torture.rounds import Kind
from tests.torture.spark_writers import SparkWriters
from tests.torture.training_ranks import TrainingRanks

KINDS: tuple[type[Kind], ...] = (
    Kills,
    FailedCalls,
    PowerCuts,
    BitRot,
    ContendingRuns,
    OtherWriters,
    SparkWriters,
    ObjectStoreFaults,
    KilledExecutors,
    TrainingRanks,
    FullDisk,
    KillsOfTracking,
    FailedCallsOfTracking,
)

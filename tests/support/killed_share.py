"""The work of a Spark task that predicts, with a process that is killed; tasks find this module by its name."""

from __future__ import annotations

import os

from nodes.spark.predict_parts import PredictShare


class KilledShare(PredictShare):
    """Its process ends when its second part is done."""

    def __call__(self, numbers: tuple[int, ...]) -> int:
        os.environ["VOXELFLOW_KILL_AT"] = "executor:predict:part-done#2"
        try:
            return super().__call__(numbers)
        finally:
            del os.environ["VOXELFLOW_KILL_AT"]

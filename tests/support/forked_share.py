"""The work of a Spark task that predicts, by a forked process; tasks find this module by its name."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from unittest.mock import patch

from forked_programs import SOCKET, ForkedPopen

from nodes.spark.predict_parts import PredictShare


@dataclass(frozen=True)
class ForkedShare(PredictShare):
    """Its process is forked from the one that listens at `address` and has TensorFlow already."""

    address: str

    def __call__(self, numbers: tuple[int, ...]) -> int:
        with patch.dict(os.environ, {SOCKET: self.address}), patch.object(subprocess, "Popen", ForkedPopen):
            return super().__call__(numbers)


class KilledShare(ForkedShare):
    """Its process ends when its second part is done."""

    def __call__(self, numbers: tuple[int, ...]) -> int:
        with patch.dict(os.environ, {"VOXELFLOW_KILL_AT": "executor:predict:part-done#2"}):
            return super().__call__(numbers)

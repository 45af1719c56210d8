from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from loader_conformance import LoaderConformance
from volume_sets import Labels, Volumes, compact, make_delta

from engine.datasets import Dataset, VolumeDelta


class TestPetastorm(LoaderConformance):
    loader = "petastorm"

    def make(self, folder: Path, volumes: Volumes, labels: Labels) -> Dataset:
        return make_delta(folder, volumes, labels)

    def rewrite(self, dataset: Dataset, volumes: Volumes) -> Dataset:
        assert isinstance(dataset, VolumeDelta)
        return compact(dataset, volumes)


@pytest.mark.slow
def test_the_bridge_leaves_no_stand_ins_outside_petastorm() -> None:
    code = (
        "import nodes.loaders.petastorm_bridge, sys, numpy, pyarrow\n"
        "assert not {'pyarrow.filesystem', 'pyarrow.hdfs'} & set(sys.modules)\n"
        "assert not hasattr(numpy, 'string_') and not hasattr(pyarrow, 'localfs')\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)

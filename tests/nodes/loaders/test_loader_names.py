"""The loaders are named in three places, which say the same."""

from __future__ import annotations

from typing import get_args

from engine.cli import bench
from nodes.loaders import LOADERS, LoaderName


def test_a_loader_of_the_table_can_be_chosen() -> None:
    assert get_args(LoaderName) == tuple(LOADERS)
    (option,) = (each for each in bench.command.params if each.name == "loaders")
    assert option.type.convert(",".join(LOADERS), None, None) == tuple(LOADERS)

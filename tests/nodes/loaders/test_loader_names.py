"""The loaders are named in three places, which say the same."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from engine.cli import bench
from engine.declare.datasets import VolumeFiles
from engine.errors import UsageError
from nodes.loaders import LOADERS, LoaderName, open_source


def test_a_loader_of_the_table_can_be_chosen() -> None:
    assert get_args(LoaderName) == tuple(LOADERS), "LoaderName and LOADERS have all loaders, in one order"
    (option,) = (each for each in bench.command.params if each.name == "loaders")
    assert option.type.convert(",".join(LOADERS), None, None) == tuple(LOADERS)


def test_a_loader_that_there_is_not_is_refused_with_those_there_are() -> None:
    unknown: Any = "arow"
    with pytest.raises(UsageError, match="there is no loader 'arow'") as caught:
        open_source(unknown, VolumeFiles(uri="/x", manifest="/m", count=0, bytes=0), cores=1)
    assert caught.value.hint == f"Choose {' or '.join(LOADERS)}."

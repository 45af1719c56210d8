"""What a command of `voxelflow` said, for tests of the command line."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from engine.cli.node_work import Answer, CheckedData, NodeWork
from engine.declare.datasets import Dataset
from engine.document.pipeline import Pipeline


@dataclass(frozen=True)
class Said:
    """What a command printed, and its exit status."""

    status: int
    out: str
    err: str

    def done(self) -> Said:
        """The command succeeded."""
        assert self.status == 0, self.err
        return self

    def fails(self, *texts: str) -> Said:
        """The command was refused (status 2), and says so with these texts on standard error."""
        assert self.status == 2, self.err
        for text in texts:
            assert text in self.err
        return self

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]


Command = Callable[..., Said]
Save = Callable[[Pipeline], str]
"""Write a document into the current directory; gives its file name."""


def _no_check(data: Dataset | str, **_: object) -> CheckedData:
    """For commands that check no data."""
    raise AssertionError("data was checked")


def _no_model(folder: Path, files: Sequence[Path]) -> list[Answer]:
    """What a command is given that shall ask no model."""
    raise AssertionError("a model was asked")


def _no_probe(*_: object, **__: object) -> NoReturn:
    """What a command is given that shall measure nothing."""
    raise AssertionError("storage was probed")


def _no_bench(*_: object, **__: object) -> NoReturn:
    """What a command is given that shall train nothing and write no page."""
    raise AssertionError("a benchmark was run")


def _no_view(*_: object) -> NoReturn:
    """For commands that look at nothing."""
    raise AssertionError("a dataset was opened to be looked at")


NO_WORK = NodeWork(_no_model, _no_check, _no_probe, _no_bench, _no_bench, _no_view, lambda: None)
"""For commands that need none of it."""

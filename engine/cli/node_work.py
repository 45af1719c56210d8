"""What commands and the app have nodes and ui do: the engine knows neither.

Nothing of the command itself is imported here: each worker makes a `NodeWork` when it begins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from engine.bench.compare import Comparison
    from engine.bench.options import BenchOptions
    from engine.bench.result import BenchResult
    from engine.declare.datasets import Dataset
    from engine.probes import StorageProbe
    from engine.viewing.reader import OpenView
    from engine.workspace import Workspace


class StartStudio(Protocol):
    """Serve the app until it is stopped; gives the exit status. `port` None means the usual one or the next free."""

    def __call__(
        self, workspace: Workspace, *, address: str, port: int | None, open_browser: bool, traceback: bool
    ) -> int: ...


class Answer(Protocol):
    """What a model says of a file: the likeliest class, None of a regression, and the scores by class; or an error.

    `doubt` says why the answer may be wrong though there is one, "" for no reason.
    """

    @property
    def file(self) -> Path: ...
    @property
    def name(self) -> str | None: ...
    @property
    def scores(self) -> Mapping[str, float]: ...
    @property
    def error(self) -> str: ...
    @property
    def doubt(self) -> str: ...


class Asked(Protocol):
    """A model's classes in their order, none of a regression, and its answers, each made when it is taken."""

    @property
    def classes(self) -> Sequence[str]: ...
    @property
    def answers(self) -> Iterator[Answer]: ...


class AskModel(Protocol):
    """Ask the trained model in a folder about volumes in files, and about those in folders.

    `dataset` names the array that is the volume in files which hold several.
    """

    def __call__(self, folder: Path, files: Sequence[Path], *, dataset: str = "") -> Asked: ...


class Damage(Protocol):
    """A damaged file. `kind` is volumes, rows, log, manifest or model; `rows` volumes are lost, first `ids`."""

    @property
    def file(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def problem(self) -> str: ...
    @property
    def lost(self) -> str: ...
    @property
    def rows(self) -> int: ...
    @property
    def ids(self) -> Sequence[str]: ...


class CheckedData(Protocol):
    """What was read and what was found: volumes that match their checksums, and those that have none.

    `remarks` say what else could not be checked, a sentence each.
    """

    @property
    def files(self) -> int: ...
    @property
    def volumes(self) -> int: ...
    @property
    def unchecked(self) -> int: ...
    @property
    def damages(self) -> Sequence[Damage]: ...
    @property
    def remarks(self) -> Sequence[str]: ...
    @property
    def moved(self) -> Sequence[Path]: ...


class CheckData(Protocol):
    """Read all of a dataset, or of the data at a path or URL, and compare checksums.

    `progress` gets the bytes read since its last call and those of all. With `aside`, folders of parts, damaged files
    of volumes are renamed, and parts that are the same files.
    """

    def __call__(
        self,
        data: Dataset | str,
        *,
        threads: int,
        progress: Callable[[int, int], None],
        aside: Sequence[Path] | None = None,
    ) -> CheckedData: ...


class ProbeStorage(Protocol):
    """Measure a place and keep the result in the workspace; gives it with its page.

    `files` of `file_bytes` are those whose epoch is predicted; None where the place's own are, or an example.
    `report` gets each step.
    """

    def __call__(
        self,
        workspace: Workspace,
        place: str,
        *,
        seconds: int,
        limit_mb: int,
        files: int | None,
        file_bytes: int | None,
        report: Callable[[str], None],
    ) -> tuple[StorageProbe, Path]: ...


class RunBench(Protocol):
    """Measure what the options name, with half-done work in `folder`; `report` gets a line for each step, and `keep`
    what was measured so far."""

    def __call__(
        self,
        options: BenchOptions,
        folder: Path,
        *,
        report: Callable[[str], None],
        keep: Callable[[BenchResult], None],
    ) -> BenchResult: ...


class WriteBenchPage(Protocol):
    """Write the page of a comparison, one HTML file."""

    def __call__(self, comparison: Comparison, results: Sequence[BenchResult], path: Path) -> None: ...


@dataclass(frozen=True)
class NodeWork:
    """What nodes do for commands and the app."""

    ask_model: AskModel
    check_data: CheckData
    probe_storage: ProbeStorage
    run_bench: RunBench
    write_bench_page: WriteBenchPage
    open_view: OpenView
    prepare_views: Callable[[], None]

"""What an exported file calls while it runs: a node's work, or its result when that stands already.

    def main(steps: Steps) -> None:
        make = steps.embedded("make", synthetic_volumes)(count=640, ...)
        convert = steps.spark("convert", numpy_to_parquet)(files=make, ...)

    if __name__ == "__main__":
        start(main, OUT)

Everything lies in one folder: a folder for each node's results, `scratch/` for half-done work, and `done.json`, which
remembers by fingerprint what was made. So a file that is run again, after a kill or with other values, goes on from
what is there, by the same rules as a run in a workspace.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from engine import manifest
from engine.catalog import AnyNodeType, user_module
from engine.context import Resources, TaskContext
from engine.datasets import Dataset
from engine.errors import DataError, UsageError, VoxelflowError
from engine.events import Event, Message, Progress
from engine.export.done import Done, problem_with
from engine.export.source import one_line
from engine.export.values import as_the_node_reads
from engine.identity import Identity, identity_of
from engine.node import DEFAULT_OUTPUT, NodeType
from engine.parameters import MISSING
from engine.profiles import local_profile
from engine.progress import current_reporter
from engine.run_lock import ProcessLock
from engine.storage.listing import list_place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROGRESS_S = 5.0
"""Least time between two lines of progress."""
_STEP = r"[A-Za-z_][A-Za-z0-9_-]{0,63}"
_RUN = "exported"


def start(
    main: Callable[[Steps], None],
    out: Path | str,
    *,
    open_spark: Callable[[Path], SparkSession] | None = None,
    cores: int | None = None,
    memory_bytes: int | None = None,
) -> None:
    """Run `main`; `--out FOLDER` on the command line overrides `out`. Ends the process with status 1 on an error.

    `open_spark` is called with the folder when the first step on Spark needs the session. `cores` and `memory_bytes`
    are what steps on this machine may use; all of it without them.
    """
    parser = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__, formatter_class=_AsWritten)
    parser.add_argument(
        "--out", type=Path, default=Path(out), metavar="FOLDER", help="where everything goes: %(default)s"
    )
    folder = parser.parse_args().out.expanduser().absolute()
    try:
        steps = Steps(folder, open_spark=open_spark, cores=cores, memory_bytes=memory_bytes)
        try:
            main(steps)
        finally:
            steps.close()
    except KeyboardInterrupt:
        print("interrupted; run it again to go on", file=sys.stderr, flush=True)
        sys.exit(130)
    except VoxelflowError as exc:
        print(f"error: {one_line(exc.line())}", file=sys.stderr, flush=True)
        sys.exit(exc.exit_code)


def load_node(path: Path | str, name: str) -> AnyNodeType:
    """The node type called `name` in a person's own file. Raises `UsageError` when it is not there."""
    path = Path(path).expanduser().absolute()
    module_name = user_module(path)
    if module_name not in sys.modules:
        spec = importlib.util.spec_from_file_location(module_name, path)
        if not path.is_file() or spec is None or spec.loader is None:
            raise UsageError(f"the node's file {path} is not there", hint="Change its folder at the top of the file.")
        # Under the name that it has in a workspace: functions travel to executors by name.
        sys.modules[module_name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[module_name])
    module = sys.modules[module_name]
    for value in vars(module).values():
        if isinstance(value, NodeType) and value.name == name:
            value.origin = str(path)
            return value
    raise UsageError(f"{path} declares no node {name}")


class _AsWritten(argparse.RawDescriptionHelpFormatter):
    """Keeps the lines of the file's own description."""


class Steps:
    """The steps of one file, done one after another in the folder `out`.

    Raises `UsageError` when another process works in that folder.
    """

    def __init__(
        self,
        out: Path,
        *,
        open_spark: Callable[[Path], SparkSession] | None = None,
        cores: int | None = None,
        memory_bytes: int | None = None,
        say: Callable[[str], None] = lambda text: print(text, flush=True),
    ) -> None:
        self._out, self._open_spark, self._say = out, open_spark, say
        machine = local_profile()
        self._resources = Resources(cores or machine.cores, memory_bytes or machine.memory_bytes)
        self._session: SparkSession | None = None
        self._origins: dict[int, _Origin] = {}
        out.mkdir(parents=True, exist_ok=True)
        self._lock = ProcessLock(out / ".lock")
        if not self._lock.acquire():
            raise UsageError(f"another process works in {out}", hint="Wait for it, or give another folder with --out.")
        self._done = Done(out / "done.json")

    def embedded(self, name: str, node_type: AnyNodeType) -> Callable[..., Any]:
        """The step `name`: `node_type` on this machine. Call what this gives with its inputs and parameters."""
        return lambda **given: self._step(name, node_type, "embedded", given)

    def spark(self, name: str, node_type: AnyNodeType) -> Callable[..., Any]:
        """The same by the node's variant for Spark."""
        return lambda **given: self._step(name, node_type, "spark", given)

    def close(self) -> None:
        """End the Spark session, if there is one, and let others work in the folder."""
        if self._session is not None:
            self._session.stop()
            self._session = None
        self._lock.release()

    def _step(self, name: str, node_type: AnyNodeType, backend: str, given: Mapping[str, Any]) -> Any:
        if not re.fullmatch(_STEP, name):
            raise UsageError(f"{name!r} cannot be a step's name", hint="Use letters, digits, hyphens, underscores.")
        if node_type.origin == "built-in" and not node_type.function.__module__.startswith("nodes."):
            # What an installed package brings changes with its code, not with our versions.
            node_type.origin = node_type.function.__module__
        try:
            inputs = self._inputs(node_type, given)
            params = _params(node_type, given)
            digests, listings = self._look(node_type, params)
            sources = {port: (origin.identity, origin.port) for port, origin in inputs.items()}
            identity = identity_of(node_type, params, sources, digests)
            found = self._done.find(identity.fingerprint)
            if found is not None and (problem := problem_with(node_type, found)):
                self._say(f"{name}: made again: {one_line(problem)}")
                found = None
            elif found is not None:
                self._say(f"{name}: stands already: {_told(found)}")
            if found is None:
                datasets = {port: origin.dataset for port, origin in inputs.items()}
                found = self._run(name, node_type, backend, datasets, params, listings, identity)
        except VoxelflowError as exc:
            exc.node = exc.node or name
            raise
        return self._hand_on(node_type, identity, found)

    def _inputs(self, node_type: AnyNodeType, given: Mapping[str, Any]) -> dict[str, _Origin]:
        out: dict[str, _Origin] = {}
        for port in node_type.inputs:
            dataset = given.get(port.name)
            if dataset is None:
                if port.required:
                    raise UsageError(f"the input {port.name} is missing", hint=f"It takes {' or '.join(port.kinds)}.")
                continue
            origin = self._origins.get(id(dataset))
            if origin is None:
                raise UsageError(f"the input {port.name} is not what another step gave")
            if origin.dataset.kind not in port.kinds:
                raise UsageError(
                    f"the input {port.name} is {origin.dataset.kind}", hint=f"It takes {' or '.join(port.kinds)}."
                )
            out[port.name] = origin
        return out

    def _look(self, node_type: AnyNodeType, params: Mapping[str, Any]) -> tuple[dict[str, str], dict[str, Path]]:
        """The digest of what lies at each path parameter, and the listings of those that are folders."""
        digests: dict[str, str] = {}
        listings: dict[str, Path] = {}
        for parameter in node_type.parameters:
            path = params.get(parameter.name)
            if parameter.path_in is None or not path:
                continue
            try:
                if parameter.path_in.kind == "file":
                    status = os.stat(path)
                    digests[parameter.name] = f"{status.st_size}-{status.st_mtime_ns}"
                    continue
                listing = list_place(path, parameter.path_in.patterns)
            except OSError as exc:
                raise DataError(
                    f"{exc.filename or path}: {exc.strerror}",
                    hint="Change it at the top of the file.",
                    parameter=parameter.name,
                ) from exc
            digests[parameter.name] = digest = manifest.digest(listing)
            kept = listings[parameter.name] = self._out / "listings" / f"{digest}.arrow"
            kept.parent.mkdir(exist_ok=True)
            if not kept.exists():
                manifest.write(listing, kept)
        return digests, listings

    def _run(
        self,
        name: str,
        node_type: AnyNodeType,
        backend: str,
        inputs: Mapping[str, Dataset],
        params: Mapping[str, Any],
        listings: Mapping[str, Path],
        identity: Identity,
    ) -> dict[str, Dataset]:
        function = node_type.backends.get(backend)
        if function is None:
            raise UsageError(f"{node_type.name} has no variant for {backend}")
        self._say(f"{name}: {one_line(node_type.summary)}")
        began = time.monotonic()
        shared = self._out / f"{name}-{identity.lineage[:8]}"
        context = TaskContext(
            run_id=_RUN,
            node_id=name,
            fingerprint=identity.fingerprint,
            out=shared / identity.fingerprint[:16],
            shared=shared,
            scratch=self._out / "scratch" / identity.fingerprint[:16],
            resources=self._resources,
            seed=int(identity.fingerprint[:8], 16),
            previous=self._done.newest_of_lineage(identity.lineage),
            extends=self._done.longest(node_type, identity, params),
            inputs_found=listings,
            protected=self._done.protected(),
            emit=self._hear,
            open_spark=self._spark,
        )
        for folder in (context.shared, context.out, context.scratch):
            folder.mkdir(parents=True, exist_ok=True)
        own = {node_type.context_argument: context} if node_type.context_argument else {}
        token = current_reporter.set(_Progress(self._say))
        try:
            outputs = node_type.collect(function(**inputs, **params, **own))
        finally:
            current_reporter.reset(token)
        self._done.add(name, identity, outputs)
        shutil.rmtree(context.scratch, ignore_errors=True)
        self._say(f"{name}: done in {time.monotonic() - began:.1f} s: {_told(outputs)}")
        return outputs

    def _hand_on(self, node_type: AnyNodeType, identity: Identity, outputs: Mapping[str, Dataset]) -> Any:
        handed: dict[str, Dataset] = {}
        for port, dataset in outputs.items():
            # A copy: a step may give back its input, and each must be known by the step that gave it.
            copy = handed[port] = dataset.model_copy()
            self._origins[id(copy)] = _Origin(copy, identity, port)
        return handed[DEFAULT_OUTPUT] if list(handed) == [DEFAULT_OUTPUT] else SimpleNamespace(**handed)

    def _spark(self) -> SparkSession:
        if self._open_spark is None:
            raise UsageError("this file opens no Spark session", hint="Export the pipeline for a Spark profile.")
        if self._session is None:
            self._say("starting Spark")
            self._session = self._open_spark(self._out)
        return self._session

    def _hear(self, event: Event) -> None:
        if isinstance(event, Message):
            self._say(f"  {'' if event.level == 'info' else event.level + ': '}{one_line(event.text)}")


@dataclass(frozen=True)
class _Origin:
    """A dataset that a step gave, and what that step was."""

    dataset: Dataset
    identity: Identity
    port: str


class _Progress:
    """Prints how far a step is, now and then."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say, self._at = say, time.monotonic()

    def emit(self, event: Progress, /) -> None:
        now = time.monotonic()
        if now - self._at < PROGRESS_S:
            return
        self._at = now
        whole = f" of {event.total:,.0f}" if event.total is not None else ""
        rate = f" ({event.rate:,.0f} a second)" if event.rate else ""
        self._say("  " + one_line(f"{event.label} {event.done:,.0f}{whole} {event.unit}{rate}"))

    def cancelled(self) -> bool:
        return False


def _params(node_type: AnyNodeType, given: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters as the node will get them. Raises `UsageError` naming the one that cannot be used."""
    known = {p.name for p in node_type.parameters} | {p.name for p in node_type.inputs}
    if unknown := sorted(given.keys() - known):
        raise UsageError(f"{node_type.name} has no parameter {unknown[0]}", parameter=unknown[0])
    out: dict[str, Any] = {}
    for parameter in node_type.parameters:
        value = given.get(parameter.name, parameter.default)
        if value is MISSING:
            raise UsageError(f"{parameter.name} has no value", hint=parameter.help, parameter=parameter.name)
        try:
            out[parameter.name] = as_the_node_reads(parameter, value)
        except ValueError as exc:
            raise UsageError(
                f"{parameter.name} cannot be {one_line(repr(value))}: it {exc}", parameter=parameter.name
            ) from None
    return out


def _told(outputs: Mapping[str, Dataset]) -> str:
    parts = []
    for port, dataset in outputs.items():
        details = ", ".join(f"{name} {value}" for name, value in dataset.details().items())
        parts.append(f"{'' if port == DEFAULT_OUTPUT else port + ': '}{dataset.uri} ({details})")
    return one_line("; ".join(parts))

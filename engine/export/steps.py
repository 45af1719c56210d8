"""What an exported file calls while it runs: a node's work, or its result when there is one already.

    def main(steps: Steps) -> None:
        make = steps.embedded("make", synthetic_volumes)(count=640, ...)
        convert = steps.spark("convert", numpy_to_parquet)(files=make, ...)

    if __name__ == "__main__":
        start(main, OUT)

Everything lies in one folder: a folder for each node's results, `scratch/` for half-done work, and `done.json`, which
remembers by fingerprint what was made. So a file that is run again, after a kill or with other values, goes on from
what is there, by the same rules as a run in a workspace: identities, choice of the results to go on from, checks and
the task itself are the engine's own parts.

`--step NAME` does that step alone, on what the steps before it have made last: so a scheduler can have a task for each.

Left out on purpose: the run store and MLflow, retries and time limits, the check of the whole pipeline before it starts
(`voxelflow export` has made it), and processes of their own: a step runs in the file's process, one after another.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from engine.catalog import AnyNodeType, load_user_file, user_module
from engine.declare.context import Resources
from engine.declare.dataset_type import details_of
from engine.declare.datasets import Dataset
from engine.declare.events import Event, Message, Progress
from engine.declare.field_rules import refusal
from engine.declare.node_type import NodeType
from engine.declare.parameters import MISSING
from engine.declare.signature import DEFAULT_OUTPUT
from engine.document.identity import Identity, identity_of, seed_of
from engine.document.path_checks import passed_over, path_problem
from engine.errors import DataError, UsageError, VoxelflowError
from engine.export.done import RUN, Done
from engine.export.own_files import allowed_copy
from engine.export.source import as_the_node_reads, one_line
from engine.observe.paths import find_path
from engine.observe.results import protected_versions, still_there
from engine.processes.messages import known_error
from engine.profiles import local_profile
from engine.run.task import TaskMessage, context_of, run_task
from engine.storage import expanded, place_from
from engine.storage.io_errors import explained
from engine.storage.process_lock import ProcessLock
from engine.store.results import Result

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROGRESS_S = 5.0
"""Least time between two lines of progress."""
_LOCK_POLL_S = 0.5
_STEP = r"[A-Za-z_][A-Za-z0-9_-]{0,63}"


def start(
    main: Callable[[Steps], None],
    out: Path | str,
    *,
    open_spark: Callable[[Path], SparkSession] | None = None,
    cores: int | None = None,
    memory_bytes: int | None = None,
    own_code: Iterable[Path | str | None] = (),
    variables: Iterable[str | None] = (),
) -> None:
    """Run `main`; `--out FOLDER` on the command line overrides `out`. Ends the process with status 1 on an error.

    `open_spark` is called with the folder when the first step on Spark needs the session. `cores` and `memory_bytes`
    are what steps on this machine may use; all of it without them. `own_code` are files of functions and models (in
    `my_transforms/`, `my_models/`) that the program brings with it: they may run as the program may. `variables` are
    the environment variables that a step needs: each must be set before the first one starts, and that of MLflow name
    a server.
    """
    parser = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__, formatter_class=_AsWritten)
    parser.add_argument(
        "--out", type=Path, default=Path(out), metavar="FOLDER", help="where everything goes: %(default)s"
    )
    parser.add_argument("--step", metavar="NAME", help="only this step, on what those before it have made")
    given = parser.parse_args()
    folder = expanded(str(given.out)).absolute()
    try:
        for variable in filter(None, variables):
            _check_set(variable)
        steps = Steps(
            folder,
            open_spark=open_spark,
            cores=cores,
            memory_bytes=memory_bytes,
            own_code=own_code,
            only=given.step,
        )
        try:
            main(steps)
            steps.check_done()
        finally:
            steps.close()
    except KeyboardInterrupt:
        print("interrupted; run it again to go on", file=sys.stderr, flush=True)
        sys.exit(130)
    except VoxelflowError as exc:
        print(f"error: {one_line(exc.line())}", file=sys.stderr, flush=True)
        sys.exit(exc.exit_code)


def beside(name: str) -> Path:
    """The path of what is called `name` and lies beside the file that calls this."""
    # Not `__file__`, which not every program that runs files sets.
    return Path(sys._getframe(1).f_code.co_filename).absolute().parent / name


def below(folder: str, path: str) -> str:
    """The path below the folder; one that is absolute, begins with `~` or is a URL as it is."""
    return place_from(Path(folder), path)


def load_node(path: Path | str, name: str) -> AnyNodeType:
    """The node type called `name` in a person's own file. Raises `UsageError` when it is not there."""
    path = expanded(str(path)).absolute()
    module_name = user_module(path)
    if module_name not in sys.modules:
        if not path.is_file():
            raise UsageError(f"the node's file {path} is not there", hint="Change its folder at the top of the file.")
        # Under the name that it has in a workspace: functions travel to executors by name.
        load_user_file(path)
    module = sys.modules[module_name]
    for value in vars(module).values():
        if isinstance(value, NodeType) and value.name == name:
            value.origin = str(path)
            return value
    raise UsageError(
        f"{path} declares no node {name}", hint="Export the pipeline again, or write the file's node anew."
    )


class _AsWritten(argparse.RawDescriptionHelpFormatter):
    """Keeps the lines of the file's own description."""


class Steps:
    """The steps of one file, done one after another in the folder `out`.

    With `only` the step of that name alone is done, and `check_done` says whether there was one. It waits for another
    process that works in the folder; without `only`, `UsageError` is raised then.
    """

    def __init__(
        self,
        out: Path,
        *,
        open_spark: Callable[[Path], SparkSession] | None = None,
        cores: int | None = None,
        memory_bytes: int | None = None,
        own_code: Iterable[Path | str | None] = (),
        only: str | None = None,
        say: Callable[[str], None] = lambda text: print(text, flush=True),
    ) -> None:
        self._out, self._open_spark, self._say = out, open_spark, say
        self._only, self._names = only, list[str]()
        self._own_code = {place_from(Path.cwd(), str(file)) for file in own_code if file}
        machine = local_profile()
        self._resources = Resources(cores or machine.cores, memory_bytes or machine.memory_bytes)
        self._session: SparkSession | None = None
        self._origins: dict[int, _Origin] = {}
        with explained(out, in_run=False):
            out.mkdir(parents=True, exist_ok=True)
            self._lock = ProcessLock(out / ".lock")
            self._take_lock()
            self._done = Done(out / "done.json")

    def embedded(self, name: str, node_type: AnyNodeType) -> Callable[..., Any]:
        """The step `name`: `node_type` on this machine. Call what this gives with its inputs and parameters."""
        return lambda **given: self._step(name, node_type, "embedded", given)

    def spark(self, name: str, node_type: AnyNodeType) -> Callable[..., Any]:
        """The same by the node's variant for Spark."""
        return lambda **given: self._step(name, node_type, "spark", given)

    def check_done(self) -> None:
        """Raise `UsageError` unless the one step that was wanted has been met, if one was."""
        if self._only is not None and self._only not in self._names:
            raise UsageError(f"there is no step {self._only}", hint=f"There are: {', '.join(self._names)}.")

    def close(self) -> None:
        """End the Spark session, if there is one, and let others work in the folder."""
        if self._session is not None:
            from engine.export.session import end

            # Where its Java has gone, it has ended, and the step's own error says so.
            with contextlib.suppress(Exception):
                end(self._session)
            self._session = None
        self._lock.release()

    def _take_lock(self) -> None:
        if self._lock.acquire():
            return
        if self._only is None:
            raise UsageError(
                f"another process works in {self._out}", hint="Wait for it, or give another folder with --out."
            )
        self._say(f"waiting for another process that works in {self._out}")
        while not self._lock.acquire():
            time.sleep(_LOCK_POLL_S)

    def _step(self, name: str, node_type: AnyNodeType, backend: str, given: Mapping[str, Any]) -> Any:
        if not re.fullmatch(_STEP, name):
            raise UsageError(f"{name!r} cannot be a step's name", hint="Use letters, digits, hyphens, underscores.")
        self._names.append(name)
        if node_type.origin == "built-in" and not node_type.function.__module__.startswith("nodes."):
            # What an installed package brings changes with its code, not with our versions.
            node_type.origin = node_type.function.__module__
        try:
            if self._only is not None and name != self._only:
                return self._made_before(name, node_type, given)
            inputs = self._inputs(node_type, given)
            params = self._params(node_type, given)
            _require_secrets(node_type, params)
            digests, listings = self._look(node_type, params)
            identity = identity_of(node_type, params, _sources(inputs), digests)
            found = self._done.find(identity.fingerprint)
            if found is not None and (problem := self._done.problem_with(node_type, found)):
                self._say(f"{name}: made again: {one_line(problem)}")
                found = None
            elif found is not None:
                self._say(f"{name}: there already: {_outputs_text(found.outputs)}")
            if found is None:
                datasets = {port: origin.dataset for port, origin in inputs.items()}
                found = self._run(name, node_type, backend, datasets, params, listings, identity)
        except VoxelflowError as exc:
            exc.node = exc.node or name
            raise
        return self._hand_on(identity, found.outputs)

    def _made_before(self, name: str, node_type: AnyNodeType, given: Mapping[str, Any]) -> Any:
        """What a step that is not wanted has made last, or why the wanted one cannot use it.

        It looks at no source: one that gained files since is for the next time.
        """
        if any(isinstance(given.get(port.name), _NotMade) for port in node_type.inputs):
            return _NotMade(name)
        params, inputs = self._params(node_type, given), self._inputs(node_type, given)
        found = self._done.find_newest(identity_of(node_type, params, _sources(inputs), {}))
        if found is None:
            return _NotMade(name)
        if problem := self._done.problem_with(node_type, found):
            return _NotMade(name, problem)
        identity = Identity(
            fingerprint=found.fingerprint, base=found.base, lineage=found.lineage, parts=dict(found.identity)
        )
        return self._hand_on(identity, found.outputs)

    def _inputs(self, node_type: AnyNodeType, given: Mapping[str, Any]) -> dict[str, _Origin]:
        out: dict[str, _Origin] = {}
        for port in node_type.inputs:
            dataset = given.get(port.name)
            if dataset is None:
                if port.required:
                    raise UsageError(f"the input {port.name} is missing", hint=f"Give {' or '.join(port.kinds)}.")
                continue
            if isinstance(dataset, _NotMade):
                raise dataset.error(port.name)
            origin = self._origins.get(id(dataset))
            if origin is None:
                raise UsageError(
                    f"the input {port.name} is not what another step gave", hint="Give the output of a step."
                )
            if origin.dataset.kind not in port.kinds:
                raise UsageError(
                    f"the input {port.name} is {origin.dataset.kind}", hint=f"Give {' or '.join(port.kinds)}."
                )
            out[port.name] = origin
        return out

    def _params(self, node_type: AnyNodeType, given: Mapping[str, Any]) -> dict[str, Any]:
        params = _params(node_type, given)
        own = {p.name: v for p in node_type.parameters if p.is_path and (v := params[p.name]) in self._own_code}
        return params | {name: allowed_copy(path) for name, path in own.items()}

    def _look(self, node_type: AnyNodeType, params: Mapping[str, Any]) -> tuple[dict[str, str], dict[str, str]]:
        """The digest of what lies at each path parameter, and the listings of those that are folders."""
        digests: dict[str, str] = {}
        listings: dict[str, str] = {}
        for parameter in node_type.parameters:
            path = params.get(parameter.name)
            if parameter.path_in is None or not path:
                continue
            found = find_path(str(path), parameter.path_in, self._out / "listings", params=params)
            if problem := path_problem(path, parameter.path_in, found):
                raise DataError(
                    problem.message,
                    hint=f"{problem.hint} Change it at the top of the file, where it may stand.",
                    parameter=parameter.name,
                )
            for left_out in passed_over(path, parameter.path_in, found):
                self._say(f"warning: {one_line(left_out.message)}. {left_out.hint}")
            digests[parameter.name] = found.digest
            if found.manifest:
                listings[parameter.name] = found.manifest
        return digests, listings

    def _run(
        self,
        name: str,
        node_type: AnyNodeType,
        backend: str,
        inputs: Mapping[str, Any],
        params: Mapping[str, Any],
        listings: Mapping[str, str],
        identity: Identity,
    ) -> Result:
        if backend not in node_type.backends:
            raise UsageError(
                f"{node_type.name} has no variant for {backend}",
                hint=f"Use {' or '.join(node_type.backends)}.",
            )
        self._say(f"{name}: {one_line(node_type.summary)}")
        began = time.monotonic()
        result = self._done.to_make(name, node_type, identity)
        newest = self._done.newest_of_lineage(identity.lineage)
        shorter = self._done.to_extend(node_type, identity)
        message = TaskMessage(
            run_id=RUN,
            node=name,
            node_type=node_type.name,
            version=node_type.version,
            backend=backend,
            params=dict(params),
            inputs=dict(inputs),
            fingerprint=identity.fingerprint,
            out=str(self._out / result.out),
            shared=str(self._out / result.shared),
            scratch=str(self._out / "scratch" / identity.fingerprint[:16]),
            cores=self._resources.cores,
            memory_bytes=self._resources.memory_bytes,
            seed=seed_of(identity.fingerprint),
            previous=still_there(newest.outputs) if newest is not None else {},
            extends=still_there(shorter.outputs) if shorter is not None else {},
            listings=dict(listings),
            protected=protected_versions(self._done),
        )
        context = context_of(message, emit=self._hear, is_cancelled=lambda: False, open_spark=lambda _: self._spark())
        try:
            outputs = run_task(message, node_type, context, _Progress(self._say))
        except Exception as exc:
            if known := known_error(exc, message.folders, message.about_bytes, in_run=False):
                raise known from exc
            raise
        result = replace(result, outputs=outputs)
        self._done.add(result)
        shutil.rmtree(context.scratch, ignore_errors=True)
        self._say(f"{name}: done in {time.monotonic() - began:.1f} s: {_outputs_text(outputs)}")
        return result

    def _hand_on(self, identity: Identity, outputs: Mapping[str, Dataset]) -> Any:
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


class _NotMade:
    """What stands for the outputs of a step that has made nothing, or whose result is damaged."""

    def __init__(self, step: str, problem: str = "") -> None:
        self._step, self._problem = step, problem

    def __getattr__(self, port: str) -> _NotMade:
        return self

    def error(self, port: str) -> UsageError:
        why = f"must be made again: {one_line(self._problem)}" if self._problem else "has not been made"
        return UsageError(f"the input {port} {why}", hint=f"Run the step {self._step} first: --step {self._step}.")


def _sources(inputs: Mapping[str, _Origin]) -> dict[str, tuple[Identity, str]]:
    return {port: (origin.identity, origin.port) for port, origin in inputs.items()}


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
        amount = f"{event.done:,.0f}{whole} {event.unit}{rate}" if event.counts else ""
        self._say("  " + one_line(" ".join(filter(None, (event.phase, event.label, amount)))))

    def cancelled(self) -> bool:
        return False


def _params(node_type: AnyNodeType, given: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters as the node will get them. Raises `UsageError` naming the one that cannot be used."""
    known = {p.name for p in node_type.parameters} | {p.name for p in node_type.inputs}
    if unknown := sorted(given.keys() - known):
        raise UsageError(
            f"{node_type.name} has no parameter {unknown[0]}",
            hint=f"Choose one of: {', '.join(sorted(known))}.",
            parameter=unknown[0],
        )
    out: dict[str, Any] = {}
    for parameter in node_type.parameters:
        value = given.get(parameter.name, parameter.default)
        if value is MISSING:
            raise UsageError(f"{parameter.name} has no value", hint=parameter.help, parameter=parameter.name)
        try:
            out[parameter.name] = as_the_node_reads(parameter, value)
        except ValueError as exc:
            problem = one_line(refusal(exc, value))
            raise UsageError(
                f"{parameter.name} {problem}", hint="Correct the value.", parameter=parameter.name
            ) from None
    return out


def _require_secrets(node_type: AnyNodeType, params: Mapping[str, Any]) -> None:
    for parameter in node_type.parameters:
        variable = params[parameter.name] if parameter.secret else None
        if variable and variable not in os.environ:
            raise _not_set(variable, parameter.name)


def _check_set(variable: str) -> None:
    """Raises `UsageError` when the environment variable is not set, or holds what no step could use."""
    # An empty one is what a secret that is not there is to GitHub.
    if not os.environ.get(variable):
        raise _not_set(variable)
    # Here, since a program without MLflow does not need all that comes with it.
    from engine.tracking.destination import ENVIRONMENT, destination

    if variable == ENVIRONMENT:
        destination(None)  # else it is refused by a step, perhaps after hours of training


def _not_set(variable: str, parameter: str | None = None) -> UsageError:
    message = f"the environment variable {one_line(variable)} is not set"
    return UsageError(message, hint="Set it, then run again.", parameter=parameter)


def _outputs_text(outputs: Mapping[str, Dataset]) -> str:
    parts = []
    for port, dataset in outputs.items():
        details = ", ".join(f"{name} {value}" for name, value in details_of(dataset).items())
        parts.append(f"{'' if port == DEFAULT_OUTPUT else port + ': '}{dataset.uri} ({details})")
    return one_line("; ".join(parts))

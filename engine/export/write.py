"""The text of an exported file."""

from __future__ import annotations

import importlib
import math
import shlex
import sys
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import JsonValue

from engine.catalog import AnyNodeType
from engine.declare.signature import DEFAULT_OUTPUT
from engine.document.plan import backend_of
from engine.document.resolve import Resolved, TypedNode
from engine.errors import UsageError
from engine.export.own_files import own_code_of
from engine.export.source import Names, Values, file_stem, in_docstring, literal, one_line
from engine.profiles import Profile
from engine.spark import kubernetes, yarn
from engine.spark.jars import DELTA, with_extension
from engine.spark.kubernetes import is_kubernetes
from engine.spark.submit import submit_arguments
from engine.tracking.destination import ENVIRONMENT as MLFLOW

WIDTH = 100
_OURS = (
    "Path", "SPARK", "OUT", "MY_NODES", "CORES", "MEMORY_BYTES", "SparkSession", "Steps", "below", "beside", "json",
    "load_node", "main", "open_spark", "send_code", "start", "steps", "to_give",
)  # fmt: skip
_HERE = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
}
"""For Spark on this machine: reached by nobody else, and small."""


@dataclass(frozen=True)
class _Import:
    """Where a node type is declared: a module and a name in it, or a person's own file."""

    name: str
    """As the file calls it."""
    module: str = ""
    attribute: str = ""
    file: Path | None = None


def write(
    resolved: Resolved,
    profile: Profile,
    given: Mapping[str, JsonValue],
    *,
    base: Path,
    machine: bool = True,
    own_files_beside: bool = False,
) -> str:
    """The Python file that does what the pipeline does under the profile.

    `given` are the values for the pipeline's parameters, relative paths start at `base`. With `machine` the file uses
    whatever the machine has that runs it, instead of the profile's cores and memory. With `own_files_beside` it takes
    the workspace's own nodes from a folder `my_nodes` beside itself, instead of from the workspace, and the files of
    `own_code_of` from their places there.

    Raises `UsageError` for a node type that a file cannot import, or as `own_code_of` does.
    """
    names = Names()
    for name in _OURS:
        names.take(name)
    imports: dict[tuple[str, int], _Import] = {}
    for item in resolved.typed():
        key = (item.type.name, item.type.version)
        if key not in imports:
            imports[key] = _import(item.type, item.node.id, names)
    own_code = own_code_of(resolved) if own_files_beside else {}
    values = Values(resolved, given, names, base, own_code)
    return _File(resolved, profile, imports, values, names, machine, own_files_beside).text()


def _wrapped(text: str, width: int) -> list[str]:
    """Lines for a docstring. They are broken first: a break between two backslashes would make half an escape."""
    return [in_docstring(line) for line in textwrap.wrap(one_line(text), width)]


def own_file(node_type: AnyNodeType) -> Path | None:
    """The person's own file that declares a node type; None when a module that is installed does."""
    file = Path(node_type.origin)
    return file if file.is_absolute() and file.suffix == ".py" else None


def _import(node_type: AnyNodeType, node: str, names: Names) -> _Import:
    module = sys.modules.get(node_type.function.__module__)
    found = [name for name, value in vars(module).items() if value is node_type] if module else []
    attribute = next((name for name in found if name.isidentifier()), None)
    if module is None or attribute is None or module.__name__ == "__main__":
        raise UsageError(
            f"{node_type.name} cannot be imported by a file: no module has it under a name",
            hint="Declare it at the top level of a module.",
            node=node,
        )
    if (file := own_file(node_type)) is not None:
        return _Import(names.take(attribute), file=file, attribute=node_type.name)
    try:
        again = getattr(importlib.import_module(module.__name__), attribute, None)
    except ImportError:
        again = None
    if again is not node_type or not all(part.isidentifier() for part in module.__name__.split(".")):
        raise UsageError(
            f"{node_type.name} cannot be imported by a file: {module.__name__} is no module that can be imported",
            hint="Install the package that declares it, or put its file into the workspace's my_nodes/.",
            node=node,
        )
    return _Import(names.take(attribute), module=module.__name__, attribute=attribute)


class _File:
    """The parts of the file, in the order in which they stand in it."""

    def __init__(
        self,
        resolved: Resolved,
        profile: Profile,
        imports: Mapping[tuple[str, int], _Import],
        values: Values,
        names: Names,
        machine: bool,
        own_files_beside: bool,
    ) -> None:
        self._resolved, self._profile, self._values, self._machine = resolved, profile, values, machine
        self._own_files_beside = own_files_beside
        self._imports = imports
        self._variables = {item.node.id: names.take(item.node.id) for item in resolved.typed()}
        self._backends = {item.node.id: backend_of(item.type, profile)[0] for item in resolved.typed()}
        self._on_spark = "spark" in self._backends.values()

    def text(self) -> str:
        parts = [self._head(), self._import_lines(), self._constants()]
        if self._on_spark:
            parts += ["", self._session()]
        parts += ["", self._main(), "", self._end()]
        return "\n".join(parts)

    def _head(self) -> str:
        pipeline, profile = self._resolved.pipeline, self._profile
        stem = file_stem(pipeline.name)
        lines = _wrapped(f"The pipeline {pipeline.name} as Python.", WIDTH)
        if pipeline.description.strip():
            # Set in: at the start of a line, tools read more into a text than prose.
            lines += ["", *(f"    {line}" for line in _wrapped(pipeline.description, WIDTH - 4))]
        where = "Spark" if self._on_spark else "this machine"
        lines += ["", f"Written by `voxelflow export` for the compute profile {in_docstring(profile.name)} ({where})."]
        lines += ["Run it where Voxelflow is installed:", ""]
        if self._on_spark:
            lines.append(f"    spark-submit {stem}.py")
            if profile.master == yarn.MASTER:
                command = " ".join(map(shlex.quote, submit_arguments(profile, f"{stem}.py")))
                # A container's own folder is gone when it ends.
                out = "" if profile.storage_root is not None else " --out /A/FOLDER/THAT/ALL/SEE"
                lines.append(f"    {in_docstring(command + out)}   # the driver in the cluster")
        lines += [f"    python {stem}.py", ""]
        if self._on_spark:
            lines.append("What spark-submit is given (--master, --conf) goes before the settings below.")
        lines += [
            "All that it makes lies in OUT. Run it again, after a kill, with more data or with other values,",
            "and it goes on from what is there.",
        ]
        # What a platform runs is stopped by the platform.
        if profile.limit and not self._own_files_beside:
            lines += ["", *self._without_limit()]
        return '#!/usr/bin/env python3\n"""' + "\n".join(lines) + '\n"""\n'

    def _without_limit(self) -> Iterator[str]:
        profile = self._profile
        limit = in_docstring(profile.limit.text(profile.currency))
        seconds = profile.limit.seconds_left(0.0, profile.hourly_price)
        command = f"{'spark-submit' if self._on_spark else 'python'} {file_stem(self._resolved.pipeline.name)}.py"
        yield from textwrap.wrap(
            f"Nothing stops this file at {limit}, the limit of profile {in_docstring(profile.name)}: `voxelflow run`"
            " does, and so do the exports to platforms."
            + (
                ""
                if math.isinf(seconds)
                else f" Here `timeout {math.ceil(seconds)} {command}` ends it after that time."
            ),
            WIDTH,
            break_on_hyphens=False,
        )

    def _import_lines(self) -> str:
        standard = ["from pathlib import Path"]
        if any("json.dumps(" in a.expression for arguments in self._values.arguments.values() for a in arguments):
            standard.insert(0, "import json")
        has_own = any(i.file is not None for i in self._imports.values())
        has_beside = (has_own and self._own_files_beside) or bool(self._values.own_code)
        has_below = any(a.expression.startswith("below(") for every in self._values.arguments.values() for a in every)
        ours = ["Steps"] + ["below"] * has_below + ["beside"] * has_beside + ["load_node"] * has_own + ["start"]
        lines = [f"from engine.export.steps import {', '.join(ours)}"]
        if self._on_spark:
            lines.insert(0, "from engine.export.session import send_code, to_give")
        lines += sorted(
            f"from {i.module} import {i.attribute}" + (f" as {i.name}" if i.name != i.attribute else "")
            for i in self._imports.values()
            if i.file is None
        )
        third = ["from pyspark.sql import SparkSession", ""] if self._on_spark else []
        return "\n".join([*standard, "", *third, *lines, ""])

    def _constants(self) -> str:
        out = Path(f"{file_stem(self._resolved.pipeline.name)}-out")
        if self._profile.storage_root is not None:
            out = self._profile.storage_root / out
        note = "# Folder for results and half-done work"
        note += "; every executor must see it." if self._on_spark else "."
        lines = ["# --- What you may want to change", "", note, f"OUT = Path({literal(str(out))})"]
        if not self._machine:
            lines += ["# Of this machine, for the steps that run here.", f"CORES = {self._profile.cores}"]
            lines.append(f"MEMORY_BYTES = {self._profile.memory_bytes}")
        for constant in self._values.constants:
            if constant.help:
                comment = f"{constant.name}: {one_line(constant.help)}"
                lines += textwrap.wrap(comment, WIDTH, initial_indent="# ", subsequent_indent="#   ")
            lines.append(f"{constant.name} = {constant.expression or literal(constant.value)}")
        lines.append("")
        own = [i for i in self._imports.values() if i.file is not None]
        if own:
            assert own[0].file is not None
            place = 'beside("my_nodes")' if self._own_files_beside else f"Path({literal(str(own[0].file.parent))})"
            lines += ["# Your own nodes.", f"MY_NODES = {place}"]
            for item in own:
                assert item.file is not None
                lines.append(f"{item.name} = load_node({self._own_path(item)}, {literal(item.attribute)})")
            lines.append("")
        if self._on_spark:
            lines += [f"# Spark settings of the compute profile {one_line(self._profile.name)}.", "SPARK = {"]
            lines += [f"    {literal(name)}: {literal(value)}," for name, value in self._settings().items()]
            lines += ["}", ""]
        return "\n".join(lines)

    def _own_path(self, item: _Import) -> str:
        assert item.file is not None
        return f"MY_NODES / {literal(item.file.name)}"

    def _settings(self) -> dict[str, str]:
        profile = self._profile
        here = _HERE if profile.master.startswith("local") else {}
        pods = kubernetes.settings(profile, {}) if is_kubernetes(profile.master) else {}
        extensions = with_extension(profile.spark.get("spark.sql.extensions", ""))
        out = {"spark.master": profile.master, **DELTA, **here, **pods} | profile.spark
        return out | {"spark.sql.extensions": extensions}

    def _session(self) -> str:
        own = [self._own_path(i) for i in self._imports.values() if i.file is not None]
        files = f", [{', '.join(dict.fromkeys(own))}]" if own else ""
        return "\n".join(
            [
                "def open_spark(out: Path) -> SparkSession:",
                f"    builder = SparkSession.builder.appName({literal(one_line(self._resolved.pipeline.name))})",
                "    for name, value in to_give(SPARK).items():",
                "        builder = builder.config(name, value)",
                "    session = builder.getOrCreate()",
                f"    send_code(session, out{files})",
                "    return session",
                "",
            ]
        )

    def _main(self) -> str:
        lines = ["def main(steps: Steps) -> None:"]
        for number, item in enumerate(self._resolved.typed()):
            lines += [""] * (number > 0)
            lines += [f"    {line}" for line in self._call(item)]
        return "\n".join([*lines, ""])

    def _call(self, item: TypedNode) -> Iterator[str]:
        node_type, node = item.type, item.node
        imported = self._imports[node_type.name, node_type.version]
        comment = f"{one_line(node.label)} ({node_type.name}): {one_line(node_type.summary)}"
        yield from textwrap.wrap(comment, WIDTH, initial_indent="# ", subsequent_indent="#   ")
        used = any(self._resolved.wires_into(b) for b in self._resolved.successors(node.id))
        result = f"{self._variables[node.id]} = " if used else ""
        backend = self._backends[node.id]
        start = f"{result}steps.{backend}({literal(node.id)}, {imported.name})("
        arguments = [f"{edge.target_port}={self._port(edge.source)}," for edge in self._resolved.wires_into(node.id)]
        for argument in self._values.arguments[node.id]:
            remark = f"  # {one_line(argument.remark)}" if argument.remark else ""
            arguments.append(f"{argument.name}={argument.expression},{remark}")
        if not arguments:
            yield f"{start})"
            return
        yield start
        for line in arguments:
            yield f"    {line}"
        yield ")"

    def _port(self, source: str) -> str:
        node, _, port = source.partition(".")
        variable = self._variables[node]
        return variable if port == DEFAULT_OUTPUT else f"{variable}.{port}"

    def _environment(self) -> list[str]:
        """Expressions that give the environment variables without which a step fails."""
        out: list[str] = []
        for item in self._resolved.typed():
            expressions = {a.name: a.expression for a in self._values.arguments[item.node.id]}
            out += [expressions[p.name] for p in item.type.parameters if p.secret and item.params[p.name]]
            if item.type.taken_from_workspace(item.params) == "mlflow":
                out.append(literal(MLFLOW))
        return list(dict.fromkeys(out))

    def _end(self) -> str:
        more = ", open_spark=open_spark" * self._on_spark
        more += ", cores=CORES, memory_bytes=MEMORY_BYTES" * (not self._machine)
        if self._values.own_code:
            more += f", own_code=[{', '.join(self._values.own_code)}]"
        if variables := self._environment():
            more += f", variables=[{', '.join(variables)}]"
        return f'if __name__ == "__main__":\n    start(main, OUT{more})\n'

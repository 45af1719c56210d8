"""Small node types for the engine's tests. Loaded as a workspace's `my_nodes/probes.py`."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Annotated, NamedTuple

from voxelflow import (
    Extendable,
    PathIn,
    PathOut,
    Policy,
    Preview,
    Range,
    Report,
    Rule,
    Secret,
    TaskContext,
    Unit,
    VolumeFiles,
    VoxelflowError,
    node,
    track,
)


class TooManyFiles(Rule):
    """The folder has more files than a probe likes.

    What to do: give it fewer.
    """

    code = "PR001"
    severity = "warning"
    title = "too many files for a probe"


def _report(ctx: TaskContext, text: str, **figures: int | str) -> Report:
    path = ctx.out / "report.txt"
    path.write_text(text)
    return Report(uri=str(path), figures=figures)


@node("Make", version=1, category="Probes", saves_on_request=True)
def make(
    *,
    text: str = "made",
    steps: Annotated[int, Range(0, 10_000), Unit("steps")] = 1,
    step_s: Annotated[float, Policy()] = 0.0,
    ctx: TaskContext,
) -> Report:
    """Write a text, slowly if asked to.

    Args:
        text: what to write.
        steps: how many steps it takes.
        step_s: seconds a step lasts.
    """
    gate = _gate_of(text)
    for step in track(range(steps), unit="steps"):
        time.sleep(step_s)
        while gate and step == steps - 1 and not os.path.exists(gate):
            ctx.check_cancelled()
            time.sleep(0.02)
        if ctx.save_requested():
            ctx.info("saved")
    ctx.info(f"wrote {text}")
    return _report(ctx, text, steps=steps)


@make.on("spark")
def _(*, text="made", steps=1, step_s=0.0, ctx: TaskContext) -> Report:
    from engine.declare.progress import Meter
    from engine.spark.spread import spread

    meter = Meter(steps, "steps", "on executors")
    # A function of this file: the executors need it too.
    step = _Step(step_s, steps - 1, _gate_of(text))
    places = [place for place, _ in spread(ctx, range(steps), step, meter=meter, amount=lambda _: 1)]
    meter.finish()
    assert sorted(places) == list(range(steps))
    ctx.info(f"wrote {text}")
    ctx.facts(application=ctx.spark.sparkContext.applicationId)
    return _report(ctx, text, steps=steps)


def _gate_of(text: str) -> str:
    """The file without which Make with this text does not come to its end; "" for none."""
    held, _, gate = os.environ.get("PROBES_GATE", "").partition(":")
    return gate if text == held else ""


class _Step:
    """A step on an executor, which ends with Spark: nobody there can ask whether the run is cancelled."""

    def __init__(self, step_s: float, last: int, gate: str) -> None:
        self.step_s, self.last, self.gate = step_s, last, gate

    def __call__(self, step: int) -> str:
        time.sleep(self.step_s)
        while self.gate and step == self.last and not os.path.exists(self.gate):
            time.sleep(0.02)
        return __name__


@node("Join", version=1, category="Probes", anywhere="a probe")
def join(first: Report, second: Report | None = None, *, ctx: TaskContext) -> Report:
    """Put two texts together."""
    texts = [Path(r.uri).read_text() for r in (first, second) if r is not None]
    return _report(ctx, "+".join(texts))


class Halves(NamedTuple):
    left: Report
    right: Report


@node("Halve", version=1, category="Probes")
def halve(whole: Report, *, ctx: TaskContext) -> Halves:
    """Cut a text in two."""
    text = Path(whole.uri).read_text()
    middle = len(text) // 2
    out = []
    for name, part in (("left", text[:middle]), ("right", text[middle:])):
        path = ctx.out / name
        path.write_text(part)
        out.append(Report(uri=str(path)))
    return Halves(*out)


def _calls_before(marker: str) -> int:
    """How many calls were counted in the file `marker` before this one, which is counted now."""
    path = Path(marker)
    count = len(path.read_text()) if path.exists() else 0
    path.write_text("x" * (count + 1))
    return count


@node("Fail", version=1, category="Probes")
def fail(
    first: Report | None = None, *, how: str = "error", marker: str = "", times: int = 1_000_000, ctx: TaskContext
) -> Report:
    """Fail in the way asked for, until `marker` has been written to `times` times."""
    if marker and _calls_before(marker) >= times:
        return _report(ctx, "at last")
    if how == "told":
        raise VoxelflowError("the probe was told to fail", hint="Tell it otherwise.", parameter="how")
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "hang":
        time.sleep(600)
    if how == "exit":
        os._exit(7)
    raise ValueError("an error of its own")


@fail.on("spark")
def _(first=None, *, how="error", marker="", times=1_000_000, ctx: TaskContext) -> Report:

    from engine.declare.progress import Meter
    from engine.spark.progress import following
    from engine.spark.spread import spread

    if marker and _calls_before(marker) >= times:
        return _report(ctx, "at last")
    context = ctx.spark.sparkContext
    if how == "exit":
        os._exit(7)
    if how == "hang":
        time.sleep(600)
    if how == "java":
        os.kill(int(context._jvm.java.lang.ProcessHandle.current().pid()), signal.SIGKILL)
    if how == "memory":
        context._jvm.java.util.ArrayList(1 << 30)
    if how == "sql":
        with following(ctx, "a query"):
            ctx.spark.sql("select raise_error('the query was told to fail')").collect()
    if how == "long-sql":
        with following(ctx, "a long query"):
            ctx.spark.sparkContext.parallelize(range(400), 400).map(_slowly).count()
    for _ in spread(ctx, [0, 1], _Failing(how, str(ctx.scratch)), meter=Meter(2, "items", ""), amount=lambda _: 1):
        pass
    return _report(ctx, "after all")


@node("Traces", version=1, category="Probes")
def traces(*, number: int = 0, ctx: TaskContext) -> Report:
    """Report what an earlier run has left in Spark, and leave as much as can be left."""
    raise VoxelflowError("only on Spark")


@traces.on("spark")
def _(*, number=0, ctx: TaskContext) -> Report:
    session = ctx.spark
    context, java = session.sparkContext, session.sparkContext._jvm
    users = java.org.apache.hadoop.security.UserGroupInformation
    seen = {
        "views": sorted(t.name for t in session.catalog.listTables()),
        "setting": session.conf.get("spark.sql.ansi.enabled"),
        "hadoop": context._jsc.hadoopConfiguration().get("voxelflow.test"),
        "secret": context._jsc.hadoopConfiguration().get("fs.s3a.secret.key"),
        "property": java.System.getProperty("spark.voxelflow.test"),
        "persistent": len(context._jsc.getPersistentRDDs()),
        "local": context.getLocalProperty("voxelflow.test"),
        "user": users.getLoginUser().getShortUserName(),
        "shown": [name for name, _ in context.getConf().getAll() if "VOXELFLOW" in name],
        "python": context.parallelize([0], 1).map(_trace).collect()[0],
    }
    users.setLoginUser(users.createRemoteUser("left"))
    session.range(3).createOrReplaceTempView(f"view{number}")
    session.conf.set("spark.sql.ansi.enabled", "false" if seen["setting"] == "true" else "true")
    context._jsc.hadoopConfiguration().set("voxelflow.test", "left")
    java.System.setProperty("spark.voxelflow.test", "left")
    session.range(3).cache().count()
    context.setLocalProperty("voxelflow.test", "left")
    print(json.dumps(seen), flush=True)
    return _report(ctx, json.dumps(seen))


def _trace(_: int) -> list[str | None]:
    """Of a Python process below Java: one of our variables, and whether another task was in it before."""
    before = os.environ.get("VOXELFLOW_TEST_TRACE"), os.environ.get("LEFT")
    os.environ["LEFT"] = "left"
    return list(before)


def _slowly(item: int) -> int:
    time.sleep(0.1)
    return item


class _Failing:
    """Item 1 fails where it runs: `told` and `error` each time, `once` the first time; `lost` ends its process once."""

    def __init__(self, how: str, scratch: str) -> None:
        self.how, self.scratch = how, scratch

    def __call__(self, item: int) -> int:
        marker = Path(self.scratch) / f"tried-{item}"
        tried = len(marker.read_text()) if marker.exists() else 0
        marker.write_text("x" * (tried + 1))
        if item == 1 and self.how == "told":
            raise VoxelflowError("the probe was told to fail", hint="Tell it otherwise.", parameter="how")
        if item == 1 and self.how == "error":
            raise ValueError(f"an error of its own at attempt {tried + 1}")
        if item == 1 and self.how == "once" and not tried:
            raise OSError("the disk was away")
        if item == 1 and self.how == "lost" and not tried:
            os.kill(os.getpid(), signal.SIGKILL)
        if self.how == "hang-there":
            time.sleep(600)
        return item


@node("Count", version=1, category="Probes")
def count(
    *,
    folder: Annotated[str, PathIn("folder", "**/*.txt")],
    ctx: TaskContext,
) -> VolumeFiles:
    """Count the files of a folder."""
    listing = ctx.inputs_found["folder"]
    from engine.storage import manifest

    files = manifest.read(listing)
    with (ctx.shared / "log").open("a") as log:
        log.write(f"{files.num_rows} previous={ctx.previous['out'].count if ctx.previous else None}\n")
    return VolumeFiles(uri=folder, count=files.num_rows, bytes=manifest.total_bytes(files), manifest=str(listing))


@count.preview
def _(look):
    found = look.paths.get("folder")
    if found is not None and found.count > 100:
        look.report(TooManyFiles, "too many files for a probe", parameter="folder")
    return Preview(kind="VolumeFiles", count=found.count if found else None, bytes=found.bytes if found else None)


@node("Grow", version=1, category="Probes")
def grow(*, epochs: Annotated[int, Range(1, 100), Extendable()] = 1, ctx: TaskContext) -> Report:
    """Work that continues from a shorter result."""
    start = int(ctx.extends["out"].figures["epochs"]) if ctx.extends else 0
    return _report(ctx, f"{start}->{epochs}", epochs=epochs, start=start)


@node("Save", version=1, category="Probes")
def save(
    first: Report,
    *,
    folder: Annotated[str, PathOut("folder")] = "",
    token: Annotated[str, Secret()] = "",
    ctx: TaskContext,
) -> Report:
    """Write a text where the person wants it."""
    text = Path(first.uri).read_text()
    if folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        (Path(folder) / "saved.txt").write_text(text)
    return _report(ctx, text)


@node("Mutate", version=1, category="Probes", mutates="first")
def mutate(first: Report, *, ctx: TaskContext) -> Report:
    """Change its input in place."""
    with Path(first.uri).open("a") as handle:
        handle.write("!")
    return first

"""`voxelflow profiles`: where pipelines can run: list, show, test, new."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from engine.cli.session import Listing, Session, json_option, workspace_option

if TYPE_CHECKING:
    from engine.profiles import Check, Listed, Profile
    from engine.workspace import Workspace


@click.group("profiles", cls=Listing, short_help="Where pipelines can run: list, show, test, new.")
def command() -> None:
    """Compute profiles: the places where pipelines can run, for --profile.

    local (this machine) and spark-local (Spark on this machine) are always there; the workspace's file
    profiles.toml adds more, and may change these two. `voxelflow studio` edits it on the page Compute.

    Without a command it is `list`, with the options of that.
    """


@command.command("list", short_help="List the profiles.")
@json_option
@workspace_option
@click.pass_obj
def list_all(session: Session, as_json: bool, root: Path | None) -> int:
    """List the profiles with their backend, place, cores, memory and price, and which one is the default.

    A mistake in one profile is reported below the others.
    """
    from engine.cli.screen import COLOURS, say, say_json, table
    from engine.profiles import default_profile, list_profiles, profiles_file, unreadable

    workspace = session.workspace_to_look_at(root)
    found, broken, default = list_profiles(workspace), unreadable(workspace), default_profile(workspace)
    if as_json:
        problem = broken.line() if broken else ""
        profiles = [_as_json(p) for p in found]
        say_json({"file": str(profiles_file(workspace)), "problem": problem, "default": default, "profiles": profiles})
        return 0
    columns = ("profile", "backend", "where", "cores", "memory", "price an hour", "default")
    table(
        columns,
        [(*_row(p), "yes" if p.name == default else "") for p in found],
        right=("cores", "memory", "price an hour"),
    )
    problems = [p.problem for p in found if p.problem is not None]
    if broken is not None and broken not in problems:
        problems.insert(0, broken)
    for line in dict.fromkeys(p.line() for p in problems):
        say(f"error: {line}", style=COLOURS["error"], error=True)
    return 0


@command.command("show", short_help="Show all of a profile.")
@click.argument("name")
@json_option
@workspace_option
@click.pass_obj
def show(session: Session, name: str, as_json: bool, root: Path | None) -> int:
    """Show all fields of the profile NAME, where they come from, and the TOML table that gives it."""
    from engine.cli.screen import say, say_json, table
    from engine.profiles import find_profile, list_profiles, profiles_file
    from engine.profiles.file import to_toml
    from engine.workspace import storages

    workspace = session.workspace_to_look_at(root)
    profile = find_profile(name, workspace)
    listed = next(p for p in list_profiles(workspace) if p.name == name)
    if as_json:
        say_json({**_as_json(listed), "toml": to_toml(profile)})
        return 0
    say(f"{name}: {profile.backend} on {profile.where}", style="bold")
    table(("field", "value"), list(_fields(profile, listed.origin)))
    used = [s.root for s in storages(workspace) if profile.storage_root and s.root.parent == profile.storage_root]
    if used:
        say(f"this workspace's folder there: {used[0]}")
    say("")
    say(f"# as it would stand in {profiles_file(workspace)}")
    for line in to_toml(profile).splitlines():
        say(line)
    return 0


@command.command("test", short_help="Check what a profile needs, and say what to do about what is missing.")
@click.argument("name")
@json_option
@click.option("--json-lines", is_flag=True, help="Print each check as a line of JSON, as soon as it is made.")
@workspace_option
@click.pass_obj
def test(session: Session, name: str, as_json: bool, json_lines: bool, root: Path | None) -> int:
    """Check everything that the profile NAME needs; for each thing missing say what to do.

    For Spark that starts a session: Java, the jars (downloaded where they are not there yet), the
    master, and whether the executors see the storage and have Python's packages. For Databricks: its
    command line, whether it is signed in, and the machine types. The exit status is 1 when something is missing.
    """
    from engine.cli.screen import COLOURS, say, say_json
    from engine.profiles import find_profile

    workspace = session.workspace(root)
    profile = find_profile(name, workspace)
    made: list[Check] = []
    for check in _checks(profile, workspace):
        made.append(check)
        if json_lines:
            say_json(asdict(check))
        elif not as_json:
            state = "ok" if check.ok else "failed"
            say(f"{state:<7}{check.name}: {check.said}", style=COLOURS["done" if check.ok else "failed"])
            if check.hint:
                say(f"       {check.hint}")
    failed = [c for c in made if not c.ok]
    if as_json:
        say_json({"profile": name, "ok": not failed, "checks": [asdict(c) for c in made]})
    elif failed and not json_lines:
        say(f"profile {name}: {len(failed)} of {len(made)} checks failed", style=COLOURS["failed"])
    elif not json_lines:
        use = "export PIPELINE --to databricks" if profile.on_databricks else "run PIPELINE"
        say(f"profile {name} can be used: `voxelflow {use} --profile {name}`")
    return 1 if failed else 0


@command.command("new", short_help="Begin a new profile.")
@click.argument("name")
@workspace_option
@click.pass_obj
def new(session: Session, name: str, root: Path | None) -> int:
    """Write a commented example table for a profile NAME into the workspace's profiles.toml."""
    from engine.cli.screen import say
    from engine.profiles.find import new_profile

    path = new_profile(name, session.workspace(root))
    say(f"wrote [{name}] into {path}")
    say(f"change it there; `voxelflow profiles test {name}` then says whether it works")
    return 0


@command.command("default", short_help="Choose the profile for runs that name none.")
@click.argument("name")
@workspace_option
@click.pass_obj
def default(session: Session, name: str, root: Path | None) -> int:
    """Use the profile NAME where no --profile is given, in the terminal and in the editor."""
    from engine.cli.screen import say
    from engine.profiles import profiles_file
    from engine.profiles.edit import set_default

    workspace = session.workspace(root)
    set_default(name, workspace)
    say(f"{name} is now the default profile (written to {profiles_file(workspace)})")
    return 0


def _checks(profile: Profile, workspace: Workspace) -> Iterator[Check]:
    from engine.cli.screen import say
    from engine.profiles.checks import databricks_checks, local_checks

    if profile.on_databricks:
        yield from databricks_checks(profile, workspace)
        return
    yield from local_checks(profile, workspace)
    if profile.backend == "spark":
        from engine.extras import missing, missing_text, modules
        from engine.profiles import Check

        if absent := missing(modules("spark")):
            yield Check("packages", False, *missing_text(f"the profile {profile.name}", absent))
            return
        # Not before: PySpark takes its time to import.
        from engine.spark.checks import checks

        yield from checks(profile, workspace, lambda line: say(line, error=True))


def _row(listed: Listed) -> tuple[str, ...]:
    from engine.text import hourly, size

    profile = listed.profile
    if profile is None:
        return (listed.name, "error", "", "", "", "")
    price = "" if profile.hourly_price is None else hourly(profile.hourly_price, profile.currency, an_hour="")
    return (listed.name, profile.backend, profile.where, str(profile.cores), size(profile.memory_bytes), price)


def _fields(profile: Profile, origin: str) -> Iterator[tuple[str, str]]:
    from engine.text import hourly, size

    yield "comes from", origin
    yield "backend", profile.backend
    if profile.backend == "spark":
        yield "master", profile.master
        if profile.master.startswith("local"):
            yield "Java kept warm", f"{profile.keep_warm_minutes:g} minutes after a run"
    yield "cores", str(profile.cores)
    yield "memory", size(profile.memory_bytes)
    yield "GPUs", str(profile.gpus)
    yield "tasks at the same time", str(profile.parallel_tasks)
    price = profile.hourly_price
    unknown = f"none known: {profile.unpriced}" if profile.machine or profile.executor_machine else "none known"
    yield "price an hour", unknown if price is None else hourly(price, profile.currency, an_hour="")
    if profile.machine:
        yield "machine types" if profile.executors.count else "machine type", profile.counted_text
    yield "storage root", "the workspace" if profile.storage_root is None else str(profile.storage_root)
    yield from sorted(profile.spark.items())


def _as_json(listed: Listed) -> dict[str, Any]:
    fields = listed.profile.model_dump(mode="json") if listed.profile is not None else {}
    return {
        "name": listed.name,
        "origin": listed.origin,
        "problem": listed.problem.line() if listed.problem is not None else "",
        **fields,
    }

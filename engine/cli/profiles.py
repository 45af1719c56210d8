"""`voxelflow profiles`: where pipelines can run: list, show, test, new."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from engine.cli.session import Session, json_option, workspace_option

if TYPE_CHECKING:
    from engine.profiles import Check, Listed, Profile
    from engine.workspace import Workspace


@click.group("profiles", short_help="Where pipelines can run: list, show, test, new.", invoke_without_command=True)
@click.pass_context
def command(ctx: click.Context) -> None:
    """Compute profiles: the places where pipelines can run, for --profile.

    local (this machine) and spark-local (Spark on this machine) are always there; more stand in the
    workspace's file profiles.toml, which may also change these two.
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_all)


@command.command("list", short_help="List the profiles.")
@json_option
@workspace_option
@click.pass_obj
def list_all(session: Session, as_json: bool, root: Path | None) -> int:
    """List the profiles with their backend, place, cores, memory and price.

    A mistake in one profile is told below the others.
    """
    from engine.cli.screen import COLOURS, say, say_json, table
    from engine.profiles import list_profiles, profiles_file, unreadable

    workspace = session.workspace_to_look_at(root)
    found, broken = list_profiles(workspace), unreadable(workspace)
    if as_json:
        problem = broken.line() if broken else ""
        say_json({"file": str(profiles_file(workspace)), "problem": problem, "profiles": [_as_json(p) for p in found]})
        return 0
    columns = ("profile", "backend", "where", "cores", "memory", "price an hour")
    table(columns, [_row(p) for p in found], right=("cores", "memory", "price an hour"))
    problems = [p.problem for p in found if p.problem is not None]
    if broken is not None and broken not in problems:
        problems.insert(0, broken)
    for told in dict.fromkeys(p.line() for p in problems):
        say(f"error: {told}", style=COLOURS["error"], error=True)
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
    from engine.profiles.toml_text import to_toml
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
@workspace_option
@click.pass_obj
def test(session: Session, name: str, as_json: bool, root: Path | None) -> int:
    """Check everything that the profile NAME needs; for each thing missing say what to do.

    For Spark that starts a session: Java, the jars (downloaded where they are not there yet), the
    master, and whether the executors see the storage and have Python's packages. The exit status is
    1 when something is missing.
    """
    from engine.cli.screen import COLOURS, say, say_json
    from engine.profiles import find_profile

    workspace = session.workspace(root)
    profile = find_profile(name, workspace)
    made: list[Check] = []
    for check in _checks(profile, workspace):
        made.append(check)
        if not as_json:
            state = "ok" if check.ok else "failed"
            say(f"{state:<7}{check.name}: {check.said}", style=COLOURS["done" if check.ok else "failed"])
            if check.hint:
                say(f"       {check.hint}")
    failed = [c for c in made if not c.ok]
    if as_json:
        told = [{"name": c.name, "ok": c.ok, "said": c.said, "hint": c.hint} for c in made]
        say_json({"profile": name, "ok": not failed, "checks": told})
    elif failed:
        say(f"profile {name}: {len(failed)} of {len(made)} checks failed", style=COLOURS["failed"])
    else:
        say(f"profile {name} can be used: `voxelflow run PIPELINE --profile {name}`")
    return 1 if failed else 0


@command.command("new", short_help="Begin a new profile.")
@click.argument("name")
@workspace_option
@click.pass_obj
def new(session: Session, name: str, root: Path | None) -> int:
    """Write a commented example table for a profile NAME into the workspace's profiles.toml."""
    from engine.cli.screen import say
    from engine.profiles.create import new_profile

    path = new_profile(name, session.workspace(root))
    say(f"wrote [{name}] into {path}")
    say(f"change it there; `voxelflow profiles test {name}` then tells whether it works")
    return 0


def _checks(profile: Profile, workspace: Workspace) -> Iterator[Check]:
    from engine.cli.screen import say
    from engine.profiles.checks import local_checks

    yield from local_checks(profile, workspace)
    if profile.backend == "spark":
        # Not before: PySpark takes its time to import.
        from engine.spark.checks import checks

        yield from checks(profile, workspace, lambda line: say(line, error=True))


def _row(listed: Listed) -> tuple[str, ...]:
    from engine.cli.wording import number, size

    profile = listed.profile
    if profile is None:
        return (listed.name, "error", "", "", "", "")
    price = "" if profile.price_per_hour is None else number(profile.price_per_hour)
    return (listed.name, profile.backend, profile.where, str(profile.cores), size(profile.memory_bytes), price)


def _fields(profile: Profile, origin: str) -> Iterator[tuple[str, str]]:
    from engine.cli.wording import number, size

    yield "comes from", origin
    yield "backend", profile.backend
    if profile.backend == "spark":
        yield "master", profile.master
    yield "cores", str(profile.cores)
    yield "memory", size(profile.memory_bytes)
    yield "GPUs", str(profile.gpus)
    yield "tasks side by side", str(profile.parallel_tasks)
    yield "price an hour", "none given" if profile.price_per_hour is None else number(profile.price_per_hour)
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

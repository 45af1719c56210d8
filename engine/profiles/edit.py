"""Changing `profiles.toml` from a program: one profile at a time; all else, comments too, stays as it was written."""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import getitem
from typing import Any

import tomlkit
from tomlkit.items import Comment, KeyType, SingleKey, Table, Whitespace

from engine.errors import UsageError
from engine.profiles.file import ProfilesFile, check_name, parse_profiles, toml_key
from engine.profiles.find import READY, check_profile, profiles_file, write_profiles_file
from engine.profiles.profile import as_text, flatten, full_name
from engine.storage.files import read_document
from engine.storage.io_errors import remedy
from engine.workspace import Workspace

_Setting = tuple[tuple[str, ...], str, Any]


@dataclass(frozen=True)
class Written:
    """A profile's table as the file has it: `fields` by their names there, Spark's settings by their full names.

    `revision` is what the whole file held; a change that was begun from another content is refused.
    """

    fields: Mapping[str, Any] = field(default_factory=dict)
    spark: Mapping[str, str] = field(default_factory=dict)
    revision: str = ""


def read_written(name: str, workspace: Workspace) -> Written:
    """What the file says of the profile; nothing of one that is not in it.

    Raises `UsageError` when the file cannot be read.
    """
    text, document = _read(workspace)
    table = document.get(name)
    if not isinstance(table, Mapping):
        return Written(revision=_revision(text))
    plain = document.unwrap()[name]
    settings = plain.pop("spark", {})
    spark = {key: as_text(value) or str(value) for key, value in flatten(settings)} if settings else {}
    return Written(plain, spark, _revision(text))


def save_profile(
    name: str,
    fields: Mapping[str, object],
    spark: Mapping[str, str],
    workspace: Workspace,
    *,
    revision: str,
    instead_of: str | None = None,
) -> None:
    """Write the profile's table: `fields` as `profiles.toml` names them, those that are None are left out of it.

    `instead_of` is the name it had before, the same one as a rule; None for a new profile. The text is checked before
    it replaces the file. Raises `UsageError`: a name that cannot be one or is taken, a wrong value, a file that has
    changed since `revision`.
    """
    check_name(name)
    text, document = _read(workspace)
    _check_revision(text, revision, workspace)
    if name != instead_of and name in document:
        raise UsageError(f"there is a profile {name} already", hint="Choose another name.")
    if instead_of is not None and instead_of != name:
        document = _renamed(text, instead_of, name, workspace)
    if name not in document:
        document[name] = tomlkit.table()
    table = document[name]
    if not isinstance(table, Table):
        raise UsageError(
            f"{profiles_file(workspace)}: the profile {instead_of or name} is not written as a table of its own",
            hint=f"Change it in the file: a line [{name}], its fields below.",
        )
    after = _take_after(table)
    for key, value in fields.items():
        if value is None:
            table.pop(key, None)
        elif key not in table or table[key] != value:
            table[key] = value
    _set_spark(document, name, spark)
    if after:
        _last(table).value.append(None, Whitespace(after))
    _replace(document, name, workspace)


def delete_profile(name: str, workspace: Workspace, *, revision: str) -> None:
    """Take the profile's table out of the file; one of the ready profiles is then as it was at first.

    Raises `UsageError` as `save_profile` does, and when the file has no such table.
    """
    text, document = _read(workspace)
    _check_revision(text, revision, workspace)
    if name not in document:
        raise UsageError(f"{profiles_file(workspace)} has no profile {name}", hint="`voxelflow profiles` lists them.")
    table = document[name]
    after = _take_after(table) if isinstance(table, Table) else ""
    at = next(i for i, (key, _) in enumerate(document.body) if key is not None and key.key == name)
    del document[name]
    document.body[at] = (None, Whitespace(after.lstrip("\n")))
    if document.get("default") == name and name not in READY:
        del document["default"]
    _replace(document, None, workspace)


def _take_after(table: Table) -> str:
    """Cut off the empty lines and comments at the table's end: people write them about the table that follows."""
    body, out = _last(table).value.body, ""
    while body and body[-1][0] is None and isinstance(body[-1][1], Comment | Whitespace):
        out = body.pop()[1].as_string() + out
    return out


def _last(table: Table) -> Table:
    """The table itself, or the one in it that the file has last."""
    body = [item for key, item in table.value.body if key is not None]
    return _last(body[-1]) if body and isinstance(body[-1], Table) else table


def _renamed(text: str, old: str, new: str, workspace: Workspace) -> tomlkit.TOMLDocument:
    """The document with another name in the headers of a profile's tables, where they are, and in keys of the file
    itself (`old.cores = 2`). Raises `UsageError` where more, or less, than the name would change."""
    written = "|".join(re.escape(t) for t in (old, f'"{old}"', f"'{old}'"))
    header = re.compile(rf"^([ \t]*\[[ \t]*)(?:{written})(?=[ \t]*[.\]])", re.MULTILINE)
    key = re.compile(rf"^([ \t]*)(?:{written})(?=[ \t]*[.=])", re.MULTILINE)
    first = re.search(r"^[ \t]*\[", text, re.MULTILINE)
    top = len(text) if first is None else first.start()
    renamed = key.sub(lambda m: m[1] + toml_key(new), text[:top])
    renamed += header.sub(lambda m: m[1] + toml_key(new), text[top:])
    before = tomllib.loads(text)
    wanted = {new if name == old else name: value for name, value in before.items()}
    try:
        same = tomllib.loads(renamed) == wanted
    except ValueError:
        same = False
    if not same:
        raise UsageError(
            f"{profiles_file(workspace)}: the profile {old} is written so that it cannot be renamed from here",
            hint="Rename it in the file, in every line that names it.",
        )
    document = tomlkit.parse(renamed)
    if document.get("default") == old:
        document["default"] = new
    return document


def set_default(name: str, workspace: Workspace) -> None:
    """Use this profile where none is named. Raises `UsageError` when it cannot be used."""
    _, document = _read(workspace)
    if "default" in document and isinstance(document["default"], Mapping):
        raise UsageError(
            f"{profiles_file(workspace)} has a profile called default, so no other can be the default one",
            hint="Rename that profile.",
        )
    if "default" in document:
        document["default"] = name
    else:
        # A key of the file itself must come before its first table.
        document = tomlkit.parse(f"default = {tomlkit.item(name).as_string()}\n" + _gap(document))
    _replace(document, name, workspace)


def _gap(document: tomlkit.TOMLDocument) -> str:
    rest = tomlkit.dumps(document)
    return f"\n{rest}" if rest else ""


def _set_spark(document: tomlkit.TOMLDocument, name: str, spark: Mapping[str, str]) -> None:
    """Change, add and take out single settings of a profile: comments and numbers stay as they are written."""
    table = document[name]
    assert isinstance(table, Table)
    if _spark_in(document, name) == dict(spark):
        return
    if isinstance(table.get("spark"), MutableMapping):
        missing = dict(spark)
        for path, setting, value in list(_settings(table["spark"], ("spark",))):
            missing.pop(setting, None)
            if setting not in spark:
                _take_out(table, path)
            elif as_text(value) != spark[setting]:
                _at(table, path[:-1])[path[-1]] = _written_like(value, spark[setting])
        for setting, text in missing.items():
            table["spark"][setting] = text
        written = table["spark"]
        commented = isinstance(written, Table) and any(isinstance(item, Comment) for _, item in written.value.body)
        if (written or commented) and _spark_in(document, name) == dict(spark):
            return
    # Written as something that cannot be changed in part, such as {...} in a line.
    table.pop("spark", None)
    if spark:
        settings = tomlkit.table()
        for setting, value in spark.items():
            settings.add(SingleKey(setting, t=KeyType.Basic), value)
        table["spark"] = settings


def _settings(table: Mapping[str, Any], path: tuple[str, ...], prefix: str = "spark") -> Iterator[_Setting]:
    """The keys that lead to each setting, its full name and its value."""
    for key, value in table.items():
        name = full_name(key, prefix)
        if isinstance(value, Mapping):
            yield from _settings(value, (*path, key), name)
        else:
            yield (*path, key), name, value


def _at(table: MutableMapping[str, Any], path: Sequence[str]) -> MutableMapping[str, Any]:
    """The table that the keys lead to. It is looked up anew each time: tomlkit's views do not see later changes."""
    return reduce(getitem, path, table)


def _take_out(table: MutableMapping[str, Any], path: Sequence[str]) -> None:
    """Take a setting out, and the tables below `spark` that are empty without it."""
    for end in range(len(path), 1, -1):
        del _at(table, path[: end - 1])[path[end - 1]]
        if _at(table, path[: end - 1]):
            return


def _written_like(before: object, text: str) -> object:
    """A number in place of a number, true or false in place of either, else text."""
    if isinstance(before, bool):
        return {"true": True, "false": False}.get(text, text)
    return int(text) if isinstance(before, int) and re.fullmatch(r"0|-?[1-9][0-9]{0,17}", text) else text


def _spark_in(document: tomlkit.TOMLDocument, name: str) -> dict[str, str | None] | None:
    """The settings of a profile as the file will have them; None where it would be no valid file, or they no table."""
    try:
        settings = tomllib.loads(tomlkit.dumps(document))[name].get("spark", {})
    except ValueError:
        return None
    return {key: as_text(value) for key, value in flatten(settings)} if isinstance(settings, Mapping) else None


def _read(workspace: Workspace) -> tuple[str, tomlkit.TOMLDocument]:
    path = profiles_file(workspace)
    try:
        text = read_document(path).decode("utf-8-sig")
    except FileNotFoundError:
        text = ""
    except OSError as exc:
        raise UsageError(f"{path} cannot be read: {exc.strerror or exc}", hint=remedy(exc)) from exc
    except UnicodeDecodeError as exc:
        raise UsageError(f"{path} is not text in UTF-8", hint="Save it as UTF-8.") from exc
    if (problem := parse_profiles(path, text).unreadable) is not None:
        raise problem
    return text, tomlkit.parse(text)


def _revision(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def _check_revision(text: str, revision: str, workspace: Workspace) -> None:
    if _revision(text) != revision:
        raise UsageError(
            f"{profiles_file(workspace)} was changed by another program meanwhile, and nothing was saved",
            hint="Load the profile again, then repeat your change.",
        )


def _replace(document: tomlkit.TOMLDocument, name: str | None, workspace: Workspace) -> None:
    path = profiles_file(workspace)
    text = tomlkit.dumps(document)
    file: ProfilesFile = parse_profiles(path, text)
    if file.unreadable is not None:
        raise file.unreadable
    if name is not None:
        check_profile(name, file, workspace)
    write_profiles_file(path, text)

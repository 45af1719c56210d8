"""Changing `profiles.toml` from a program: one profile at a time; all else, comments too, stays as it was written."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import tomlkit
from tomlkit.items import Comment, KeyType, SingleKey, Table, Whitespace

from engine.errors import UsageError
from engine.profiles.file import ProfilesFile, check_name, parse_profiles, toml_key
from engine.profiles.find import READY, check_profile, profiles_file, write_profiles_file
from engine.profiles.profile import as_text, flatten
from engine.storage.files import read_document
from engine.storage.io_errors import remedy
from engine.workspace import Workspace


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
        document = _renamed(text, instead_of, name)
    if name not in document:
        document[name] = tomlkit.table()
    table = document[name]
    if not isinstance(table, Table):
        raise UsageError(
            f"{profiles_file(workspace)}: the profile {name} is not written as a table of its own",
            hint=f"Change it in the file: a line [{name}], its fields below.",
        )
    after = _take_after(table)
    for key, value in fields.items():
        if value is None:
            table.pop(key, None)
        elif key not in table or table[key] != value:
            table[key] = value
    _set_spark(table, spark)
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


def _renamed(text: str, old: str, new: str) -> tomlkit.TOMLDocument:
    """The document with another name in the headers of a profile's tables, where they are."""
    written = "|".join(re.escape(t) for t in (old, f'"{old}"', f"'{old}'"))
    header = re.compile(rf"^([ \t]*\[[ \t]*)(?:{written})(?=[ \t]*[.\]])", re.MULTILINE)
    document = tomlkit.parse(header.sub(lambda m: m[1] + toml_key(new), text))
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


def _set_spark(table: Table, spark: Mapping[str, str]) -> None:
    plain = table.unwrap().get("spark", {})
    before = {name: as_text(value) for name, value in flatten(plain)} if isinstance(plain, Mapping) else None
    if before == dict(spark):
        return
    table.pop("spark", None)
    if spark:
        settings = tomlkit.table()
        for name, value in spark.items():
            settings.add(SingleKey(name, t=KeyType.Basic), value)
        table["spark"] = settings


def _read(workspace: Workspace) -> tuple[str, tomlkit.TOMLDocument]:
    path = profiles_file(workspace)
    try:
        text = read_document(path).decode()
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
            f"{profiles_file(workspace)} was changed by somebody else meanwhile, and nothing was saved",
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

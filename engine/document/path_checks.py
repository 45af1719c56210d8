"""Whether what was found at a path is what a node reads, and what it leaves out of a folder. Pure: the look itself is
`engine/observe/paths.py`."""

from __future__ import annotations

from collections.abc import Iterable
from shlex import quote

from engine.declare.parameters import PathIn
from engine.declare.path_found import FilesLeftOut, PathFound
from engine.diagnostics import rules
from engine.diagnostics.rule import Diagnostic, Rule
from engine.storage import is_url, links
from engine.text import plural


def path_problem(
    value: object, wanted: PathIn, found: PathFound, *, node: str | None = None, parameter: str | None = None
) -> Diagnostic | None:
    """Why the node cannot use what was found at the path `value`; None when it can."""
    rule: type[Rule]
    if found.problem:
        rule, message = rules.PathNotReadable, f"{value} cannot be read: {found.problem}"
        hint = "Check its permissions."
    elif not found.exists:
        rule, message, hint = rules.PathMissing, f"{value} does not exist", "Check the spelling."
    elif found.kind != wanted.kind:
        rule, message = rules.WrongKindOfPath, f"{value} is a {found.kind}, not a {wanted.kind}"
        hint = "Choose the right one."
    elif found.kind == "folder" and not found.count:
        rule, message = rules.NothingMatches, f"nothing in {value} matches {', '.join(wanted.patterns)}"
        if wanted.holds:
            message = f"there are no {wanted.holds} in {value} ({found.content})"
        hint = "Choose another folder."
        if found.nameless:
            choose = f"Set {wanted.kind_parameter} to {found.nameless}"
            hint = f"{choose}, which looks into files of any name; or choose another folder."
        if wanted.kinds and found.endings and is_url(value):
            hint = "In object storage only those of one file each are read; copy others to a disk."
    else:
        return None
    return rule.found(message, hint=hint, node=node, parameter=parameter)


def passed_over(
    value: object, wanted: PathIn, found: PathFound, *, node: str | None = None, parameter: str | None = None
) -> list[Diagnostic]:
    """What the listing of the folder `value` skips and a user may expect to be read: a problem for each reason."""
    said = _files_left_out(str(value), wanted, found) + links.remarks(str(value), found.links)
    return [rules.PassedOver.found(message, hint=hint, node=node, parameter=parameter) for message, hint in said]


def _files_left_out(folder: str, wanted: PathIn, found: PathFound) -> list[links.Remark]:
    out = []
    if others := [files for files in found.left_out if not files.is_taken]:
        counts = ", ".join(f"{files.count:,} {files.ending}" for files in others)
        out.append(
            links.Remark(
                f"in {folder} these are left out: {counts}, for example {others[0].example}",
                f"To take them, too, use another node of this type for the same folder, with {_kinds(wanted, others)}."
                + (" Volumes of several files are read from disks only: copy them there." if is_url(folder) else ""),
            )
        )
    for files in found.left_out:
        if files.is_taken:
            path = f"{folder.rstrip('/')}/{files.example}"
            right = path[: -len(files.ending)] + files.ending
            rename = f"rename it to {right}" if is_url(folder) else f"`mv {quote(path)} {quote(right)}`"
            out.append(
                links.Remark(
                    f"in {folder} {plural(files.count, 'files')} {'is' if files.count == 1 else 'are'} left out, whose "
                    f"ending mixes small letters and capitals: {files.example}" + (", ..." if files.count > 1 else ""),
                    f"Write {files.ending} in small letters: {rename}" + (" and so on." if files.count > 1 else "."),
                )
            )
    return out


def _kinds(wanted: PathIn, left_out: Iterable[FilesLeftOut]) -> str:
    """Values of the parameter that chooses among kinds of files, for those that were left out."""
    name = wanted.kind_parameter
    found = dict.fromkeys(f"{name}={each.kind}" if each.kind else f"the {name} of {each.ending}" for each in left_out)
    return " or ".join(found)

"""`NumpyToParquet`: volumes, a file each, into Parquet files of the right size, at the speed of the disk."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.declare.check_context import CheckContext
from engine.declare.context import TaskContext
from engine.declare.datasets import Preview, VolumeFiles, VolumeParquet
from engine.declare.node import node
from engine.errors import DataError
from engine.storage import is_url
from engine.text import plural
from nodes.conversion.commas import WITH_POINT
from nodes.conversion.convert_parameters import ConvertParameters, compile_pattern
from nodes.conversion.formats import HASH, ROWS
from nodes.conversion.rules import (
    AllQuarantined,
    AxesPointSeveralWays,
    BadLabelPattern,
    ColumnChanged,
    LabelColumnChosen,
    LabelParameterNotUsed,
    LabelsNotUsable,
    LabelsSpeltDifferently,
    LabelsWithoutFile,
    NoLabelTable,
    NumbersWithCommas,
    SampledWithoutLabel,
    SeveralLabelsInOne,
    TableNotTaken,
    TooManyBadFiles,
)

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

_FEW_FILES = 50_000
"""Files of a folder whose labels are all looked for before a run; of more only those of a sample."""
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.IGNORECASE)
"""A label that is a number, when others are texts."""
_SEVERAL = re.compile(r"[;|]|,\s*\w")
"""What stands between several labels in one cell."""
_NAMED = 3
"""Tables that are not taken for labels which are named."""
_ROW_BYTES = 100
"""About what a row takes beside its volume: id, label, page and row-group headers."""


# pyarrow looks for pandas when it is first given a list: better while the node before is at work.
@node(
    "NumpyToParquet",
    version=1,
    category="Conversion",
    icon="package",
    keywords=("convert", "npy", "pack", "small files", "petastorm", "quarantine"),
    imports=("engine.processes.pyarrow_without_pandas", "nodes.conversion.convert"),
)
def numpy_to_parquet(
    files: VolumeFiles,
    *,
    parameters: ConvertParameters,
    ctx: TaskContext,
) -> VolumeParquet:
    """Pack many small volumes, `.npy` or another format of VolumeFolder's, into few large Parquet files.

    A volume's id is its path below the folder, with its ending, in Unicode NFC. The dataset's shape and
    dtype are those of most files in a spread sample; Fortran order and big-endian files are turned.
    A file that is unreadable or of another shape is skipped and listed with its reason in
    quarantine.csv; converted + quarantined is always the number of files found. When the folder
    grows only the new files are converted; what a killed run had finished is not made again.

    Args:
        files: the volumes.
    """
    from nodes.conversion.convert import convert_files

    return _grouped(convert_files(files, parameters, ctx), files)


@numpy_to_parquet.on("spark")
def _on_spark(files: VolumeFiles, *, parameters: ConvertParameters, ctx: TaskContext) -> VolumeParquet:
    """The same parts, made by Spark tasks. Delta, which mostly comes next, is loaded meanwhile."""
    from nodes.conversion.convert import convert_files
    from nodes.spark.make_chunks import on_spark

    return _grouped(convert_files(files, parameters, ctx, on_spark), files)


def _grouped(made: VolumeParquet, files: VolumeFiles) -> VolumeParquet:
    """With the columns of `files` that a split kept together, where they came along."""
    if not files.grouped_by:
        return made
    import pyarrow.parquet as pq

    from nodes.loaders.chained_volumes import kept_groups
    from nodes.volume_file.parts import read_parts

    columns = pq.read_schema(f"{made.uri}/{read_parts(made).parts[0].path}").names
    return made.model_copy(update={"grouped_by": kept_groups(files.grouped_by, columns)})


@numpy_to_parquet.scan
def _scan(look: CheckContext) -> Mapping[str, Any]:
    """Look for the labels of the sampled files."""
    files = look.inputs.get("files")
    if files is None or not files.uri or not files.sample:
        return {}
    from nodes.conversion.formats import endings_of, every_ending
    from nodes.conversion.volume_sources import label_file_at, reading_of

    # Where no file could be read their format is not known.
    endings = endings_of(reading_of(files.dataset)) if isinstance(files.dataset, VolumeFiles) else every_ending()
    with label_file_at(files.uri) as found:
        return {**_look_for_labels(look.params, files, found, endings), "beside": _beside(look.params, files, found)}


def _beside(params: Mapping[str, Any], files: Preview, found: Path | None) -> list[str]:
    """Names of tables in the folder that are not taken for labels though nothing says that they should not be."""
    from nodes.conversion.labels import tables_beside

    of_rows = isinstance(files.dataset, VolumeFiles) and files.dataset.format == ROWS
    named = found or params["label_file"] or params["label_pattern"]
    if named or params["labels"] not in ("auto", "manifest") or of_rows or not files.uri or is_url(files.uri):
        return []
    return tables_beside(Path(files.uri))[:_NAMED]


def _look_for_labels(
    params: Mapping[str, Any], files: Preview, found: Path | None, endings: tuple[str, ...]
) -> Mapping[str, Any]:
    import numpy as np

    from nodes.conversion.label_values import different, nfc
    from nodes.conversion.labels import find_labels, label_rule

    rule = label_rule(ConvertParameters(**params), found, endings)
    names = _names(files)
    ids = nfc(names)
    complete = len(names) == files.count
    source = rule.settle(ids)
    if source == "manifest" and not (rule.file or found):
        return {"no_table": True}
    try:
        labels = find_labels(ids, rule, _of_files(files, params["hash_sources"]))
    except DataError as exc:
        # What is wrong with a pattern itself is reported without a scan.
        if source == "pattern" and not _compiles(rule.pattern):
            return {}
        return {"problem": exc.message, "hint": exc.hint}
    return {
        "source": source,
        "origin": labels.origin,
        "looked": len(ids),
        "labelled": int(np.count_nonzero(~np.isnan(labels.values))),
        "conflicts": int(np.count_nonzero(labels.conflicts)),
        "classes": list(labels.classes),
        "complete": complete,
        "rows_without_file": labels.rows_without_file if complete else 0,
        "row_without_file": labels.row_without_file,
        "without_label": _first(ids, np.isnan(labels.values) & ~labels.conflicts),
        "with_several": _first(ids, labels.conflicts),
        "values": different(labels.values),
        "columns": labels.columns.column_names,
        "remarks": list(labels.remarks),
        "chosen": labels.chosen,
        "commas": labels.commas,
    }


def _first(ids: pa.StringArray, chosen: NDArray[np.bool_]) -> str:
    """The first of the chosen ids, "" for none."""
    return str(ids[int(chosen.argmax())]) if chosen.any() else ""


def _names(files: Preview) -> pa.StringArray:
    """All files where they are listed and not too many, else the sampled ones."""
    import pyarrow as pa

    from engine.storage import manifest
    from nodes.conversion.volume_sources import reading_of, volumes_of

    if isinstance(files.dataset, VolumeFiles) and files.dataset.count <= _FEW_FILES:
        with contextlib.suppress(OSError, pa.ArrowException):
            found = files.dataset
            return volumes_of(manifest.read(found.manifest), found.uri, reading_of(found))["path"].combine_chunks()
    return pa.array(files.sample, pa.string())


def _compiles(pattern: str) -> bool:
    try:
        compile_pattern(pattern)
    except DataError:
        return False
    return True


@numpy_to_parquet.preview
def _preview(look: CheckContext) -> Preview:
    files = look.inputs.get("files") or Preview(kind="VolumeFiles")
    facts = look.facts
    _check_label_parameters(look)
    if "problem" in facts:
        look.report(LabelsNotUsable, facts["problem"], hint=facts["hint"], parameter=_label_parameter(look.params))
    if "looked" in facts:
        _check_coverage(look, facts)
    _check_limit(look, files)
    if len(files.orientations) > 1:
        from nodes.conversion.orientations import said_of_several

        look.report(
            AxesPointSeveralWays,
            said_of_several(files.orientations, "sampled volumes"),
            hint="Put TransformVolumes before, with an orientation such as RAS: it turns them alike.",
            port="files",
        )
    count, spec = files.count, files.spec
    if spec is not None and facts.get("classes"):
        spec = spec.model_copy(update={"classes": tuple(facts["classes"])})
    labelled = files.labelled
    if count is not None and "looked" in facts and facts["labelled"] in (0, facts["looked"]):
        labelled = count if facts["labelled"] else 0
    elif look.params["labels"] == "none":
        labelled = 0 if count is not None else None
    held = files.held
    lost = look.params["columns"] == "none" and not {*files.grouped_by} <= {"id", "label"}
    return Preview(
        kind="VolumeParquet",
        count=count,
        selected=files.selected,
        bytes=held * (spec.volume_bytes + _ROW_BYTES) if held is not None and spec is not None else None,
        spec=spec,
        labelled=labelled,
        labels=tuple(facts.get("values", ())),
        labels_complete=bool(facts.get("complete")),
        columns=_columns(facts["columns"], files, look.params["hash_sources"])
        if "columns" in facts
        else _columns_of_rows(look.params, files),
        grouped_by=() if lost else files.grouped_by,
        groups_lost=files.grouped_by if lost else files.groups_lost,
    )


def _columns(of_labels: Sequence[str], files: Preview, hash_sources: bool) -> tuple[str, ...]:
    """Those of the table of labels, and those that the files' format or the rows have."""
    return tuple(dict.fromkeys([*of_labels, *_of_files(files, hash_sources)]))


def _of_files(files: Preview, hash_sources: bool) -> tuple[str, ...]:
    """Those that the files' format or the rows have: columns of a table of labels make way for them."""
    found = files.dataset if isinstance(files.dataset, VolumeFiles) else None
    hashed = (
        (HASH[0],) if found is not None and found.format != ROWS and (found.format != "npy" or hash_sources) else ()
    )
    return (*(files.columns or ()), *hashed)


def _columns_of_rows(params: Mapping[str, Any], files: Preview) -> tuple[str, ...] | None:
    """Those that a table's rows, of which no file is sampled, bring along; None where they are not known."""
    return files.columns if not files.sample and params["columns"] == "all" and not params["label_file"] else None


def _label_parameter(params: Mapping[str, Any]) -> str:
    return "label_pattern" if params["labels"] == "pattern" else "label_file" if params["label_file"] else "labels"


def _check_label_parameters(look: CheckContext) -> None:
    """Problems of the parameters alone: no folder is looked into."""
    params, facts = look.params, look.facts
    source, table, pattern = params["labels"], params["label_file"], params["label_pattern"]
    beside = facts.get("beside", ())
    if source == "pattern" or (source == "auto" and pattern):
        try:
            compile_pattern(pattern)
        except DataError as exc:
            look.report(BadLabelPattern, exc.message, hint=exc.hint, parameter="label_pattern")
    if source == "manifest" and not table and facts.get("no_table"):
        look.report(
            NoLabelTable,
            "labels come from a table, and the folder has no labels.csv or labels.parquet",
            hint=f"Name the table{f', such as {beside[0]}' if beside else ''}.",
            parameter="label_file",
        )
    elif beside and facts.get("source") in ("none", "folders"):
        names = " and ".join(beside)
        look.report(
            TableNotTaken,
            f"{names} in the folder {'is' if len(beside) == 1 else 'are'} not read:"
            f" {'no labels are looked for' if facts['source'] == 'none' else 'labels are the names of sub-folders'}",
            hint="Name the table of labels in label_file; save one of a spreadsheet as CSV first.",
            parameter="labels",
        )
    used = {"manifest": "label_file", "pattern": "label_pattern"}.get(source)
    for name, value in (("label_file", table), ("label_pattern", pattern)):
        overruled = source == "auto" and name == "label_pattern" and table
        if value and (overruled or (source != "auto" and name != used)):
            look.report(
                LabelParameterNotUsed,
                f"is not used: labels come from {'the table' if overruled else source}",
                hint="Clear it, or choose another source of labels.",
                parameter=name,
            )
    if source == "none" and params["unlabelled"] == "quarantine":
        look.report(
            AllQuarantined,
            "every file would be quarantined: no labels are looked for",
            hint="Keep unlabelled files, or choose where labels come from.",
            parameter="unlabelled",
        )


def _check_coverage(look: CheckContext, facts: Mapping[str, Any]) -> None:
    if facts.get("chosen"):
        look.report(
            LabelColumnChosen,
            facts["chosen"],
            hint="Name the column in label_column, to say which is meant.",
            parameter="label_column",
        )
    for remark in facts.get("remarks", ()):
        look.report(
            ColumnChanged,
            remark,
            hint="Rename the column in the table of labels, or set columns to none.",
            parameter="columns",
        )
    if facts.get("rows_without_file"):
        look.report(
            LabelsWithoutFile,
            f"{facts['origin']} has {plural(facts['rows_without_file'], 'rows')} for which the folder has no file, such"
            f" as {facts['row_without_file'] or 'one without a name'}",
            hint="Name each file by its path below the folder, or remove the rows.",
            parameter=_label_parameter(look.params),
        )
    _check_commas(look, facts)
    several = next((name for name in facts["classes"] if _SEVERAL.search(name)), None)
    if several is not None and "" not in facts.get("commas", {}):
        look.report(
            SeveralLabelsInOne,
            f"the label {several!r} looks like several: it is taken for one class of its own",
            hint="A volume has one label. Choose one for each volume, or train a model for each kind of label.",
            parameter=_label_parameter(look.params),
        )
    if alike := _alike(facts["classes"]):
        look.report(
            LabelsSpeltDifferently,
            f"the labels {' and '.join(map(repr, alike))} may be one: each is a class of its own",
            hint="Write them alike in the table of labels, if they mean the same.",
            parameter=_label_parameter(look.params),
        )
    missing = _without_label(facts)
    if facts["source"] == "none" or not (missing or facts["conflicts"]):
        return
    conflicts = facts["conflicts"]
    parts = [f"{missing} {_have(missing)} no label (such as {facts['without_label']})"] if missing else []
    parts += (
        [f"{conflicts} {_have(conflicts)} several different labels (such as {facts['with_several']})"]
        if conflicts
        else []
    )
    look.report(
        SampledWithoutLabel,
        f"of {facts['looked']} {'files' if facts.get('complete') else 'sampled files'} {' and '.join(parts)} in"
        f" {facts['origin']}",
        hint="Files without a label are kept with an empty one unless you choose to quarantine them.",
        parameter=_label_parameter(look.params),
    )


def _check_commas(look: CheckContext, facts: Mapping[str, Any]) -> None:
    for name, example in facts.get("commas", {}).items():
        what = f"the values of the column {name} are" if name else "the labels are"
        becomes = "they stay text" if name else "each is the name of a class"
        look.report(
            NumbersWithCommas,
            f"{what} numbers with commas, such as {example}: {becomes}",
            hint=f"{WITH_POINT}." if name else f"{WITH_POINT}; of two labels in one cell keep one.",
            parameter="columns" if name else _label_parameter(look.params),
        )


def _have(count: int) -> str:
    return "has" if count == 1 else "have"


def _without_label(facts: Mapping[str, Any]) -> int:
    return int(facts["looked"] - facts["labelled"] - facts["conflicts"])


def _check_limit(look: CheckContext, files: Preview) -> None:
    """Report when so many files are known to be refused already that the run cannot succeed."""
    facts, most = look.facts, look.params["max_bad_files"]
    by_label = 0
    if "looked" in facts:
        by_label = facts["conflicts"]
        if look.params["unlabelled"] == "quarantine" and facts["source"] != "none":
            by_label += _without_label(facts)
    # A file may be bad and have no label: the larger number is certain.
    certain, why = max(
        (files.refused, "not readable, or not of the commonest shape"), (by_label, "without a single label")
    )
    if certain > most:
        look.report(
            TooManyBadFiles,
            f"at least {plural(certain, 'files')} would be left out ({why}); max_bad_files is {most}, so this run will"
            " fail",
            hint="Correct or remove the files, or raise max_bad_files.",
            parameter="max_bad_files",
        )


def _alike(classes: Sequence[str]) -> list[str]:
    """The first labels that differ in their spelling alone, 1 and 1.0 or Grey and grey; none: []."""
    found: dict[str | float, list[str]] = {}
    for name in classes:
        text = " ".join(re.split(r"[\s_-]+", name.casefold()))
        is_number = _NUMBER.fullmatch(name.strip()) is not None
        found.setdefault(float(name) if is_number else text, []).append(name)
    return next((names for names in found.values() if len(names) > 1), [])

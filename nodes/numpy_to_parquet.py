"""`NumpyToParquet`: `.npy` volumes into Parquet files of the right size, at the speed of the disk.

Its problems: VF411 the label pattern is wrong; VF412 a label table is needed and there is none;
VF413 the label table cannot be used; VF414 sampled files have no label; VF415 a label parameter is
given and not used; VF416 files without a label are refused, and no labels are looked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from engine.context import TaskContext
from engine.datasets import Dataset, Preview, VolumeFiles, VolumeParquet
from engine.errors import DataError
from engine.node import Look, node
from engine.parameters import Advanced, PathIn, Policy, Range, Unit
from nodes.volume_parts import read_parts

if TYPE_CHECKING:
    from nodes.conversion.convert import Choices

_ROW_BYTES = 100
"""About what a row takes beside its volume: id, label, page and row-group headers."""


# pyarrow looks for pandas when it is first given a list: better while the node before is at work.
@node("NumpyToParquet", version=1, category="Storage", imports=("pandas", "nodes.conversion.convert"))
def numpy_to_parquet(
    files: VolumeFiles,
    *,
    labels: Literal["auto", "manifest", "folders", "pattern", "none"] = "auto",
    label_file: Annotated[str | None, PathIn("file")] = None,
    label_pattern: str = "",
    unlabelled: Literal["keep", "quarantine"] = "keep",
    not_finite: Literal["quarantine", "keep"] = "quarantine",
    max_bad_files: Annotated[int, Range(0), Policy()] = 0,
    target_file_mb: Annotated[int, Range(1, 4096), Unit("MB")] = 78,
    compression: Literal["none", "zstd", "lz4"] = "none",
    row_group_rows: Annotated[int, Range(1, 100_000), Advanced()] = 64,
    threads: Annotated[int, Range(0, 256), Policy(), Advanced()] = 0,
    ctx: TaskContext,
) -> VolumeParquet:
    """Pack many small `.npy` files into few large Parquet files.

    A volume's id is its path below the folder, with `.npy`, in Unicode NFC. The dataset's shape and
    dtype are those of most files in a spread sample; Fortran order and big-endian files are turned.
    A file that cannot be a volume is listed with its reason in quarantine.csv, and converted +
    quarantined is always the number of files found. When the folder grows only the new files are
    converted; what a killed run had finished is not made again.

    Args:
        files: the volumes.
        labels: where labels come from: a table, sub-folder names (of the first level), a pattern in
            the file name. Auto takes a given table or pattern, else labels.csv or labels.parquet in
            the folder, else sub-folder names if every file lies in one. Texts become classes 0, 1,
            ... in sorted order, numbers stay numbers.
        label_file: CSV or Parquet table with a column file (or path, id, name) and a column label
            (or class, target, y).
        label_pattern: regular expression with a group named label, searched in the file name (in the
            whole path if it contains a slash), for example _(?P<label>[a-z]+)\\.npy$
        unlabelled: keep files without a label, or quarantine them.
        not_finite: what to do with volumes that hold a NaN or an infinity.
        max_bad_files: stop when more files than this are quarantined.
        target_file_mb: size of a Parquet file.
        compression: costs 3-10 times in reading speed; for those who pay for storage.
        row_group_rows: rows that are read together.
        threads: files converted side by side; 0 takes the machine's cores. On Spark its tasks decide.
    """
    from nodes.conversion.convert import convert_files

    choices = _choices(
        labels=labels,
        label_file=label_file,
        label_pattern=label_pattern,
        unlabelled=unlabelled,
        not_finite=not_finite,
        max_bad_files=max_bad_files,
        target_file_mb=target_file_mb,
        compression=compression,
        row_group_rows=row_group_rows,
        threads=threads,
    )
    return convert_files(files, choices, ctx)


@numpy_to_parquet.on("spark")
def _on_spark(files: VolumeFiles, *, ctx: TaskContext, **params: Any) -> VolumeParquet:
    """The same parts, made by Spark tasks."""
    from nodes.conversion.convert import convert_files
    from nodes.spark.convert_chunks import convert_on_spark

    return convert_files(files, _choices(**params), ctx, convert_on_spark)


def _choices(**params: Any) -> Choices:
    from nodes.conversion.convert import Choices
    from nodes.conversion.labels import LabelRule

    table = params["label_file"]
    return Choices(
        labels=LabelRule(params["labels"], Path(table) if table else None, params["label_pattern"]),
        refuse_unlabelled=params["unlabelled"] == "quarantine",
        refuse_not_finite=params["not_finite"] == "quarantine",
        max_bad_files=params["max_bad_files"],
        target_bytes=params["target_file_mb"] * 1_000_000,
        compression=params["compression"],
        row_group_rows=params["row_group_rows"],
        threads=params["threads"],
    )


@numpy_to_parquet.verify
def _verify(outputs: Mapping[str, Dataset], for_change: bool) -> str:
    """Every part stands with the size it had: one `stat` a part, 3,000 for 650,000 volumes of 360 kB."""
    dataset = outputs["out"]
    assert isinstance(dataset, VolumeParquet)
    for part in read_parts(dataset).parts:
        path = Path(dataset.uri) / part.path
        try:
            size = path.stat().st_size
        except OSError as exc:
            return f"{path} cannot be read: {exc.strerror}"
        if size != part.bytes:
            return f"{path} has {size} bytes instead of {part.bytes}"
    return ""


@numpy_to_parquet.scan
def _scan(look: Look) -> Mapping[str, Any]:
    """Look for the labels of the sampled files."""
    files = look.inputs.get("files")
    if files is None or not files.uri or not files.sample:
        return {}
    from nodes.conversion.volume_sources import label_file_at

    with label_file_at(files.uri) as found:
        return _look_for_labels(look.params, files.sample, found)


def _look_for_labels(params: Mapping[str, Any], sample: Sequence[str], found: Path | None) -> Mapping[str, Any]:
    import numpy as np
    import pyarrow as pa

    from nodes.conversion.label_values import nfc
    from nodes.conversion.labels import LabelRule, find_labels

    table = params["label_file"]
    rule = LabelRule(params["labels"], Path(table) if table else None, params["label_pattern"], found)
    ids = nfc(pa.array(sample, pa.string()))
    source = rule.settle(ids)
    if source == "manifest" and not (table or found):
        return {"no_table": True}
    try:
        labels = find_labels(ids, rule)
    except DataError as exc:
        # What is wrong with a pattern is told without a scan.
        return {} if source == "pattern" else {"problem": exc.message, "hint": exc.hint}
    return {
        "source": source,
        "told_by": labels.told_by,
        "looked": len(ids),
        "labelled": int(np.count_nonzero(~np.isnan(labels.values))),
        "conflicts": int(np.count_nonzero(labels.conflicts)),
        "classes": list(labels.classes),
    }


@numpy_to_parquet.preview
def _preview(look: Look) -> Preview:
    files = look.inputs.get("files") or Preview(kind="VolumeFiles")
    facts = look.facts
    _check_label_parameters(look)
    if "problem" in facts:
        look.problem("VF413", facts["problem"], hint=facts["hint"], parameter=_label_parameter(look.params))
    if "looked" in facts:
        _check_coverage(look, facts)
    count, spec = files.count, files.spec
    if spec is not None and facts.get("classes"):
        spec = spec.model_copy(update={"classes": tuple(facts["classes"])})
    labelled = files.labelled
    if count is not None and "looked" in facts and facts["labelled"] in (0, facts["looked"]):
        labelled = count if facts["labelled"] else 0
    elif look.params["labels"] == "none":
        labelled = 0 if count is not None else None
    return Preview(
        kind="VolumeParquet",
        count=count,
        bytes=count * (spec.volume_bytes + _ROW_BYTES) if count is not None and spec is not None else None,
        spec=spec,
        labelled=labelled,
    )


def _label_parameter(params: Mapping[str, Any]) -> str:
    return "label_pattern" if params["labels"] == "pattern" else "label_file" if params["label_file"] else "labels"


def _check_label_parameters(look: Look) -> None:
    """What the parameters alone tell: no folder is looked into."""
    params, facts = look.params, look.facts
    source, table, pattern = params["labels"], params["label_file"], params["label_pattern"]
    if source == "pattern" or (source == "auto" and pattern):
        from nodes.conversion.label_pattern import compile_pattern

        try:
            compile_pattern(pattern)
        except DataError as exc:
            look.problem("VF411", exc.message, hint=exc.hint, parameter="label_pattern")
    if source == "manifest" and not table and facts.get("no_table"):
        look.problem(
            "VF412",
            "labels come from a table, and the folder has no labels.csv or labels.parquet",
            hint="Name the table.",
            parameter="label_file",
        )
    used = {"manifest": "label_file", "pattern": "label_pattern"}.get(source)
    for name, value in (("label_file", table), ("label_pattern", pattern)):
        overruled = source == "auto" and name == "label_pattern" and table
        if value and (overruled or (source != "auto" and name != used)):
            look.problem(
                "VF415",
                f"is not used: labels come from {'the table' if overruled else source}",
                hint="Clear it, or choose another source of labels.",
                parameter=name,
                severity="warning",
            )
    if source == "none" and params["unlabelled"] == "quarantine":
        look.problem(
            "VF416",
            "every file would be quarantined: no labels are looked for",
            hint="Keep unlabelled files, or choose where labels come from.",
            parameter="unlabelled",
        )


def _check_coverage(look: Look, facts: Mapping[str, Any]) -> None:
    missing = facts["looked"] - facts["labelled"] - facts["conflicts"]
    if facts["source"] == "none" or not (missing or facts["conflicts"]):
        return
    parts = [f"{missing} have no label"] if missing else []
    parts += [f"{facts['conflicts']} have several different labels"] if facts["conflicts"] else []
    look.problem(
        "VF414",
        f"of {facts['looked']} sampled files {' and '.join(parts)} in {facts['told_by']}",
        hint="Files without a label are kept with an empty one unless you choose to quarantine them.",
        parameter=_label_parameter(look.params),
        severity="warning",
    )

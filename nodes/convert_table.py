"""`ConvertTable`: volumes out of a table that another program wrote in its own way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.declare.check_context import CheckContext
from engine.declare.context import TaskContext
from engine.declare.datasets import Preview, VolumeParquet, VolumeSpec
from engine.declare.node import node
from engine.diagnostics.rule import Rule
from engine.diagnostics.rules import PassedOver
from nodes.foreign_tables.table_parameters import TableParameters


@node(
    "ConvertTable",
    version=1,
    category="Conversion",
    icon="binary",
    keywords=("nested lists", "petastorm", "unischema", "NdarrayCodec", "hugging face", "arrays", "existing table"),
    imports=("engine.processes.pyarrow_without_pandas", "nodes.foreign_tables.rows"),
)
def convert_table(*, parameters: TableParameters, ctx: TaskContext) -> VolumeParquet:
    """Convert a table of another program, whose volumes are nested lists or petastorm's arrays, into Parquet files.

    Takes a Delta table, or a folder of Parquet files, whose column of volumes holds nested lists, the bytes of `.npy`
    or compressed `.npz` files (petastorm's NdarrayCodec and CompressedNdarrayCodec), or an array's own bytes with a
    given shape and dtype. Such volumes are decoded once, here; DeltaTable and ParquetFolder take tables of plain bytes
    where they lie. All other columns of single values are carried, also those that folders stand for (class=salt/). A
    row that is no volume is listed with its reason in quarantine.csv. When files are added only their rows are
    converted; what a killed run had finished is not made again. Of a Delta table, rows that its deletion vectors delete
    are left out, and columns have the names that its column mapping gives them.
    """
    from nodes.foreign_tables.rows import convert_table

    return convert_table(parameters, ctx)


@convert_table.on("spark")
def _on_spark(*, parameters: TableParameters, ctx: TaskContext) -> VolumeParquet:
    """The same parts, made by Spark tasks."""
    from nodes.foreign_tables.rows import convert_table
    from nodes.spark.make_chunks import on_spark

    return convert_table(parameters, ctx, on_spark)


@convert_table.scan
def _scan(look: CheckContext) -> Mapping[str, Any]:
    """Look at the columns, and at the first volumes and labels of some files."""
    from engine.errors import VoxelflowError
    from nodes.conversion.columns import of_label_table
    from nodes.foreign_tables.sample import find_roles, sample_labels, sample_spec
    from nodes.foreign_tables.tables import find_table

    parameters = TableParameters(**{**look.params, "table": look.paths["table"].path})
    try:
        table = find_table(parameters.table)
        roles = find_roles(table, parameters)
        spec = sample_spec(table, roles, parameters)
        labels = sample_labels(table, roles)
    except VoxelflowError as exc:
        return {"problem": exc.message, "hint": exc.hint, "parameter": exc.parameter or "table"}
    carried = of_label_table(roles.schema.empty_table().select(roles.carried))
    facts: dict[str, Any] = {
        "spec": spec.model_dump(mode="json"),
        "roles": {"volume": roles.volume, "label": roles.label, "id": roles.id},
        "columns": carried.table.column_names,
        "left_out": [*roles.remarks, *carried.remarks],
        "links": table.left_out,
        "rows": table.rows,
    }
    if labels is not None:
        facts["labels"] = _look_at_labels(*labels)
    return facts


def _look_at_labels(column: Any, complete: bool) -> dict[str, Any]:
    import numpy as np
    import pyarrow as pa

    from engine.errors import DataError
    from nodes.conversion.label_values import different, label_values

    try:
        values, classes = label_values(column.combine_chunks())
    except (pa.ArrowException, DataError) as exc:
        hint = exc.hint if isinstance(exc, DataError) else "Choose a column of numbers or texts."
        return {"problem": str(exc).partition("\n")[0], "hint": hint}
    return {
        "values": different(values.astype(np.float32)),
        "classes": list(classes),
        "looked": len(values),
        "labelled": int(np.count_nonzero(~np.isnan(values))),
        "complete": complete,
    }


@convert_table.preview
def _preview(look: CheckContext) -> Preview:
    facts = look.facts
    if "problem" in facts:
        look.report(NoArrays, facts["problem"], hint=facts["hint"], parameter=facts["parameter"])
    if "spec" not in facts:
        return Preview(kind="VolumeParquet")
    for message, hint in facts["links"]:
        look.report(PassedOver, message, hint=hint, parameter="table")
    if look.params["columns"] == "all":
        for remark in facts["left_out"]:
            look.report(ColumnsLeftOut, remark, hint="Set columns to none to carry none.", parameter="columns")
    labels = facts.get("labels", {"classes": [], "values": [], "complete": True, "labelled": 0, "looked": 0})
    if "problem" in labels:
        look.report(NoLabels, labels["problem"], hint=labels["hint"], parameter="label_column")
        labels = {**labels, "classes": [], "values": [], "complete": False, "labelled": 1, "looked": 2}
    spec = VolumeSpec.model_validate(facts["spec"])
    if labels["complete"]:
        spec = spec.model_copy(update={"classes": tuple(labels["classes"])})
    rows, roles = facts["rows"], facts["roles"]
    return Preview(
        kind="VolumeParquet",
        spec=spec,
        bytes=rows * spec.volume_bytes if rows is not None else None,
        labelled=0 if labels["complete"] and not labels["labelled"] else None,
        # Classes of a part of the files are numbered otherwise than those of all.
        labels=tuple(labels["values"]) if labels["complete"] or not labels["classes"] else (),
        labels_complete=labels["complete"],
        columns=tuple(facts["columns"]) if look.params["columns"] == "all" else (),
        figures={"rows": rows} if rows is not None else {},
        does=f"{roles['volume']}, labels: {roles['label']}" if roles["label"] else roles["volume"],
    )


# --- what it reports before a run ----------------------------------------------------------------


class NoArrays(Rule):
    """The table that ConvertTable is given cannot be read, has no column of the name that is given, none or several
    that can be volumes, or its first rows hold no arrays that can be decoded. The message has the reason.

    What to do: name the columns of the volumes, labels and ids; give shape and dtype where the volumes are plain bytes
    or flat lists; or choose another table.
    """

    code = "VF562"
    severity = "error"
    title = "a table without arrays that can be decoded"


class ColumnsLeftOut(Rule):
    """A column of the table is carried under another name, as its own is taken or one that Delta does not take; or it
    is left out: a table of volumes has single values beside the volume, numbers or short texts, and this column holds
    lists, records or values of many bytes.

    What to do: nothing if you do not need it. Else write what you need of it as numbers or short texts.
    """

    code = "VF563"
    severity = "warning"
    title = "a column that is renamed or left out"


class NoLabels(Rule):
    """The values in the column of labels can be no labels: there are too many different texts, for example.

    What to do: name another column in `label_column`.
    """

    code = "VF564"
    severity = "error"
    title = "a column that holds no labels"

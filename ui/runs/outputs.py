"""What a run made that a person goes on with, models and tables, and the code that does so. Draws nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.declare.dataset_type import Dataset
from engine.declare.datasets import Predictions, Report, TrainedModel, VolumeDelta, VolumeFiles, VolumeParquet
from engine.declare.volume_spec import words_of
from engine.history.details import Details
from engine.storage import is_url
from engine.text import safe
from engine.tracking.description import wires_of
from engine.viewing.info import has_view

_KERAS_MODEL, _MLFLOW_MODEL = "model.keras", "mlflow_model"
_ORDER = (Predictions, TrainedModel, Report, VolumeDelta, VolumeParquet)
"""What one wants to see first of a run."""


@dataclass(frozen=True)
class Made:
    """A dataset that a node of the run made, or found made; `made_from` is what the node was given, by port."""

    node: str
    port: str
    title: str
    """Of the node, with the port in brackets where it has several."""
    dataset: Dataset
    made_from: Mapping[str, Dataset]


def made_in(details: Details) -> list[Made]:
    """All that the run's nodes made, in the order of the plan."""
    outputs = {task.node: task.outputs for task in details.tasks}
    wires: dict[str, dict[str, Dataset]] = {}
    for edge in wires_of(details.pipeline, details.plan):
        given = outputs.get(edge.source_node, {}).get(edge.source_port)
        if given is not None:
            wires.setdefault(edge.target_node, {})[edge.target_port] = given
    names = details.names
    return [
        Made(
            task.node,
            port,
            names.get(task.node, task.node) + (f" ({safe(port)})" if len(task.outputs) > 1 else ""),
            dataset,
            wires.get(task.node, {}),
        )
        for task in details.tasks
        for port, dataset in task.outputs.items()
    ]


def models(found: Sequence[Made]) -> list[Made]:
    """Models, the last one first."""
    return [made for made in reversed(found) if isinstance(made.dataset, TrainedModel)]


def tables(found: Sequence[Made]) -> list[Made]:
    """Tables that other programs read, the last one first."""
    return [m for m in reversed(found) if isinstance(m.dataset, (VolumeDelta, VolumeParquet, Predictions))]


def pictured(found: Sequence[Made]) -> list[Made]:
    """What can be looked at, what one wants to see first at the beginning: predictions, models, reports, tables."""

    def rank(made: Made) -> int:
        return next((at for at, kind in enumerate(_ORDER) if isinstance(made.dataset, kind)), len(_ORDER))

    return sorted((made for made in reversed(found) if has_view(made.dataset)), key=rank)


def asked_file(found: Sequence[Made]) -> str:
    """What stands for a person's own file in commands and code: volume.npy; FILE where theirs have another format."""
    others = (m for m in found if isinstance(m.dataset, VolumeFiles) and m.dataset.format not in ("npy", "rows"))
    return "volume.npy" if next(others, None) is None else "FILE"


def predict_line(run_id: str, node: str, file: str, *, several: bool) -> str:
    """The command that asks the model about files; `several`: other nodes of the run made models too."""
    return f"voxelflow predict {run_id} {f'--node {node} ' if several else ''}{file}"


def model_code(model: TrainedModel, file: str = "volume.npy") -> str:
    """Python code that asks the model about a volume: by its framework where that is all, else as the command does."""
    folder, spec = model.uri, model.spec
    # Another framework's model has neither. One in object storage cannot be looked at here, and MLflow reads it there.
    by_keras, by_mlflow = Path(folder, _KERAS_MODEL).is_file(), is_url(folder) or Path(folder, _MLFLOW_MODEL).is_dir()
    if not is_url(folder) and (spec.transforms or file != "volume.npy" or not (by_keras or by_mlflow)):
        how = f", after {safe(words_of(spec.transforms))}" if spec.transforms else ""
        return "\n".join(
            [
                "from pathlib import Path",
                "",
                "from nodes.prediction.few_files import ask",
                "",
                f"# Volumes as they are in their files{how}, as `voxelflow predict` does",
                f"asked = ask(Path({folder!r}), [Path({file!r})])",
                "for answer in asked.answers:",
                "    print(answer.file, answer.error or answer.name, dict(answer.scores))",
            ]
        )
    # As in nodes/training: three axes have one channel, further axes are channels.
    axes = (*spec.shape, 1) if len(spec.shape) == 3 else spec.shape
    module, load = (
        ("keras", f"keras.saving.load_model({f'{folder}/{_KERAS_MODEL}'!r}, compile=False)")
        if by_keras
        else ("mlflow", f"mlflow.pyfunc.load_model({f'{folder}/{_MLFLOW_MODEL}'!r})")
    )
    lines = [
        f"import {module}",
        "import numpy as np",
        "",
        f"model = {load}",
        f"volume = np.load({file!r}).reshape({axes!r})  # a file of shape {spec.shape!r}",
        # Keras would draw a progress bar into the answer.
        f"print(model.predict(volume[np.newaxis]{', verbose=0' if by_keras else ''}))",
    ]
    if spec.transforms:
        lines.append(f"# a volume must have gone through {safe(words_of(spec.transforms))} before")
    if spec.classes:
        lines.append(f"# the probabilities of {', '.join(map(repr, spec.classes[:12]))}")
    return "\n".join(lines)


def table_code(table: Dataset) -> dict[str, str]:
    """By program, the code that reads the table: pandas, Spark, DuckDB, and Voxelflow in batches, first for a part.

    Other programs read all rows of a table, also where the dataset is a part of it: they say so.
    """
    uri = table.uri
    columns = ["id", "predicted", "class", "scores"] if isinstance(table, Predictions) else ["id", "label"]
    if isinstance(table, VolumeParquet) and not table.labelled:
        columns.remove("label")  # files of other programs may have no such column
    listed = ", ".join(f'"{name}"' for name in columns)
    version = table.version if isinstance(table, (VolumeDelta, Predictions)) else None
    if version is None:
        files = f"{uri.rstrip('/')}/**/*.parquet"
        return {
            "pandas": f"import pandas as pd\n\nframe = pd.read_parquet({uri!r}, columns=[{listed}])\nprint(frame)",
            "Spark": "\n".join(
                [
                    "from pyspark.sql import SparkSession",
                    "",
                    "spark = SparkSession.builder.getOrCreate()",
                    f'frame = spark.read.option("recursiveFileLookup", "true").parquet({uri!r}).select({listed})',
                    "frame.show()",
                ]
            ),
            "DuckDB": f"SELECT {', '.join(columns)} FROM read_parquet({_quoted(files)});",
        }
    pandas = [
        "from deltalake import DeltaTable",
        "",
        f"table = DeltaTable({uri!r}, version={version})",
        f"frame = table.to_pyarrow_dataset().to_table([{listed}]).to_pandas()",
        "print(frame)",
    ]
    if isinstance(table, VolumeDelta) and table.spec is not None:
        dtype, shape = table.spec.dtype, table.spec.shape
        pandas += [
            "",
            "# one volume as an array",
            "import numpy as np",
            "",
            'row = table.to_pyarrow_dataset().head(1, columns=["volume"])',
            f'volume = np.frombuffer(row["volume"][0].as_py(), "{dtype}").reshape({shape!r})',
            "print(volume.shape, volume.dtype)",
        ]
    spark = [
        "# in a session that has Delta Lake, such as that of a notebook on Databricks",
        f'frame = spark.read.format("delta").option("versionAsOf", {version}).load({uri!r}).select({listed})',
        "frame.show()",
    ]
    duckdb = [
        "INSTALL delta; LOAD delta;",
        f"ATTACH {_quoted(uri)} AS volumes (TYPE delta, VERSION {version});",
        f"SELECT {listed} FROM volumes;",
    ]
    code = {"pandas": "\n".join(pandas), "Spark": "\n".join(spark), "DuckDB": "\n".join(duckdb)}
    if not isinstance(table, VolumeDelta):
        return code
    if not table.selections:
        return {**code, "Voxelflow": _loading(table)}
    for program, sign in (("pandas", "#"), ("Spark", "#"), ("DuckDB", "--")):
        code[program] = f"{sign} {whole_table(table)}\n{code[program]}"
    return {"Voxelflow": _loading(table), **code}


def whole_table(table: VolumeDelta) -> str:
    """That other programs read more than a part of a table."""
    return f"Other programs read all {table.count:,} rows of the table: Voxelflow alone reads the part"


def _loading(table: VolumeDelta) -> str:
    return "\n".join(
        [
            "import voxelflow",
            "",
            f"data = voxelflow.VolumeDelta.model_validate_json({table.model_dump_json()!r})",
            "# Volumes without a label are left out.",
            "with voxelflow.load(data, batch_size=32, training=False) as batches:",
            "    for batch in batches:",
            "        print(batches.ids(batch.rows), batch.volumes.shape, batch.labels)",
        ]
    )


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


@dataclass(frozen=True)
class ModelFile:
    """A file in a model's folder, its name below it, its bytes."""

    name: str
    path: Path
    bytes: int


def model_files(model: TrainedModel) -> list[ModelFile]:
    """The files of a model, by name, without hidden ones; none when its folder is elsewhere or gone."""
    if is_url(model.uri):
        return []
    folder = Path(model.uri)
    out = []
    try:
        for path in sorted(folder.iterdir()):
            # Hidden ones are the record of the result, which is of no use elsewhere.
            if path.is_file() and not path.name.startswith("."):
                out.append(ModelFile(path.name, path, path.stat().st_size))
    except OSError:
        return out
    return out

"""Small volume datasets of every kind, made without the nodes that make them in earnest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from engine.declare.datasets import Dataset, VolumeDelta, VolumeFiles, VolumeParquet, VolumeSpec
from engine.storage import manifest
from nodes.testing.loader import Labels, LoaderConformance, Volumes, labels_for, some_volumes
from nodes.volume_file.join import template
from nodes.volume_file.layout import properties, schema, writer_options
from nodes.volume_file.parts import Part, Parts, write_parts
from nodes.volume_file.write import PlainFile

__all__ = ["Labels", "Volumes", "labels_for", "some_volumes"]


def spec_for(volumes: Volumes) -> VolumeSpec:
    first = next(iter(volumes.values()))
    return VolumeSpec(shape=first.shape, dtype=first.dtype.name)


def write_file(
    path: Path, volumes: Volumes, labels: Labels, *, group: int = 4, nullable: bool = False, **options: Any
) -> None:
    """One Parquet file in the volume layout; `options` change what the writer is given."""
    spec = spec_for(volumes)
    fields = schema(spec)
    if nullable:
        fields = pa.schema([field.with_nullable(True) for field in fields], metadata=fields.metadata)
    table = pa.table(
        {
            "id": list(volumes),
            "label": pa.array([labels.get(volume_id) for volume_id in volumes], pa.float32()),
            "volume": pa.array([np.ascontiguousarray(v).tobytes() for v in volumes.values()], pa.binary()),
        },
        schema=fields,
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    with pq.ParquetWriter(path, fields, **(writer_options() | options)) as writer:
        writer.write_table(table, row_group_size=group)


def write_own_file(path: Path, volumes: Volumes, labels: Labels, *, group: int = 4) -> None:
    """The same by Voxelflow's own writer: each volume has a page of its own."""
    spec = spec_for(volumes)
    path.parent.mkdir(parents=True, exist_ok=True)
    out = PlainFile(path, template(schema(spec), writer_options()), spec.volume_bytes, group)
    for volume_id, volume in volumes.items():
        out.buffer()[:] = np.frombuffer(np.ascontiguousarray(volume).tobytes(), np.uint8)
        out.keep(volume_id, labels[volume_id])
    out.finish()


def parts_of(volumes: Volumes, size: int) -> list[dict[str, NDArray[Any]]]:
    ids = list(volumes)
    return [{i: volumes[i] for i in ids[at : at + size]} for at in range(0, len(ids), size)]


def make_delta(
    folder: Path, volumes: Volumes, labels: Labels, *, rows: int = 9, own: bool = False, **options: Any
) -> VolumeDelta:
    """A Delta table with files of `rows` rows; a folder name with a blank, as people have them."""
    from deltalake import DeltaTable, convert_to_deltalake

    root = folder / "a table"
    for number, part in enumerate(parts_of(volumes, rows)):
        (write_own_file if own else write_file)(root / f"part {number}.parquet", part, labels, **options)
    convert_to_deltalake(str(root))
    DeltaTable(str(root)).alter.set_table_properties(properties(spec_for(volumes)), raise_if_not_exists=False)
    return reference(root, volumes)


def make_surveys(folder: Path, count: int, shape: tuple[int, ...], **means: float) -> VolumeDelta:
    """A Delta table of `count` patches, of the surveys by turns; the values of each are about its mean."""
    random = np.random.default_rng(11)
    volumes = {
        f"{name}/x{number:05d}-y00000-z00000": random.normal(mean, 9, shape).astype(np.float32)
        for number in range(count // len(means))
        for name, mean in means.items()
    }
    return make_delta(folder, volumes, labels_for(volumes), own=True)


def reference(root: Path, volumes: Volumes) -> VolumeDelta:
    """The newest version of the table."""
    from deltalake import DeltaTable

    table = DeltaTable(str(root))
    return VolumeDelta(
        uri=str(root),
        count=len(volumes),
        bytes=0,
        spec=spec_for(volumes),
        version=table.version(),
        data_version=0,
        files=len(table.file_uris()),
    )


def compact(dataset: VolumeDelta, volumes: Volumes, *, group: int = 6) -> VolumeDelta:
    """The same rows in other files and row groups."""
    from deltalake import ColumnProperties, DeltaTable, WriterProperties

    plain = WriterProperties(
        compression="UNCOMPRESSED",
        max_row_group_size=group,
        default_column_properties=ColumnProperties(dictionary_enabled=False),
    )
    DeltaTable(dataset.uri).optimize.compact(writer_properties=plain)
    return reference(Path(dataset.uri), volumes)


def make_parquet(folder: Path, volumes: Volumes, labels: Labels, *, rows: int = 9, **options: Any) -> VolumeParquet:
    root = folder / "parquet"
    parts = []
    for number, part in enumerate(parts_of(volumes, rows)):
        path = root / f"part-{number}.parquet"
        write_file(path, part, labels, **options)
        stat = path.stat()
        parts.append(
            Part(
                path=path.name,
                rows=len(part),
                bytes=stat.st_size,
                mtime_ns=stat.st_mtime_ns,
                labelled=sum(labels[i] is not None for i in part),
                id_min=min(part),
                id_max=max(part),
            )
        )
    write_parts(Parts(parts=tuple(parts)), root / "parts.json")
    return VolumeParquet(
        uri=str(root),
        count=len(volumes),
        bytes=sum(part.bytes for part in parts),
        spec=spec_for(volumes),
        manifest=str(root / "parts.json"),
        found=len(volumes),
    )


def make_listed_parquet(folder: Path, volumes: Volumes, labels: Labels, *, rows: int = 9) -> VolumeParquet:
    """The same files before any run: they are listed, and their volumes not counted yet."""
    made = make_parquet(folder, volumes, labels, rows=rows)
    listing = folder / "parquet.arrow"
    manifest.write(manifest.list_folder(Path(made.uri), ("**/*.parquet",)), listing)
    return made.model_copy(update={"manifest": str(listing), "count": 0, "found": 0})


def make_files(folder: Path, volumes: Volumes, labels: Labels) -> VolumeFiles:
    """A folder of `.npy` files with a `labels.csv`."""
    root = folder / "files"
    for volume_id, volume in volumes.items():
        path = root / volume_id
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, volume)
    lines = [f"{i},{'' if labels[i] is None else labels[i]}" for i in volumes]
    (root / "labels.csv").write_text("\n".join(["file,label", *lines]) + "\n", encoding="utf-8")
    listing = folder / "files.arrow"
    manifest.write(manifest.list_folder(root, ("**/*.npy",)), listing)
    return VolumeFiles(uri=str(root), count=len(volumes), bytes=0, spec=spec_for(volumes), manifest=str(listing))


class DeltaLoaderConformance(LoaderConformance):
    """The laws of loaders on a Delta table in the volume layout."""

    loader = "arrow"

    def make(self, folder: Path, volumes: Volumes, labels: Labels) -> Dataset:
        return make_delta(folder, volumes, labels)

    def rewrite(self, dataset: Dataset, volumes: Volumes) -> Dataset:
        assert isinstance(dataset, VolumeDelta)
        return compact(dataset, volumes)


def flip_a_bit(file: Path, column: str) -> None:
    """In the last value of the first row group of a Parquet file."""
    group = pq.read_metadata(file).row_group(0)
    chunks = (group.column(number) for number in range(group.num_columns))
    chunk = next(each for each in chunks if each.path_in_schema.partition(".")[0] == column)
    content = bytearray(file.read_bytes())
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    content[start + chunk.total_compressed_size - 1] ^= 1
    file.write_bytes(content)

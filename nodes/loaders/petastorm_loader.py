"""The petastorm loader: the real package reads, this module gives its rows a fixed order and a state.

petastorm shuffles row groups; the rows of several of them are mixed in windows (`windows`), and
each worker takes its slice of every global batch. It has no state of its own: going on in the middle
of an epoch reads that epoch again from its start and drops what was given out before. That is exact,
and costs the time of reading it. It reads about a tenth as fast as the arrow loader.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from engine.declare.datasets import VolumeDelta, VolumeParquet
from engine.errors import DataError
from nodes.loaders.data_files import FileAccess, data_files, join_rows, read_files
from nodes.loaders.interface import Batch, Loader, Reading, Source
from nodes.loaders.rows import RowNumbers
from nodes.loaders.windows import Chunk, batches_from

if TYPE_CHECKING:
    from engine.declare.datasets import VolumeSpec
    from nodes.loaders.rows import Rows


def open_petastorm(dataset: VolumeDelta | VolumeParquet, *, cores: int, verify: bool = True) -> Source:
    """Open a table. `verify`: compare each page with its checksum, where it has one.

    Raises `UnsupportedTable` or `DataError` for one that would be read wrongly.
    """
    found = data_files(dataset)
    files = list(read_files(found.paths, index_bytes=None, threads=max(2, cores), access=found.access, said=found.said))
    groups = tuple(length for file in files for length in file.groups)
    rows = join_rows(files, dataset.uri, found.access)
    return PetastormSource(dataset.uri, found.spec, rows, found.paths, groups, found.access, verify=verify)


class PetastormSource(Source):
    """A table whose volumes petastorm reads."""

    name = "petastorm"
    read_path = "streamed"
    order_survives_rewrite = False

    def __init__(
        self,
        where: str,
        spec: VolumeSpec,
        rows: Rows,
        paths: Sequence[str],
        groups: tuple[int, ...],
        access: FileAccess,
        *,
        verify: bool,
    ) -> None:
        super().__init__(where, spec, rows)
        self.paths, self.access, self.verify = paths, access, verify
        self._groups = groups
        self.encoded_ids = np.array([volume_id.encode() for volume_id in rows.ids.to_pylist()], np.bytes_)

    @property
    def order_identity(self) -> str:
        layout = hashlib.blake2b(repr(self._groups).encode() + self.rows.stored.tobytes(), digest_size=16).hexdigest()
        return f"by-petastorm {self.rows.identity()} {layout}"

    def loader(self, chosen: RowNumbers, reading: Reading) -> Loader:
        return PetastormLoader(self, chosen, reading)

    def numbers(self, ids: np.ndarray) -> RowNumbers:
        """Row numbers of some ids. Raises `DataError` for one that the table did not have when it was opened."""
        encoded = np.char.encode(ids, "utf-8")
        found = np.searchsorted(self.encoded_ids, encoded)
        known = self.encoded_ids[np.minimum(found, len(self.encoded_ids) - 1)] == encoded
        if not known.all():
            raise DataError(
                f"{self.where} has the volume {ids[int(known.argmin())]}, which it did not have when it was opened",
                hint="A file of it was replaced meanwhile. Run it again.",
            )
        return found.astype(np.int64)


class PetastormLoader(Loader):
    """Batches from petastorm's row groups, shuffled in windows."""

    source: PetastormSource

    def _read(self, seed: int, epoch: int, first: int) -> Iterator[Batch]:
        chunks = self._chunks(seed, epoch)
        return batches_from(self, chunks, begins_at=0, seed=seed, epoch=epoch, first=first)

    def _chunks(self, seed: int, epoch: int) -> Iterator[Chunk]:
        from nodes.loaders.petastorm_bridge import open_reader

        source, size = self.source, self.source.spec.volume_bytes
        chosen = np.zeros(len(source.rows), bool)
        chosen[self.chosen] = True
        # petastorm takes a positive 32-bit seed.
        draw = int(np.random.SeedSequence([seed % 2**64, epoch]).generate_state(1)[0])
        # One worker: with more, which row group comes first is a race in petastorm's thread pool.
        reader = open_reader(
            source.paths,
            ("id", "volume"),
            seed=1 + draw % (2**31 - 1),
            shuffle=self.reading.training,
            workers=1,
            access=source.access,
            verify=source.verify,
            where=source.where,
        )
        try:
            for group in reader:
                rows = source.numbers(group.id)
                keep = chosen[rows]
                volumes = [volume for volume, wanted in zip(group.volume, keep, strict=True) if wanted]
                if any(len(volume) != size for volume in volumes):
                    raise DataError(
                        f"{source.where} holds volumes that are not {size:,} bytes long",
                        hint="All volumes of a table have one shape and type. Make the table again.",
                    )
                data = np.frombuffer(b"".join(volumes), np.uint8).reshape(len(volumes), size)
                yield Chunk(rows[keep], data)
        finally:
            reader.stop()
            reader.join()

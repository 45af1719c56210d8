"""Types of the parameters of nodes that write files of volumes: limits, unit and help stand here once.

Such a field stands where the node's form wants it: `target_file_mb: TargetFileMB = TARGET_FILE_MB`. Importing this
imports neither NumPy nor Arrow.
"""

from __future__ import annotations

from typing import Annotated, Literal

from engine.declare.parameters import Advanced, Help, Policy, Range, Unit

MB = 1_000_000
"""Bytes in one MB of `TargetFileMB`."""
TARGET_FILE_MB = 78
"""650,000 volumes of 360 kB then make 3,000 files: the layout of the reference whitepaper."""

TargetFileMB = Annotated[int, Range(1, 4096), Unit("MB"), Help("size of a Parquet file.")]
Compression = Annotated[
    Literal["none", "zstd", "lz4"], Help("makes reading 3-10 times slower; use it only when storage cost matters.")
]
RowGroupRows = Annotated[int, Range(1, 100_000), Advanced(), Help("rows that are read together.")]
Threads = Annotated[int, Range(0, 256), Policy(), Advanced()]
"""How many there are side by side, 0 for the machine's cores. What they do is for the node's own help to say."""

"""A worker of a measurement whose `.npy` files come late, as from a far network drive: each read waits so long.

`python -m benchmarks.slow_files MILLISECONDS PLAN FOLDER RANK PIPE` is `nodes.profiling.worker` otherwise.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any


def main(milliseconds: str, *arguments: str) -> None:
    from nodes.loaders import npy_loader
    from nodes.profiling import worker

    read, delay_s = npy_loader.load_npy, float(milliseconds) / 1000

    def late(path: Path) -> Any:
        time.sleep(delay_s)
        return read(path)

    npy_loader.load_npy = late
    worker.main(*arguments)


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Peak memory of the three storage nodes for a growing number of files.

    python tests/benchmarks/storage_memory.py --counts 2000 20000 [--shape 30,30,10,10] [--folder DIR]

Makes synthetic volumes, then runs each node as a run does, in a process of its own, and prints the
process's peak resident memory and, between two counts, what a further file costs. Data memory is
bounded by row groups; only metadata may grow with the number of files.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

NODES = {
    "NumpyToParquet": ("files", {"target_file_mb": 20}),
    "ParquetToDelta": ("parquet", {}),
    "OptimizeDelta": ("table", {"target_file_mb": 78}),
}


def run_node(name: str, port: str, source: dict[str, Any] | None, params: dict[str, Any], folder: Path) -> None:
    """Child: run one node; print its output reference and the peak memory in bytes."""
    import voxelflow
    from engine.context import Resources, TaskContext
    from engine.datasets import dataset_from_json

    context = TaskContext(
        run_id="benchmark",
        node_id=name,
        fingerprint=name.ljust(32, "0"),
        out=folder / name / "out",
        shared=folder / name,
        scratch=folder / name / "scratch",
        resources=Resources(cores=2),
    )
    for path in (context.out, context.shared, context.scratch):
        path.mkdir(parents=True, exist_ok=True)
    node_type = voxelflow.catalog().find(name)
    assert node_type is not None
    values = {p.name: p.default for p in node_type.parameters if not p.required} | params
    inputs = {port: dataset_from_json(source)} if source else {}
    out = node_type.function(**inputs, **values, ctx=context)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"out": out.model_dump(mode="json"), "peak": peak}))


def child(name: str, port: str, source: dict[str, Any] | None, params: dict[str, Any], folder: Path) -> dict[str, Any]:
    arguments = json.dumps([name, port, source, params, str(folder)])
    done = subprocess.run([sys.executable, __file__, "--child", arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--counts", type=int, nargs="+", default=[2000, 20000])
    parser.add_argument("--shape", default="30,30,10,10")
    parser.add_argument("--folder", type=Path, help="where to put the data (default: a temporary folder)")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        name, port, source, params, folder = json.loads(args.child)
        run_node(name, port, source, params, Path(folder))
        return
    shape = [int(n) for n in args.shape.split(",")]
    peaks: dict[str, list[int]] = {name: [] for name in NODES}
    for count in args.counts:
        with tempfile.TemporaryDirectory(dir=args.folder) as name:
            folder = Path(name)
            made = child("SyntheticVolumes", "", None, {"count": count, "shape": shape}, folder)
            source = made["out"]
            for node, (port, params) in NODES.items():
                found = child(node, port, source, params, folder)
                source = found["out"]
                peaks[node].append(found["peak"])
                print(f"{count:>9,} files  {node:<15} {found['peak'] / 1e6:8.1f} MB", flush=True)
    for node, values in peaks.items():
        for (few, low), (many, high) in zip(
            zip(args.counts, values, strict=True), list(zip(args.counts, values, strict=True))[1:], strict=False
        ):
            print(f"{node:<15} {few:,} -> {many:,} files: {(high - low) / (many - few):8.0f} bytes a further file")


if __name__ == "__main__":
    main()

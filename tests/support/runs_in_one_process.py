"""A program that runs a pipeline again and again, all in its own process: a small disk that it is given holds it back.

python runs_in_one_process.py WORKSPACE STORAGE DOCUMENT    reads names of nodes, a line each; runs the pipeline up to
                                                            each of them and prints how that ended, a JSON line each
"""

from __future__ import annotations

import json
import sys
from contextlib import redirect_stdout
from pathlib import Path

from in_process import in_process

import voxelflow
from engine.document.pipeline import read_pipeline
from engine.document.plan import Choice
from engine.errors import VoxelflowError
from engine.profiles import Profile
from engine.run import launch
from engine.store.runs import RunStore
from engine.workspace import open_workspace
from tests.torture.warm import prepare


def main(root: Path, storage: Path, document: Path) -> None:
    prepare()
    workspace = open_workspace(root)
    catalog, store = voxelflow.catalog(workspace), RunStore(workspace)
    profile = Profile(name="small", cores=2, memory_bytes=1 << 30, parallel_tasks=1, storage_root=storage)
    pipeline = read_pipeline(document)
    answers = sys.stdout
    with in_process(catalog), redirect_stdout(sys.stderr):
        for node in sys.stdin:
            choice = Choice(start=node.strip(), end=node.strip())
            try:
                run_id, _ = launch.start(pipeline, catalog, workspace, store, profile=profile, choice=choice)
                run = store.run(run_id)
                answer = [run.state, run.error]
            except VoxelflowError as exc:
                answer = ["refused", exc.line()]
            print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))

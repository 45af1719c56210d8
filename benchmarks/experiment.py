"""The whitepaper's experiment as a person runs it: the pipeline whitepaper-experiment on volumes in object storage.

Volumes are made and uploaded to Azurite on loopback, where a proxy holds back each request (`--delay-ms`), or to a
place of your own (`--place`). Then `voxelflow run` trains the same network from the `.npy` objects one by one, from the
optimised Delta table, by petastorm, and from TFRecord files (`benchmarks/tfrecord.py`), and CompareTrainings
makes the tables, the pictures and the page. Run it on a machine with a GPU too, and give the folder with its
`experiment-comparison.json` as `--others`: its rows are joined.

A round is all of it once, some minutes; the page is that of the median round (`--rounds`, default: 1).
On loopback each byte is counted twice as network traffic: from Azurite to the proxy, and from there.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.data import SourceFiles, add_data_options, make, shape_of
from benchmarks.race import ROOT
from benchmarks.reports import Report, Table

if TYPE_CHECKING:
    from engine.document.pipeline import Pipeline
    from nodes.comparison.comparison import Comparison

MACHINE = "Standard_D4s_v5@eastus"
_FILES = ("comparison.html", "comparison.json", "comparison.md", "epochs.png", "curves.png")


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(rounds=1)
    add_data_options(parser, 320)
    parser.add_argument("--epochs", type=int, default=5, help="as in the whitepaper (default: 5)")
    parser.add_argument("--batch", type=int, default=32, help="volumes in a step, as in the whitepaper (default: 32)")
    parser.add_argument("--steps", type=int, default=0, help="end each epoch after so many steps (default: all)")
    parser.add_argument("--width", type=int, default=64, help="filters of the first stage; 64 is ResNet-18 (default)")
    parser.add_argument("--delay-ms", type=float, default=20, help="added to each request to Azurite (default: 20)")
    parser.add_argument("--place", default="", help="in storage of your own, such as az://container/folder")
    parser.add_argument("--others", default="", help="folder with comparison.json files of other machines")
    parser.add_argument(
        "--machine", default=MACHINE, help=f"whose price is taken; `voxelflow prices` (default: {MACHINE})"
    )


def run(options: argparse.Namespace, folder: Path) -> Report:
    from benchmarks.pipelines import Benchwork
    from benchmarks.tfrecord import NODES
    from nodes.comparison.comparison import Comparison
    from nodes.comparison.record import read_trainings

    source = make(folder / "volumes", options.volumes, shape_of(options.shape), options.seed)
    found: list[tuple[Path, Comparison]] = []
    with _storage(options, source) as (url, note):
        work = Benchwork(folder / "workspace", more_nodes=NODES)
        mark = work.workspace.root / "workspace.json"
        places = [url, *([os.path.abspath(options.others)] if options.others else [])]
        mark.write_text(json.dumps(json.loads(mark.read_text()) | {"data_roots": places}))
        profile = f'[experiment]\nmachine = "{options.machine}"\n'
        (work.workspace.root / "profiles.toml").write_text(profile)
        os.environ["PYTHONPATH"] = str(ROOT)  # its nodes import this package
        for number in range(options.rounds):
            ran = work.run(document(options, url, note, number), profile="experiment")
            made = Path(ran.out("compare").uri).parent
            found.append((made, Comparison(read_trainings(made / "comparison.json"))))
        work.close()
    made, comparison = _middle(found)
    options.out.mkdir(parents=True, exist_ok=True)
    for name in _FILES:
        shutil.copy(made / name, options.out / f"experiment-{name}")
    tables = [Table(table.title, table.columns, table.rows) for table in comparison.tables()]
    if options.rounds > 1:
        tables.append(_rounds([each for _, each in found]))
    price = f"Costs are at the price of {options.machine}, whatever this machine is: compare their ratios."
    return Report("experiment", tables=tables, notes=[*comparison.headline(), *comparison.notes(), price])


def _middle(found: list[tuple[Path, Comparison]]) -> tuple[Path, Comparison]:
    """The round in which the table's ratio to the files is the median, the lower one of two."""

    def ratio(one: tuple[Path, Comparison]) -> float:
        table = next(training for training in one[1].trainings if training.loader == "arrow")
        return one[1].ratio(table) or 0.0

    return sorted(found, key=ratio)[(len(found) - 1) // 2]


def _rounds(comparisons: list[Comparison]) -> Table:
    """What each round gave: on a machine that others use too, one round says little."""
    rows: dict[str, list[tuple[float, float, float]]] = {}
    for comparison in comparisons:
        for training in comparison.trainings:
            values = (training.volumes_per_s, comparison.ratio(training), training.waiting_share)
            if None not in values:
                rows.setdefault(comparison.title(training), []).append(values)  # type: ignore[arg-type]
    columns = ("", "volumes/s of each round", "ratio: median, least to most", "waiting for data")
    return Table(
        f"{len(comparisons)} rounds",
        columns,
        [
            (
                title,
                ", ".join(f"{rate:.3g}" for rate, _, _ in each),
                "{:.2f}, {:.2f} to {:.2f}".format(*_spread([ratio for _, ratio, _ in each])),
                "{:.0%}, {:.0%} to {:.0%}".format(*_spread([share for _, _, share in each])),
            )
            for title, each in rows.items()
        ],
    )


def _spread(values: list[float]) -> tuple[float, float, float]:
    return statistics.median(values), min(values), max(values)


@contextmanager
def _storage(options: argparse.Namespace, source: SourceFiles) -> Iterator[tuple[str, str]]:
    """The URL below which the volumes have been put, and what to say of it."""
    if options.place:
        yield _upload(source, options.place), "an account of our own"
        return
    from object_stores import azurite
    from slow_network import delayed

    with azurite() as store:
        os.environ |= store.environment
        url = _upload(source, store.make_container("experiment"))
        with delayed(store, options.delay_ms) as far:
            os.environ |= far.environment
            yield url, f"Azurite on the same machine, {options.delay_ms:g} ms added to each request"


def _upload(source: SourceFiles, url: str) -> str:
    from engine.storage.objects import RemotePath

    for path in (*source.paths, source.folder / "labels.csv"):
        (RemotePath.at(url) / "volumes" / path.name).upload(path)
    return url


def document(options: argparse.Namespace, url: str, note: str, number: int) -> Pipeline:
    """The shipped pipeline with its parameters, and the branch that goes through TFRecord files.

    Of another round (`number`) all but the listing and the Parquet files is made anew.
    """
    from engine.document.find import shipped_pipelines
    from engine.document.pipeline import Edge, Node, read_pipeline
    from engine.run.launch import with_values

    shipped = read_pipeline(shipped_pipelines()["whitepaper-experiment"])
    training = next(node for node in shipped.nodes if node.id == "train_files")
    more = (
        Node(id="records", type="ToTFRecord", params={"place": f"{url}/records-{number}"}),
        Node(id="train_tfrecord", type="TrainTFRecord", params={**training.params, "loader": "arrow"}),
    )
    wires = ("then.out>records.files", "records.out>train_tfrecord.data", "train_tfrecord.out>compare.tfrecord")
    edges = (Edge.model_validate(dict(zip(("from", "to"), wire.split(">"), strict=True))) for wire in wires)
    whole = shipped.model_copy(update={"nodes": (*shipped.nodes, *more), "edges": (*shipped.edges, *edges)})
    values = {
        "data": f"{url}/volumes",
        "table": f"{url}/table-{number}",
        "epochs": options.epochs,
        "batch_size": options.batch,
        "steps": options.steps,
        "width": options.width,
        "others": os.path.abspath(options.others) if options.others else "",
        "note": note,
    }
    return with_values(whole, values)

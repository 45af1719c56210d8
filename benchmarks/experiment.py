"""The whitepaper's experiment as a person runs it: the pipeline whitepaper-experiment on volumes in object storage.

Volumes are made and uploaded to Azurite on loopback, where a proxy holds back each request (`--delay-ms`), or to a
place of your own (`--place`). Then `voxelflow run` trains the same network from the `.npy` objects one by one, from the
optimised Delta table, by petastorm, and from TFRecord files (`benchmarks/tfrecord.py`), and CompareTrainings
makes the tables, the pictures and the page. Run it on a machine with a GPU too, and give the folder with its
`experiment-comparison.json` as `--others`: its rows are joined.

A round is all of it once, some minutes; the page is that of the median round (`--rounds`, default: 1). Each training
that has finished is printed at once and kept in `experiment-cells.json`, which also names those that are missing.
The proxy counts the requests of each training; the costs have them at the shipped price of Azure's storage. Of a place
of your own they are not counted.
On loopback each byte is counted twice as network traffic: from Azurite to the proxy, and from there.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.counted_requests import Requests, counted, requests_between
from benchmarks.data import SourceFiles, add_data_options, make, shape_of
from benchmarks.race import ROOT
from benchmarks.reports import Report, Table, keep, show

if TYPE_CHECKING:
    from engine.document.pipeline import Pipeline
    from engine.prices.storage import StoragePrice
    from engine.store.runs import RunStore, Task
    from engine.workspace import Workspace
    from nodes.comparison.comparison import Comparison
    from nodes.comparison.record import Training

MACHINE = "Standard_D4s_v5@eastus"
CELLS = "experiment-cells.json"
TRAININGS = {
    "files": "train_files",
    "table": "train_table",
    "petastorm": "train_petastorm",
    "tfrecord": "train_tfrecord",
}
"""The trainings of a round, by the port of CompareTrainings that they go to."""
_PREPARATIONS = ("convert", "table", "optimize", "records")
_LOOK_S = 1.0
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
    from engine.prices.storage import storage_table
    from nodes.comparison.comparison import Comparison
    from nodes.comparison.record import read_trainings

    source = make(folder / "volumes", options.volumes, shape_of(options.shape), options.seed)
    found: list[tuple[Path, Comparison]] = []
    options.out.mkdir(parents=True, exist_ok=True)
    cells = Cells(options.out / CELLS, options.rounds)
    price = f"Costs are at the price of {options.machine}, whatever this machine is: compare their ratios."
    with _storage(options, source, folder) as (url, note, log):
        work = Benchwork(folder / "workspace", more_nodes=NODES)
        mark = work.workspace.root / "workspace.json"
        places = [url, *([os.path.abspath(options.others)] if options.others else [])]
        mark.write_text(json.dumps(json.loads(mark.read_text()) | {"data_roots": places}))
        profile = f'[experiment]\nmachine = "{options.machine}"\n'
        (work.workspace.root / "profiles.toml").write_text(profile)
        os.environ["PYTHONPATH"] = str(ROOT)  # its nodes import this package
        storage = None if log is None else storage_table().usual("az")
        try:
            for number in range(options.rounds):
                with cells.followed(work.workspace, number, log):
                    ran = work.run(document(options, url, note, number), profile="experiment")
                made = Path(ran.out("compare").uri).parent
                found.append((made, Comparison(read_trainings(made / "comparison.json"))))
        except BaseException as exc:
            left = cells.report(storage, price)
            show(left)
            for path in keep(left, options.out, "experiment", vars(options)):
                print(f"written: {path}")
            if isinstance(exc, RuntimeError):
                raise SystemExit(f"{exc}\n{cells.said()}") from exc
            raise
        finally:
            work.close()
    made, comparison = _middle(found)
    for name in _FILES:
        shutil.copy(made / name, options.out / f"experiment-{name}")
    middle = next(number for number, (folder_of, _) in enumerate(found) if folder_of == made)
    tables = [*_tables(comparison, cells.requests(middle), storage)]
    if options.rounds > 1:
        tables.append(_rounds([each for _, each in found]))
    notes = [*comparison.headline(), *comparison.notes(), price, *requests_notes(storage), *cells.missing_note()]
    return Report("experiment", tables=tables, notes=notes)


# --- cell by cell ----------------------------------------------------------------------------------


@dataclass
class Cells:
    """The trainings that have finished, by round and node; `path` has them and the names of those that are missing."""

    path: Path
    rounds: int
    done: dict[tuple[int, str], Training] = field(default_factory=dict)
    asked: dict[tuple[int, str], Requests] = field(default_factory=dict)
    """What each finished task has asked the store, preparations too."""

    def __post_init__(self) -> None:
        self._write()

    @property
    def missing(self) -> list[tuple[int, str]]:
        wanted = ((number, node) for number in range(self.rounds) for node in TRAININGS.values())
        return [cell for cell in wanted if cell not in self.done]

    def add(self, number: int, training: Training) -> None:
        """Print and keep a training of a round."""
        self.done[number, training.node] = training
        self._write()
        rate = "no rate" if training.volumes_per_s is None else f"{training.volumes_per_s:.3g} volumes/s"
        waiting = "" if training.waiting_share is None else f", {training.waiting_share:.0%} waiting for data"
        print(f"round {number + 1}: {training.title}: {rate}{waiting}", flush=True)

    def requests(self, number: int) -> dict[str, Requests]:
        """By node, those of a round."""
        return {node: asked for (of, node), asked in self.asked.items() if of == number}

    @contextmanager
    def followed(self, workspace: Workspace, number: int, log: Path | None) -> Iterator[None]:
        """While a round runs, add what finishes; in the end what has finished since the last look."""
        from engine.store.runs import RunStore

        store, ended = RunStore(workspace), threading.Event()
        earlier = {run.run_id for run in store.runs(-1)}

        def look(strict: bool) -> None:
            for run in store.runs(1):
                if run.run_id not in earlier:
                    self._look(store, workspace, run.run_id, number, log, strict=strict)

        def follow() -> None:
            while not ended.wait(_LOOK_S):
                look(strict=False)
            store.close()  # this thread's connection

        following = threading.Thread(target=follow, daemon=True)
        following.start()
        try:
            yield
        finally:
            ended.set()
            following.join()
            try:
                look(strict=sys.exc_info()[0] is None)
            finally:
                store.close()

    def _look(
        self, store: RunStore, workspace: Workspace, run_id: str, number: int, log: Path | None, *, strict: bool
    ) -> None:
        from engine.errors import VoxelflowError

        for task in store.tasks(run_id):
            if task.state != "done" or (number, task.node) in self.done:
                continue
            known = (number, task.node) in self.asked or task.node not in (*_PREPARATIONS, *TRAININGS.values())
            if log is not None and not known:
                self.asked[number, task.node] = requests_between(log, *_span(task))
            if task.node in TRAININGS.values():
                try:
                    training = trained(workspace, run_id, task.node)
                except VoxelflowError:
                    # The run is writing what it records of the task: the next look finds it.
                    if strict:
                        raise
                    continue
                self.add(number, training)

    def _write(self) -> None:
        from engine.storage.files import write_whole

        cells = [
            {"round": number + 1, "requests": self._asked_json(number, node), "training": training.model_dump()}
            for (number, node), training in self.done.items()
        ]
        missing = [{"round": number + 1, "node": node} for number, node in self.missing]
        write_whole(self.path, json.dumps({"missing": missing, "cells": cells}, indent=1) + "\n", durable=True)

    def _asked_json(self, number: int, node: str) -> dict[str, int] | None:
        asked = self.asked.get((number, node))
        return None if asked is None else asked._asdict()

    def said(self) -> str:
        """How many there are, and where."""
        return f"{len(self.done)} of {self.rounds * len(TRAININGS)} trainings have finished: see {self.path}."

    def missing_note(self) -> list[str]:
        """A sentence with the missing ones; none where all have finished."""
        if not self.missing:
            return []
        names = ", ".join(f"{node} of round {number + 1}" for number, node in self.missing)
        return [f"Missing: {names}. {self.said()}"]

    def report(self, storage: StoragePrice | None, price: str) -> Report:
        """What an experiment that ended early has found: the last round that has finished trainings, and what is
        missing."""
        from nodes.comparison.comparison import Comparison, ordered

        tables: list[Table] = []
        if self.done:
            number = max(of for of, _ in self.done)
            comparison = Comparison(ordered(tuple(each for (of, _), each in self.done.items() if of == number)))
            tables = _tables(comparison, self.requests(number), storage)
        return Report("experiment", tables=tables, notes=[price, *requests_notes(storage), *self.missing_note()])


def trained(workspace: Workspace, run_id: str, node: str) -> Training:
    """What the run has recorded of a training that has finished.

    Raises `DataError` where that is not recorded (yet).
    """
    from nodes.comparison.measured import measured_trainings

    port = next(port for port, name in TRAININGS.items() if name == node)
    (training,) = measured_trainings(workspace, run_id, "compare", [port], "files", "")
    return training


def _span(task: Task) -> tuple[float, float]:
    return task.started or 0.0, task.ended or 0.0


# --- requests --------------------------------------------------------------------------------------


def _tables(comparison: Comparison, requests: Mapping[str, Requests], storage: StoragePrice | None) -> list[Table]:
    """The comparison's tables, its costs with those of requests, and the requests of each task of the round."""
    tables = [Table(table.title, table.columns, table.rows) for table in comparison.tables()]
    if storage is None:
        return tables
    with_requests = [_with_requests(t, comparison, requests, storage) if t.title == "Cost" else t for t in tables]
    rows = [(node, asked.reads, asked.writes, _amount(asked.cost(storage))) for node, asked in requests.items()]
    columns = ("", "reads", "writes and listings", f"{storage.currency} here")
    return [*with_requests, Table("Requests to the store", columns, rows)]


def _with_requests(
    costs: Table, comparison: Comparison, requests: Mapping[str, Requests], storage: StoragePrice
) -> Table:
    """The table of costs with what the requests of so many epochs cost, in proportion to the volumes trained with."""
    found = {comparison.title(training): training for training in comparison.trainings}
    rows: list[Sequence[Any]] = []
    for row in costs.rows:
        training = found.get(row[0])
        cost = None
        if training is not None and training.node in requests and training.trained_volumes:
            here = requests[training.node].cost(storage)
            times = comparison.volumes * comparison.epochs / training.trained_volumes
            cost = None if here is None else here * times
        rows.append((*row, _amount(cost)))
    return Table(costs.title, (*costs.columns, f"requests, {storage.currency}"), rows)


def _amount(cost: float | None) -> str:
    return "" if cost is None else f"{cost:.3g}"


def requests_notes(storage: StoragePrice | None) -> list[str]:
    """How the requests were counted and what they are priced at."""
    if storage is None:
        return ["Requests to the store were not counted: the proxy that counts them is before Azurite alone."]
    return [
        f"Requests are those that came while each task ran, checks and evaluation with them, priced as {storage.name}"
        f" (as of {storage.date}); listings are priced as writes. For all epochs they are taken as proportional to the"
        " volumes trained with. The ratios of costs leave them out."
    ]


# --- rounds ----------------------------------------------------------------------------------------


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
def _storage(options: argparse.Namespace, source: SourceFiles, folder: Path) -> Iterator[tuple[str, str, Path | None]]:
    """The URL below which the volumes have been put, what to say of it, and the log of requests, where there is one."""
    if options.place:
        yield _upload(source, options.place), "an account of our own", None
        return
    from object_stores import azurite

    log = folder / "requests.log"
    log.touch()
    with azurite() as store:
        os.environ |= store.environment
        url = _upload(source, store.make_container("experiment"))
        with counted(store, options.delay_ms, log) as far:
            os.environ |= far.environment
            yield url, f"Azurite on the same machine, {options.delay_ms:g} ms added to each request", log


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

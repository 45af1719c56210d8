"""The benchmark that does the whitepaper's experiment: its cells, its requests, their cost, what it says is missing."""

from __future__ import annotations

import argparse
import json
import os
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from measured_trainings import training
from object_stores import ObjectStore
from waiting import wait_until

from benchmarks import experiment, tfrecord
from benchmarks.__main__ import main
from benchmarks.counted_requests import Heads, Requests, counted, requests_between
from engine.catalog import build_catalog
from engine.document.checks import check
from engine.document.resolve import resolve
from engine.prices.storage import StoragePrice
from engine.workspace import Workspace, trust
from nodes import BUILT_IN
from nodes.comparison.comparison import Comparison


def test_the_whitepapers_experiment_is_the_shipped_pipeline_with_tfrecord_beside_it(workspace: Workspace) -> None:
    parser = argparse.ArgumentParser()
    experiment.add_options(parser)
    options = parser.parse_args(["--width", "16"])
    assert (options.delay_ms, options.place) == (20, "")  # Azurite, so far away, or a person's own account
    (workspace.my_nodes / "more_nodes.py").write_text(tfrecord.NODES)
    trust(workspace)
    document = experiment.document(options, "az://container/folder", "20 ms away", 1)
    resolved = resolve(document, build_catalog(BUILT_IN, workspace))
    assert not check(resolved).diagnostics
    values = {name: dict(item.params) for name, item in resolved.nodes.items()}
    assert values["volumes"]["folder"] == "az://container/folder/volumes"
    # Another round makes its own table and files.
    assert values["table"]["table"] == "az://container/folder/table-1"
    assert values["records"]["place"] == "az://container/folder/records-1"
    assert values["compare"]["note"] == "20 ms away"
    trainings = {name: values[name] for name in values if name.startswith("train_")}
    assert {name: found.pop("loader") for name, found in trainings.items()} == {
        "train_files": "npy", "train_table": "arrow", "train_petastorm": "petastorm", "train_tfrecord": "arrow",
    }  # fmt: skip
    for found in trainings.values():
        assert found == trainings["train_files"]
        assert (found["epochs"], found["batch_size"], found["steps_per_epoch"], found["width"]) == (5, 32, 0, 16)
    compared = {edge.source_node for edge in document.edges if edge.target_node == "compare"}
    assert compared == trainings.keys()


_NODES = {"npy": "train_files", "arrow": "train_table", "petastorm": "train_petastorm", "tfrecord": "train_tfrecord"}


class Struck:
    """Of two rounds of the experiment the second ends with an error once its first training has finished."""

    folder: Path
    finished: dict[str, list[str]]
    """By run, in their order; a new list for each."""

    def __init__(self, folder: Path, more_nodes: str = "") -> None:
        for name in ("workspace.json", "profiles.toml"):
            folder.mkdir(exist_ok=True)
            (folder / name).write_text("{}")
        self.workspace = SimpleNamespace(root=folder)
        Struck.finished = {}

    def run(self, document: Any, *, profile: str) -> Any:
        run_id = f"run-{len(self.finished)}"
        self.finished[run_id] = []
        if run_id == "run-1":
            self._finish(run_id, "train_files")
            raise RuntimeError("the disk is full")
        for node in _NODES.values():
            # Kept before the next one has begun.
            self._finish(run_id, node)
        made = self.workspace.root / "comparison.html"
        return SimpleNamespace(out=lambda _: SimpleNamespace(uri=str(made)))

    def _finish(self, run_id: str, node: str) -> None:
        self.finished[run_id].append(node)
        number = int(run_id[-1]) + 1
        wait_until(lambda: (number, node) in _kept(self.folder / experiment.CELLS)[0], f"{node} is kept")

    def close(self) -> None:
        pass


class StruckStore:
    def __init__(self, workspace: Any) -> None:
        pass

    def runs(self, count: int) -> Any:
        return [SimpleNamespace(run_id=run_id) for run_id in reversed(Struck.finished)][: count % 100]

    def tasks(self, run_id: str) -> Any:
        return [
            SimpleNamespace(state="done", node=node, started=0.0, ended=0.0)
            for node in ("convert", *Struck.finished[run_id])
        ]

    def close(self) -> None:
        pass


def _kept(path: Path) -> tuple[set[tuple[int, str]], set[tuple[int, str]]]:
    """The cells that have finished, and those that are missing: by round and node."""
    found = json.loads(path.read_text())
    done = {(cell["round"], cell["training"]["node"]) for cell in found["cells"]}
    return done, {(cell["round"], cell["node"]) for cell in found["missing"]}


def _trained(_: Any, run_id: str, node: str) -> Any:
    return training(next(name for name, of in _NODES.items() if of == node), run_id=run_id, node=node)


def test_each_cell_of_the_experiment_is_kept_at_once_and_the_report_says_which_are_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Struck.folder = tmp_path
    monkeypatch.setattr(experiment, "_LOOK_S", 0.01)
    monkeypatch.setattr(experiment, "make", lambda *_: None)
    monkeypatch.setattr(experiment, "_storage", lambda *_: nullcontext(("az://c", "", None)))
    monkeypatch.setattr(experiment, "document", lambda *_: None)
    monkeypatch.setattr(experiment, "trained", _trained)
    monkeypatch.setattr("benchmarks.pipelines.Benchwork", Struck)
    monkeypatch.setattr("engine.store.runs.RunStore", StruckStore)
    monkeypatch.setattr("nodes.comparison.record.read_trainings", lambda _: (training("npy"), training("arrow")))
    monkeypatch.setitem(os.environ, "PYTHONPATH", "")
    with pytest.raises(SystemExit, match=r"the disk is full\n5 of 8 trainings have finished: see .*-cells\.json"):
        main(["experiment", "--rounds", "2", "--folder", str(tmp_path), "--out", str(tmp_path)])
    done, missing = _kept(tmp_path / experiment.CELLS)
    assert done == {(2, "train_files"), *((1, node) for node in _NODES.values())}
    assert missing == {(2, node) for node in _NODES.values()} - done
    printed = capsys.readouterr().out
    assert "round 1: Train by arrow: 10 volumes/s, 60% waiting for data\n" in printed
    said = "Missing: train_table of round 2, train_petastorm of round 2, train_tfrecord of round 2."
    assert said in printed
    kept = json.loads((tmp_path / "experiment.json").read_text())
    assert any(note.startswith(said) for note in kept["notes"])
    assert kept["tables"][0]["title"] == "Time"


def test_requests_are_told_apart_however_they_are_cut() -> None:
    sent = (
        b"GET /c/a.npy HTTP/1.1\r\nHost: x\r\n\r\n"
        b"PUT /c/b HTTP/1.1\r\ncontent-length: 29\r\n\r\nGET /no HTTP/1.1\r\n\r\nDELETE /n"
        b"HEAD /c/b HTTP/1.1\r\n\r\n"
        b"GET /c?restype=container&comp=list&prefix=a HTTP/1.1\r\n\r\n"
        b"PUT /c/d HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nGET \n\r\n3;x=1\r\n\r\n!\r\n0\r\n\r\n"
        b"DELETE /c/d HTTP/1.1\r\n\r\nPOST /c?comp=batch HTTP/1.1\r\nContent-Length: 0\r\n\r\nGET /c/e HTTP/1.1\r\n\r"
    )
    wanted = ["read", "write", "read", "write", "write", "free", "write"]
    for length in (1, 2, 3, 7, 64, len(sent)):
        heads = Heads()
        pieces = (sent[at : at + length] for at in range(0, len(sent), length))
        assert [kind for piece in pieces for kind in heads.read(piece)] == wanted, length
        assert list(heads.read(b"\n")) == ["read"]


@contextmanager
def _server() -> Iterator[str]:
    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def do_PUT(self) -> None:
            self.do_GET()

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        serving = threading.Thread(target=server.serve_forever, args=(0.01,))
        serving.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        serving.join()


@pytest.mark.slow
def test_the_proxy_before_a_store_counts_requests_by_the_time_of_each(tmp_path: Path) -> None:
    log = tmp_path / "requests.log"
    log.touch()
    with _server() as endpoint, counted(ObjectStore("az", endpoint, {}), 1, log) as far:
        for method in ("GET", "PUT", "GET"):
            with urllib.request.urlopen(urllib.request.Request(f"{far.endpoint}/c/a", method=method), timeout=120):
                pass
    assert requests_between(log, 0, 1e12) == Requests(reads=2, writes=1)
    first = float(log.read_text().split()[0])
    assert requests_between(log, 0, first - 0.001) == Requests()


def test_costs_of_the_experiment_have_the_requests_for_all_epochs() -> None:
    price = StoragePrice("az", "hot", "here", 0.01, 0.1, currency="USD", date="2026-01-01")
    assert Requests(20_000, 1_000).cost(price) == pytest.approx(0.03)
    assert Requests(1, 1).cost(replace(price, per_10000_writes=None)) is None
    assert Requests(10_000, 0).cost(replace(price, per_10000_writes=None)) == 0.01
    comparison = Comparison((training("npy"), training("arrow"), training("petastorm")), volumes=1000, epochs=3)
    # 300 volumes were trained with here.
    asked = {"convert": Requests(100, 50), "train_npy": Requests(300, 0), "train_arrow": Requests(0, 30)}
    tables = {table.title: table for table in experiment._tables(comparison, asked, price)}
    assert tables["Cost"].columns[-1] == "requests, USD"
    costs = {row[0]: row[-1] for row in tables["Cost"].rows}
    assert [costs[f"CPU, {name}"] for name in ("files", "table", "petastorm")] == ["0.003", "0.003", ""]
    assert tables["Requests to the store"].rows[0] == ("convert", 100, 50, "0.0006")
    assert "Requests to the store" not in [table.title for table in experiment._tables(comparison, {}, None)]

"""An object store that drops, delays, cuts off and refuses: a table there is exact once it answers again."""

from __future__ import annotations

import contextlib
import os
import random
import select
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any

from object_stores import ObjectStore, azurite, s3_server
from outside_parts import AZURITE

from tests.torture.judge import Finding, Judge, compare, rows_in, rows_of
from tests.torture.rounds import Kind, World
from tests.torture.scene import COUNT, Answer, storage_document, whole_document

_CHUNK = 1 << 16
_TROUBLES = 0.05, 0.2, 0.5
"""Shares of the connections and requests to which something happens."""
_TRAINS = 3
"""One in so many rounds trains from the store and predicts."""


class FaultyProxy:
    """Stands between a program and a server. `trouble` is the share of connections to which something happens."""

    def __init__(self, address: str) -> None:
        host, _, port = address.partition(":")
        self._target = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.endpoint = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.trouble = 0.0
        self.hits = 0
        self._dice = random.Random(0)
        threading.Thread(target=self._accept, daemon=True).start()

    def set(self, seed: int, trouble: float) -> None:
        """Begin anew with this seed."""
        self._dice, self.trouble, self.hits = random.Random(seed), trouble, 0

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=[client], daemon=True).start()

    def _next(self) -> str:
        """What happens to the next request."""
        if self._dice.random() >= self.trouble:
            return ""
        self.hits += 1
        return self._dice.choice(("drop", "delay", "500", "503", "cut request", "cut answer", "lost answer"))

    def _serve(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError), client:
            if self._next() == "drop":
                return
            with socket.create_connection(self._target, timeout=60) as server:
                self._pass_on(client, server)

    def _pass_on(self, client: socket.socket, server: socket.socket) -> None:
        fault, begins = "", True
        while True:
            ready, _, _ = select.select([client, server], [], [], 120)
            if not ready:
                return
            if client in ready:
                data = client.recv(_CHUNK)
                if not data:
                    return
                if begins:  # of a request
                    fault, begins = self._next(), False
                    if fault in ("500", "503"):
                        # Without reading the rest, as an overloaded server does.
                        client.sendall(
                            f"HTTP/1.1 {fault} Server Busy\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode()
                        )
                        return
                    if fault == "drop":
                        return
                    if fault == "delay":
                        time.sleep(self._dice.uniform(0.05, 1.5))
                    if fault == "cut request":
                        server.sendall(data[: len(data) // 2])
                        return
                server.sendall(data)
            if server in ready:
                data = server.recv(_CHUNK)
                begins = True
                if not data or fault == "lost answer":  # the server has done it, and nobody hears of it
                    return
                if fault == "cut answer":
                    client.sendall(data[: self._dice.randrange(len(data))])
                    return
                client.sendall(data)


class ObjectStoreFaults(Kind):
    name = "object-store"
    what = "connections dropped, slow, cut amid a body, answers lost, 500, 503, between runs, trainings and their store"
    usual = 100

    def __init__(self, world: World) -> None:
        self._world, self._scene = world, world.scene
        self._open = contextlib.ExitStack()
        self._stores = [self._open.enter_context(s3_server())]
        if (AZURITE / "node_modules").is_dir():
            self._stores.append(self._open.enter_context(azurite()))
        self._proxies = [FaultyProxy(store.address) for store in self._stores]
        self._scene.clear()
        self._scene.fill(12)
        self._scene.keep(world.kept("objects"))
        self._first = dict(self._scene.volumes)
        self._undisturbed: dict[str, Any] = {}
        """What a model and its predictions are that are made of a table in an object store."""

    def close(self) -> None:
        for proxy in self._proxies:
            proxy.close()
        self._open.close()

    def play(self, seed: int) -> str:
        dice = random.Random(f"object store {seed}")
        train = seed % _TRAINS == 0
        number = dice.randrange(len(self._stores))
        store, proxy = self._stores[number], self._proxies[number]
        self._scene.restore(self._world.kept("objects"))
        self._scene.volumes = dict(self._first)
        hits = 0
        with _environment(store.environment):
            url = store.make_container(f"torture{seed}-{time.time_ns() % 10**9}")
            self._scene.write(storage_document(self._scene.source, f"{url}/table"))
            behind = dict(store.through(proxy.endpoint).environment) | self._roots(url)
            if train:
                return self._train(seed, f"{url}/table", store, proxy, behind, dice.choice(_TROUBLES))
            for trouble in (dice.choice(_TROUBLES), 0.0):
                if dice.random() < 0.5 and trouble:
                    self._scene.run(extra=behind)
                    self._scene.grow(4)
                proxy.set(seed, trouble)
                answer = self._scene.run(extra=behind)
                self._scene.settle()
                hits += proxy.hits
                proxy.set(seed, 0.0)
                _see(answer)
                if answer.state == "done" or not trouble:
                    if answer.state != "done":
                        raise Finding(f"the run after it is {answer.state or answer.status}: {answer.error}")
                    options = _options(store)
                    compare("the table", rows_of(self._scene.volumes), rows_in(f"{url}/table", None, options))
        return f"{store.scheme}, {hits} faults" if hits else ""

    def _train(
        self, seed: int, table: str, store: ObjectStore, proxy: FaultyProxy, behind: Mapping[str, str], trouble: float
    ) -> str:
        """Train from a table in the store and predict it, first with trouble; both are those of an undisturbed run."""
        self._scene.grow(COUNT - len(self._scene.volumes))  # which fill some batches
        proxy.set(seed, 0.0)
        ready = self._scene.run(extra=behind)
        if ready.state != "done":
            raise Finding(f"an undisturbed run is {ready.state or ready.status}: {ready.error}")
        document = whole_document(self._scene.source, table)
        # A report on a table in a store is refused.
        nodes = tuple(node for node in document.nodes if node.id != "report")
        edges = tuple(edge for edge in document.edges if not edge.target.startswith("report."))
        self._scene.write(document.model_copy(update={"nodes": nodes, "edges": edges}))
        if not self._undisturbed:
            kept, volumes = self._world.kept("before-training"), self._scene.volumes
            self._scene.keep(kept)
            self._undisturbed = self._trained(self._scene.run(extra=behind))
            self._scene.restore(kept)
            self._scene.volumes = volumes
        proxy.set(seed, trouble)
        answer = self._scene.run(extra=behind)
        self._scene.settle()
        hits = proxy.hits
        proxy.set(seed, 0.0)
        _see(answer)
        if answer.state != "done":
            answer = self._scene.run(extra=behind)
        found = self._trained(answer)
        if different := [node for node in found if found[node] != self._undisturbed[node]]:
            raise Finding(f"{', '.join(different)} differ from those of an undisturbed run")
        compare("the table", rows_of(self._scene.volumes), rows_in(table, None, _options(store)))
        return f"{store.scheme}, training, {hits} faults" if hits else ""

    def _trained(self, answer: Answer) -> dict[str, Any]:
        """The model and the predictions of a run, which must be done."""
        self._scene.settle()
        if answer.state != "done":
            raise Finding(f"a run without trouble is {answer.state or answer.status}: {answer.error}")
        judge = Judge(self._scene.workspace, self._scene.volumes, {})
        return {node: judge.content(node) for node in ("train", "predict")}

    def _roots(self, url: str) -> dict[str, str]:
        return {"VOXELFLOW_DATA_ROOTS": f"{self._scene.root}{os.pathsep}{url}"}


def _see(answer: Answer) -> None:
    """A run that fails says why, in a sentence. Raises `Finding`."""
    if answer.state == "failed" and not answer.error.strip():
        raise Finding("the run failed without a reason")
    if "Traceback" in answer.error or "Generic {" in answer.error:
        raise Finding(f"no sentence for a person: {answer.error}")


def _options(store: ObjectStore) -> dict[str, str]:
    return {name.lower(): value for name, value in store.environment.items()}


@contextlib.contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value

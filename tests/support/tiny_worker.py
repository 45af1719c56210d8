"""A worker of a group with the tiny network, forked from a process that has TensorFlow already.

    python tiny_worker.py serve SOCKET              the process that forks; ends when its input closes
    python tiny_worker.py SOCKET FOLDER RANK PIPE   takes the place of nodes.training.workers.worker
    python tiny_worker.py SOCKET profile ... PIPE   takes that of nodes.profiling.worker

The second hands its input and outputs to the first and ends as the forked process does; when it is killed,
so is that one.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sys
import time
from pathlib import Path

WAIT_S = 60.0


def serve(address: str) -> None:
    from training_scenarios import tiny_network

    import nodes.tensorflow_keras.mlflow_model  # noqa: F401
    from nodes.profiling import worker as measuring_worker
    from nodes.tensorflow_keras import learner, models  # noqa: F401 - TensorFlow, once for all workers
    from nodes.training.workers import worker

    models.build_resnet3d = tiny_network
    keep_in_step()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen()
    print("ready", flush=True)
    clients: dict[int, socket.socket] = {}
    while True:
        ready, _, _ = select.select([0, listener, *clients.values()], [], [], 0.05)
        if 0 in ready:
            for pid in clients:
                os.kill(pid, signal.SIGKILL)
            return
        for pid, client in clients.items():
            if client in ready:  # it never speaks twice: it was killed
                os.kill(pid, signal.SIGKILL)
        for pid in list(clients):
            if os.waitpid(pid, os.WNOHANG)[0]:
                client = clients.pop(pid)
                client.close()
        if listener in ready:
            client, _ = listener.accept()
            data, handles, _, _ = socket.recv_fds(client, 65536, 4)
            pid = os.fork()
            if pid == 0:
                *standard, pipe = handles
                for number, handle in enumerate(standard):
                    os.dup2(handle, number)
                    os.close(handle)
                for other in (listener, client, *clients.values()):
                    other.close()
                request = json.loads(data)
                os.environ.update(request["environment"])
                kind, *arguments = request["arguments"]
                if kind == "profile":
                    measuring_worker.main(*arguments, str(pipe))
                else:
                    worker.main(kind, *arguments, str(pipe))
            for handle in handles:
                os.close(handle)
            clients[pid] = client


def keep_in_step() -> None:
    """Let the leading worker wait until the driver has its figures.

    The tiny network does a step in a millisecond: it would be done before a test that strikes at the fourth has
    seen it.
    """
    from engine.declare.events import Event, Metrics
    from nodes.training.workers.events import EventWriter

    emit = EventWriter.emit

    def report_and_wait(self: EventWriter, event: Event) -> None:
        emit(self, event)
        until = time.monotonic() + WAIT_S
        while isinstance(event, Metrics) and time.monotonic() < until and not handed_on(self):
            time.sleep(0.01)

    def handed_on(writer: EventWriter) -> bool:
        place = Path(writer.path).with_name("handed-on")
        return place.exists() and int(place.read_text() or 0) >= writer.path.stat().st_size

    EventWriter.emit = report_and_wait  # type: ignore[method-assign]


def stand_in(address: str, *given: str) -> None:
    *arguments, pipe = given
    server = socket.socket(socket.AF_UNIX)
    server.connect(address)
    request = json.dumps({"arguments": arguments, "environment": dict(os.environ)}).encode()
    socket.send_fds(server, [request], [0, 1, 2, int(pipe)])
    server.recv(1)
    # Killed or not, it has ended; what it reported is in the pipe.
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(sys.argv[2])
    else:
        stand_in(*sys.argv[1:])

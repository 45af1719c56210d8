"""A real `voxelflow studio` in a process of its own, with a workspace of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from running import end_active
from waiting import WAIT_S, wait_until

from engine.run.worker_process import PROGRAM
from engine.store.runs import RunStore
from engine.workspace import Workspace, open_workspace, trust


class StudioServer:
    """Start it with `start()`; `url` is where it answers: at `port`, or any. `home` is its current directory."""

    def __init__(
        self, home: Path, *, port: int = 0, program: tuple[str, ...] = PROGRAM, env: Mapping[str, str] | None = None
    ) -> None:
        self.home = home
        self.workspace: Workspace = open_workspace(home / "workspace")
        self.url = ""
        self._port = str(port)
        self._program = program
        # Streamlit reads the person's settings from the home folder.
        self._env = {**os.environ, "HOME": str(home), "NO_COLOR": "1", **(env or {})}
        self._log = home / "studio.log"
        self._process: subprocess.Popen[bytes] | None = None

    def install_probes(self, module: str = "probes") -> None:
        """The test nodes of a module become node types of the workspace, which reads new files by itself."""
        source = Path(__file__).with_name(f"{module}.py")
        (self.workspace.my_nodes / source.name).write_text(source.read_text())
        trust(self.workspace)

    def start(self, *arguments: str) -> StudioServer:
        """Start it and wait until it answers. After a stop it takes the same port again, so pages find it."""
        port = self.url.rpartition(":")[2] or self._port
        before = len(self.output)
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*self._program, "studio", "--no-browser", "--port", port, *arguments],
                cwd=self.home, env=self._env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

        def address() -> re.Match[str] | None:
            found = re.search(r"^Voxelflow is at (\S+)", self.output[before:], re.MULTILINE)
            assert found or self.is_up, problem()
            return found

        def problem() -> str:
            return f"the studio did not start (status {self._process and self._process.poll()}):\n{self.output}"

        found = wait_until(address, details=problem)
        assert found is not None
        self.url = found[1]
        return self

    def stop(self) -> int:
        """Ctrl-C; gives the exit status."""
        return self._end(signal.SIGINT)

    def kill(self) -> int:
        """SIGKILL: no chance to tidy up."""
        return self._end(signal.SIGKILL)

    def restart(self) -> None:
        """As after a crash: killed, then started again at the same address."""
        self.kill()
        self.start()

    def close(self) -> None:
        """End it, and the runs that it started: those outlive it on purpose."""
        self.kill()
        store = RunStore(self.workspace)
        end_active(store)
        store.close()

    @property
    def is_up(self) -> bool:
        """Whether its process lives."""
        return self._process is not None and self._process.poll() is None

    @property
    def output(self) -> str:
        """All that it has printed."""
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    def get(self, path: str) -> tuple[int, str]:
        """Status and text of what lies at `path`."""
        try:
            with urllib.request.urlopen(f"{self.url}{path}", timeout=WAIT_S) as answer:
                return answer.status, answer.read().decode(errors="replace")
        except urllib.error.HTTPError as exc:
            with exc:
                return exc.code, exc.read().decode(errors="replace")

    def __enter__(self) -> StudioServer:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def _end(self, number: signal.Signals) -> int:
        if self._process is None:
            return 0
        if self._process.poll() is None:
            self._process.send_signal(number)
        return self._process.wait(WAIT_S)

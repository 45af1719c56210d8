from __future__ import annotations

import os
import sys
import threading

import pytest

from nodes.loaders.reading_threads import reading_threads


@pytest.mark.skipif(sys.platform != "linux", reason="scheduling policies of threads are Linux'")
def test_they_give_way_and_nobody_else_does() -> None:
    with reading_threads(2) as pool:
        assert pool.submit(os.sched_getscheduler, 0).result() == os.SCHED_BATCH
    assert os.sched_getscheduler(0) == os.SCHED_OTHER


def test_they_read_where_that_is_forbidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbid(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "sched_setscheduler", forbid, raising=False)
    with reading_threads(1) as pool:
        assert pool.submit(lambda: threading.current_thread().name).result().startswith("loader")

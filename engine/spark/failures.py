"""What Spark's own errors mean to a person: the sentence in a Java stack, and why a session died."""

from __future__ import annotations

import re
from pathlib import Path

from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark.errors import PySparkException

from engine.errors import ExecutionError
from engine.storage import local_path

_TAIL = 1 << 20
"""Bytes of the log's end that are looked at."""
_LONGEST = 400
_RECENT = "most recent failure"


def is_spark_error(exc: BaseException) -> bool:
    """Whether Spark or the connection to its Java raised this."""
    return isinstance(exc, (Py4JError, PySparkException, Py4JNetworkError, ConnectionError))


def spark_error(exc: BaseException, log: Path | None = None) -> ExecutionError:
    """Spark's error as one of ours, with the sentence that matters. The stack is left to the log."""
    text = _sentence(exc)
    where = f" Java's output is in {log}." if log else ""
    if "Python worker exited unexpectedly" in text or "Python worker faulted" in text or "ExecutorLostFailure" in text:
        return ExecutionError(
            f"Spark lost the process that did the work, each time it tried: {text}",
            hint=f"If the machine ran out of memory, choose fewer cores, or more memory for each executor.{where}",
        )
    if found := re.search(r'Cannot run program "([^"]+)"', text):
        return ExecutionError(
            f"the executors have no {found[1]} to run Python with",
            hint=f'Name the one they have in the profile: "spark.pyspark.python" = "/path/to/python".{where}',
        )
    return ExecutionError(
        f"Spark: {text}", hint=f"Look at the whole error in the node's log (`voxelflow runs logs`).{where}"
    )


def damaged_file(exc: BaseException) -> str:
    """The Parquet file in which Spark found a page that does not match its checksum; "" when something else failed."""
    text = str(exc)
    found = (
        re.search(r"while reading file (.+?)\.\s+SQLSTATE", text)
        if "CRC checksum verification failed" in text
        else None
    )
    return (local_path(found[1]) or found[1]) if found else ""


def _sentence(exc: BaseException) -> str:
    if isinstance(exc, Py4JJavaError):
        text = str(exc.java_exception.toString()) if _alive(exc) else str(exc)
    else:
        text = str(exc)
    lines = [line.strip() for line in text.splitlines()]
    # A failed job reports its last failure after "most recent failure"; what Python raised comes last within it.
    raised = [line for line in lines if re.match(r"[\w.]*(Error|Exception|Exit)\b.*: ", line)]
    recent = next((line for line in lines if _RECENT in line.lower()), "")
    best = raised[-1] if recent and raised else recent or next((line for line in lines if line), type(exc).__name__)
    best = re.sub(rf"^.*{_RECENT}: ", "", best, flags=re.IGNORECASE)
    best = re.sub(r"^([\w$]+\.)+([A-Z]\w*(Exception|Error)): ", "", best)
    return best if len(best) <= _LONGEST else f"{best[:_LONGEST]} ..."


def _alive(exc: Py4JJavaError) -> bool:
    try:
        exc.java_exception.toString()
    except Exception:  # the Java that it lives in has gone
        return False
    return True


def why_ended(exc: BaseException, log: Path | None, begun: int = 0) -> str:
    """Why the session has ended or did not start, from its log after the byte `begun`, else from the error."""
    text = tail(log, begun)
    for pattern, words in _SIGNS:
        if found := re.search(pattern, text):
            return words.format(*found.groups())
    raised = re.findall(
        r"^(?:Exception in thread \S+ |Caused by: )?(?:[\w$]+\.)+\w*(?:Exception|Error): (.+)$", text, re.M
    )
    return raised[-1][:_LONGEST] if raised else _sentence(exc)


_SIGNS = (
    (r"OutOfMemoryError: (.+)", "Java ran out of memory ({}); give it more with spark.driver.memory in the profile"),
    (r"Application has been killed\. Reason: (.+)", "the cluster ended it: {}"),
    (r"Master removed our application: (.+)", "the cluster ended it: {}"),
    (r"(All masters are unresponsive)", "the master does not answer any more"),
    (r"There is insufficient memory for the Java Runtime Environment", "the machine has too little memory for Java"),
    (r"(Could not reserve enough space.*|Invalid maximum heap size.*)", "Java: {}"),
)


def tail(log: Path | None, begun: int = 0) -> str:
    """The end of the log, from the byte `begun` on at most; nothing when there is none."""
    if log is None or not log.exists():
        return ""
    with log.open("rb") as source:
        source.seek(max(begun, log.stat().st_size - _TAIL))
        return source.read().decode(errors="replace")

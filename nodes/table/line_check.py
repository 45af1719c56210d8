"""Whether the lines of a file of the log are such as Delta has them, and as many as it says."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

_NEEDED: Mapping[str, tuple[str, ...]] = {
    "add": ("path", "partitionValues", "size", "modificationTime", "dataChange"),
    "remove": ("path", "dataChange"),
    "protocol": ("minReaderVersion", "minWriterVersion"),
    "txn": ("appId", "version"),
}
_OF_A_VECTOR = ("storageType", "pathOrInlineDv", "sizeInBytes", "cardinality")
"""Without these delta-rs reads none of the log."""
_ACTIONS = frozenset(
    {
        *("add", "cdc", "commitInfo", "domainMetadata", "metaData", "protocol", "remove", "txn"),
        *("checkpointMetadata", "sidecar"),
    }
)
_OURS = "Voxelflow/"
_COUNTED = {
    "add": ("numFiles", "numAddedFiles", "numTargetFilesAdded"),
    "remove": ("numRemovedFiles", "numTargetFilesRemoved"),
}
"""Where a commit of ours says how many files come and go (`nodes.table.log_writer`)."""
_OPERATIONS = ("WRITE", "OPTIMIZE", "DELETE", "MERGE")


def lost_lines(commit: bytes) -> str:
    """How many lines a commit of ours lacks, in words, or "". Its first line alone is parsed: for every reading."""
    check = LineCheck()
    if check.problem(1, commit.partition(b"\n")[0]):
        return ""
    return check.problem_at_end({kind: commit.count(b'\n{"%s":' % kind.encode()) for kind in _COUNTED})


class LineCheck:
    """Looks at the lines of one file, given in their order."""

    def __init__(self) -> None:
        self._counts = Counter[str]()
        self._added: set[tuple[str, str]] = set()
        self._info: Mapping[str, Any] = {}

    def problem(self, number: int, line: bytes) -> str:
        """What is wrong with a line, or ""."""
        try:
            action = json.loads(line)
        except ValueError as exc:
            return f"line {number} is not JSON ({exc})"
        if not isinstance(action, dict):
            return ""
        self._counts.update(list(action))
        if isinstance(info := action.get("commitInfo"), dict):
            self._info = info
        # Readers pass over what they do not know: a file whose `add` is spelled otherwise would be missing.
        for kind, value in action.items():
            if kind not in _ACTIONS and isinstance(value, dict) and "path" in value:
                return f"line {number} is a {kind!r} of a file, and Delta has no such action"
        for kind, lacks in _lacking(action):
            return f"the {kind} in line {number} lacks {' and '.join(lacks)}"
        if isinstance(add := action.get("add"), dict):
            file = str(add["path"]), json.dumps(add.get("deletionVector"))
            if file in self._added:
                return f"line {number} adds {file[0]} once more"
            self._added.add(file)
        return "" if _has_statistics(action) else f"the statistics in line {number} are no JSON of fields"

    def problem_at_end(self, counts: Mapping[str, int] | None = None) -> str:
        """What the lines together lack, or "", by their `counts` (default: of those that were given).

        Only commits of ours are known to say it.
        """
        counts = self._counts if counts is None else counts
        metrics = self._info.get("operationMetrics")
        ours = str(self._info.get("engineInfo")).startswith(_OURS) and self._info.get("operation") in _OPERATIONS
        if not ours or not isinstance(metrics, dict):
            return ""
        for kind, names in _COUNTED.items():
            for said in (metrics[name] for name in names if name in metrics):
                if str(said) != str(found := counts[kind]):
                    return f"it has {found} lines of the kind {kind}, and says that there are {said}"
        return ""


def _has_statistics(action: Mapping[str, Any]) -> bool:
    """Whether the statistics of a file are what delta-rs reads, or not there."""
    add = action.get("add")
    text = add.get("stats") if isinstance(add, dict) else None
    if not text:
        return True
    try:
        return isinstance(json.loads(text), dict)
    except (TypeError, ValueError):
        return False


def _lacking(action: Mapping[str, Any]) -> Iterator[tuple[str, list[str]]]:
    """What a line says too little of, and the fields that it lacks."""
    for kind, fields in _NEEDED.items():
        named = action.get(kind)
        if named is None:
            continue
        if lacks := [field for field in fields if field not in named]:
            yield kind, lacks
        vector = named.get("deletionVector") if isinstance(named, dict) else None
        if vector is not None and (lacks := [field for field in _OF_A_VECTOR if field not in vector]):
            yield f"deletion vector of the {kind}", lacks

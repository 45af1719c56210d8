"""How long a prediction took, from the records of its parts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nodes.prediction.ledger import Record

PERCENTILES = (50, 95, 99)


def figures(records: Sequence[Record]) -> dict[str, float]:
    """Latency of batches and of volumes in ms, and throughput.

    A batch's latency is its time in the model, without waiting for data; a volume's is that of its batch shared
    by the batch's volumes. `volumes_per_s` is that of one process, with all reading and writing; `waiting_share` the
    part of its time that it waited for data.
    """
    seconds = np.concatenate([np.asarray(record.batch_s) for record in records])
    rows = np.concatenate([np.asarray(record.batch_rows) for record in records])
    each = np.repeat(seconds / rows, rows)
    out = {f"batch_ms_p{p}": 1000 * float(np.percentile(seconds, p)) for p in PERCENTILES}
    out |= {f"volume_ms_p{p}": 1000 * float(np.percentile(each, p)) for p in PERCENTILES}
    whole = sum(record.part_s for record in records)
    out["volumes_per_s"] = float(rows.sum()) / whole
    out["waiting_share"] = sum(record.waiting_s for record in records) / whole
    return {name: float(f"{value:.5g}") for name, value in out.items()}

"""Machine types and what an hour of them costs: the table that is shipped, a workspace's own over it, importing CSV;
what object storage costs."""

from engine.prices.machines import (
    COLUMNS,
    Machine,
    MachineTable,
    add_machines,
    import_machines,
    machine_table,
    machines_file,
    read_machines,
)
from engine.prices.storage import StoragePrice, storage_table

__all__ = [
    "COLUMNS", "Machine", "MachineTable", "StoragePrice", "add_machines", "import_machines", "machine_table",
    "machines_file", "read_machines", "storage_table",
]  # fmt: skip

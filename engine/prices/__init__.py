"""Machine types and what an hour of them costs: the table that is shipped, a workspace's own over it, importing CSV;
what object storage costs, in the same way."""

from engine.prices.machines import (
    COLUMNS,
    Machine,
    MachineTable,
    add_machines,
    import_machines,
    machine_table,
    machines_file,
    read_machines,
    remove_machine,
)
from engine.prices.storage import StoragePrice, StorageTable, add_storage, read_storage, storage_file, storage_table

__all__ = [
    "COLUMNS", "Machine", "MachineTable", "StoragePrice", "StorageTable", "add_machines", "add_storage",
    "import_machines", "machine_table", "machines_file", "read_machines", "read_storage",
    "remove_machine", "storage_file", "storage_table",
]  # fmt: skip

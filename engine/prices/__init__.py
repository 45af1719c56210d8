"""Machine types and what an hour of them costs: the table that is shipped, a workspace's own over it, importing CSV."""

from engine.prices.machines import (
    COLUMNS,
    Machine,
    MachineTable,
    add_machines,
    import_machines,
    machine_table,
    machines_file,
)

__all__ = [
    "COLUMNS", "Machine", "MachineTable", "add_machines", "import_machines", "machine_table", "machines_file",
]  # fmt: skip

"""Which machine type of the price table this machine is, as far as the machine itself says; no network is used."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from engine.errors import UsageError
from engine.prices import Machine, MachineTable
from engine.profiles import find_profile
from engine.workspace import Workspace

_PRODUCT = Path("/sys/class/dmi/id/product_name")
"""What the firmware calls the machine: on Amazon's machines their type; others give no more than their maker."""


def type_of_this_machine(machines: MachineTable, workspace: Workspace) -> Machine | None:
    """The machine that the profile `local` names, else the one that the firmware names; None where neither does."""
    with suppress(UsageError):
        if named := find_profile("local", workspace).machine:
            return machines.find(named)
    with suppress(OSError, UnicodeDecodeError, UsageError):
        # A type that is in several regions is not found: its price is not known either.
        return machines.find(_PRODUCT.read_text(encoding="utf-8").strip())
    return None

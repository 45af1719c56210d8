"""Which machine type of the price table this machine is, as far as the machine itself says; no network is used."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from engine.errors import UsageError
from engine.prices import MachineTable
from engine.profiles import find_profile
from engine.workspace import Workspace

_PRODUCT = Path("/sys/class/dmi/id/product_name")
"""What the firmware calls the machine: on Amazon's machines their type; others give no more than their maker."""


@dataclass(frozen=True)
class ThisMachine:
    """Its key in the table of prices, and what an hour of it costs; "" and None where that is not known."""

    machine_type: str = ""
    price_per_hour: float | None = None
    currency: str = ""


def this_machine(machines: MachineTable, workspace: Workspace) -> ThisMachine:
    """As the profile `local` has it, at the price by which its runs are counted; else the type that the firmware names.

    A profile may have a price and name no type: that is then the firmware's, too.
    """
    with suppress(UsageError):
        profile = find_profile("local", workspace)
        if profile.machine or profile.hourly_price is not None:
            named = profile.machine or _by_firmware(machines).machine_type
            return ThisMachine(named, profile.hourly_price, profile.currency)
    return _by_firmware(machines)


def _by_firmware(machines: MachineTable) -> ThisMachine:
    with suppress(OSError, UnicodeDecodeError, UsageError):
        # A type that is in several regions is not found: its price is not known either.
        found = machines.find(_PRODUCT.read_text(encoding="utf-8").strip())
        return ThisMachine(found.key, found.price_per_hour, found.currency)
    return ThisMachine()

"""For a workspace's `my_nodes/`: the leases of its runs count for five seconds, and not half a minute."""

from __future__ import annotations

import sys

from engine.storage import reservation

# The tests' own process reads this file too.
if "_supervise" in sys.argv:
    reservation.LEASE_S, reservation.RENEW_S = 5.0, 0.5

"""`python -m tests.torture [KIND ...]` breaks runs in every way that a machine can, and judges what is left.

    warm         the `voxelflow` processes of a round, forked from one that has imported everything
    scene        a small pipeline, the fault, the runs after it, and what must be true at the end
    judge        what a workspace really holds, read without Voxelflow
    stages       the moments in which the pipeline is struck, and what must be true after each round
    sections     what a file is made of, where bit rot strikes
    rounds       what a kind is, seeds, the table

and one module a kind of fault (kinds.py lists them). Every round has a seed that repeats it alone.
"""

import sys
from pathlib import Path

# As for pytest: the tests' helpers.
_SUPPORT = str(Path(__file__).parents[1] / "support")
if _SUPPORT not in sys.path:
    sys.path.append(_SUPPORT)

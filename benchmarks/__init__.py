"""Benchmarks: `python -m benchmarks NAME`. README.md beside this file says what each measures.

A name is a module here with a docstring whose first line says what is measured, `add_options(parser)`, and
`run(options, folder) -> Report`. `race` runs contenders, `data` makes what they read and compares what they deliver,
`pipelines` runs our nodes, `readers` are the loaders and their peers, `reports` prints and keeps what was found.
"""

import sys
from pathlib import Path

# As for pytest: the tests' helpers.
sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))

"""`python -m benchmarks NAME`: run one benchmark, print its tables, write JSON and a plot."""

from __future__ import annotations

import argparse
import importlib
import os
import signal
import sys
import tempfile
from pathlib import Path

_DATA = ("ingest", "cut", "compact", "load", "feed", "chain", "train", "scale", "storage", "experiment")
NAMES = (*_DATA, "advisor", "editor", "look", "sight", "spark_backend", "gpu")


def main(arguments: list[str] | None = None) -> int:
    """Run what the arguments name; the exit status is 1 when an aim was missed and `--strict` was given."""
    given = sys.argv[1:] if arguments is None else arguments
    if not given or given[0] not in NAMES:
        print(__doc__, "", "names: " + ", ".join(NAMES), sep="\n")
        return 0 if given in (["-h"], ["--help"]) else 2
    name, *rest = given
    module = importlib.import_module(f"benchmarks.{name}")
    parser = argparse.ArgumentParser(
        prog=f"python -m benchmarks {name}",
        description=module.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rounds", type=int, default=5, help="timed rounds; one more goes before them (default: 5)")
    parser.add_argument("--seed", type=int, default=0, help="decides the data and the order of turns")
    parser.add_argument("--folder", type=Path, help="where the data goes (default: a temporary folder)")
    parser.add_argument("--out", type=Path, default=Path("build/benchmarks"), help="where JSON and plot go")
    parser.add_argument("--strict", action="store_true", help="exit with status 1 when an aim is missed")
    module.add_options(parser)
    options = parser.parse_args(rest)
    from benchmarks.reports import keep, show

    if options.folder is not None:
        options.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f"voxelflow-{name}-", dir=options.folder) as place:
        # Not the person's settings, trust or MLflow server.
        os.environ |= {"XDG_CONFIG_HOME": f"{place}/config", "VOXELFLOW_TRACKING": "off"}
        report = module.run(options, Path(place))
        show(report)
        for path in keep(report, options.out, name, vars(options)):
            print(f"written: {path}")
    return int(options.strict and any(not aim.met for aim in report.aims))


if __name__ == "__main__":
    # Ended from outside, it still removes its data and ends its contenders.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    sys.exit(main())

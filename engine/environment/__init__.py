"""What a run worked with: packages, machine, the workspace's git state, the code of its nodes.

    machine      processors, memory and devices
    packages     installed distributions, by name
    git          commit and changes of the folder that the workspace lies in
    recorded     all of it as one value, kept in the run's folder when the run starts
    differences  two of them beside each other

Environment variables are never read here: what is recorded goes to MLflow, and they hold secrets.
"""

from engine.environment.differences import Difference, differences
from engine.environment.recorded import (
    Environment,
    NodeCode,
    environment_of,
    keep_environment,
    kept_environment,
    read_environment,
)

__all__ = [
    "Difference",
    "Environment",
    "NodeCode",
    "differences",
    "environment_of",
    "keep_environment",
    "kept_environment",
    "read_environment",
]

"""Python imports this at its start where the folder is on PYTHONPATH. It hides the packages in VOXELFLOW_HIDDEN."""

import importlib.machinery
import os

_HIDDEN = frozenset(os.environ.get("VOXELFLOW_HIDDEN", "").split())
_find_spec = importlib.machinery.PathFinder.find_spec


def _find_what_is_not_hidden(name, path=None, target=None):
    return None if path is None and name in _HIDDEN else _find_spec(name, path, target)


importlib.machinery.PathFinder.find_spec = staticmethod(_find_what_is_not_hidden)

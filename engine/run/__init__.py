"""Executing a plan: the processes of a run, its locks, and freeing data that no run needs any more."""

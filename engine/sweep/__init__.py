"""Sweeps: one pipeline run with many sets of values, each a run of its own that shares every cached result.

    space     what `--set name=a,b` and `name=1e-5..1e-2:log` mean: lists, ranges, all combinations
    score     the figure by which trials are judged, and which of them is best
    options   what was asked for, as it is kept with the sweep
    start     record a sweep and start its process; resume and cancel it
    trials    the values that are checked first, and how a trial is planned
    spent     the time and cost of a sweep by now, against its limit
    expected  the time and cost that were expected of it
    forecast  what each trial would run, and what that takes
    drive     that process: starts runs, some at a time, and notes how they ended
    search    which values to try next, and which trials to give up: Optuna

A sweep is a process of its own, as a run is: closing the terminal leaves it at work. When it is killed, its runs go on;
who resumes the sweep takes them over.
"""

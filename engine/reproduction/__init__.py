"""Doing a training over again on the very same data, and comparing what it reported.

recorded    what is known of a run, from this workspace's run store or from MLflow
replay      the plan that does it over: the nodes that reported curves, on pinned references
comparison  two recorded runs beside each other, point by point
"""

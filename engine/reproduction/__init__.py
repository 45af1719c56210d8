"""Doing a training over again on the very same data, and comparing what it told.

recorded     what is known of a run, wherever it was kept
from_store   ... in this workspace's run store
from_mlflow  ... in MLflow, where another workspace or machine may have run it
find         which of the two knows a run by the id that a person gave
replay       the plan that does it over: the nodes that told curves, on pinned references
comparison   two recorded runs beside each other, point by point
"""

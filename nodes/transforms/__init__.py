"""Transforms of volumes: what the steps do, how a chain of them is applied while volumes are read, own functions.

steps               each step: its parameters, what it does to a volume, and to its shape, dtype and place in space
parameters          the parameters of TransformVolumes, and the chain that they make
function_file       the file of a person's own function, and whether it may run
remaining           the steps that a model's chain has and data does not have yet, and what nothing can do to data

`steps` needs NumPy alone: a copy of this folder travels with every model that was trained on transformed volumes.
"""

"""Side by side: Voxelflow, what people would use instead, and the limit of the machine, on the same data.

    python -m tests.benchmarks NAME [options]        (`--help` lists the names)

A name is a module here with a docstring whose first line says what is measured, `add_options(parser)`, and
`run(options, folder) -> Report`. Most of them are a race (`race`): contenders in processes of their own take turns, in
another order every round, and all must have delivered the same bytes. A figure without its neighbours of the same
round says little about anything but the machine.
"""

"""`voxelflow bench`: trainings of some steps with every kind of input, and what the machine did meanwhile.

    measure.bench ──> volumes (made by the nodes that make a person's, or the person's own)
         │
         ├── nodes.profiling.measurements.Measuring ──> the training itself, in fresh processes, under a stopwatch
         ├── curves.Recorder ──> cores, memory, swap, disk, network and GPUs while it goes on
         └──> engine.bench.result.BenchResult
    report ──> the page of a comparison

What is measured is what `voxelflow run` trains with: its loop, its loaders, its worker processes.
"""

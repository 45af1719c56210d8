"""What a training step costs at each batch size and number of workers, measured by training.

    driver (the task's process)                        worker: a fresh process for each measurement
    measurements.measure_all ──> one Row after another     worker.main
            │        └─ a group of workers (nodes.training.workers) ──> stopwatch around the training itself
            └── report: table, plot, page

A size that does not fit into memory ends its own process and nothing else: it is a row of the table.
"""

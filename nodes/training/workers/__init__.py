"""Training by several TensorFlow processes that share every batch, on this machine or on Spark's executors.

    driver (the task's process)                     watcher, one a worker            worker: a fresh process
    group.train_with_workers ── local.py: threads ─────> watcher.watch ──pipe──────> worker.main
            │                └─ barrier.py: Spark tasks ┘      │                          │
            └─────────── folder.GroupFolder: job, events, words, ends (shared storage) ───┘

The driver decides where to begin and never runs TensorFlow. Worker 0 leads: it saves the checkpoints, publishes
the model and writes its events to a file that the driver hands on. A worker ends when the pipe from its watcher
closes, and a watcher ends its worker when the driver says so, so nobody waits in an exchange for one who is gone.
"""

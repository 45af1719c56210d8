"""Training by several processes of a framework that share every batch, on this machine or on Spark's executors.

    driver (the task's process)                     watcher, one a worker            worker: a fresh process
    group.train_with_workers ── local.py: threads ─────> local.watch   ──pipe──────> worker.main
            │                └─ barrier.py: Spark tasks ┘      │                          │
            └─────────── folder.GroupFolder: job, events, reports, ends (shared storage) ─┘

The driver decides where to begin and never runs the framework. Worker 0 leads: it saves the checkpoints, publishes
the model and writes its events to a file that the driver passes on. A worker is a child of its watcher (see
`engine.processes`), which puts what it reports into the folder, and ends it when the driver says so, so nobody waits in
an exchange for one who is gone.
"""

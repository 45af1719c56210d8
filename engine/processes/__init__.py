"""Child processes that work for the process that started them, and end with it.

    parent                                              child
    child.Child ──lines, on its standard input────────> parent.Parent
                <──messages (JSON lines), on a pipe──   its last argument is the pipe's number
                                                        standard output and error: its log

A child reports its result or its failure once. When its standard input closes, its parent is gone, and it kills
itself with all that it started. Tasks (`engine.run.worker`), training workers and the processes that predict on
executors are started this way; `failures` words what becomes of them. `detached` starts those that live on.
"""

"""The run store: a SQLite database of runs, tasks, results and events, and its migrations."""

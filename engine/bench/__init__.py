"""Training benchmarks: one portable JSON file per machine (`result`), and what several of them say (`compare`)."""

FOLDER = "bench"
"""Of a workspace: its results."""

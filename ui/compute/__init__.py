"""The page Compute: profiles made, changed, tested and chosen; the machine that the app runs on, live."""

"""What several nodes put into their reports: figures of a classification, plots, an HTML page."""

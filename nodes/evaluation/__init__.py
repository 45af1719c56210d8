"""How good a model's predictions are: figures, plots and a page."""

"""Datasets as pictures: which ones a browser may look at, and the route by which their bytes reach it."""

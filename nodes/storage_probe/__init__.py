"""What storage gives to the data path: files of its own are written to a place, read back in every way, and removed."""

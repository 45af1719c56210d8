"""From `.npy` files to Parquet parts: what NumpyToParquet is made of."""

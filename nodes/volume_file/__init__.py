"""The bytes of a Parquet file of volumes: its layout, writing, joining, rewriting, finding a volume in it."""

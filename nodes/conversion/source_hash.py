"""The name of the column with the SHA-256 of the file that a volume came from."""

SOURCE_HASH = "source_sha256"

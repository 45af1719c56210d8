"""Delta tables of volumes: reading their log, one writer, ingest, compaction, vacuum."""

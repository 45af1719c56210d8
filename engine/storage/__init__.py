"""Objects at storage URLs (`az://container/key`, `s3://bucket/key`): names, reading in ranges, writing, a local cache.

Credentials come from the environment alone, under the names that Azure's and Amazon's own tools use; nothing here
stores or tells them. delta-rs reads the same names, so a table and its files are opened with the same right.
"""

from engine.storage.urls import StorageUrl, is_url, parse_url, place_from

__all__ = ["StorageUrl", "is_url", "parse_url", "place_from"]

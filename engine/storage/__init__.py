"""Objects at storage URLs (`az://container/key`, `s3://bucket/key`): names, reading in ranges, writing, a local cache.

`schemes` is the table of the stores.

Credentials come from the environment alone, under the names that the stores' own tools use; nothing here
stores or shows them. delta-rs reads the same names, so a table and its files are opened with the same rights.
"""

from engine.storage.urls import StorageUrl, expanded, folder_to_write, is_url, local_path, parse_url, place_from

__all__ = ["StorageUrl", "expanded", "folder_to_write", "is_url", "local_path", "parse_url", "place_from"]

"""What the stages strike: every node type of the catalog, each node under a number of its own."""

from __future__ import annotations

from pathlib import Path

import voxelflow
from tests.torture.more import MORE, more_document
from tests.torture.scene import (
    MODELS,
    NODES,
    REGISTER,
    SOURCES,
    STORAGE,
    sources_document,
    storage_document,
    whole_document,
)


def test_every_node_type_is_struck(tmp_path: Path) -> None:
    documents = {
        STORAGE: storage_document(tmp_path),
        (*STORAGE, *MODELS, REGISTER): whole_document(tmp_path, registers=True),
        SOURCES: sources_document(tmp_path),
        MORE: more_document(tmp_path, "20260101-000000-000000"),
    }
    for struck, document in documents.items():
        assert {node.id for node in document.nodes} == set(struck)
    assert len(NODES) == len(set(NODES))
    types = {node.type for document in documents.values() for node in document.nodes}
    missing = {node.name for node in voxelflow.catalog()} - types
    assert not missing, "give each a place in a document, as in tests/torture/more.py"

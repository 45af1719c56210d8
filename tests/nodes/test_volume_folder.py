from __future__ import annotations

from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from npy_folders import PATTERNS, context, make_volumes, numbered, take, write_labels

import nodes
from engine.declare.check_context import CheckContext
from engine.declare.datasets import VolumeSpec
from engine.declare.path_found import PathFound
from engine.errors import DataError
from engine.extras import modules
from engine.storage import manifest
from nodes.conversion.formats import BUILT_IN
from nodes.conversion.quarantine import ADVICE, REASONS
from nodes.conversion.volume_sources import label_table
from nodes.volume_folder import FormatName, volume_folder


def look_at(root: Path, tmp_path: Path) -> CheckContext:
    """What the engine shows the node's hooks for `root`: listing, then scan, then preview."""
    listing = manifest.list_folder(root, PATTERNS)
    manifest.write(listing, tmp_path / "seen.arrow")
    found = PathFound(
        str(root),
        exists=True,
        kind="folder",
        count=len(listing),
        bytes=manifest.total_bytes(listing),
        manifest=str(tmp_path / "seen.arrow"),
        sample=tuple(listing["path"].to_pylist()),
    )
    look = CheckContext(params={"folder": str(root)}, paths={"folder": found})
    assert volume_folder.scan_hook is not None
    look.facts = volume_folder.scan_hook(look)
    return look


def preview(look: CheckContext):  # type: ignore[no-untyped-def]
    assert volume_folder.preview_hook is not None
    return volume_folder.preview_hook(look)


def test_the_label_table_is_no_volume(tmp_path: Path) -> None:
    root = tmp_path / "in"
    volumes = make_volumes(root, ["b.npy", "x/a.npy", "x/.hidden.npy"])
    write_labels(root / "labels.csv", [("b", 1)])
    (root / "notes.txt").write_text("not a volume")
    (root / "x" / "labels.csv").write_text("of no meaning here")
    files = take(root, tmp_path / "work")
    listing = manifest.read(files.manifest)
    assert listing["path"].to_pylist() == ["b.npy", "x/a.npy"]
    assert files.count == 2
    assert files.bytes == sum((root / p).stat().st_size for p in ("b.npy", "x/a.npy"))
    assert files.spec == VolumeSpec(shape=volumes["b.npy"].shape, dtype="float32")
    assert label_table(listing, str(root), root) == root / "labels.csv"


def test_a_label_table_that_changed_after_the_listing_is_not_used(tmp_path: Path) -> None:
    root = tmp_path / "in"
    make_volumes(root, ["a.npy"])
    write_labels(root / "labels.parquet", [("a", 1)])
    listing = manifest.read(take(root, tmp_path / "work").manifest)
    write_labels(root / "labels.csv", [("a", 1)])
    assert label_table(listing, str(root), root) == root / "labels.parquet", "a table that was not listed is not there"
    write_labels(root / "labels.parquet", [("a", 2), ("b", 3)])
    with pytest.raises(DataError, match="has changed since"):
        label_table(listing, str(root), root)
    (root / "labels.parquet").unlink()
    with pytest.raises(DataError, match="is gone since"):
        label_table(listing, str(root), root)


def test_a_manifest_made_elsewhere_finds_the_table_in_the_folder(tmp_path: Path) -> None:
    make_volumes(tmp_path, ["a.npy"])
    listing = manifest.list_folder(tmp_path, ("**/*.npy",))
    assert label_table(listing, str(tmp_path), tmp_path) is None
    write_labels(tmp_path / "labels.csv", [("a", 1)])
    assert label_table(listing, str(tmp_path), tmp_path) == tmp_path / "labels.csv"


def test_a_folder_without_volumes(tmp_path: Path) -> None:
    root = tmp_path / "in"
    root.mkdir()
    write_labels(root / "labels.csv", [("a", 1)])
    with pytest.raises(DataError, match=r"no volumes"):
        take(root, tmp_path / "work")
    look = look_at(root, tmp_path)
    assert preview(look).count == 0
    assert [(d.code, d.severity) for d in look.problems] == [("VF401", "error")]


def test_the_preview_of_a_good_folder_is_complete(tmp_path: Path) -> None:
    root = tmp_path / "in"
    make_volumes(root, numbered(5), (4, 3, 2), "int16")
    write_labels(root / "labels.csv", [("v0000", 1)])
    look = look_at(root, tmp_path)
    out = preview(look)
    files = take(root, tmp_path / "work")
    assert look.problems == []
    assert (out.count, out.bytes, out.spec, out.uri) == (files.count, files.bytes, files.spec, str(root))
    assert out.sample == tuple(numbered(5))


def test_a_few_bad_files_are_a_warning_and_all_bad_an_error(tmp_path: Path) -> None:
    root = tmp_path / "in"
    make_volumes(root, numbered(5))
    (root / "v0001.npy").write_bytes(b"")
    np.save(root / "v0002.npy", np.zeros((2, 2)))
    look = look_at(root, tmp_path)
    preview(look)
    assert [(d.code, d.severity) for d in look.problems] == [("VF403", "warning"), ("VF404", "info")]
    assert "v0001.npy is empty" in look.problems[0].message
    for name in numbered(5):
        (root / name).write_bytes(b"junk")
    look = look_at(root, tmp_path)
    assert preview(look).spec is None
    assert [(d.code, d.severity) for d in look.problems] == [("VF402", "error")]


def test_what_to_do_about_bad_files_follows_from_what_is_wrong_with_them(tmp_path: Path) -> None:
    """One hint stood for all reasons: whether they were written and copied whole."""
    (root := tmp_path / "in").mkdir()
    np.save(root / "a.npy", np.array([{}], object))
    np.save(root / "b.npy", np.array([{}], object))
    look = look_at(root, tmp_path)
    preview(look)
    assert [(d.code, d.hint) for d in look.problems] == [("VF402", ADVICE["pickle"])]
    (root / "c.npy").write_bytes(b"")
    look = look_at(root, tmp_path)
    preview(look)
    assert [(d.code, d.hint) for d in look.problems] == [("VF402", f"{ADVICE['pickle']} {ADVICE['empty']}")]
    np.save(root / "d.npy", np.zeros((2, 2, 2)))
    look = look_at(root, tmp_path)
    preview(look)
    assert [(d.code, d.hint.partition(" Else")[0]) for d in look.problems] == [
        ("VF403", f"{ADVICE['pickle']} {ADVICE['empty']}")
    ]
    assert set(ADVICE) <= set(REASONS)


def test_a_document_that_is_only_validated_touches_no_folder(tmp_path: Path) -> None:
    look = CheckContext(params={"folder": str(tmp_path / "nowhere")})
    assert preview(look).count is None
    look = CheckContext(
        params={"folder": str(tmp_path)},
        paths={"folder": PathFound(str(tmp_path), exists=True, kind="folder", count=1)},
    )
    assert preview(look).count is None
    assert look.problems == []


def test_files_whose_headers_are_all_bad_still_make_a_listing(tmp_path: Path) -> None:
    root = tmp_path / "in"
    root.mkdir()
    (root / "a.npy").write_bytes(b"")
    listing = tmp_path / "seen.arrow"
    manifest.write(manifest.list_folder(root, PATTERNS), listing)
    files = volume_folder(folder=str(root), ctx=context(tmp_path, "folder", inputs_found={"folder": listing}))
    assert (files.count, files.spec) == (1, None)


def test_a_format_that_is_built_in_can_be_chosen_installed_and_read_about() -> None:
    known = ("auto", "npy", *(each.name for each in BUILT_IN))
    assert get_args(FormatName) == known, "FormatName and BUILT_IN have all formats, in one order"
    extras = {each.name: set(modules(each.name)) for each in BUILT_IN if each.modules}
    assert [each.name for each in BUILT_IN if not set(each.modules) <= extras.get(each.name, set())] == []
    page = (Path(nodes.__file__).parent / "README.md").read_text().partition("## Formats of volumes")[2]
    rows = [line for line in page.partition("\n## ")[0].splitlines() if line.startswith("| ")]
    for each in BUILT_IN:
        extra = f" `{each.name}` |" if each.modules else " |"
        assert [row for row in rows if f"`{each.all_endings[0]}`" in row and f"|{extra}" in row], each.name

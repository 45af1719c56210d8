from __future__ import annotations

import os
from pathlib import Path

import pytest
from file_handles import none_left
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import DataError
from engine.storage import manifest
from engine.storage.links import Why


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "data"
    for name in ("b.npy", "a.npy", "sub/c.npy", "sub/deep/d.npy", "labels.csv", ".hidden.npy", ".git/e.npy", "x.txt"):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"1" * len(name))
    (root / "link.npy").symlink_to(root / "a.npy")
    (root / "loop").symlink_to(root)
    (root / "broken.npy").symlink_to(root / "nothing")
    return root


def test_a_listing_is_sorted_and_leaves_out_what_is_hidden(folder: Path) -> None:
    table = manifest.list_folder(folder, ("**/*.npy",))
    assert table["path"].to_pylist() == ["a.npy", "b.npy", "broken.npy", "link.npy", "sub/c.npy", "sub/deep/d.npy"]
    assert table["size"].to_pylist() == [5, 5, 0, 5, 9, 14]
    assert manifest.total_bytes(table) == 38
    assert manifest.list_folder(folder, ("*.npy", "labels.csv")).num_rows == 5
    assert manifest.list_folder(folder, ("*.zip",)).num_rows == 0


def test_linked_folders_are_followed_once_and_never_in_circles(tmp_path: Path) -> None:
    root, other = tmp_path / "root", tmp_path / "other"
    for path in (root / "real" / "a.npy", other / "b.npy", other / "deep" / "c.npy", tmp_path / "beside.npy"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"1")
    (other / "round").symlink_to(other)
    (other / "back").symlink_to(root)
    (other / "deep" / "third").symlink_to(tmp_path / "third")
    (tmp_path / "third").mkdir()
    (tmp_path / "third" / "d.npy").write_bytes(b"1")
    for name, target in (("up", tmp_path), ("self", root), ("again", root / "real"), ("x", other), ("y", other)):
        (root / name).symlink_to(target)
    (root / "z").symlink_to(other / "deep")
    (root / "folder.npy").symlink_to(other / "deep")
    listed = manifest.list_folder(root, ("**/*.npy",))["path"].to_pylist()
    assert listed == ["folder.npy/c.npy", "folder.npy/third/d.npy", "real/a.npy", "x/b.npy"]
    through = tmp_path / "through"
    through.symlink_to(root)
    assert manifest.list_folder(through, ("**/*.npy",))["path"].to_pylist() == listed


def test_what_is_passed_over_is_counted(tmp_path: Path) -> None:
    root = tmp_path / "around" / "root"
    names = ("a.npy", "b.nPy", "c.nii.gz", "deep/d.nii.gz", "deep/e.nii", "f.txt", ".g.nii", "a.zarr/0", "nii/h.npy")
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"1")
    for name, target in (
        ("classA", "/nowhere"),
        ("deep/lost.npy", "/nowhere"),
        ("deep/round", "round"),
        ("up", root.parent),
        ("self", root),
        ("again", root / "deep"),
    ):
        (root / name).symlink_to(target)
    left_out = manifest.LeftOut((".npy", ".nii", ".nii.gz", ".gz"), (".zarr",))
    listed = manifest.list_folder(root, ("**/*.npy",), left_out=left_out)
    assert listed["path"].to_pylist() == ["a.npy", "deep/lost.npy", "nii/h.npy"]
    assert left_out.files == {".npy": 1, ".nii.gz": 2, ".nii": 1, ".zarr": 1}
    assert left_out.examples[".nii"] == "deep/e.nii"
    assert {name: link.why for name, link in left_out.links.items()} == {
        "classA": Why.MISSING,
        "deep/round": Why.ITSELF,
        "up": Why.AROUND,
    }


def test_a_name_that_is_no_text_is_listed_readably(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"bad\xff.npy")).write_bytes(b"")
    assert manifest.list_folder(tmp_path, ("*.npy",))["path"].to_pylist() == ["bad\\xff.npy"]


def test_a_manifest_is_read_back_equal_and_written_whole(folder: Path, tmp_path: Path) -> None:
    table = manifest.list_folder(folder, ("**/*.npy",))
    path = tmp_path / "m" / "listing.arrow"
    path.parent.mkdir()
    manifest.write(table, path)
    assert manifest.read(path).equals(table)
    assert [p.name for p in path.parent.iterdir()] == ["listing.arrow"]
    assert [e.path for e in manifest.entries(manifest.read(path))] == table["path"].to_pylist()


def test_the_digest_sees_names_sizes_and_times(folder: Path) -> None:
    def digest() -> str:
        return manifest.digest(manifest.list_folder(folder, ("**/*.npy",)))

    seen = {digest()}
    assert digest() in seen
    (folder / "a.npy").write_bytes(b"longer")
    seen.add(digest())
    os.utime(folder / "b.npy", ns=(1, 1))
    seen.add(digest())
    (folder / "b.npy").rename(folder / "z.npy")
    seen.add(digest())
    assert len(seen) == 4


files = st.dictionaries(st.text("abc", min_size=1, max_size=3), st.integers(0, 3), max_size=8)


@given(files, files)
def test_compare_counts_what_sets_would(old: dict[str, int], new: dict[str, int]) -> None:
    import pyarrow as pa

    def table(content: dict[str, int]) -> pa.Table:
        rows = sorted(content.items())
        return pa.table(
            {
                "path": pa.array([p for p, _ in rows], pa.string()),
                "size": pa.array([s for _, s in rows], pa.int64()),
                "mtime_ns": pa.array([0] * len(rows), pa.int64()),
            }
        )

    assert manifest.compare(table(old), table(new)) == {
        "gained": len(new.keys() - old.keys()),
        "lost": len(old.keys() - new.keys()),
        "changed": sum(old[p] != new[p] for p in old.keys() & new.keys()),
    }


@pytest.mark.parametrize("kept", [0, 1, 5, 6, 8, 12, -1])
def test_a_manifest_that_was_cut_short_is_known(tmp_path: Path, kept: int) -> None:
    path = tmp_path / "listing.arrow"
    assert not manifest.is_whole(path)
    (tmp_path / "a.npy").write_bytes(b"1")
    manifest.write(manifest.list_folder(tmp_path, ("**/*.npy",)), path)
    assert manifest.is_whole(path)
    os.truncate(path, kept if kept >= 0 else path.stat().st_size - 1)
    assert not manifest.is_whole(path)
    with pytest.raises(DataError) as caught:
        manifest.read(path)
    assert caught.value.message.startswith(f"the listing {path} is damaged: ")
    assert caught.value.hint == "Run the pipeline again: the listing is then made anew."


def test_a_manifest_is_not_called_damaged_where_no_file_handle_is_left(tmp_path: Path) -> None:
    path = tmp_path / "listing.arrow"
    (tmp_path / "a.npy").write_bytes(b"1")
    manifest.write(manifest.list_folder(tmp_path, ("**/*.npy",)), path)
    manifest.read(path)  # what it imports is there
    for look in (manifest.is_whole, manifest.read):
        with none_left(), pytest.raises(OSError, match="Too many open files"):
            look(path)
    assert manifest.is_whole(path)


@pytest.mark.parametrize("zeros", [8, 16, 60])
def test_a_manifest_whose_checksum_was_overwritten_is_damaged(tmp_path: Path, zeros: int) -> None:
    path = tmp_path / "listing.arrow"
    (tmp_path / "a.npy").write_bytes(b"1")
    manifest.write(manifest.list_folder(tmp_path, ("**/*.npy",)), path)
    data = bytearray(path.read_bytes())
    at = data.index(b"VXFCRC32")
    data[at : at + zeros] = bytes(zeros)
    path.write_bytes(data)
    assert not manifest.is_whole(path)
    with pytest.raises(DataError, match="is damaged"):
        manifest.read(path)

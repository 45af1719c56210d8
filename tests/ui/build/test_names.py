from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ui.build.names import MAX_NAME, MAX_STEM_BYTES, document_id, free_name, is_document_id, slug

HOSTILE = [
    "<script>alert(1)</script>",
    "../../etc/passwd",
    "..",
    ".",
    ".hidden",
    "a/b\\c:d",
    "say \"hi\" & 'bye'",
    "x" * 300,
    "ü" * 300,
    "مرحبا بالعالم",
    "שלום \u202e gnp.exe",
    "नमस्ते",
    "🙂🙃",
    "CON",
    "a.schema",
    "-rf",
    "$(rm -rf ~)",
    "new\nline\ttab\0null",
    "   ",
    "İstanbul",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_any_name_gives_a_file_of_the_folder(name: str, tmp_path: Path) -> None:
    stem = document_id(name, set())
    assert is_document_id(stem)
    assert not set(stem) & set("/\\. <>:\"'$&\0\n\t")
    assert not stem.startswith("-")
    assert len(stem.encode()) <= MAX_STEM_BYTES
    (tmp_path / f"{stem}.json").write_text("")
    assert [p.name for p in tmp_path.iterdir()] == [f"{stem}.json"]


@given(st.text(max_size=400), st.sets(st.text(max_size=5), max_size=4))
def test_whatever_the_name_its_id_is_safe_new_and_short(name: str, taken: set[str]) -> None:
    stem = document_id(name, taken)
    assert is_document_id(stem)
    assert len(stem.encode()) <= MAX_STEM_BYTES
    assert stem.casefold() not in {t.casefold() for t in taken}
    assert slug(stem) == slug(slug(stem))


def test_ids_read_like_names_and_differ_in_more_than_case() -> None:
    assert document_id("Volumes to ResNet (2024)", set()) == "volumes-to-resnet-2024"
    assert document_id("Größe", set()) == "größe"
    assert document_id("Test", {"TEST", "test-2"}) == "test-3"
    long = "x" * 300
    second = document_id(long, {"x" * MAX_STEM_BYTES})
    assert second == "x" * (MAX_STEM_BYTES - 2) + "-2"


@pytest.mark.parametrize(
    "text", ["", ".", "..", "a/b", "../a", ".a", "a\\b", "a\0", "pipeline.schema", "\udc80", "x" * 251]
)
def test_what_is_no_document_is_refused(text: str) -> None:
    assert not is_document_id(text)


def test_a_name_that_is_taken_gets_a_number() -> None:
    assert free_name("a", set()) == "a"
    assert free_name("a", {"a", "a 2"}) == "a 3"
    assert len(free_name("y" * MAX_NAME, {"y" * MAX_NAME})) <= MAX_NAME

"""Text of people as Python source."""

from __future__ import annotations

import ast
import keyword

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.export.source import Names, file_stem, in_docstring, literal, one_line

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@pytest.mark.slow
@given(VALUES)
def test_a_literal_is_its_value_and_shows_everything(value: object) -> None:
    text = literal(value)
    assert ast.literal_eval(text) == value
    assert text.isprintable()


def test_a_literal_of_anything_else_is_refused() -> None:
    with pytest.raises(TypeError):
        literal(object())


@given(st.text())
def test_a_comment_stays_a_comment(text: str) -> None:
    assert [type(n) for n in ast.parse(f"# {one_line(text)}\nx = 1").body] == [ast.Assign]


@given(st.text())
def test_a_docstring_stays_a_docstring(text: str) -> None:
    tree = ast.parse(f'"""A {in_docstring(text)}."""\n')
    assert len(tree.body) == 1
    assert ast.get_docstring(tree) is not None


@given(st.lists(st.text(min_size=1) | st.sampled_from(["class", "print", "match", "__debug__", "a-b", "a_b", "1"])))
def test_names_are_valid_and_differ(wanted: list[str]) -> None:
    names = Names()
    got = [names.take(name) for name in wanted]
    assert len(set(got)) == len(got)
    assert all(name.isidentifier() and not keyword.iskeyword(name) for name in got)
    assert not {"print", "__debug__"} & set(got)


def test_a_file_is_called_like_its_pipeline() -> None:
    assert file_stem("volumes to ResNet (2)") == "volumes-to-ResNet-2"
    assert file_stem("../../etc/passwd") == "etc-passwd"
    assert file_stem("体素") == "pipeline"

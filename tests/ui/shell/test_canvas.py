from __future__ import annotations

import pytest

from ui.shell.canvas import component_key


@pytest.mark.parametrize("key", ["a__b", "__", "look-___x", "a_b", ""])
def test_a_components_key_has_no_delimiter_of_streamlits(key: str) -> None:
    known = component_key(key)
    assert "__" not in known
    assert known.replace(".", "") == key

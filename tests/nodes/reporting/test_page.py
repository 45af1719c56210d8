"""Numbers as the pages show them."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from engine.text import label_text
from nodes.reporting.page import predicted_text

floats = st.floats(width=32, allow_nan=False)


@given(floats, floats)
@example(0.10000000149011612, 0.10000000894069672)
@example(1.0, 1.0000001192092896)
@example(16777215.0, 16777214.0)
@example(3.4028234663852886e38, 3.4028232635611926e38)
def test_a_predicted_number_reads_as_its_label_where_it_is_equal_alone(value: float, label: float) -> None:
    text = predicted_text(value, label)
    assert (text == label_text(label)) == (value == label)
    assert len(text) <= 15

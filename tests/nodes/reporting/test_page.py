"""Numbers as the pages show them."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from engine.text import label_text
from nodes.reporting.page import figure_text, first_of, predicted_text

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


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (999999.4, "999,999"), (999999.7, "1,000,000"), (-999999.5, "-1,000,000"),
        (16777215.0, "16,777,215"), (-1234567.8, "-1,234,568"), (48008.125, "48,008.1"), (0.123456789, "0.123457"),
        (9.96921e36, "9.96921e+36"), (1234567, "1,234,567"), (float("nan"), "nan"), (float("inf"), "inf"),
    ],
)  # fmt: skip
def test_a_figure_has_all_its_digits_before_the_point(value: float, text: str) -> None:
    assert figure_text(value) == text


def test_a_title_says_what_is_left_out() -> None:
    assert first_of(200, 1234, "classes") == "the first 200 of 1,234 classes"
    assert first_of(200, 200, "classes") == ""

"""Which settings let Spark add and remove executors by itself."""

from __future__ import annotations

import pytest

from engine.profiles.dynamic_allocation import (
    SETTING,
    allocates_dynamically,
    is_for_fixed_executors,
    on_fixed_executors,
)


@pytest.mark.parametrize("master", ["spark://host:7077", "yarn", "k8s://https://host:443", "local-cluster[2,1,1024]"])
@pytest.mark.parametrize(
    ("value", "wanted"),
    [("true", True), ("TRUE", True), (" True ", True), ("false", False), ("", False), ("${ELASTIC}", False)],
)
def test_a_cluster_is_elastic_where_the_setting_says_so(master: str, value: str, wanted: bool) -> None:
    assert allocates_dynamically(master, {SETTING: value}) is wanted
    assert allocates_dynamically(master, {SETTING.upper(): value}) is False
    assert allocates_dynamically(master, {}) is False


@pytest.mark.parametrize("master", ["local", "local[*]", "local[4]", "local[4, 2]"])
def test_a_session_on_this_machine_has_one_executor_whatever_is_set(master: str) -> None:
    assert allocates_dynamically(master, {SETTING: "true"}) is False


def test_the_mark_is_on_what_was_marked() -> None:
    @on_fixed_executors
    def marked() -> int:
        return 3

    def other() -> int:
        return 4

    assert marked() == 3
    assert is_for_fixed_executors(marked)
    assert not is_for_fixed_executors(other)

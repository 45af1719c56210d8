"""The head of a run's page."""

from __future__ import annotations

import pytest
from building import some_run

from ui.runs.run_page import _facts


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ({"start": "restart", "end": "trend"}, "from restart, to trend"),
        ({"end": "append"}, "to append"),
        ({"start": None, "end": None}, None),
    ],
)
def test_the_part_that_ran_names_its_nodes(options: dict[str, str | None], shown: str | None) -> None:
    assert dict(_facts(some_run(options=options), [])).get("Part") == shown

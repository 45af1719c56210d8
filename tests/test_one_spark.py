"""Which modules share a Spark session, as their text says and as their tests do."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from one_spark import OneSpark, shares_spark


@pytest.mark.slow
def test_each_module_that_shares_a_spark_session_is_known_by_its_text(request: pytest.FixtureRequest) -> None:
    """Of those that this session runs, be it only some tests of a module: these need not be the ones that use Spark."""
    tests = [item for item in request.session.items if isinstance(item, pytest.Function)]
    sharing = {test.path for test in tests if "spark_local" in test.fixturenames}
    assert {path for path in sharing if not shares_spark(path)} == set()


def test_they_are_one_scope_and_each_other_module_is_its_own(pytestconfig: pytest.Config) -> None:
    scheduling = OneSpark.__new__(OneSpark)
    scheduling.config = SimpleNamespace(rootpath=pytestconfig.rootpath)  # type: ignore[assignment]
    ours = ("tests/nodes/spark/test_tables.py", "tests/nodes/spark/test_kills.py", "tests/nodes/spark/test_cluster.py")
    assert [scheduling._split_scope(f"{module}::test_one") for module in ours] == [
        "spark_local", "spark_local", "tests/nodes/spark/test_cluster.py",
    ]  # fmt: skip

"""The testing kit: pytest classes to subclass, with what a node, loader, learner, place, table and format promise.

    from voxelflow import NodeConformance

    class TestMyNode(NodeConformance):
        node_type = "MyNode"
        ...

They work in any package's tests under plain pytest, without fixtures or settings of your own. Importing this package
raises `MissingPackage`, with the command that installs it, where pytest is missing.
"""

from pkgutil import iter_modules

from engine.extras import require

require("Voxelflow's testing kit", "pytest")

import pytest  # noqa: E402 - the line above says what to install

# Before they are imported: a failing assert in them then shows its values, as one in a test's own file does.
pytest.register_assert_rewrite(*(f"{__name__}.{module.name}" for module in iter_modules(__path__)))

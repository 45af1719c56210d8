"""pyarrow without pandas, until somebody imports pandas.

To recognise a pandas Series among what it is given, pyarrow imports pandas with the first array that it makes: 0.2 s of
processor time in every process. A process that has not imported pandas has no Series.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from engine.processes.lean_import import without


def import_pandas_when_wanted() -> None:
    """For processes of our own, before pyarrow is imported. Who imports pandas notices nothing of it.

    pyarrow still imports it to infer the type of values of Python: give arrays and scalars their types.
    """
    if "pyarrow" not in sys.modules and "pandas" not in sys.modules:
        sys.meta_path.insert(0, _Notice({"pyarrow": _leave_pandas_out, "pandas": _tell_pyarrow}))


def _leave_pandas_out() -> None:
    # pyarrow tries once, and goes on without when there is none. What needs pandas, as `to_pandas`, tries again.
    if "pandas" not in sys.modules:
        with without({"pandas"}):
            _ask_pyarrow("have_pandas")


def _tell_pyarrow() -> None:
    _ask_pyarrow("pd")


def _ask_pyarrow(name: str) -> None:
    """Read an attribute of the part of pyarrow that knows pandas. In other versions it may not be there: no harm."""
    shim = getattr(sys.modules.get("pyarrow.lib"), "_pandas_api", None)
    getattr(shim, name, None)


class _Notice(MetaPathFinder):
    """Calls a function once a package has been imported."""

    def __init__(self, then: dict[str, Callable[[], None]]) -> None:
        self._then = then

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        then = self._then.get(fullname)
        if then is None:
            return None
        spec = next((found for each in sys.meta_path if (found := self._ask(each, fullname, path, target))), None)
        loader: Any = None if spec is None else spec.loader
        if loader is not None:
            execute = loader.exec_module

            def execute_and_notice(module: ModuleType) -> None:
                execute(module)
                then()

            loader.exec_module = execute_and_notice  # of this loader alone, which is the package's own
        return spec

    def _ask(
        self, other: Any, fullname: str, path: Sequence[str] | None, target: ModuleType | None
    ) -> ModuleSpec | None:
        found: ModuleSpec | None = None if other is self else other.find_spec(fullname, path, target)
        return found

"""What went wrong with MLflow: whether trying again may help, and one line for people."""

from __future__ import annotations

from collections.abc import Iterator

from engine.errors import TrackingError

# Not BAD_REQUEST: MLflow gives it for any trouble of its database, and proxies for theirs.
_REFUSALS = frozenset(["INVALID_PARAMETER_VALUE", "ENDPOINT_NOT_FOUND", "NOT_IMPLEMENTED"])
_GONE = frozenset(["RESOURCE_DOES_NOT_EXIST", "NOT_FOUND"])
_LINE = 400


class RunDeleted(TrackingError):
    """Someone deleted the run in MLflow: a wish to respect."""


def is_refusal(exc: BaseException) -> bool:
    """MLflow was there, and will never take this."""
    return getattr(exc, "error_code", None) in _REFUSALS


def is_gone(exc: BaseException) -> bool:
    """What we refer to is not there: the store was emptied or replaced."""
    return getattr(exc, "error_code", None) in _GONE


def may_pass(exc: BaseException) -> bool:
    """Whether the trouble is with the way or the server, so that the same thing may work later.

    Told by what the libraries of all artifact stores have in common, without importing any.
    """
    for one in _chain(exc):
        status = getattr(getattr(one, "response", None), "status_code", None)
        if isinstance(status, int):
            return status >= 500 or status in (401, 403, 408, 429)
        if isinstance(one, (ConnectionError, TimeoutError)):
            return True
        if any(word in type(one).__name__ for word in ("Connect", "Timeout", "OperationalError")):
            return True
    code = getattr(exc, "error_code", None)
    return isinstance(code, str) and not is_refusal(exc) and not is_gone(exc)


def line(exc: BaseException) -> str:
    """The exception's message, as one line that is not too long."""
    message = getattr(exc, "message", None)
    text = " ".join(str(message if isinstance(message, str) else exc).split()) or type(exc).__name__
    return text if len(text) <= _LINE else text[: _LINE - 3] + "..."


def _chain(exc: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    following: BaseException | None = exc
    while following is not None and id(following) not in seen:
        seen.add(id(following))
        yield following
        following = following.__cause__ or following.__context__

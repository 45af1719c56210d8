"""A problem found before anything runs, told so that a person can mend it."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

Severity = Literal["error", "warning", "info"]


class Diagnostic(BaseModel):
    """One problem: a stable `code`, where it is, what it is, and what to do about it."""

    model_config = ConfigDict(frozen=True)

    code: str
    severity: Severity
    message: str
    hint: str = ""
    node: str | None = None
    port: str | None = None
    parameter: str | None = None

    def line(self) -> str:
        """`error VF203 train.epochs: must be at least 1. Choose 1 or more.`"""
        field = self.parameter or self.port
        where = f" {self.node}{'.' + field if field else ''}" if self.node else ""
        text = f"{self.severity} {self.code}{where}: {self.message}"
        if not self.hint:
            return text
        return f"{text}{'' if text.endswith(('.', '!', '?')) else '.'} {self.hint}"


def errors_in(diagnostics: list[Diagnostic] | tuple[Diagnostic, ...]) -> list[Diagnostic]:
    return [d for d in diagnostics if d.severity == "error"]

"""Sentences that are printed in a terminal, too: the commands in them, there between backquotes, are set as code."""

from __future__ import annotations

import re

from ui.shell.blocks import Html, tag, text


def with_commands(sentence: str) -> Html:
    """The sentence as a `span`, each command in it as `code`."""
    parts = re.split(r"`([^`]*)`", sentence)
    return tag("span", *(tag("code", part) if n % 2 else text(part) for n, part in enumerate(parts) if part))

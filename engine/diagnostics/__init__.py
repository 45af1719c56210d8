"""The kinds of problems that can be found before a run, each with a code."""

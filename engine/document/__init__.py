"""A pipeline from JSON to a plan. Pure: nothing here reads data or starts a process."""

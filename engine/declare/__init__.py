"""What the author of a node writes against: node types, parameters, dataset types, the task's context."""

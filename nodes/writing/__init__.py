"""Writing a node that makes volumes: `write_volumes`."""

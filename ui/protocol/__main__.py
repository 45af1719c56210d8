"""Prints the JSON Schema of the protocol, for `ui/canvas/protocol.mjs`."""

import json

from ui.protocol.schema import schema

if __name__ == "__main__":
    print(json.dumps(schema(), indent=2))

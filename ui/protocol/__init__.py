"""Everything that crosses between the canvas in the browser and Python, as frozen models.

The browser sends commands, Python answers with notices. `ui/canvas/src/protocol.ts` is generated
from these models (`python -m ui.protocol` prints their JSON Schema and the constants), so both sides
agree by construction. What is written in both languages is held together by the tables in `cases/`.
"""

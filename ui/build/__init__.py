"""The Build page's Python side: documents, the link to the canvas, and what is told about them.

    browser ──Outbox──> page ──> Editor ──> Rooms ──> Room (one a document): draft, revision, members
       ^                           │                    ├── Outlook: problems, what a run would do
       └──────────Inbox────────────┘ <────notices────── └── Following: the newest run, its logs

`documents`, `link`, `names`, `outbox`, `foresight`, `status` and `wording` are pure; the others touch disk or
threads. Locks are taken in the order rooms, room, link; `Editor.handle` and `Editor.inbox` are all a page calls.
"""

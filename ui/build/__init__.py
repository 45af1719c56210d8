"""The Build page's Python side: documents, the link to the canvas, and the notices sent through it.

    browser ──Outbox──> connection ──> Editor ──> OpenDocuments ──> SharedDocument: draft, revision, members
       ^                                 │                            ├── DocumentAnalysis: problems, a run's forecast
       └────────────Inbox────────────────┘ <────────notices────────── └── DocumentRuns: the newest run, its logs

`documents`, `forecast` and `status` are pure; the others touch disk or threads. Locks are taken in the order
open documents, document, link; a connection calls `Editor.handle` and `Editor.inbox`.
"""

"""A browser tab without a browser: the canvas's end of the link, which edits and remembers what it was sent."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

from waiting import WAIT_S, wait_until

from engine.document.pipeline import Pipeline
from ui.build.documents import apply, doc_to_pipeline
from ui.build.editor import Editor
from ui.protocol.commands import Hello, MakeEdit
from ui.protocol.document import Doc, Op
from ui.protocol.link import Inbox, Sent
from ui.protocol.notices import Edited, Message, Notice, Opened, RunShown, StatusChanged
from ui.protocol.status import NodeStatus

N = TypeVar("N")


class Tab:
    """What the canvas does with the link, in few words (see `ui/canvas/src/link` and `state`)."""

    def __init__(self, editor: Editor, client: str = "page") -> None:
        self.client = client
        self.next = 1
        self.unhandled: list[Sent] = []
        self.notices: list[Notice] = []
        self.document: str | None = None
        self.rev = -1
        self.doc: Doc | None = None
        self.bytes = 0
        self.meet(editor)

    def meet(self, editor: Editor) -> None:
        """A new session of the server: say hello."""
        self.editor = editor
        self.session, self.seen = "", 0
        self.receive(editor.inbox())
        self.say(Hello(document=self.document))

    # --- the link ---------------------------------------------------------------------------

    def say(self, command: Any) -> Tab:
        self.unhandled.append(Sent(n=self.next, command=command))
        self.next += 1
        return self.turn()

    def turn(self) -> Tab:
        """One round trip."""
        outbox = {
            "client": self.client,
            "session": self.session,
            "seen": self.seen,
            "sent": [s.model_dump(mode="json") for s in self.unhandled],
        }
        self.editor.handle(json.loads(json.dumps(outbox)))
        self.receive(self.editor.inbox())
        return self

    def receive(self, inbox: Inbox) -> None:
        sent = json.dumps(inbox.model_dump(mode="json"), allow_nan=False)
        self.bytes += len(sent)
        inbox = Inbox.model_validate_json(sent)
        if inbox.session != self.session:
            self.session, self.seen = inbox.session, 0
        if inbox.client == self.client:
            self.unhandled = [s for s in self.unhandled if s.n > inbox.handled]
        for posted in sorted(inbox.posted, key=lambda p: p.n):
            if posted.n > self.seen:
                self.seen = posted.n
                self.hear(posted.notice)

    def hear(self, notice: Notice) -> None:
        self.notices.append(notice)
        if isinstance(notice, Opened):
            self.document, self.rev, self.doc = notice.document, notice.rev, notice.doc
        elif isinstance(notice, Edited) and notice.document == self.document and notice.rev > self.rev:
            assert self.doc is not None
            self.doc, self.rev = apply(self.doc, notice.ops), notice.rev

    # --- editing ----------------------------------------------------------------------------

    def edit(self, *ops: Op, edit: str = "") -> Tab:
        assert self.document is not None
        return self.say(MakeEdit(document=self.document, edit=edit or f"{self.client}-{self.next}", ops=list(ops)))

    def set(self, *path: str, to: Any) -> Tab:
        return self.edit(Op(path=list(path), value=to, remove=False))

    @property
    def pipeline(self) -> Pipeline:
        assert self.doc is not None
        return doc_to_pipeline(self.doc)

    # --- what it was sent -------------------------------------------------------------------

    def all(self, kind: type[N]) -> list[N]:
        return [n for n in self.notices if isinstance(n, kind)]

    def last(self, kind: type[N]) -> N:
        found = self.all(kind)
        assert found, f"no {kind.__name__} among {[n.type for n in self.notices]}"
        return found[-1]

    @property
    def messages(self) -> list[str]:
        return [f"{t.level}: {t.text} {t.hint}".strip() for t in self.all(Message)]

    def wait(self, until: Callable[[], Any], what: str = "", timeout_s: float = WAIT_S) -> Any:
        """Poll as the page does until `until` is true."""

        def details() -> str:
            return f"never: {what or until}; messages {self.messages}; {[n.type for n in self.notices][-20:]}"

        return wait_until(lambda: self.turn() and until(), what, timeout_s, details=details, pause_s=0.03)

    def wait_for(self, kind: type[N], holds: Callable[[N], Any] = lambda _: True, timeout_s: float = WAIT_S) -> N:
        def found() -> N | None:
            return next((n for n in reversed(self.all(kind)) if holds(n)), None)

        out = self.wait(found, kind.__name__, timeout_s)
        assert isinstance(out, kind)
        return out

    @property
    def status(self) -> dict[str, NodeStatus]:
        """The nodes' states in the run that is shown, from what changed bit by bit."""
        out: dict[str, NodeStatus] = {}
        run: str | None = None
        for notice in self.notices:
            if isinstance(notice, RunShown) and (notice.run.run_id if notice.run else None) != run:
                run, out = (notice.run.run_id if notice.run else None), {}
            if isinstance(notice, StatusChanged) and notice.run_id == run:
                out = dict(notice.nodes) if notice.whole else {**out, **notice.nodes}
        return out


OpenTab = Callable[..., Tab]
"""Opens a tab: `open_tab(pipeline, client=, server=, address=)`, with a document of its own if a pipeline is given."""

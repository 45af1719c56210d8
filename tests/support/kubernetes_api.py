"""A stand-in for Kubernetes' API server: it checks and keeps what clients create, and runs nothing.

with KubernetesApi() as api:
    ... spark with the master f"k8s://{api.url}" ...
    api.created        # the objects, in order
"""

from __future__ import annotations

import json
import threading
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from jsonschema import ValidationError
from platforms import check_kubernetes_object

_KINDS = {
    "pods": "Pod",
    "configmaps": "ConfigMap",
    "networkpolicies": "NetworkPolicy",
    "services": "Service",
    "persistentvolumeclaims": "PersistentVolumeClaim",
}


class KubernetesApi:
    """`created` are the objects that the API's schema takes, `refused` what was wrong with the others."""

    def __init__(self) -> None:
        self.created: list[dict[str, Any]] = []
        self.refused: list[str] = []
        self._changed = threading.Condition()
        api = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                item = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                status, answer = api._take(item)
                self._answer(status, answer)

            def do_GET(self) -> None:
                path, _, query = self.path.partition("?")
                parts = path.strip("/").split("/")
                if "watch=true" in query or "watch=1" in query:
                    self._answer(200, None)
                elif parts[-1] in _KINDS:
                    kind, items = _KINDS[parts[-1]], []
                    items = [i for i in api.created if i["kind"] == kind]
                    self._answer(200, {"kind": f"{kind}List", "apiVersion": "v1", "metadata": {}, "items": items})
                else:
                    self._named(parts)

            def do_PATCH(self) -> None:
                data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                if "fieldManager" in self.path:  # server-side apply, which creates what is not there
                    self._answer(*api._take(json.loads(data)))
                else:
                    self._named(self.path.partition("?")[0].strip("/").split("/"))

            do_PUT = do_PATCH  # noqa: N815 - the name that the server looks for

            def do_DELETE(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                self._answer(200, {"kind": "Status", "apiVersion": "v1", "status": "Success"})

            def _named(self, parts: list[str]) -> None:
                kind = _KINDS.get(parts[-2], "") if len(parts) > 1 else ""
                found = [i for i in api.created if i["kind"] == kind and i["metadata"]["name"] == parts[-1]]
                missing = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}
                self._answer(200 if found else 404, found[0] if found else missing)

            def _answer(self, status: int, body: dict[str, Any] | None) -> None:
                data = b"" if body is None else json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *arguments: object) -> None:
                """Nothing: what matters is kept."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> KubernetesApi:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def wait_for(self, kind: str, count: int = 1) -> list[dict[str, Any]]:
        """The objects of that kind, once there are so many."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.refused or len(self._of(kind)) >= count, 300), "none came"
        assert self.refused == []
        return self._of(kind)

    def _of(self, kind: str) -> list[dict[str, Any]]:
        return [item for item in self.created if item["kind"] == kind]

    def _take(self, item: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        # Clients write null for what they do not say.
        item = _without_nulls(item)
        with self._changed:
            try:
                check_kubernetes_object(item)
            except (ValidationError, KeyError) as exc:
                self.refused.append(f"{item.get('kind')}: {getattr(exc, 'message', exc)}")
                self._changed.notify_all()
                why = self.refused[-1][:2000]
                return 422, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 422, "message": why}
            item["metadata"] |= {"uid": str(uuid.uuid4()), "namespace": "default", "resourceVersion": "1"}
            self.created.append(item)
            self._changed.notify_all()
            return 201, item


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_nulls(v) for k, v in value.items() if v is not None}
    return [_without_nulls(v) for v in value] if isinstance(value, list) else value

"""A stand-in for Google Cloud Storage on loopback, in memory: as much of its XML API as programs with tables use.

    python gcs_process.py      prints its address, and ends when its standard input is closed

Objects are written with one request or in parts, read whole or in a range, listed, deleted.
`x-goog-if-generation-match: 0` writes an object only if there is none, in one step. Signatures are not looked at.
"""

from __future__ import annotations

import hashlib
import itertools
import re
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape


@dataclass(frozen=True)
class Stored:
    data: bytes
    generation: int
    modified: float = field(default_factory=time.time)

    @property
    def listed(self) -> str:
        return time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(self.modified))

    @property
    def headers(self) -> dict[str, str]:
        return {
            "ETag": f'"{hashlib.md5(self.data).hexdigest()}"',
            "Last-Modified": formatdate(self.modified, usegmt=True),
            "x-goog-generation": str(self.generation),
        }


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # One packet an answer: headers alone would wait 40 ms for the other side to confirm them.
    wbufsize = -1
    disable_nagle_algorithm = True
    buckets: dict[str, dict[str, Stored]] = {}
    uploads: dict[str, dict[int, bytes]] = {}
    generations: Iterator[int] = itertools.count(1)
    lock = threading.Lock()

    def log_message(self, *_: Any) -> None:
        pass

    def _answer(self, status: int, body: bytes = b"", length: int | None = None, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _refuse(self, status: int, code: str) -> None:
        self._answer(status, f"<?xml version='1.0'?><Error><Code>{code}</Code></Error>".encode())

    def _handle(self) -> None:
        address = urlsplit(self.path)
        self.query = {k: v[0] for k, v in parse_qs(address.query, keep_blank_values=True).items()}
        bucket, _, self.key = unquote(address.path).lstrip("/").partition("/")
        self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        with self.lock:
            if self.command == "PUT" and not self.key:
                self.buckets.setdefault(bucket, {})
                self._answer(200)
                return
            if bucket not in self.buckets:
                self._refuse(404, "NoSuchBucket")
                return
            self.objects = self.buckets[bucket]
            getattr(self, f"_{self.command.lower()}")()

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _handle  # noqa: N815

    def _put(self) -> None:
        if (upload := self.query.get("uploadId")) is not None:
            self.uploads[upload][int(self.query["partNumber"])] = self.body
            self._answer(200, ETag=f'"{hashlib.md5(self.body).hexdigest()}"')
            return
        expected = self.headers.get("x-goog-if-generation-match")
        there = self.objects.get(self.key)
        if expected is not None and int(expected) != (there.generation if there else 0):
            self._refuse(412, "PreconditionFailed")
            return
        self.objects[self.key] = stored = Stored(self.body, next(self.generations))
        self._answer(200, **stored.headers)

    def _post(self) -> None:
        if "uploads" in self.query:
            upload = str(next(self.generations))
            self.uploads[upload] = {}
            body = f"<InitiateMultipartUploadResult><UploadId>{upload}</UploadId></InitiateMultipartUploadResult>"
            self._answer(200, body.encode())
            return
        parts = self.uploads.pop(self.query["uploadId"])
        self.objects[self.key] = stored = Stored(b"".join(parts[n] for n in sorted(parts)), next(self.generations))
        etag = escape(stored.headers["ETag"])
        body = f"<CompleteMultipartUploadResult><ETag>{etag}</ETag></CompleteMultipartUploadResult>"
        self._answer(200, body.encode(), **stored.headers)

    def _delete(self) -> None:
        if self.objects.pop(self.key, None) is None:
            self._refuse(404, "NoSuchKey")
            return
        self._answer(204)

    def _head(self) -> None:
        self._get()

    def _get(self) -> None:
        if not self.key:
            self._list()
            return
        stored = self.objects.get(self.key)
        if stored is None:
            self._refuse(404, "NoSuchKey")
            return
        if self.headers.get("If-Match") not in (None, stored.headers["ETag"]):
            self._refuse(412, "PreconditionFailed")
            return
        size = len(stored.data)
        wanted = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range") or "")
        if wanted is None:
            self._answer(200, stored.data, size, **stored.headers)
            return
        first = int(wanted[1]) if wanted[1] else max(0, size - int(wanted[2]))
        last = min(int(wanted[2]), size - 1) if wanted[1] and wanted[2] else size - 1
        if first >= size:
            self._refuse(416, "InvalidRange")
            return
        headers = stored.headers | {"Content-Range": f"bytes {first}-{last}/{size}"}
        self._answer(206, stored.data[first : last + 1], last + 1 - first, **headers)

    def _list(self) -> None:
        prefix, delimiter = self.query.get("prefix", ""), self.query.get("delimiter", "")
        after = max(self.query.get("start-after", ""), self.query.get("continuation-token", ""))
        limit = int(self.query.get("max-keys", "1000"))
        names = sorted((k for k in self.objects if k.startswith(prefix) and k > after), key=str.encode)
        folders = {
            k[: k.index(delimiter, len(prefix)) + 1] for k in names if delimiter and delimiter in k[len(prefix) :]
        }
        files = [k for k in names if not any(k.startswith(folder) for folder in folders)]
        shown = files[:limit]
        body = "<?xml version='1.0' encoding='UTF-8'?><ListBucketResult>"
        for name in shown:
            stored = self.objects[name]
            body += f"<Contents><Key>{escape(name)}</Key><Size>{len(stored.data)}</Size>"
            body += f"<ETag>{escape(stored.headers['ETag'])}</ETag><LastModified>{stored.listed}</LastModified>"
            body += f"<Generation>{stored.generation}</Generation></Contents>"
        body += "".join(f"<CommonPrefixes><Prefix>{escape(f)}</Prefix></CommonPrefixes>" for f in sorted(folders))
        if len(files) > limit:
            body += f"<IsTruncated>true</IsTruncated><NextContinuationToken>{escape(shown[-1])}</NextContinuationToken>"
        self._answer(200, (body + "</ListBucketResult>").encode())


def main() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()

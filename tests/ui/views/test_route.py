"""The route by which volumes reach the browser: who may ask, what comes, ranges, and nothing else."""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Mapping
from concurrent.futures import Future
from pathlib import Path

import numpy as np
import pytest
from asgi_client import AsgiClient
from starlette.routing import Route
from streamlit import config

from engine.declare.dataset_type import Dataset
from engine.declare.datasets import Report, TrainedModel, VolumeSpec
from engine.processes.messages import Answer
from engine.viewing.reader import BYTES_HEADER, PART_BYTES
from ui.views.archive import files_in, zipped
from ui.views.route import ViewRoute
from ui.views.shown import ShownDatasets

_BYTES = bytes(range(200))
_LARGE = np.random.default_rng(0).bytes(3 * PART_BYTES + 5)
"""Of the row 2."""


class _Process:
    """Answers every question with what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, str, dict[str, str]]] = []
        self.fails = False
        self.breaks_at: set[str] = set()

    def ask(
        self, dataset: Dataset, made_from: Mapping[str, Dataset], panel: str, what: str, query: Mapping[str, str]
    ) -> Future[Answer]:
        self.asked.append((dataset.uri, panel, what, dict(query)))
        out: Future[Answer] = Future()
        if self.fails:
            out.set_exception(ChildProcessError("the process that reads the data has died"))
            return out
        body, headers = _BYTES, {"Content-Type": "application/x-nifti"}
        if what in ("volume", "voxels"):
            whole = _LARGE if query["row"] == "2" else _BYTES
            body, headers[BYTES_HEADER] = whole[int(query["start"]) : int(query["stop"])], str(len(whole))
            if query["start"] in self.breaks_at:
                body = body[:-1]
        if what == "content":
            rows = [{"opens": Report(uri="/other.html").model_dump()}, {"opens": None}]
            body = json.dumps({"rows": rows}, separators=(",", ":")).encode()
        out.set_result(Answer(n=1, status=200, headers=headers, body=body))
        return out


@pytest.fixture
def process() -> _Process:
    return _Process()


@pytest.fixture
def shown() -> ShownDatasets:
    return ShownDatasets()


@pytest.fixture
def client(process: _Process, shown: ShownDatasets) -> AsgiClient:
    route = ViewRoute(shown, process)  # type: ignore[arg-type]
    return AsgiClient([Route(f"/view/{{key}}{more}", route.respond) for more in ("", "/{panel}/{what}")])


@pytest.fixture
def key(shown: ShownDatasets) -> str:
    return shown.key(Report(uri="/data/report.html"))


def test_a_key_opens_the_dataset_that_it_was_made_for(client: AsgiClient, key: str, process: _Process) -> None:
    assert client.ask(f"/view/{key}").status == 200
    assert client.ask(f"/view/{key}/volumes/thumbnail?row=3&map=grey").status == 200
    assert process.asked == [
        ("/data/report.html", "", "info", {}),
        ("/data/report.html", "volumes", "thumbnail", {"row": "3", "map": "grey"}),
    ]


class TestKeys:
    def test_they_cannot_be_guessed_and_stay_the_same(self, shown: ShownDatasets, key: str) -> None:
        report = Report(uri="/data/report.html")
        assert shown.key(report) == key != ShownDatasets().key(report)
        assert len(key) == 32

    def test_what_a_node_was_given_belongs_to_it(self, shown: ShownDatasets, key: str) -> None:
        other = shown.key(Report(uri="/data/report.html"), {"data": Report(uri="/x")})
        assert other != key
        found = shown.find(other)
        assert found is not None
        assert found.made_from["data"].uri == "/x"

    def test_what_cannot_be_seen_has_none(self, shown: ShownDatasets) -> None:
        class Nothing(Dataset):
            """Without pictures."""

        assert shown.key(Nothing(uri="/n")) == ""
        assert shown.key(TrainedModel(uri="/m", spec=VolumeSpec(shape=(1,), dtype="int8"))) != ""

    def test_the_process_is_started_by_the_first(self) -> None:
        shown, started = ShownDatasets(), list[int]()
        shown.on_first = lambda: started.append(1)
        for uri in "/a", "/b":
            shown.key(Report(uri=uri))
        assert started == [1]

    def test_where_the_process_cannot_be_started_early_the_page_is_drawn(self) -> None:
        def no_more() -> None:
            raise BlockingIOError("too many processes")

        shown = ShownDatasets()
        shown.on_first = no_more
        assert shown.find(shown.key(Report(uri="/a"))) is not None


@pytest.mark.parametrize(
    "path",
    [
        "/view/wrong", "/view/wrong/volumes/volume", "/view/../{key}", "/view/{key}/../../etc/passwd",
        "/view/{key}/volumes/%2e%2e%2fsecret", "/view/{key}/volumes/../file", "/view/{key}/volumes",
        "/view/{key}//etc/passwd", "/view/{key}/volumes/passwd",
    ],
)  # fmt: skip
def test_there_is_nothing_at_other_addresses(client: AsgiClient, key: str, path: str, process: _Process) -> None:
    assert client.ask(path.replace("{key}", key)).status == 404
    assert process.asked == []


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://elsewhere.example"},
        {"origin": "null"},
        {"host": "elsewhere.example"},
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
    ],
)
def test_no_other_web_site_may_ask(client: AsgiClient, key: str, headers: dict[str, str], process: _Process) -> None:
    config.set_option("server.allowedHosts", ["localhost", "127.0.0.1"])
    try:
        assert client.ask(f"/view/{key}", **headers).status == 403
        assert client.ask(f"/view/{key}", origin="http://127.0.0.1:8501", sec_fetch_site="same-origin").status == 200
    finally:
        config.set_option("server.allowedHosts", [])
    assert len(process.asked) == 1


@pytest.mark.parametrize(
    ("wanted", "status", "part"),
    [
        ("bytes=0-9", 206, _BYTES[:10]),
        ("bytes=190-", 206, _BYTES[190:]),
        ("bytes=-5", 206, _BYTES[-5:]),
        ("bytes=150-900", 206, _BYTES[150:]),
        ("bytes=200-", 416, b""),
        ("bytes=9-3", 416, b""),
        ("bytes=-", 200, _BYTES),
        ("bytes=0-1,5-6", 200, _BYTES),
        ("lines=0-1", 200, _BYTES),
        (f"bytes=0-{'9' * 5000}", 200, _BYTES),
    ],
)
def test_a_volume_in_ranges(
    client: AsgiClient, key: str, wanted: str, status: int, part: bytes, process: _Process
) -> None:
    found = client.ask(f"/view/{key}/volumes/volume?row=1", range=wanted)
    assert (found.status, found.content) == (status, part)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("wanted", "status", "start", "stop"),
    [
        ("", 200, 0, None),
        ("bytes=0-9", 206, 0, 10),
        ("bytes=7-2000000", 206, 7, 2_000_001),
        ("bytes=2000000-", 206, 2_000_000, None),
        ("bytes=-1500000", 206, -1_500_000, None),
    ],
)
def test_a_large_volume_comes_part_by_part(
    client: AsgiClient, key: str, process: _Process, wanted: str, status: int, start: int, stop: int | None
) -> None:
    found = client.ask(f"/view/{key}/volumes/voxels?row=2&limit=9", **({"range": wanted} if wanted else {}))
    assert (found.status, found.content == _LARGE[start:stop]) == (status, True)
    assert int(found.headers["content-length"]) == len(found.content)
    assert found.headers["content-encoding"] == "identity"
    queries = [query for _, _, _, query in process.asked]
    assert all(int(q["stop"]) - int(q["start"]) <= PART_BYTES and q["limit"] == "9" for q in queries)


def test_whoever_wants_only_the_headers_gets_no_parts(client: AsgiClient, key: str, process: _Process) -> None:
    found = client.ask(f"/view/{key}/volumes/voxels?row=2", method="HEAD")
    assert (found.status, int(found.headers["content-length"]), len(process.asked)) == (200, len(_LARGE), 1)


def test_a_large_volume_that_changes_on_its_way_is_not_sent_as_whole(
    client: AsgiClient, key: str, process: _Process
) -> None:
    process.breaks_at = {str(2 * PART_BYTES)}
    with pytest.raises(OSError, match="has changed"):
        client.ask(f"/view/{key}/volumes/voxels?row=2")


def test_a_large_volume_is_not_joined_to_what_was_got_before(client: AsgiClient, key: str) -> None:
    found = client.ask(f"/view/{key}/volumes/voxels?row=2", range="bytes=0-1", if_range='"some"')
    assert (found.status, len(found.content)) == (200, len(_LARGE))
    assert "etag" not in found.headers
    assert found.headers["cache-control"] == "private, no-store"


def test_nobody_sets_which_part_comes(client: AsgiClient, key: str, process: _Process) -> None:
    assert client.ask(f"/view/{key}/volumes/volume?row=1&start=5&stop=7").content == _BYTES


def test_a_volume_is_not_compressed_on_its_way(client: AsgiClient, key: str) -> None:
    assert client.ask(f"/view/{key}/volumes/volume?row=1").headers["content-encoding"] == "identity"
    assert "content-encoding" not in client.ask(f"/view/{key}/volumes/thumbnail?row=1").headers


def test_a_range_of_something_else_is_not_joined(client: AsgiClient, key: str) -> None:
    address = f"/view/{key}/volumes/volume?row=1"
    tag = client.ask(address).headers["etag"]
    for given, status in ((tag, 206), ('"other"', 200)):
        assert client.ask(address, range="bytes=0-1", if_range=given).status == status


def test_what_has_not_changed_is_not_sent_again(client: AsgiClient, key: str) -> None:
    first = client.ask(f"/view/{key}/volumes/thumbnail?row=1")
    again = client.ask(f"/view/{key}/volumes/thumbnail?row=1", if_none_match=first.headers["etag"])
    assert (again.status, again.content) == (304, b"")


def test_a_row_that_opens_a_dataset_has_its_key(client: AsgiClient, key: str, shown: ShownDatasets) -> None:
    rows = json.loads(client.ask(f"/view/{key}/versions/content").content)["rows"]
    found = shown.find(rows[0]["opens"])
    assert found is not None
    assert (found.dataset.uri, rows[1]["opens"]) == ("/other.html", None)


def test_a_process_that_died_is_reported(client: AsgiClient, key: str, process: _Process) -> None:
    process.fails = True
    found = client.ask(f"/view/{key}")
    assert found.status == 503
    assert b"died" in found.content


def test_pictures_are_for_this_site_alone(client: AsgiClient, key: str) -> None:
    headers = client.ask(f"/view/{key}").headers
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"].startswith("private")


class TestZip:
    @pytest.fixture
    def model(self, tmp_path: Path) -> Path:
        folder = tmp_path / "model"
        (folder / "mlflow").mkdir(parents=True)
        (folder / "model.keras").write_bytes(_LARGE)
        (folder / "mlflow" / "MLmodel").write_text("flavors: {}")
        (folder / "secret").symlink_to("/etc/passwd")
        (folder / "elsewhere").symlink_to("/etc")
        os.mkfifo(folder / "pipe")
        return folder

    def key_of(self, shown: ShownDatasets, folder: Path | str) -> str:
        return shown.key(TrainedModel(uri=str(folder), spec=VolumeSpec(shape=(1,), dtype="int8")))

    def test_all_files_of_a_model_come_as_they_are_and_no_links(
        self, client: AsgiClient, shown: ShownDatasets, model: Path, process: _Process
    ) -> None:
        got = client.ask(f"/view/{self.key_of(shown, model)}/-/zip")
        assert (got.status, got.headers["content-type"]) == (200, "application/zip")
        assert got.headers["content-disposition"] == 'attachment; filename="model.zip"'
        with zipfile.ZipFile(io.BytesIO(got.content)) as archive:
            assert archive.testzip() is None
            assert archive.namelist() == ["model/model.keras", "model/mlflow/MLmodel"]
            assert archive.read("model/model.keras") == _LARGE
        assert process.asked == []
        only_headers = client.ask(f"/view/{self.key_of(shown, model)}/-/zip", "HEAD")
        assert (only_headers.status, only_headers.content) == (200, b"")
        assert "content-length" not in only_headers.headers
        assert client.ask(f"/view/{self.key_of(shown, model)}/out/zip").status == 404

    def test_it_is_made_while_it_is_sent(self, model: Path) -> None:
        parts = list(zipped(model, files_in(model)))
        assert max(map(len, parts)) < PART_BYTES + 1000

    def test_a_file_that_goes_meanwhile_leaves_no_whole_archive(self, model: Path) -> None:
        files = files_in(model)
        (model / "mlflow" / "MLmodel").unlink()
        with pytest.raises(FileNotFoundError):
            list(zipped(model, files))

    def test_there_is_none_of_anything_else(self, client: AsgiClient, shown: ShownDatasets, key: str) -> None:
        assert client.ask(f"/view/{key}/-/zip").status == 404
        assert client.ask(f"/view/{self.key_of(shown, 's3://bucket/model')}/-/zip").status == 404
        assert client.ask("/view/wrong/-/zip").status == 404
        gone = client.ask(f"/view/{self.key_of(shown, '/gone')}/-/zip")
        assert (gone.status, b"Train it again" in gone.content) == (404, True)

    def test_no_other_web_site_gets_it(self, client: AsgiClient, shown: ShownDatasets, model: Path) -> None:
        key = self.key_of(shown, model)
        assert client.ask(f"/view/{key}/-/zip", sec_fetch_site="cross-site").status == 403

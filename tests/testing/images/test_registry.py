"""The registry over HTTP, as a container runtime uses it."""

import hashlib
import http.client
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from attrs import frozen

from gpuruntime.testing.images import ImageStore
from gpuruntime.testing.images.manifests import MANIFEST
from gpuruntime.testing.images.registry import serving


@frozen
class Response:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def document(self) -> Any:
        return json.loads(self.body)


@frozen
class Client:
    store: ImageStore
    url: str

    def ask(self, path: str, method: str = "GET", body: bytes | None = None) -> Response:
        connection = http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=30)
        try:
            connection.request(method, path, body)
            response = connection.getresponse()
            headers = {name.lower(): value for name, value in response.getheaders()}
            return Response(response.status, headers, response.read())
        finally:
            connection.close()


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    with serving(tmp_path) as url:
        yield Client(ImageStore(tmp_path), url)


def test_an_image_that_is_added_while_the_registry_runs_can_be_pulled(client: Client) -> None:
    missing = client.ask("/v2/team/x/manifests/1")
    client.store.add("team/x:1", {"/a": "1" * 3_000_000})

    manifest = client.ask("/v2/team/x/manifests/1")
    layers = [client.ask(f"/v2/team/x/blobs/{one['digest']}") for one in manifest.document["layers"]]

    assert (missing.status, missing.document["errors"][0]["code"]) == (404, "MANIFEST_UNKNOWN")
    assert client.ask("/v2/").status == 200
    assert (manifest.status, manifest.headers["content-type"]) == (200, MANIFEST)
    assert manifest.headers["docker-content-digest"] == f"sha256:{hashlib.sha256(manifest.body).hexdigest()}"
    assert [len(one.body) for one in layers] == [one["size"] for one in manifest.document["layers"]]


def test_a_manifest_has_the_same_bytes_by_tag_and_by_digest(client: Client) -> None:
    client.store.add("team/x:1", {"/a": "1"})
    by_tag = client.ask("/v2/team/x/manifests/1")

    by_digest = client.ask(f"/v2/team/x/manifests/{by_tag.headers['docker-content-digest']}")

    assert by_digest.body == by_tag.body


def test_a_mirror_knows_which_registry_it_stands_for(client: Client) -> None:
    client.store.add("registry.k8s.io/pause:1", {"/pause": "1"})

    assert client.ask("/v2/pause/manifests/1?ns=registry.k8s.io").status == 200
    assert client.ask("/v2/pause/manifests/1?ns=docker.io").status == 404
    assert client.ask("/v2/pause/manifests/1").status == 404


def test_head_has_the_headers_of_get_and_no_body(client: Client) -> None:
    client.store.add("team/x:1", {"/a": "1"})
    (one,) = client.ask("/v2/team/x/manifests/1").document["layers"]

    for path in ("/v2/", "/v2/team/x/manifests/1", f"/v2/team/x/blobs/{one['digest']}", "/v2/team/x/manifests/2"):
        get, head = client.ask(path), client.ask(path, "HEAD")
        changing = {"date", "server"}

        assert head.body == b""
        assert head.status == get.status
        assert {**head.headers, **dict.fromkeys(changing)} == {**get.headers, **dict.fromkeys(changing)}
        assert int(head.headers["content-length"]) == len(get.body)


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/v2",
        "/v2/x",
        "/v2/x/tags/list",
        "/v2/x/blobs/sha256:1",
        "/v2/x/blobs/..%2f..%2fnames",
        "/v2/../../manifests/x",
        "/v2/%00/manifests/%00",
        f"/v2/{'x' * 3000}/manifests/1",
    ],
)
def test_nothing_else_is_served(client: Client, path: str) -> None:
    response = client.ask(path)

    assert response.status == (200 if path == "/v2" else 404)
    assert "errors" in response.document or path == "/v2"


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_nothing_can_be_written(client: Client, method: str) -> None:
    response = client.ask("/v2/x/manifests/1", method, b"{}")

    assert (response.status, response.document["errors"][0]["code"]) == (405, "UNSUPPORTED")
    assert client.store.names() == []


def test_the_command_serves_until_it_is_stopped(tmp_path: Path) -> None:
    ImageStore(tmp_path).add("x", {"/a": "1"})
    command = [sys.executable, "-m", "gpuruntime.testing.images.registry", str(tmp_path), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as registry:
        try:
            assert registry.stdout is not None
            url = registry.stdout.readline().strip()

            status = Client(ImageStore(tmp_path), url).ask("/v2/library/x/manifests/latest").status
        finally:
            registry.terminate()

    assert status == 200
    assert registry.returncode == -15

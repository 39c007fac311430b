"""A read-only registry: the pull half of the OCI distribution API over a directory of images.

`python -m gpuruntime.testing.images.registry DIRECTORY --port 5000` serves in the foreground. An image can be pulled as
soon as `ImageStore.add` returns, in any process; a missing one is answered with 404 at once.
"""

import argparse
import json
import re
import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlsplit

from gpuruntime.testing.images.manifests import MANIFEST
from gpuruntime.testing.images.references import DEFAULT_HOST
from gpuruntime.testing.images.store import ImageStore

__all__ = ["main", "serving"]

_LOOPBACK: Final = "127.0.0.1"
_ROUTE: Final = re.compile(r"/v2/(?P<path>.+)/(?P<what>manifests|blobs)/(?P<name>[^/]+)")
_IDLE_SECONDS: Final = 30.0


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, store: ImageStore, port: int) -> None:
        super().__init__((_LOOPBACK, port), _Handler)
        self.store = store

    def handle_error(self, request: Any, client_address: Any) -> None:
        # A client that goes away in the middle of a blob is no error of the registry.
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = _IDLE_SECONDS
    server: _Server

    def do_GET(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def __getattr__(self, name: str) -> Any:
        # The base class looks up a method for each request: POST is answered by do_POST.
        if name.startswith("do_"):
            return self._refuse
        raise AttributeError(name)

    def _refuse(self) -> None:
        # The rest of the connection would be the body, which nothing reads.
        self.close_connection = True
        self._fail(HTTPStatus.METHOD_NOT_ALLOWED, "UNSUPPORTED", "this registry is read-only")

    def _answer(self) -> None:
        address = urlsplit(self.path)
        if address.path.rstrip("/") == "/v2":
            self._send(HTTPStatus.OK, b"{}", "application/json")
            return
        match = _ROUTE.fullmatch(unquote(address.path))
        if match is None:
            self._fail(HTTPStatus.NOT_FOUND, "UNSUPPORTED", f"{address.path}: expected /v2/NAME/manifests or blobs")
        elif match["what"] == "blobs":
            self._send_blob(match["name"], "application/octet-stream", "BLOB_UNKNOWN")
        else:
            # A runtime that uses this registry as a mirror names the registry that it mirrors.
            host = parse_qs(address.query).get("ns", [DEFAULT_HOST])[0]
            name = match["name"]
            digest = name if ":" in name else self.server.store.digest(f"{host}/{match['path']}:{name}")
            self._send_blob(digest or name, MANIFEST, "MANIFEST_UNKNOWN")

    def _send_blob(self, digest: str, media_type: str, code: str) -> None:
        path = self.server.store.blob(digest)
        if path is None:
            self._fail(HTTPStatus.NOT_FOUND, code, f"{self.path} is not known here")
            return
        with path.open("rb") as blob:
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", media_type)
            self.send_header("Content-Length", str(path.stat().st_size))
            self.send_header("Docker-Content-Digest", digest)
            self.end_headers()
            if self.command != "HEAD":
                shutil.copyfileobj(blob, self.wfile, 1 << 20)

    def _fail(self, status: HTTPStatus, code: str, message: str) -> None:
        body = json.dumps({"errors": [{"code": code, "message": message}]}).encode()
        self._send(status, body, "application/json")

    def _send(self, status: HTTPStatus, body: bytes, media_type: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", media_type)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Docker-Distribution-Api-Version", "registry/2.0")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is that of the base class
        sys.stderr.write(f"{format % args}\n")


@contextmanager
def serving(directory: Path, port: int = 0) -> Iterator[str]:
    """Serve the images of a directory on loopback while the block runs; gives the URL. Port 0 takes a free one."""
    with _Server(ImageStore(directory), port) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield f"http://{_LOOPBACK}:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def main(argv: list[str] | None = None) -> int:
    """Serve in the foreground, until a signal ends the process."""
    parser = argparse.ArgumentParser(
        prog="python -m gpuruntime.testing.images.registry",
        description="Serve the images of a directory on loopback, read-only, until a signal ends the process.",
    )
    parser.add_argument("directory", type=Path, help="the directory of an ImageStore; images may be added at any time")
    parser.add_argument("--port", type=int, default=5000, help="the port on 127.0.0.1 (default: %(default)s)")
    arguments = parser.parse_args(argv)
    with serving(arguments.directory, arguments.port) as url:
        print(url, flush=True)
        threading.Event().wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())

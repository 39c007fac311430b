"""The process: `python -m notes NAMESPACE [PORT]`, with whatever credentials `kubectl` would use."""

import sys

from aiohttp import web

from gpuruntime.control import configure_logging
from gpuruntime.kube import infer
from notes.application import application
from notes.cluster import NoteBoard

__all__ = ["main"]


def main(namespace: str, port: str = "8080") -> None:
    web.run_app(application(lambda: NoteBoard(infer(), namespace)), host="127.0.0.1", port=int(port))


if __name__ == "__main__":
    configure_logging()
    main(*sys.argv[1:])

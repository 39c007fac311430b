"""`hack/docs`: build the documentation site, or build and serve it on this machine."""

import argparse
import functools
import http.server
import signal
import sys
from html.parser import HTMLParser
from pathlib import Path

from sphinx.cmd.build import main as sphinx_build

__all__ = ["foreign_resources", "main"]

ROOT = Path(__file__).resolve().parents[2]
_SOURCE = ROOT / "docs"
_SITE = ROOT / ".gpuruntime" / "site"
_LOADING = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src", "video": "src"}


def main(argv: list[str]) -> int:
    """Run `build` or `serve`; exit code 1 if the build fails, or has warnings with --strict."""
    arguments = _parser().parse_args(argv)
    strict = arguments.command == "build" and arguments.strict
    code = _build(arguments.out, strict=strict)
    if code == 0 and arguments.command == "serve":
        _serve(arguments.out, arguments.port)
    return code


def foreign_resources(site: Path) -> list[str]:
    """The resources that pages would load from the network, each with its page. Links do not count."""
    found = []
    for page in sorted(site.rglob("*.html")):
        parser = _Resources()
        parser.feed(page.read_text())
        found += [f"{page.relative_to(site)}: {address}" for address in parser.foreign]
    return found


class _Resources(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.foreign: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        address = dict(attrs).get(_LOADING.get(tag, "")) or ""
        if address.startswith(("http:", "https:", "//")):
            self.foreign.append(address)


def _build(site: Path, *, strict: bool) -> int:
    # A strict build starts from nothing, because Sphinx does not repeat the warnings of cached pages.
    options = ["--fail-on-warning", "--keep-going", "--fresh-env"] if strict else []
    code = sphinx_build(["--builder", "html", "--quiet", *options, str(_SOURCE), str(site)])
    if code != 0:
        print("error: the site cannot be built, see above", file=sys.stderr)
        return 1
    foreign = foreign_resources(site)
    for line in foreign:
        print(f"error: {line} comes from the network: the site must work offline", file=sys.stderr)
    if not foreign:
        print(f"the site is in {site}")
    return 1 if foreign else 0


def _serve(site: Path, port: int) -> None:
    # SIGTERM stops it like Ctrl-C, which a shell disables for background jobs.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    handler = functools.partial(_QuietHandler, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", port), handler) as server:
        print(f"http://127.0.0.1:{server.server_port}/ until Ctrl-C", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            return


class _QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is that of the base class
        """Log nothing: the terminal shows the address."""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="hack/docs", description="Build the documentation, or read it in a browser.")
    commands = parser.add_subparsers(dest="command", required=True)
    build = commands.add_parser("build", help="build the site")
    build.add_argument("--strict", action="store_true", help="from nothing, and a warning is an error")
    serve = commands.add_parser("serve", help="build the site and serve it on the loopback interface, until Ctrl-C")
    serve.add_argument("--port", type=int, default=0, help="where to listen (default: any free port)")
    for command in (build, serve):
        command.add_argument(
            "--out", type=Path, default=_SITE, metavar="DIR", help="where it goes (default: .gpuruntime/site)"
        )
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
